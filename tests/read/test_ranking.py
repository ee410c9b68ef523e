"""Rankings against the oracle: distances, relevance and their fusion."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, ProviderError, SourceError
from omnigraph.lang.query import ir
from omnigraph.read.search import nearest
from omnigraph.read.search.ranking import rank
from omnigraph.read.thresholds import SearchThresholds, Thresholds
from omnigraph.read.view.view import View
from omnigraph.storage.tables import inline_residual
from tests.opened import read_with
from tests.oracle.analysis import bm25_scores, mock_embedding, round_f32
from tests.read.texts import (
    SCHEMA,
    TEXT,
    VECTOR,
    WHOLE,
    body,
    document,
    maintain,
    random_text,
    texts_of,
    view_of,
)
from tests.storage.table_places import compact

EMBEDDED = """
node Note { ref: String @key
  text: String
  vec: Vector(8)? @embed("text", model="m-1") }
"""


@pytest.fixture
def rng():
    return random.Random(5)


def random_vector(rng: random.Random) -> list[float] | None:
    """Coarse values, so that distances tie; sometimes none."""
    if rng.random() < 0.1:
        return None
    return [rng.choice([0.0, 0.5, 1.0, -1.5]) for _ in range(8)]


def documents(rng: random.Random, refs: Any) -> list[dict[str, Any]]:
    return [document(ref, random_text(rng), random_vector(rng)) for ref in refs]


@pytest.fixture
def graph(tmp_path, rng):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(documents(rng, [f"d{at:03d}" for at in range(300)]))
        yield graph


def by_distance(query: Any) -> ir.Nearest:
    kind = TEXT if isinstance(query, str) else VECTOR
    return ir.Nearest(ir.PropertyOf("d", "vec", VECTOR), ir.Const(query, kind))


def by_relevance(query: str | None) -> ir.Bm25:
    return ir.Bm25(body(), ir.Const(query, TEXT))


def ranked(
    view: View,
    ranking_: ir.Ranking,
    limit: int | None = None,
    among: list[str] | None = None,
    params: dict[str, Any] | None = None,
) -> list[tuple[str, float, int]]:
    """Id, score and place of everything that came back."""
    space = view.nodes("Doc")
    candidates = None
    if among is not None:
        candidates = np.sort(np.array([space.ordinal_of(one) for one in among], np.int32))
    answer = rank(view, space.type, ranking_, params or {}, candidates, limit, None)
    assert (answer.codes.dtype, answer.scores.dtype) == (np.int32, np.float64)
    ids = space.ids(answer.codes).to_pylist()
    return list(zip(ids, answer.scores.tolist(), answer.places.tolist(), strict=True))


def distances(view: View, query: list[float]) -> dict[str, float]:
    rows = view.table(view.catalog.nodes["Doc"]).table.read(["id", "vec"]).to_pylist()
    return {
        row["id"]: round_f32(sum((a - round_f32(b)) ** 2 for a, b in zip(row["vec"], query)))  # noqa: B905
        for row in rows
        if row["vec"] is not None
    }


def placed(scores: dict[str, float], sign: int = 1) -> list[tuple[str, float, int]]:
    """What a ranking of these scores is: best first, tied ones by id and in one place."""
    order = sorted(scores, key=lambda ref: (sign * scores[ref], ref.encode()))
    levels = sorted({sign * score for score in scores.values()})
    return [(ref, scores[ref], levels.index(sign * scores[ref])) for ref in order]


def check_best(
    found: list[tuple[str, float, int]], whole: list[tuple[str, float, int]], limit: int
):
    """The best `limit` are there, with everything tied with the last one."""
    needed = limit
    while needed < len(whole) and whole[needed][2] == whole[limit - 1][2]:
        needed += 1
    assert found == whole[:needed]


# -- nearest


WAYS = {
    "memory": SearchThresholds(taken_bytes=0, looked_up_vectors=0),
    "taken": SearchThresholds(taken_bytes=2**40, looked_up_vectors=0),
    "streamed": SearchThresholds(
        taken_bytes=0, looked_up_vectors=0, kept_bytes=0, vectors_at_once=64
    ),
    "index": SearchThresholds(taken_bytes=0, fast_bytes=0),
}


@pytest.fixture(params=WAYS)
def way(request, graph):
    """Which of the ways to the vectors is taken when they are not in memory yet."""
    read_with(graph, Thresholds(search=WAYS[request.param]))


def check_nearest(graph, rng):
    view = view_of(graph)
    for _ in range(8):
        query = [rng.choice([0.0, 0.5, -1.0, 0.1]) for _ in range(8)]
        whole = placed(distances(view, query))
        assert ranked(view_of(graph), by_distance(query)) == whole
        for limit in (1, 3, 10, 1000):
            check_best(ranked(view_of(graph), by_distance(query), limit), whole, limit)
        for share in (0.02, 0.5):
            among = [ref for ref, *_ in whole if rng.random() < share] + ["d000"]
            part = placed({ref: score for ref, score, _ in whole if ref in among})
            found = ranked(view_of(graph), by_distance(query), 5, sorted(set(among)))
            check_best(found, part, 5)


@pytest.mark.usefixtures("way")
def test_nearest_is_exact_however_the_vectors_are_reached(graph, rng):
    check_nearest(graph, rng)
    graph.ensure_indices()
    check_nearest(graph, rng)
    graph.load(documents(rng, [f"e{at:03d}" for at in range(30)]))
    graph.load(documents(rng, [f"d{at:03d}" for at in range(1, 60, 4)]))
    graph.mutate('query q() { delete Doc where ref = "d002" }')
    check_nearest(graph, rng)
    maintain(graph, compact)
    maintain(graph, inline_residual.optimize_indices)
    check_nearest(graph, rng)


def test_the_index_is_used_and_finds_rows_written_later(tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(600, 8)).round(4)

    def doc(at: int) -> dict[str, Any]:
        return document(f"d{at:03d}", None, vectors[at].tolist())

    asked = []
    real = nearest._looked_up
    monkeypatch.setattr(nearest, "_looked_up", lambda *a: asked.append(found := real(*a)) or found)
    with og.init(tmp_path / "i", SCHEMA) as graph:
        read_with(graph, Thresholds(search=SearchThresholds(taken_bytes=0, fast_bytes=0)))
        graph.load([doc(at) for at in range(550)])
        graph.ensure_indices()
        graph.load([doc(at) for at in range(550, 600)])
        graph.mutate('query q() { delete Doc where ref = "d010" }')
        graph.load([document("d011", None, vectors[599].tolist())])
        for at in (10, 11, 100, 575, 599):
            view = view_of(graph)
            query = [round_f32(one) for one in vectors[at].tolist()]
            whole = placed(distances(view, query))
            check_best(ranked(view, by_distance(query), 5), whole, 5)
            among = [f"d{n:03d}" for n in range(0, 600, 2) if n != 10]
            part = placed({ref: score for ref, score, _ in whole if ref in among})
            check_best(ranked(view_of(graph), by_distance(query), 5, among), part, 5)
    assert sum(found is not None for found in asked) >= 8


def test_rough_distances_never_decide(tmp_path, rng):
    """Far from the origin a matrix product cannot tell these vectors apart."""
    with og.init(tmp_path / "far", SCHEMA) as graph:
        graph.load(
            [
                document(f"d{at:03d}", None, [4096.0 + rng.randint(-3, 3) / 1024] * 7 + [0.0])
                for at in range(400)
            ]
        )
        view = view_of(graph)
        query = [4096.0] * 7 + [0.001]
        check_best(ranked(view, by_distance(query), 7), placed(distances(view, query)), 7)


def test_distances_beyond_float32_are_infinite_and_tied(tmp_path):
    with og.init(tmp_path / "inf", SCHEMA) as graph:
        graph.load([document(ref, None, [value] * 8) for ref, value in
                    [("a", 3e38), ("b", -3e38), ("c", 1.0), ("d", 3e38)]])  # fmt: skip
        view = view_of(graph)
        inf = float("inf")
        assert ranked(view, by_distance([0.0] * 8), 2) == [
            ("c", 8.0, 0), ("a", inf, 1), ("b", inf, 1), ("d", inf, 1),
        ]  # fmt: skip


def test_nothing_to_compare_with(graph, tmp_path):
    view = view_of(graph)
    assert ranked(view, by_distance(None), 3) == []
    assert ranked(view, by_distance([0.0] * 8), 3, []) == []
    with og.init(tmp_path / "none", SCHEMA) as empty:
        assert ranked(view_of(empty), by_distance([0.0] * 8), 3) == []
        assert ranked(view_of(empty), by_relevance("run"), 3) == []
        empty.load([document("a", None), document("b", "run")])
        assert ranked(view_of(empty), by_distance([0.0] * 8), 3) == []


# -- text to vector


class Named:
    """An embedder with a model."""

    def __init__(self, model: str) -> None:
        self.model = model

    def embed(self, texts, dimension):
        return [mock_embedding(text, dimension) for text in texts]


@pytest.fixture
def notes(tmp_path):
    with og.init(tmp_path / "n", EMBEDDED) as graph:
        texts = ["alpha", "beta", "gamma"]
        graph.load([
            {"type": "Note", "data": {"ref": text, "text": text, "vec": mock_embedding(text, 8)}}
            for text in texts
        ])  # fmt: skip
        yield graph


def closest_note(graph, text: str, embedder: Any = None) -> tuple[list[str], list[float]]:
    view = view_of(graph)
    space = view.nodes("Note")
    call = ir.Nearest(ir.PropertyOf("n", "vec", VECTOR), ir.Const(text, TEXT), "m-1")
    answer = rank(view, space.type, call, {}, None, 1, embedder)
    return space.ids(answer.codes[:1]).to_pylist(), answer.scores[:1].tolist()


def test_text_is_embedded(notes, monkeypatch):
    assert closest_note(notes, "beta", Named("m-1")) == (["beta"], [0.0])
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    assert closest_note(notes, "gamma") == (["gamma"], [0.0])


def test_another_model_and_no_provider_are_refused(notes):
    with pytest.raises(BadRequest, match=r"m-1.*m-2"):
        closest_note(notes, "beta", Named("m-2"))
    with pytest.raises(ProviderError, match=r"omnigraph\.open\(embedder=…\)"):
        closest_note(notes, "beta")


# -- bm25


def check_relevance(view, query, tolerance=1e-4):
    wanted = bm25_scores(texts_of(view), query)
    found = ranked(view, by_relevance(query))
    assert {ref for ref, *_ in found} == wanted.keys()
    scores = [wanted[ref] for ref, *_ in found]
    assert [score for _, score, _ in found] == pytest.approx(scores, abs=tolerance)
    assert [found[0][2]] * bool(found) == [0] * bool(found)
    assert found == placed({ref: score for ref, score, _ in found}, -1)
    return found


RELEVANCE = [
    "run",
    "generous computers",
    "the happiness of towers",
    "résumé straße",
    "run run",
    "of",
]


@pytest.mark.parametrize("stage", ["none", "whole"])
def test_relevance_is_that_of_the_oracle(graph, stage):
    if stage == "whole":
        graph.ensure_indices()
    view = view_of(graph)
    for query in filter(bool, RELEVANCE):
        whole = check_relevance(view, query) if query != "of" else ranked(view, by_relevance("of"))
        for limit in (1, 4, 20, 500):
            check_best(ranked(view, by_relevance(query), limit), whole, min(limit, len(whole) or 1))
        among = [f"d{at:03d}" for at in range(0, 300, 3)]
        part = placed({ref: score for ref, score, _ in whole if ref in among}, -1)
        check_best(ranked(view, by_relevance(query), 4, among), part, min(4, len(part) or 1))


@pytest.mark.parametrize("few_rows", [0, 4096])
def test_only_matching_nodes_are_ranked_whatever_the_index_covers(graph, rng, few_rows):
    read_with(graph, Thresholds(search=SearchThresholds(unindexed_rows=few_rows)))
    graph.ensure_indices()
    graph.load(documents(rng, [f"e{at:03d}" for at in range(30)]))
    graph.load(documents(rng, [f"d{at:03d}" for at in range(1, 60, 4)]))
    graph.mutate('query q() { delete Doc where ref = "d002" }')
    for settle in (lambda: None, lambda: maintain(graph, compact), graph.ensure_indices):
        settle()
        view = view_of(graph)
        for query in RELEVANCE:
            found = ranked(view, by_relevance(query))
            assert {ref for ref, *_ in found} == bm25_scores(texts_of(view), query).keys()
            assert found == placed({ref: score for ref, score, _ in found}, -1)
            if found:
                check_best(ranked(view, by_relevance(query), 3), found, min(3, len(found)))


def test_all_that_tie_with_the_last_one_come_back(tmp_path):
    with og.init(tmp_path / "t", SCHEMA) as graph:
        graph.load([document(f"d{at:03d}", "solar") for at in range(200)])
        graph.load([document("best", "solar solar")])
        found = ranked(view_of(graph), by_relevance("solar"), 2)
        assert len(found) == 201
        assert [found[0][0], found[1][0], found[200][2]] == ["best", "d000", 1]


def test_no_query_no_matches(graph):
    view = view_of(graph)
    for query in (None, "", "the", "zzzz"):
        assert ranked(view, by_relevance(query), 3) == []


# -- rrf


def fused(arms, k) -> list[tuple[str, float]]:
    """Reciprocal rank fusion by the words of the specification."""
    places = [{ref: at for at, ref in enumerate(arm, 1)} for arm in arms]
    refs = {ref for arm in arms for ref in arm}
    scores = {ref: sum(sorted(1 / (k + arm[ref]) for arm in places if ref in arm)) for ref in refs}
    never = 10**9
    order = sorted(refs, key=lambda ref: (-scores[ref], *(arm.get(ref, never) for arm in places)))
    return [(ref, scores[ref]) for ref in order]


@pytest.mark.parametrize("k", [1, 60])
@pytest.mark.parametrize("limit", [1, 3, 200])
def test_fusion(graph, rng, k, limit):
    view = view_of(graph)
    vectors = [[rng.choice([0.0, 0.5]) for _ in range(8)] for _ in range(2)]
    text = by_relevance("run happy")
    near = [by_distance(vector) for vector in vectors]
    among = [f"d{at:03d}" for at in range(0, 300, 2)]
    fusions = [(near[0], text), (text, near[1]), (near[0], near[1]), (text, text)]
    for fusion in [*fusions, (near[0], text, near[1]), (text, *near, by_relevance("run"))]:
        for chosen in (None, among):
            arms = [[ref for ref, *_ in ranked(view, arm, None, chosen)][:limit] for arm in fusion]
            call = ir.Rrf(fusion, ir.ParamRef("k", WHOLE))
            found = ranked(view, call, limit, chosen, {"k": k})
            wanted = fused(arms, k)
            assert [one[:2] for one in found][:limit] == wanted[:limit]
            assert [place for *_, place in found] == list(range(len(found)))


def test_equal_places_in_other_arms_are_a_tie(tmp_path):
    """Each is first, second and third: 1/3 + 1/4 + 1/5, which floats add up to two numbers."""
    axes = ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0])
    rows = [document(f"d{at}", None, axis + [0.0] * 5) for at, axis in enumerate(axes)]
    near = ([0.9, 0.5, 0.1], [0.5, 0.1, 0.9], [0.1, 0.9, 0.5])
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(rows)
        arms = tuple(by_distance(vector + [0.0] * 5) for vector in near)
        found = ranked(view_of(graph), ir.Rrf(arms, ir.Const(2, WHOLE)), 3)
    assert [ref for ref, *_ in found] == ["d0", "d1", "d2"]
    assert len({score for _, score, _ in found}) == 1


def test_what_only_the_text_finds_is_not_outranked_by_the_depth_of_its_arm(tmp_path):
    """Twenty texts match, and the vectors of ten others are near: three of each arm have a say."""
    rows = [document(f"t{at:02d}", "run " * (20 - at), None) for at in range(20)]
    rows += [document(f"v{at:02d}", None, [float(at)] + [0.0] * 7) for at in range(10)]
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(rows)
        call = ir.Rrf((by_distance([0.0] * 8), by_relevance("run")), ir.Const(60, WHOLE))
        found = ranked(view_of(graph), call, 3)
        text = [ref for ref, *_ in ranked(view_of(graph), by_relevance("run"), None)]
    assert [one[:2] for one in found] == [("v00", 1 / 61), (text[0], 1 / 61), ("v01", 1 / 62)]


DIRECTIONS = [
    ('bm25($d.body, "run")', "", True),
    ('bm25($d.body, "run")', " desc", True),
    ('bm25($d.body, "run")', " asc", False),
    ("nearest($d.vec, $v)", "", True),
    ("nearest($d.vec, $v)", " asc", True),
    ("nearest($d.vec, $v)", " desc", False),
    ('rrf(nearest($d.vec, $v), bm25($d.body, "run"))', " desc", True),
    ('rrf(nearest($d.vec, $v), bm25($d.body, "run"))', " asc", False),
]


@pytest.mark.parametrize("by", ["score", "call"])
@pytest.mark.parametrize(("call", "direction", "accepted"), DIRECTIONS)
def test_scores_are_in_the_order_that_is_written_or_refused(graph, call, direction, accepted, by):
    """Best first; a direction that would mean worst first is refused, never ignored."""
    key = "score" if by == "score" else call
    source = (
        "query q($v: Vector(8)) { match { $d: Doc } "
        f"return {{ {call} as score }} order {{ {key}{direction} }} limit 9 }}"
    )
    params = {"v": [0.5] * 8}
    if not accepted or (by == "call" and direction and call.startswith("nearest")):
        with pytest.raises(SourceError, match=r"is always (best|closest) first"):
            graph.query(source, params)
        return
    scores = [row["score"] for row in graph.query(source, params)]
    best_first = sorted(scores, reverse=not call.startswith("nearest"))
    assert len(scores) == 9
    assert scores == best_first


@pytest.mark.parametrize("k", [0, -3, None])
def test_k_must_be_positive(graph, k):
    call = ir.Rrf((by_relevance("run"), by_relevance("happy")), ir.ParamRef("k", WHOLE))
    with pytest.raises(BadRequest, match=r"^runtime error: rrf needs a positive k"):
        ranked(view_of(graph), call, 3, None, {"k": k})
