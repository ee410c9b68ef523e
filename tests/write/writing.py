"""Mutations as short texts, and what they left behind."""

from __future__ import annotations

from typing import Any

from omnigraph.graph import Graph
from omnigraph.write.mutate import MutationResult
from tests.opened import workspace_of
from tests.stored import read_back


def run(
    graph: Graph, body: str, params: str = "", given: dict[str, Any] | None = None, **options: Any
) -> MutationResult:
    """Run one mutation of these statements; `params` declares parameters, `given` are their values."""
    return graph.mutate(f"query q({params}) {{ {body} }}", params=given, **options)


def counts(result: MutationResult) -> tuple[int, int]:
    return result.affected_nodes, result.affected_edges


def nodes(graph: Graph, type_name: str, branch: str = "main") -> dict[str, dict[str, Any]]:
    """Rows of a node type by id, without what is null."""
    found = read_back(graph, branch).nodes[type_name]
    return {
        row_id: {name: value for name, value in row.items() if value is not None}
        for row_id, row in found.items()
    }


def ends(graph: Graph, type_name: str, branch: str = "main") -> list[tuple[str, str]]:
    """Source and target of every edge of a type, sorted."""
    return sorted((src, dst) for _, src, dst, _ in read_back(graph, branch).edges[type_name])


def state(graph: Graph, branch: str = "main") -> tuple[Any, ...]:
    """All a refused write must leave as it was."""
    seen = graph.snapshot(branch=branch)
    return (
        seen.commit,
        dict(seen.tables),
        read_back(graph, branch),
        workspace_of(graph).store.list("__recovery"),
    )
