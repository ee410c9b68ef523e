"""A small graph as a node-link document: chosen nodes, and the stored edges among them.

Nodes are found by id, and edges by both of their ends, with indexes where there are any: the cost is
that of what is found, whatever the size of the tables. For example:

    {"directed": True, "multigraph": True, "graph": {"graph_commit_id": "01J…"},
     "nodes": [{"id": ("Person", "ada"), "type": "Person", "caption": "Ada", "properties": {…}}, …],
     "edges": [{"source": ("Person", "ada"), "target": ("Person", "bob"), "type": "Knows", "id": "01J…",
                "properties": {…}}]}
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import look
from omnigraph.changes.drawing.drawn import caption_properties
from omnigraph.changes.entity_stream import EntityStream, stream_columns
from omnigraph.changes.images import images
from omnigraph.changes.row_pairs import AlignedRows
from omnigraph.changes.table_side import TableSide
from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.read.output.frames import library
from omnigraph.read.values.periods import Moment, rows_holding
from omnigraph.spelling import did_you_mean
from omnigraph.storage.filters import Condition
from omnigraph.types import column_to_json
from omnigraph.validate.committed import KEY_LIMIT

if TYPE_CHECKING:
    import networkx as nx


Type = TypeVar("Type", bound=NodeType | EdgeType)


def node_link(
    workspace: Workspace,
    snapshot: Snapshot,
    catalog: Catalog,
    nodes: Mapping[str, pa.Array],
    moment: Moment,
) -> dict[str, Any]:
    """Return the nodes, given as ids by type, and the edges among them that hold; without vectors and blobs."""
    edges = sorted(catalog.edges.values(), key=lambda edge: edge.name)
    return {
        "directed": True,
        "multigraph": True,
        "graph": {"graph_commit_id": snapshot.graph_commit_id},
        "nodes": [
            one
            for name, ids in nodes.items()
            for one in _nodes(TableSide(workspace, snapshot, plain(catalog.nodes[name])), ids)
        ],
        "edges": [
            one
            for edge in edges
            if edge.from_type in nodes and edge.to_type in nodes
            for one in _edges(
                TableSide(workspace, snapshot, plain(edge)),
                edge,
                (nodes[edge.from_type], nodes[edge.to_type]),
                moment,
            )
        ],
    }


def plain(entity: Type) -> Type:
    """Return a type without its vectors and blobs, which a drawing does not show."""
    chosen = {
        name: prop
        for name, prop in entity.properties.items()
        if not (prop.type.is_vector or prop.type.is_blob)
    }
    return replace(entity, properties=chosen)


def _nodes(side: TableSide, ids: pa.Array) -> Iterator[dict[str, Any]]:
    name = side.entity.name
    assert isinstance(side.entity, NodeType)
    captions = [prop.name for prop in caption_properties(side.entity)]
    for row_id, image in zip(ids.to_pylist(), images(side, side.aligned(ids)), strict=True):
        if image is not None:
            properties = image["properties"]
            texts = (properties[name] for name in captions)
            caption = next((text for text in texts if text is not None), row_id)
            yield {"id": (name, row_id), "type": name, "caption": caption, "properties": properties}


def _edges(
    side: TableSide, edge: EdgeType, ends: tuple[pa.Array, pa.Array], moment: Moment
) -> Iterator[dict[str, Any]]:
    rows = rows_holding(edges_among(side, *ends), edge, moment).sort_by("id")
    present = pa.array([True] * rows.num_rows, pa.bool_())
    ids = rows.column("id").to_pylist()
    for row_id, image in zip(ids, images(side, AlignedRows(present, rows)), strict=True):
        assert image is not None
        yield {
            "source": (edge.from_type, image["endpoints"]["from"]),
            "target": (edge.to_type, image["endpoints"]["to"]),
            "type": edge.name,
            "id": row_id,
            "properties": image["properties"],
        }


def edges_among(side: TableSide, sources: pa.Array, targets: pa.Array) -> pa.Table:
    """Return the edges with both ends among these, in no particular order."""
    ends = {"src": sources, "dst": targets}
    few = [
        Condition(column, "in", ids.to_pylist())
        for column, ids in ends.items()
        if len(ids) <= KEY_LIMIT
    ]
    found = [side.rows_where(few)] if few else side.as_stored()
    gathered = [side.schema.empty_table()]
    for rows in found:
        look()
        for column, ids in ends.items():
            rows = rows.filter(pc.is_in(rows.column(column), value_set=ids))  # noqa: PLW2901
        gathered.append(rows)
    return pa.concat_tables(gathered)


Attributes = dict[str, Any]


def networkx_graph(
    workspace: Workspace,
    snapshot: Snapshot,
    catalog: Catalog,
    types: Sequence[str] | None,
    moment: Moment,
) -> nx.MultiDiGraph[Any]:
    """Return the graph of all types, or of some, as far as it holds; an edge type brings the types of its ends.

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
                for (row_id,), found in _rows(workspace, snapshot, node, moment)
            )
        for edge in edges:
            graph.add_edges_from(
                ((edge.from_type, source), (edge.to_type, target), (edge.name, row_id), found)
                for (row_id, source, target), found in _rows(workspace, snapshot, edge, moment)
                if (edge.from_type, source) in graph and (edge.to_type, target) in graph
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
    workspace: Workspace, snapshot: Snapshot, entity: NodeType | EdgeType, moment: Moment
) -> Iterator[tuple[tuple[str, ...], Attributes]]:
    """Yield the id of every entity that holds, of an edge also its ends, and its attributes."""
    shown = plain(entity)
    first = len(shown.implicit_columns)
    # Under the names of the table, which no property may have.
    columns = stream_columns(shown, {name: name for name in shown.implicit_columns}, None)
    for stored in EntityStream(workspace, snapshot, shown, columns):
        batch = rows_holding(pa.Table.from_batches([stored]), shown, moment)
        ids = zip(*(batch.column(at).to_pylist() for at in range(first)), strict=True)
        values = [
            column_to_json(column.type, batch.column(at).combine_chunks())
            for at, column in enumerate(columns[first:], first)
        ]
        names = [column.name for column in columns[first:]]
        rows = zip(*values, strict=True) if values else ((),) * batch.num_rows
        for named, row in zip(ids, rows, strict=True):
            yield named, {k: v for k, v in zip(names, row, strict=True) if v is not None}
