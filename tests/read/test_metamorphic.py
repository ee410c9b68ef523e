"""Answers depend on the rows of a snapshot: not on how they got there, nor on how it is asked."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import omnigraph as og
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.changes import InlineStep, TableChange, Write
from omnigraph.commit.protocol import commit
from omnigraph.graph import Graph
from omnigraph.manifest.publisher import Intent
from omnigraph.read.thresholds import DEFAULTS, MatchThresholds, SearchThresholds, Thresholds
from omnigraph.read.view.view import Reader
from tests.opened import workspace_of
from tests.oracle.graph import Graph as PlainGraph
from tests.read.judging_helpers import answer_of, check, check_any_index, compiled, queries
from tests.read.search_queries import CATALOG, SCHEMA, some_text
from tests.read.search_queries import plain_graph as random_graph
from tests.sampling import runs_all
from tests.storage.table_places import compact
from tests.stored import fill, read_back

QUERIES = 25
LOOKED_UP = Thresholds(match=MatchThresholds(few_rows=0), search=SearchThresholds(unindexed_rows=0))

UPDATE = """
query change($r: String, $n: I32?, $b: String?, $v: Vector(2)?) {
  update Doc set { num: $n, body: $b, vec: $v } where ref = $r
}
query drop($r: String) { delete Doc where ref = $r }
"""


def plain_graph(rng: random.Random) -> PlainGraph:
    """A random graph that has documents."""
    while not (plain := random_graph(rng)).nodes["Doc"]:
        pass
    return plain


def parts_of(plain: PlainGraph, count: int) -> list[PlainGraph]:
    """The rows dealt out to several graphs, which together are this one."""
    return [
        PlainGraph(
            {name: dict(list(rows.items())[at::count]) for name, rows in plain.nodes.items()},
            {name: rows[at::count] for name, rows in plain.edges.items()},
        )
        for at in range(count)
    ]


def maintain_all(graph: Graph, branch: str = "main") -> None:
    """Compact every table that has rows, as a commit."""
    pins = graph.snapshot(branch=branch).tables.values()
    changes = tuple(
        TableChange(pin, (InlineStep("maintain", compact),)) for pin in pins if pin.row_count
    )
    intent = Intent(new_ulid(), "load", stamp_us())
    commit(
        workspace_of(graph),
        Write("optimize", workspace_of(graph).manifest.state(branch).pin, intent, changes),
    )


# -- ways to the same rows; each says on which branch they are then


def in_one_commit(graph: Graph, plain: PlainGraph, _rng: random.Random) -> str:
    fill(graph, plain)
    return "main"


def in_many_commits(graph: Graph, plain: PlainGraph, _rng: random.Random) -> str:
    for part in parts_of(plain, 6):
        fill(graph, part)
    return "main"


def indexed(graph: Graph, plain: PlainGraph, rng: random.Random) -> str:
    in_many_commits(graph, plain, rng)
    graph.ensure_indices()
    return "main"


def partly_indexed(graph: Graph, plain: PlainGraph, _rng: random.Random) -> str:
    first, *others = parts_of(plain, 3)
    fill(graph, first)
    graph.ensure_indices()
    for part in others:
        fill(graph, part)
    return "main"


def compacted(graph: Graph, plain: PlainGraph, rng: random.Random) -> str:
    in_many_commits(graph, plain, rng)
    maintain_all(graph)
    return "main"


def partly_indexed_and_compacted(graph: Graph, plain: PlainGraph, rng: random.Random) -> str:
    partly_indexed(graph, plain, rng)
    maintain_all(graph)
    return "main"


def updated(graph: Graph, plain: PlainGraph, rng: random.Random, branch: str = "main") -> str:
    """Documents that were others before, among some that are gone."""
    before = PlainGraph(
        {**plain.nodes, "Doc": {}}, {**plain.edges, "Cites": list(plain.edges["Cites"])}
    )
    for ref, values in plain.nodes["Doc"].items():
        before.nodes["Doc"][ref] = {**values, "num": 1, "body": some_text(rng), "vec": None}
    sample = next(iter(plain.nodes["Doc"].values()))
    for ref in ("gone1", "gone2"):
        before.nodes["Doc"][ref] = {**sample, "ref": ref, "body": "tower run"}
        before.edges["Cites"].append((f"to {ref}", ref, sample["ref"], _no_values("Cites")))
    fill(graph, before)
    graph.ensure_indices()
    if branch != "main":
        graph.branches.create(branch)
    for ref, values in plain.nodes["Doc"].items():
        given = {"r": ref, "n": values["num"], "b": values["body"], "v": values["vec"]}
        graph.mutate(UPDATE, "change", given, branch=branch)
    for ref in ("gone1", "gone2"):
        graph.mutate(UPDATE, "drop", {"r": ref}, branch=branch)
    return branch


def updated_on_a_branch(graph: Graph, plain: PlainGraph, rng: random.Random) -> str:
    return updated(graph, plain, rng, "work")


def on_a_lazy_branch(graph: Graph, plain: PlainGraph, _rng: random.Random) -> str:
    fill(graph, plain)
    graph.branches.create("work")
    graph.mutate(UPDATE, "drop", {"r": next(iter(plain.nodes["Doc"]))})
    return "work"


def on_a_branch_of_a_branch(graph: Graph, plain: PlainGraph, rng: random.Random) -> str:
    updated(graph, plain, rng, "work")
    graph.branches.create("more", "work")
    graph.mutate(UPDATE, "drop", {"r": next(iter(plain.nodes["Doc"]))}, branch="work")
    return "more"


def _no_values(edge_type: str) -> dict[str, Any]:
    return dict.fromkeys(CATALOG.edges[edge_type].properties)


WAYS: list[Callable[[Graph, PlainGraph, random.Random], str]] = [
    in_one_commit,
    in_many_commits,
    indexed,
    partly_indexed,
    compacted,
    partly_indexed_and_compacted,
    updated,
    updated_on_a_branch,
    on_a_lazy_branch,
    on_a_branch_of_a_branch,
]


@pytest.mark.parametrize("seed", range(2 if runs_all() else 1))
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_how_rows_got_there_changes_nothing(tmp_path, monkeypatch, way, seed):
    rng = random.Random(seed)
    plain = plain_graph(rng)
    # Too few rows would be read rather than looked up in an index.
    thresholds = LOOKED_UP if seed % 2 else DEFAULTS
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        branch = way(graph, plain, rng)
        assert sorted(read_back(graph, branch).nodes["Doc"]) == sorted(plain.nodes["Doc"])
        view = Reader(workspace_of(graph), thresholds).view(graph.snapshot(branch=branch), CATALOG)
        for query, plan, params in queries(rng, QUERIES):
            note = f"seed {seed}: {query.arranged(query.clauses)}"
            for mode in ("csr", "indexed"):
                monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
                check_any_index(view, plain, plan, params, note)


@pytest.mark.parametrize("seed", range(4 if runs_all() else 2))
def test_the_order_of_clauses_changes_nothing(tmp_path, seed):
    rng = random.Random(seed)
    plain = plain_graph(rng)
    shuffled = 0
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        fill(graph, plain)
        view = Reader(workspace_of(graph)).view(graph.snapshot(), CATALOG)
        for query, plan, params in queries(rng, 60):
            clauses = rng.sample(query.clauses, len(query.clauses))
            other = compiled(query.arranged(clauses))
            if other is None or clauses == query.clauses:
                continue
            shuffled += 1
            note = f"seed {seed}: {query.arranged(clauses)}"
            check(view, plain, other, params, note)
            if plan.limit is None or plan.order or plan.ranking:
                left, right = answer_of(view, plan, params), answer_of(view, other, params)
                assert left is right is None or Counter(left) == Counter(right), note
    assert shuffled


ASKED = [
    "query q() { match { $a: Doc } return { $a, $a.num, $a.body } order { $a.num } }",
    "query q() { match { $a cites $b } return { $a, count($b) as n } }",
    'query q() { match { $a: Doc  fuzzy($a.body, "runs", 1)  not { $a has $_ } } return { $a } }',
    "query q() { match { $a: Doc } return { $a } order { nearest($a.vec, [1, 0]) } limit 3 }",
]


@pytest.mark.parametrize("fresh", [False, True], ids=["one handle", "fresh handles"])
def test_the_past_stays_what_it_was(tmp_path, fresh):
    """Every commit of a history answers for ever what the head answered then."""
    rng = random.Random(7)
    plain = plain_graph(rng)
    then: list[tuple[dict[str, Any], list[Any]]] = []
    with og.init(tmp_path / "graph", SCHEMA) as graph:

        def remember() -> None:
            answers = [graph.query(text) for text in ASKED]
            version = graph.snapshot().manifest_version
            rows = [answer.rows for answer in answers]
            then.append(({"snapshot": answers[0].graph_commit_id}, rows))
            then.append(({"version": version}, rows))

        for at, part in enumerate(parts_of(plain, 4)):
            fill(graph, part)
            remember()
            if at == 1:
                graph.ensure_indices()
                remember()
        for ref in list(plain.nodes["Doc"])[:3]:
            graph.mutate(UPDATE, "change", {"r": ref, "n": 2, "b": "towers", "v": [1, 0]})
            remember()
            graph.mutate(UPDATE, "drop", {"r": ref})
            remember()
        maintain_all(graph)
        remember()
        for target, rows in rng.sample(then, len(then)):
            if fresh:
                with og.open(graph.uri) as other:
                    assert [other.query(text, **target).rows for text in ASKED] == rows
            else:
                assert [graph.query(text, **target).rows for text in ASKED] == rows
