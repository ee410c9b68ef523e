"""The history of a graph: a branch is loaded, compared, merged, undone, and the past is read."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import omnigraph as og

SOCIAL = Path(__file__).parent / "social"
AGES = (
    "query ages() { match { $p: Person } return { $p.handle as who, $p.age as age } order { who } }"
)


def versions() -> Iterator[str]:
    """Work on a branch, look at what changed, merge it, and travel back in time."""
    with tempfile.TemporaryDirectory() as place, og.init(place, SOCIAL / "schema.pg") as graph:
        graph.load(SOCIAL / "people.jsonl", actor="demo")
        graph.tags.create("before")
        handles = [row["who"] for row in graph.query(AGES)]
        zoe = {"handle": "zoe", "name": "Zoe", "joined": "2026-01-01", "level": "guest"}
        changes = [
            {"type": "Person", "data": {"handle": handles[0], "age": 37}},
            {"type": "Person", "data": zoe},
            {"edge": "Knows", "from": "zoe", "to": handles[0]},
        ]
        graph.load(changes, mode="patch", branch="review", from_branch="main")
        yield "loaded into the branch `review`; its difference to `main`:"
        for change in graph.diff("main", "review"):
            yield f"  {change.op} {change.type} {change.id}{_values(change)}"
        correction = "query fix($who: String) { update Person set { age: 40 } where handle = $who }"
        graph.mutate(correction, {"who": handles[0]})
        plan = graph.branches.merge("review", dry_run=True)
        yield f"meanwhile `main` changed too; a dry run of the merge finds {len(plan.conflicts)} conflict:"
        yield from (f"  {conflict.kind}: {conflict.message}" for conflict in plan.conflicts)
        merged = graph.branches.merge("review", resolve="theirs", delete_branch=True, actor="demo")
        assert merged.commit is not None
        yield (
            f"merged with resolve=theirs: {merged.stats.inserts} inserted, {merged.stats.updates} "
            f"updated, {merged.stats.bytes_read:,} bytes read; the branch is deleted"
        )
        yield f"ages now:                 {_ages(graph)}"
        yield f"ages at the tag `before`: {_ages(graph, tag='before')}"
        undone = graph.commits.revert(merged.commit.graph_commit_id)
        yield f"the merge is undone by one more commit: {undone.outcome}, {_ages(graph)}"
        yield f"commits of main: {', '.join(commit.operation for commit in graph.commits.list())}"


def _values(change: og.Change) -> str:
    """The properties that an update changed."""
    if change.op != "update" or change.before is None or change.after is None:
        return ""
    pairs = zip(
        change.before["properties"].items(), change.after["properties"].values(), strict=True
    )
    changed = {name: [old, new] for (name, old), new in pairs if old != new}
    return f" {json.dumps(changed)}"


def _ages(graph: og.Graph, tag: str | None = None) -> str:
    return ", ".join(f"{row['who']} {row['age']}" for row in graph.query(AGES, tag=tag))
