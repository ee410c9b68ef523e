"""Reads at the edge of what they are made for: long matches, odd texts, no rows, little room."""

from __future__ import annotations

import inspect
import sys

import pytest

import omnigraph as og
from tests.read.search_queries import SCHEMA

ODD_IDS = [
    "a'b",
    'q"q',
    "nul\x00x",
    "🙂" * 50,
    "k" * 10_240,
    "\\",
    "%_",
    "a\nb",
    " lead",
    "é",
    "e\u0301",
    "\u202e",
    "",
    "' OR 1=1 --",
]


def doc(ref: str, **values: object) -> dict[str, object]:
    return {"type": "Doc", "data": {"ref": ref, **values}}


def cites(src: str, dst: str) -> dict[str, object]:
    return {"edge": "Cites", "from": src, "to": dst, "data": {}}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        yield graph


@pytest.mark.parametrize("shown", ["$v0, $v300", "count($v300) as n"])
def test_a_match_may_have_more_steps_than_calls_may_nest(graph, shown):
    graph.load([doc("a"), cites("a", "a")])

    def ask(length: int) -> list[dict[str, object]]:
        steps = "  ".join(f"$v{at} cites $v{at + 1}" for at in range(length))
        items = shown.replace("300", str(length))
        return graph.query(f"query q() {{ match {{ {steps} }} return {{ {items} }} }}").rows

    ask(2)  # Imports nest deeper.
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 200)
    try:
        assert ask(300) in ([{"v0": "a", "v300": "a"}], [{"n": 1}])
    finally:
        sys.setrecursionlimit(usual)


@pytest.mark.parametrize("mode", ["csr", "indexed"])
def test_ids_are_any_text(graph, monkeypatch, mode):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    hub = ODD_IDS[0]
    graph.load([doc(ref, title="t") for ref in ODD_IDS])
    graph.load([cites(ref, hub) for ref in ODD_IDS])
    out = "query q($r: String) { match { $a: Doc { ref: $r } $a cites $b } return { $a, $b, $b.title } }"
    into = "query q($r: String) { match { $a: Doc { ref: $r } $b cites $a } return { $b } }"
    for ref in ODD_IDS:
        assert graph.query(out, params={"r": ref}).rows == [{"a": ref, "b": hub, "b.title": "t"}]
        found = {row["b"] for row in graph.query(into, params={"r": ref}).rows}
        assert found == (set(ODD_IDS) if ref == hub else set())


@pytest.mark.parametrize("ranking", ['bm25($a.body, "run")', "nearest($a.vec, [1, 0])"])
def test_a_limit_may_be_any_integer(graph, ranking):
    graph.load([doc(ref, body="runs", vec=[1, 0]) for ref in "ab"])
    text = f"query q() {{ match {{ $a: Doc }} return {{ $a }} order {{ {ranking} }} limit {{}} }}"
    for limit in (1, 2, 3, 2**31, 2**63 - 1):
        rows = graph.query(text.replace("{}", str(limit))).rows
        assert rows == [{"a": ref} for ref in "ab"[:limit]]


@pytest.mark.parametrize(
    "text",
    [
        "match { $a: Doc  $a cites $b } return { $a, count($b) as n }",
        'match { $a: Doc  search($a.body, "x") } return { $a } order { bm25($a.body, "run") }',
        "match { $a: Doc } return { $a } order { nearest($a.vec, [1, 2]) } limit 3",
        'match { $a: Doc  fuzzy($a.body, "x") } return { $a }',
        "match { $a cites{1,3} $b  not { $b has $_ } } return { $a, $b } order { $a.num }",
    ],
)
@pytest.mark.parametrize("mode", ["csr", "indexed"])
def test_a_graph_without_rows_answers(graph, monkeypatch, text, mode):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    assert graph.query(f"query q() {{ {text} }}").rows == []
    graph.ensure_indices()
    assert graph.query(f"query q() {{ {text} }}").rows == []
