"""The engine against the oracle: random graphs, random queries, equal answers."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import omnigraph
from omnigraph.errors import BadRequest, OmniGraphError, ResourceLimit
from omnigraph.graph import Graph
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import NOW_PARAM, ReadPlan
from omnigraph.read.execute import run_read
from omnigraph.read.thresholds import MatchThresholds, Thresholds
from omnigraph.types import from_arrow
from tests.opened import fresh_reader, read_with
from tests.oracle.interpreter import RefusedError
from tests.oracle.interpreter import run as judge
from tests.read.queries import CATALOG, SCHEMA, Query, plain_graph
from tests.sampling import runs_all
from tests.stored import fill

QUERIES = 60


def queries(rng: random.Random, count: int) -> Iterator[tuple[str, ReadPlan]]:
    """Generated queries that compile."""
    made = 0
    while made < count:
        text = Query(rng).text()
        try:
            plan = compile_query(CATALOG, text)
        except OmniGraphError:
            continue
        assert isinstance(plan, ReadPlan)
        made += 1
        yield text, plan


def answer_of(graph: Graph, plan: ReadPlan) -> list[dict[str, Any]]:
    """The engine's answer as stored values."""
    reader = fresh_reader(graph)
    table = run_read(reader.view(graph.snapshot(), graph.schema.catalog), plan, {NOW_PARAM: 0})
    assert table.column_names == [column.name for column in plan.columns]
    columns = [from_arrow(column.type, table.column(at)) for at, column in enumerate(plan.columns)]
    names = table.column_names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def comparable(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row as a value; sums of floats may differ in the last digits."""
    return tuple(
        float(f"{value:.9g}") + 0.0 if isinstance(value, float) and math.isfinite(value)
        else tuple(value) if isinstance(value, list)
        else value
        for value in row.values()
    )  # fmt: skip


def check(graph: Graph, plain: Any, text: str, plan: ReadPlan) -> None:
    """Compare as the language promises: rows in order, or as a bag, or any of them."""
    try:
        expected = [comparable(row) for row in judge(plan, plain, {}, 0)]
    except RefusedError:
        with pytest.raises(BadRequest, match="overflow"):
            answer_of(graph, plan)
        return
    actual = [comparable(row) for row in answer_of(graph, plan)]
    if plan.order or plan.is_aggregate:
        assert actual == expected, text
    elif plan.limit is None:
        assert Counter(actual) == Counter(expected), text
    else:
        unlimited = ReadPlan(plan.name, plan.params, plan.steps, plan.columns, plan.variables)
        everything = Counter(comparable(row) for row in judge(unlimited, plain, {}, 0))
        assert len(actual) == len(expected), text
        assert not Counter(actual) - everything, text


@pytest.mark.parametrize("seed", range(12 if runs_all() else 3))
def test_engine_agrees_with_the_oracle(tmp_path, seed):
    rng = random.Random(seed)
    plain = plain_graph(rng)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        fill(graph, plain)
        for text, plan in queries(rng, QUERIES):
            check(graph, plain, text, plan)


@pytest.mark.parametrize(("mode", "few"), [("csr", 0), ("indexed", 0), ("indexed", 1024)])
@pytest.mark.parametrize("seed", range(200, 203 if runs_all() else 201))
def test_both_paths_agree_with_the_oracle(tmp_path, monkeypatch, seed, mode, few):
    """Without few rows, only a key or an index can start a look-up."""
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    rng = random.Random(seed)
    plain = plain_graph(rng)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        read_with(graph, Thresholds(match=MatchThresholds(few_rows=few)))
        fill(graph, plain)
        for text, plan in queries(rng, QUERIES):
            check(graph, plain, text, plan)


@pytest.mark.parametrize("few", [0, 1, 16])
def test_late_tests_agree_with_the_oracle(tmp_path, monkeypatch, few):
    """Tests of a variable that wait for a neighbour to narrow it, as if every type had many nodes."""
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    rng = random.Random(300 + few)
    plain = plain_graph(rng)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        read_with(graph, Thresholds(match=MatchThresholds(many_nodes=0, narrowed_share=few)))
        fill(graph, plain)
        for text, plan in queries(rng, QUERIES):
            check(graph, plain, text, plan)


@pytest.mark.parametrize("few", [0, 1])
@pytest.mark.parametrize("order", ["$p1 knows $p2", "$p2 knows $p1"])
@pytest.mark.parametrize("about", ["$p1", "$p2"])
def test_a_block_about_a_node_that_is_summed_away_early(tmp_path, monkeypatch, few, order, about):
    """A neighbour that narrows another one is gone from the rows before the blocks are judged."""
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    block = f'not {{ $c: City  {about}.nick starts_with "a" }}'
    text = f"""query q() {{
        match {{ {order}  $p1.age >= 0  $p2.age >= 0  {block} }}
        return {{ count($p2.weight) as n }}
    }}"""
    plain = plain_graph(random.Random(3), persons=12, edges=30)
    plan = compile_query(CATALOG, text)
    assert isinstance(plan, ReadPlan)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        read_with(graph, Thresholds(match=MatchThresholds(many_nodes=0, narrowed_share=few)))
        fill(graph, plain)
        check(graph, plain, text, plan)


def test_a_block_about_one_of_two_different_nodes(tmp_path):
    """Rows of equal nodes are counted and taken off: the block then asks about the other name."""
    text = """query q() {
        match { $p1 knows $p2  $p2.name != $p1.name  not { 0.1 >= $p1.weight  $t: Thing } }
        return { count($p2.weight) as n }
    }"""
    rng = random.Random(1)  # with nodes that know themselves
    plain = plain_graph(rng)
    plan = compile_query(CATALOG, text)
    assert isinstance(plan, ReadPlan)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        fill(graph, plain)
        check(graph, plain, text, plan)


@pytest.mark.parametrize("seed", range(100, 103))
def test_small_batches_change_nothing(tmp_path, seed):
    rng = random.Random(seed)
    plain = plain_graph(rng)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        read_with(graph, Thresholds(match=MatchThresholds(batch_rows=3)))
        fill(graph, plain)
        for text, plan in queries(rng, QUERIES):
            check(graph, plain, text, plan)


SHAPES = {
    "apart": "$p0: Person",
    "along edges": "$k knows $p0",
    "by hops": "$k knows{1,2} $p0",
    "by value": "$k.nick = $p0.nick",
    "there and back": "$k knows $p0  $p0 knows $k",
    "around": "$k knows $p1  $p0 knows $k",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_counts_beyond_64_bits_are_refused(tmp_path, shape):
    """A hundred persons who all know each other: 100^9 rows can be counted, 100^10 cannot."""
    names = [f"p{at:03d}" for at in range(100)]
    people = [{"type": "Person", "data": {"name": name, "nick": "z"}} for name in names]
    pairs = [{"edge": "Knows", "from": one, "to": two} for one in names for two in names]

    def count(variables: int) -> str:
        chain = "  ".join(f"$p{at} knows $p{at + 1}" for at in range(variables - 1))
        match = f"$k: Person  {chain}  {SHAPES[shape]}"
        return f"query q() {{ match {{ {match} }} return {{ $k, count($p0) as n }} limit 1 }}"

    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        graph.load([*people, *pairs])
        assert graph.query(count(9)).rows == [{"k": "p000", "n": 100**9}]
        for more in (10, 11):
            with pytest.raises(ResourceLimit, match="I64"):
                graph.query(count(more))
