"""A graph with branches, forks and an old commit, and what a user sees of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omnigraph.graph import Graph, init
from tests.commit.synthetic import drifted
from tests.maintenance.cleaning import SCHEMA, age, ages, all_content, fill
from tests.opened import workspace_of

BOTH = "query q($k: String) { insert Person { name: $k, age: 5 } insert Team { code: $k } }"
NAMED = "old"
"""The actor of the commit that operations on the past name."""


def build(place: Path) -> str:
    """Make the graph. `side` and `gone` have forks, `lazy` has none and is behind `main`."""
    uri = str(place)
    with init(uri, SCHEMA) as graph:
        fill(graph)
        graph.tags.create("kept")
        graph.mutate(BOTH, params={"k": "past"}, actor=NAMED)
        graph.branches.create("lazy")
        graph.branches.create("side")
        graph.branches.create("gone")
        for branch in ("side", "gone"):
            graph.mutate(BOTH, params={"k": branch}, branch=branch)
            age(graph, 7, branch, "bob")
        for n in (3, 4):
            age(graph, n)
    return uri


def old_commit(graph: Graph) -> str:
    (found,) = graph.commits.list(filter=f"actor={NAMED}")
    return found.graph_commit_id


def shown(graph: Graph) -> dict[str, Any]:
    """What a user sees of a graph: its branches with all their rows, and its tags with what they name."""
    tags = {tag.name: (tag.graph_commit_id, ages(graph, tag=tag.name)) for tag in graph.tags.list()}
    return {**all_content(graph), "tags": tags}


def check_sound(graph: Graph) -> None:
    """Nothing is pending or ahead of its pin on any branch."""
    for branch in graph.branches.list():
        assert drifted(graph, branch) == []
    assert workspace_of(graph).store.list("__recovery") == []
