"""`graph.to_networkx`: nodes and edges of a snapshot as a graph of networkx."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from omnigraph.changes.frames.entity_stream import EntityStream, stream_columns
from omnigraph.changes.frames.node_link import plain
from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.read.output.frames import library
from omnigraph.spelling import did_you_mean
from omnigraph.types import column_to_json

if TYPE_CHECKING:
    import networkx as nx

Attributes = dict[str, Any]


def networkx_graph(
    workspace: Workspace, snapshot: Snapshot, catalog: Catalog, types: Sequence[str] | None
) -> nx.MultiDiGraph[Any]:
    """Return the graph of all types, or of some; an edge type brings the types of its ends.

    A node is `(type, id)` and the key of an edge `(type, id)`, so that nothing clashes. Properties are
    attributes with their JSON values; those without a value, vectors and blobs are left out.
    """
    networkx = library("networkx", "to_networkx", "use nodes and edges")
    nodes, edges = _chosen(catalog, types)
    graph: nx.MultiDiGraph[Any] = networkx.MultiDiGraph(graph_commit_id=snapshot.graph_commit_id)
    with _without_collector():
        for node in nodes:
            graph.add_nodes_from(
                ((node.name, row_id), found)
                for (row_id,), found in _rows(workspace, snapshot, node)
            )
        for edge in edges:
            graph.add_edges_from(
                ((edge.from_type, source), (edge.to_type, target), (edge.name, row_id), found)
                for (row_id, source, target), found in _rows(workspace, snapshot, edge)
            )
    return graph


@contextmanager
def _without_collector() -> Iterator[None]:
    """No looking for cycles meanwhile: it would walk the millions of dicts made so far, again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _chosen(catalog: Catalog, types: Sequence[str] | None) -> tuple[list[NodeType], list[EdgeType]]:
    if types is None:
        return list(catalog.nodes.values()), list(catalog.edges.values())
    nodes: dict[str, NodeType] = {}
    edges: dict[str, EdgeType] = {}
    for name in types:
        node = catalog.nodes.get(name)
        edge = catalog.edge(name) if node is None else catalog.edges.get(name)
        if node is not None:
            nodes[name] = node
        if edge is not None:
            edges[edge.name] = edge
            nodes |= {end: catalog.nodes[end] for end in (edge.from_type, edge.to_type)}
        if node is None and edge is None:
            known = (*catalog.nodes, *catalog.edges)
            hint = did_you_mean(name, known) or f"its types are {', '.join(known)}"
            raise BadRequest(f"there is no type `{name}`; {hint}", type=name)
    return list(nodes.values()), list(edges.values())


def _rows(
    workspace: Workspace, snapshot: Snapshot, entity: NodeType | EdgeType
) -> Iterator[tuple[tuple[str, ...], Attributes]]:
    """Yield the id of every entity, of an edge also its ends, and its attributes."""
    shown = plain(entity)
    first = len(shown.implicit_columns)
    # Under the names of the table, which no property may have.
    columns = stream_columns(shown, {name: name for name in shown.implicit_columns}, None)
    for batch in EntityStream(workspace, snapshot, shown, columns):
        ids = zip(*(batch.column(at).to_pylist() for at in range(first)), strict=True)
        values = [
            column_to_json(column.type, batch.column(at))
            for at, column in enumerate(columns[first:], first)
        ]
        names = [column.name for column in columns[first:]]
        rows = zip(*values, strict=True) if values else ((),) * batch.num_rows
        for named, row in zip(ids, rows, strict=True):
            yield named, {k: v for k, v in zip(names, row, strict=True) if v is not None}
