"""`nearest` under `cosine` and `dot`: the whole order worked out here, with and without an index."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import omnigraph as og
from omnigraph.errors import ParamError, SourceError
from omnigraph.lang.schema.indexes import VECTOR_KINDS
from omnigraph.read.search import nearest
from omnigraph.read.thresholds import SearchThresholds, Thresholds
from omnigraph.storage.tables.indexing.table_indexes import list_indexes
from omnigraph.storage.tables.table import open_table
from tests.opened import read_with, workspace_of
from tests.read.texts import maintain

NEAR = "match { $d: Doc } return { $d } order { nearest($d.vec, [1, 0, 0, 0]) } limit 1"
METRICS = ["l2", "cosine", "dot"]
SCHEMA = "node Doc {{ ref: String @key  even: Bool  vec: Vector(4)? @index @metric({}) }}"
WIDTH = 4


def round_f32(value: float) -> float:
    return float(np.float32(value))


def distance(metric: str, vector: list[float], query: list[float]) -> float | None:
    """As the page of the language defines it; None where it has none."""
    if metric == "l2":
        return round_f32(sum((a - b) ** 2 for a, b in zip(vector, query, strict=True)))
    product = math.fsum(a * b for a, b in zip(vector, query, strict=True))
    if metric == "dot":
        return 1 - product
    lengths = math.hypot(*vector), math.hypot(*query)
    return 1 - product / (lengths[0] * lengths[1]) if all(lengths) else None


def whole(metric, vectors, query):
    """Every document that has a distance, the nearest first, with its distance."""
    found = {ref: distance(metric, one, query) for ref, one in vectors.items() if one is not None}
    return sorted((far, ref) for ref, far in found.items() if far is not None)


def made(path, metric, vectors):
    graph = og.init(path, SCHEMA.format(metric))
    graph.load(
        [
            {"type": "Doc", "data": {"ref": ref, "even": at % 2 == 0, "vec": vector}}
            for at, (ref, vector) in enumerate(vectors.items())
        ]
    )
    return graph


def asked(graph, query, limit, where=""):
    text = (
        f"($q: Vector({WIDTH})) match {{ $d: Doc {where} }} "
        f"return {{ $d.ref as ref, nearest($d.vec, $q) as far }} order {{ far }} limit {limit}"
    )
    return [(row["far"], row["ref"]) for row in graph.query(text, {"q": query}).rows]


def check(found, expected, limit):
    assert [ref for _, ref in found] == [ref for _, ref in expected[:limit]]
    assert [far for far, _ in found] == pytest.approx(
        [far for far, _ in expected[:limit]], rel=1e-6, abs=1e-6
    )


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("is_indexed", [False, True])
def test_the_nearest_come_first_by_the_metric(tmp_path, metric, is_indexed):
    rng = random.Random(3)
    vectors = {
        f"d{at:03}": None if at % 13 == 0 else [rng.gauss(0, 1) for _ in range(WIDTH)]
        for at in range(400)
    }
    vectors |= {f"z{at}": [0.0] * WIDTH for at in range(3)}
    stored = {
        ref: None if one is None else [round_f32(value) for value in one]
        for ref, one in vectors.items()
    }
    with made(tmp_path / "graph", metric, vectors) as graph:
        if is_indexed:
            graph.ensure_indices()
        for query in ([1.0, 0.0, -2.0, 0.5], [-300.0, 1.0, 1.0, 4.0]):
            expected = whole(metric, stored, query)
            for limit in (3, 40, len(vectors)):
                check(asked(graph, query, limit), expected, limit)
            even = set(list(vectors)[::2])
            among = [one for one in expected if one[1] in even]
            check(asked(graph, query, 5, "$d.even"), among, 5)


def uneven(at: int, rng: random.Random) -> list[float]:
    """One vector is far longer than all others, and those stand close together away from zero."""
    return [1e6] * WIDTH if at == 0 else [-3 - abs(rng.gauss(0, 1)) for _ in range(WIDTH)]


@pytest.mark.parametrize("metric", METRICS)
def test_an_index_that_holds_them_coarsely_does_not_choose_the_nearest(tmp_path, metric):
    """Its numbers have eight bits, spread between the least and the greatest of all."""
    rng = random.Random(5)
    vectors = {f"d{at:04}": [round_f32(one) for one in uneven(at, rng)] for at in range(1500)}
    with made(tmp_path / "graph", metric, vectors) as graph:
        graph.ensure_indices()
        for query in ([1.0, -2.0, 0.25, 3.0], [-4.0, -3.5, -5.0, -3.0]):
            with og.open(tmp_path / "graph") as new:
                check(asked(new, query, 5), whole(metric, vectors, query), 5)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e30])
def test_an_angle_does_not_depend_on_lengths(tmp_path, scale):
    """Products of such vectors vanish, or run over, in float32."""
    rng = random.Random(4)
    directions = {f"d{at:02}": [rng.gauss(0, 1) for _ in range(WIDTH)] for at in range(60)}
    vectors = {ref: [value * scale for value in one] for ref, one in directions.items()}
    with made(tmp_path / "graph", "cosine", vectors) as graph:
        check(asked(graph, [1, 2, 3, 4], 7), whole("cosine", directions, [1, 2, 3, 4]), 7)


def test_vectors_of_one_direction_are_tied_and_come_by_id(tmp_path):
    vectors = {ref: [0.1 * by, 0.7 * by, -0.3 * by, 0.2 * by]
               for ref, by in {"e": 1.0, "b": 3.0, "d": 0.01, "a": 700.0, "c": 1.7}.items()}  # fmt: skip
    with made(tmp_path / "graph", "cosine", vectors) as graph:
        found = asked(graph, [0.1, 0.7, -0.3, 0.2], 3)
        assert [ref for _, ref in found] == ["a", "b", "c"]


def test_a_zero_vector_is_no_query_for_an_angle(tmp_path):
    with made(tmp_path / "graph", "cosine", {"a": [1.0, 0, 0, 0]}) as graph:
        with pytest.raises(ParamError, match=r"param error: .*`q`.* zero") as caught:
            asked(graph, [0.0] * WIDTH, 1)
        assert caught.value.details["param"] == "q"
        literal = "match { $d: Doc } return { $d } order { nearest($d.vec, [0, 0, 0, 0]) } limit 1"
        with pytest.raises(SourceError, match="T15"):
            graph.query(literal)
        fused = (
            f"($q: Vector({WIDTH})) match {{ $d: Doc }} return {{ $d }} "
            "order { rrf(nearest($d.vec, $q), nearest($d.vec, $q)) } limit 1"
        )
        with pytest.raises(ParamError, match="zero"):
            graph.query(fused, {"q": [0.0] * WIDTH})
    with made(tmp_path / "other", "dot", {"a": [1.0, 0, 0, 0]}) as graph:
        assert asked(graph, [0.0] * WIDTH, 1) == [(1.0, "a")]


def test_another_metric_changes_answers_at_once_and_the_index_when_it_is_built(tmp_path):
    vectors = {"long": [10.0, 1.0, 0.0, 0.0], "near": [1.0, 1.0, 0.0, 0.0]}
    query = [1.0, 0.0, 0.0, 0.0]

    with made(tmp_path / "graph", "l2", vectors) as graph:
        graph.ensure_indices()
        before = graph.snapshot().graph_commit_id
        assert [ref for _, ref in asked(graph, query, 2)] == ["near", "long"]
        graph.schema.apply(SCHEMA.format("cosine"))
        assert [ref for _, ref in asked(graph, query, 2)] == ["long", "near"]
        assert graph.query(NEAR, snapshot=before).rows == [{"d": "long"}]
        assert kinds_of(graph) == {VECTOR_KINDS["l2"]}
        graph.optimize()
        assert kinds_of(graph) == {VECTOR_KINDS["cosine"]}
        assert [ref for _, ref in asked(graph, query, 2)] == ["long", "near"]


def kinds_of(graph, branch="main"):
    """Of its indexes of vectors."""
    pin = graph.snapshot(branch=branch).tables["node:Doc"]
    states = list_indexes(open_table(workspace_of(graph).pinned(pin)))
    return {state.kind for state in states if state.column == "vec"}


@pytest.mark.parametrize("metric", ["cosine", "dot"])
@pytest.mark.parametrize("branch", ["main", "side"])
def test_an_index_is_built_in_place_of_that_for_another_metric(tmp_path, metric, branch):
    """Of two on a column Lance searches the older one, and of another metric it reads all vectors."""
    rng = random.Random(6)
    vectors = {f"d{at:03}": [rng.gauss(0, 1) for _ in range(WIDTH)] for at in range(300)}
    with made(tmp_path / "graph", "l2", vectors) as graph:
        graph.ensure_indices()
        if branch != "main":
            graph.branches.create(branch)
        graph.schema.apply(SCHEMA.format(metric), branch=branch)
        graph.ensure_indices(branch=branch)
        steps = graph.explain(NEAR, branch=branch).steps
        assert [use.coverage for step in steps for use in step.indexes] == ["indexed"]
        assert kinds_of(graph, branch) == {VECTOR_KINDS[metric]}
        if branch != "main":
            assert kinds_of(graph) == {VECTOR_KINDS["l2"]}
        assert not graph.verify(deep=True).problems


def test_an_index_behind_one_of_another_program_is_not_asked(tmp_path, monkeypatch):
    """Lance would search theirs, see that it has another metric, and read all vectors instead."""
    vectors = {f"d{at:03}": [float(at), 1.0, 0.0, 0.0] for at in range(300)}

    def foreign(table):
        dataset = table.dataset
        dataset.create_index("vec", "IVF_FLAT", name="theirs", metric="l2", num_partitions=1)
        return type(table)(table.ref, dataset)

    asked_of_index = []
    real = nearest._looked_up
    monkeypatch.setattr(
        nearest, "_looked_up", lambda *a: asked_of_index.append(found := real(*a)) or found
    )
    with made(tmp_path / "graph", "cosine", vectors) as graph:
        maintain(graph, foreign)
        graph.ensure_indices()
        read_with(graph, Thresholds(search=SearchThresholds(taken_bytes=0, fast_bytes=0)))
        check(asked(graph, [5.0, 1.0, 0, 0], 3), whole("cosine", vectors, [5.0, 1.0, 0, 0]), 3)
    assert asked_of_index == [None]


def test_zero_vectors_alone_make_no_index_for_angles(tmp_path):
    with made(tmp_path / "graph", "cosine", {"a": [0.0] * WIDTH}) as graph:
        graph.ensure_indices()
        assert asked(graph, [1.0, 0, 0, 0], 1) == []
        graph.load([{"type": "Doc", "data": {"ref": "b", "even": True, "vec": [2.0, 0, 0, 0]}}])
        graph.ensure_indices()
        assert asked(graph, [1.0, 0, 0, 0], 2) == [(0.0, "b")]
        assert kinds_of(graph) == {VECTOR_KINDS["cosine"]}


def test_zero_vectors_that_an_index_leaves_out_are_no_damage(tmp_path):
    vectors = {f"d{at}": None if at == 7 else [float(at % 3), 0.0, 0, 1.0 * (at % 2)]
               for at in range(60)}  # fmt: skip
    with made(tmp_path / "graph", "cosine", vectors) as graph:
        graph.ensure_indices()
        assert not graph.verify(deep=True).problems


def test_vectors_that_an_index_cannot_hold_are_no_damage(tmp_path):
    """Lance leaves out those whose squares vanish in float32; they are found without it."""
    vectors = {f"d{at}": [10.0 ** -(at * 6), 0.0, 1.0 * (at == 0), 0.0] for at in range(8)}
    with made(tmp_path / "graph", "cosine", vectors) as graph:
        graph.ensure_indices()
        assert not graph.verify(deep=True).problems
        found = asked(graph, [1.0, 0, 0, 0], 8)
        assert found[:-1] == [(0.0, f"d{at}") for at in range(1, 8)]


def test_vectors_too_short_for_an_index_make_none(tmp_path):
    with made(tmp_path / "graph", "cosine", {"a": [1e-30] * WIDTH}) as graph:
        assert not graph.ensure_indices().failed
        assert asked(graph, [1.0, 1, 1, 1], 1) == [(0.0, "a")]


def test_distances_that_run_over_are_tied_by_id(tmp_path):
    """Of `0 - q` and `1 - q` both squares are infinite in float32, though one product is and one is not."""
    vectors = {"a": [0.0] * WIDTH, "b": [1.0] * WIDTH}
    with made(tmp_path / "graph", "l2", vectors) as graph:
        assert [ref for _, ref in asked(graph, [3.4e38] * WIDTH, 1)] == ["a"]
