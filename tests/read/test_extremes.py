"""Reads at the edge of what they are made for: long matches, odd texts, no rows, little room."""

from __future__ import annotations

import inspect
import itertools
import sys

import pytest

import omnigraph as og
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    CommitNotFound,
    HistoryReclaimed,
    VersionNotFound,
)
from omnigraph.storage.tables.inline_residual import cleanup_versions
from omnigraph.storage.tables.table import open_table
from tests.graphs import graph_of
from tests.opened import workspace_of
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


graph = graph_of(SCHEMA)


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


@pytest.mark.parametrize("mode", ["csr", "indexed"])
@pytest.mark.parametrize("most", [2, 65, 10**6, 2**63 - 1])
@pytest.mark.parametrize("step", ["cites", "<cites>"])
def test_hops_may_be_any_integer(graph, monkeypatch, mode, most, step):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    graph.load([doc(ref) for ref in "abc"])
    graph.load([cites(one, two) for one in "abc" for two in "abc"])
    hops = f"{step}{{1,{most}}}"
    pairs = f"query q() {{ match {{ $a: Doc  $a {hops} $b }} return {{ $a, $b }} }}"
    expected = {(one, two) for one in "abc" for two in "abc"}
    assert {tuple(row.values()) for row in graph.query(pairs).rows} == expected
    count = f"query q() {{ match {{ $a {hops} $b }} return {{ count($b) as n }} }}"
    assert graph.query(count).rows == [{"n": 9}]
    far = f"query q() {{ match {{ $a {step}{{2,{most}}} $b }} return {{ count($b) as n }} }}"
    assert graph.query(far).rows == [{"n": 6}]  # the loops of those one step away


@pytest.mark.parametrize("name", [5, ["q"], b"q", True])
@pytest.mark.parametrize("method", ["query", "explain", "profile", "mutate"])
def test_a_query_is_named_by_a_text(graph, name, method):
    with pytest.raises(BadRequest, match=f"not by a Python {type(name).__name__}"):
        getattr(graph, method)(ALL, name)


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


ALL = "query q() { match { $a: Doc } return { $a } }"


@pytest.mark.parametrize(
    ("target", "error", "advice"),
    [
        ({"branch": "nowhere"}, BranchNotFound, "list the branches"),
        ({"snapshot": "nothing"}, CommitNotFound, "list the commits"),
        ({"version": 99}, VersionNotFound, "its versions are 1 to 1"),
        ({"version": 0}, VersionNotFound, "its versions are 1 to 1"),
        ({"branch": "main", "snapshot": "x"}, BadRequest, "one"),
    ],
)
def test_a_target_that_is_not_there_is_named(graph, target, error, advice):
    with pytest.raises(error, match=advice):
        graph.query(ALL, **target)


def test_a_cleaned_up_state_is_refused(graph):
    graph.load([doc("a"), doc("b")])
    before = graph.snapshot()
    graph.mutate('query q() { delete Doc where ref = "a" }')
    table = open_table(workspace_of(graph).pinned(graph.snapshot().tables["node:Doc"]))
    cleanup_versions(table, [before.tables["node:Doc"].table_version])
    for target in ({"snapshot": before.graph_commit_id}, {"version": before.manifest_version}):
        with pytest.raises(HistoryReclaimed, match="read a newer state"):
            graph.query(ALL, **target)
    assert graph.query(ALL).rows == [{"a": "b"}]


def test_a_cache_directory_that_cannot_be_one_is_done_without(graph, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "file"))
    graph.load([doc("a", title="runs")])
    found = 'query q() { match { $a: Doc  search($a.title, "run") } return { $a } }'
    assert graph.query(found).rows == [{"a": "a"}]
    best = 'query q() { match { $a: Doc } return { $a } order { bm25($a.title, "run") } }'
    assert graph.query(best).rows == [{"a": "a"}]


@pytest.mark.parametrize("megabytes", ["0", "1"])
def test_a_small_cache_changes_nothing(graph, monkeypatch, megabytes):
    names = [f"d{at:02d}" for at in range(30)]
    graph.load([doc(name, num=at % 3, body="runs") for at, name in enumerate(names)])
    graph.load([cites(one, two) for one, two in itertools.pairwise(names)])
    asked = [
        "match { $a cites $b  $b cites $c  $a.num != $c.num } return { $a.num, count($c) as n }",
        "match { $a cites{1,3} $b } return { $a, $b } order { $b.num, $a.num } limit 9",
        'match { $a cites $b  search($b.body, "run") } return { $a } order { $a.ref }',
    ]
    texts = [f"query q() {{ {one} }}" for one in asked]
    expected = [graph.query(text).rows for text in texts]
    assert all(expected)
    monkeypatch.setenv("OMNIGRAPH_CACHE_MB", megabytes)
    with og.open(graph.uri, mode="r") as other:
        assert [other.query(text, engine="local").rows for text in texts] == expected


@pytest.mark.parametrize(
    "match",
    [
        "$a: P",
        "$a: P  $b: P",
        "$a k $b",
        "$b k $a  $b k $c",
        "$a k{1,2} $b",
        "$a k $b  $b k $a",
        "$a: P  $b: P  $a.f = $b.f",
        '$b: P { name: "p1" }  $b k $a',
        "$a k $b  $b k $c  $c k $a",
    ],
)
@pytest.mark.parametrize("key", ["", "$a.h, "])
def test_sums_too_large_are_infinite(tmp_path, match, key):
    schema = "node P { name: String @key  f: F64?  h: F64? }  edge K: P -> P"
    names = [f"p{at}" for at in range(4)]
    with og.init(tmp_path / "large", schema) as graph:
        graph.load([{"type": "P", "data": {"name": name, "f": 1.7e308}} for name in names])
        graph.load([{"edge": "K", "from": one, "to": two} for one in names for two in names])
        for function in ("sum", "avg"):
            text = f"query q() {{ match {{ {match} }} return {{ {key}{function}($a.f) as x }} }}"
            assert graph.query(text).to_arrow().column("x").to_pylist() == [float("inf")]


def test_a_bad_parameter_is_refused_also_where_nothing_is_shown(graph):
    ranking = 'rrf(bm25($a.body, "run"), nearest($a.vec, [1, 0]), $k)'
    text = (
        f"query q($k: I32?) {{ match {{ $a: Doc }} return {{ $a }} order {{ {ranking} }} limit 0 }}"
    )
    with pytest.raises(BadRequest, match="positive k"):
        graph.query(text, params={"k": None})
    assert graph.query(text, params={"k": 1}).rows == []
