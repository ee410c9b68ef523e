"""Sums of integers through the engine: exact, or refused, whichever way the rows are found."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import BadRequest
from omnigraph.lang.query import compile_query
from tests.oracle.interpreter import RefusedError
from tests.oracle.interpreter import run as judge
from tests.read.csr_helpers import only
from tests.stored import read_back

SCHEMA = """
node P { name: String @key  team: String?  n: I64?  small: I32?  u: U64?  w: U32? }
edge K: P -> P { n: I64? }
"""
MATCHES = [
    "$a: P",
    "$a: P  $b: P",
    "$a k $b",
    "$b k $a  $b k $c",
    "$b k $a  $c k $b  $d k $c",
    "$a k{1,2} $b",
    "$a k $b  $b k $a",
    "$a: P  $b: P  $a.team = $b.team",
    '$b: P { name: "p1" }  $b k $a',
    "$a k $b  $b k $c  $c k $a",
    "$a: P  not { $a k $a }",
]
BIG = [2**53 + 1, 2**53 + 3, -(2**53) - 1, 2**62, -(2**62), 2**63 - 1, -(2**63), 1, -1, 0, None]
LARGEST, LEAST = 2**63 - 1, -(2**63)


def make(path, values, edges=(), prop="n"):
    graph = og.init(path, SCHEMA)
    graph.load(
        [
            *(
                {"type": "P", "data": {"name": f"p{at}", prop: value}}
                for at, value in enumerate(values)
            ),
            *({"edge": "K", "from": f"p{a}", "to": f"p{b}"} for a, b in edges),
        ]
    )
    return graph


def total(graph, match="$a: P", argument="$a.n", keys=""):
    text = f"query q() {{ match {{ {match} }} return {{ {keys}sum({argument}) as x }} }}"
    return graph.query(text).to_arrow().column("x")


@pytest.fixture(params=["csr", "indexed", "numba"])
def way(request, monkeypatch):
    """The way a read is answered; compiled loops from the first call on, where there are any."""
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", request.param.replace("numba", "csr"))
    if request.param == "numba":
        only("numba", monkeypatch)
    return request.param


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """Graphs of random large integers, each beside its plain rows; the first ones rarely overflow."""
    rng = random.Random(7)
    made = []
    for turn in range(4):
        is_large = turn > 1
        people = [
            {
                "name": f"p{at}",
                "team": rng.choice(["x", "y", None]),
                "n": rng.choice(BIG if is_large else BIG[:3] + BIG[-4:]),
                "small": rng.choice([2**31 - 1, -(2**31), None]),
                "u": rng.choice([2**63, 2**64 - 1, 0, 5, None] if is_large else [2**57 + 1, None]),
                "w": rng.choice([2**32 - 1, 0]),
            }
            for at in range(5)
        ]
        ends = [(f"p{rng.randrange(5)}", f"p{rng.randrange(5)}") for _ in range(8)]
        graph = og.init(tmp_path_factory.mktemp("sums") / "graph", SCHEMA)
        graph.load([{"type": "P", "data": person} for person in people])
        graph.load([{"edge": "K", "from": src, "to": dst} for src, dst in ends])
        made.append((graph, read_back(graph)))
    yield made
    for graph, _ in made:
        graph.close()


def test_sums_are_those_of_the_oracle(graphs, way):
    answered = refused = 0
    for (graph, plain), match, key, prop in itertools.product(
        graphs, MATCHES, ["", "$a.team, "], ["n", "small", "u", "w"]
    ):
        text = (
            f"query q() {{ match {{ {match} }} return {{ {key}sum($a.{prop}) as x, "
            f"count($a.{prop}) as m }} order {{ x desc }} }}"
        )
        plan = compile_query(graph.schema.catalog, text)
        try:
            expected = [list(row.values()) for row in judge(plan, plain, {}, 0)]
        except RefusedError:
            refused += 1
            with pytest.raises(BadRequest, match=rf"overflow.*\$a\.{prop}"):
                graph.query(text)
            continue
        answered += 1
        table = graph.query(text).to_arrow()
        assert table.schema.field("x").type == pa.int64()
        assert [list(row.values()) for row in table.to_pylist()] == expected, text
    assert min(answered, refused) > 40


def test_a_fan_out_multiplies(tmp_path, way):
    """Sixteen people who all know each other: each is met 16^3 times, and no digit is lost."""
    value = 2**40 + 1
    pairs = [(a, b) for a in range(16) for b in range(16)]
    with make(tmp_path / "g", [value] * 16, pairs) as graph:
        paths = "$d k $c  $c k $b  $b k $a"
        assert total(graph, paths).to_pylist() == [value * 16**4]
        by_start = total(graph, paths, keys="$d, ").to_pylist()
        assert by_start == [value * 16**3] * 16


def test_a_fan_out_overflows(tmp_path, way):
    pairs = [(a, b) for a in range(16) for b in range(16)]
    with (
        make(tmp_path / "g", [2**48] * 16, pairs) as graph,
        pytest.raises(BadRequest, match=r"runtime error: overflow: sum\(\$a\.n\)"),
    ):
        total(graph, "$d k $c  $c k $b  $b k $a")


@pytest.mark.parametrize("sign", [1, -1])
def test_totals_decide_and_not_the_way(tmp_path, way, sign):
    """Both ends of I64, reached by way of totals far beyond them."""
    end = LARGEST if sign > 0 else LEAST
    with make(tmp_path / "fits", [end, end, -sign * (2**63 - 1), -sign, 0, None]) as graph:
        # The last 1 is only needed where the end is not the mirror of the other.
        assert total(graph).to_pylist() == [2 * end - sign * (2**63 - 1) - sign]
    with (
        make(tmp_path / "not", [end, sign]) as graph,
        pytest.raises(BadRequest, match="overflow"),
    ):
        total(graph)


def test_unsigned_integers_beyond_i64_never_turn_negative(tmp_path, way):
    with make(tmp_path / "g", [2**63 - 2, 1], prop="u") as graph:
        assert total(graph, argument="$a.u").to_pylist() == [LARGEST]
    for at, values in enumerate(([2**63], [2**63, 2**63], [2**64 - 1, 1])):
        with (
            make(tmp_path / str(at), values, prop="u") as graph,
            pytest.raises(BadRequest, match=r"overflow.*\$a\.u"),
        ):
            total(graph, argument="$a.u")


def test_edge_properties_parameters_and_literals(tmp_path, way):
    with make(tmp_path / "g", [1, 2]) as graph:
        big = 2**53 + 1
        graph.load([{"edge": "K", "from": "p0", "to": "p1", "data": {"n": big}}] * 3)
        assert total(graph, "$a $e:k $b", "$e.n").to_pylist() == [3 * big]
        assert total(graph, "$a: P", str(big)).to_pylist() == [2 * big]
        text = "query q($v: U64) { match { $a: P } return { sum($v) as x } }"
        assert graph.query(text, params={"v": 2**62 - 1}).rows == [{"x": 2**63 - 2}]
        for value in (2**62, 2**64 - 1):
            with pytest.raises(BadRequest, match=r"overflow: sum\(\$v\)"):
                graph.query(text, params={"v": value})


def test_nothing_to_add(tmp_path, way):
    with make(tmp_path / "g", [None, None], [(0, 1)]) as graph:
        assert total(graph).to_pylist() == [None]
        assert total(graph, '$a: P { name: "nobody" }').to_pylist() == [None]
        assert total(graph, '$a: P { name: "nobody" }', keys="$a.team, ").to_pylist() == []
        assert total(graph, "$b k $a", keys="$b.name, ").to_pylist() == [None]
        assert total(graph).type == pa.int64()


def test_sums_of_floats_stay_floats(tmp_path):
    with og.init(tmp_path / "g", "node P { k: I32 @key  f: F32? }") as graph:
        graph.load([{"type": "P", "data": {"k": at, "f": 0.5}} for at in range(3)])
        column = total(graph, argument="$a.f")
        assert (column.type, column.to_pylist()) == (pa.float64(), [1.5])
