"""A small graph as a node-link document: chosen nodes, and the stored edges among them.

Nodes are found by id, and edges by both of their ends, with indexes where there are any: the cost is
that of what is found, whatever the size of the tables. For example:

    {"directed": True, "multigraph": True, "graph": {"graph_commit_id": "01J…"},
     "nodes": [{"id": ("Person", "ada"), "type": "Person", "caption": "Ada", "properties": {…}}, …],
     "edges": [{"source": ("Person", "ada"), "target": ("Person", "bob"), "type": "Knows", "id": "01J…",
                "properties": {…}}]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import look
from omnigraph.changes.image_json import images
from omnigraph.changes.row_changes import Rows
from omnigraph.changes.table_side import TableSide
from omnigraph.lang.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.filters import Condition
from omnigraph.validate.committed import KEY_LIMIT

Type = TypeVar("Type", bound=NodeType | EdgeType)

_CAPTIONS = ("name", "title", "label")


def node_link(
    workspace: Workspace, snapshot: Snapshot, catalog: Catalog, nodes: Mapping[str, pa.Array]
) -> dict[str, Any]:
    """Return the nodes, given as ids by type, and the edges among them; without vectors and blobs."""
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
                nodes[edge.from_type],
                nodes[edge.to_type],
            )
        ],
    }


def plain(entity: Type) -> Type:
    """Return a type without its vectors and blobs, which a drawing does not show."""
    kept = {
        name: prop
        for name, prop in entity.properties.items()
        if not (prop.type.is_vector or prop.type.is_blob)
    }
    return replace(entity, properties=kept)


def _nodes(side: TableSide, ids: pa.Array) -> Iterator[dict[str, Any]]:
    name = side.entity.name
    for row_id, image in zip(ids.to_pylist(), images(side, side.aligned(ids)), strict=True):
        if image is not None:
            properties = image["properties"]
            texts = (properties.get(one) for one in _CAPTIONS)
            caption = next((text for text in texts if isinstance(text, str)), row_id)
            yield {"id": (name, row_id), "type": name, "caption": caption, "properties": properties}


def _edges(
    side: TableSide, edge: EdgeType, sources: pa.Array, targets: pa.Array
) -> Iterator[dict[str, Any]]:
    rows = _among(side, sources, targets).sort_by("id")
    present = pa.array([True] * rows.num_rows, pa.bool_())
    ids = rows.column("id").to_pylist()
    for row_id, image in zip(ids, images(side, Rows(present, rows)), strict=True):
        assert image is not None
        yield {
            "source": (edge.from_type, image["endpoints"]["from"]),
            "target": (edge.to_type, image["endpoints"]["to"]),
            "type": edge.name,
            "id": row_id,
            "properties": image["properties"],
        }


def _among(side: TableSide, sources: pa.Array, targets: pa.Array) -> pa.Table:
    """The edges with both ends among these."""
    ends = {"src": sources, "dst": targets}
    few = [
        Condition(column, "in", ids.to_pylist())
        for column, ids in ends.items()
        if len(ids) <= KEY_LIMIT
    ]
    found = [side.rows_where(few)] if few else side.as_stored()
    kept = [side.schema.empty_table()]
    for rows in found:
        look()
        for column, ids in ends.items():
            rows = rows.filter(pc.is_in(rows.column(column), value_set=ids))  # noqa: PLW2901
        kept.append(rows)
    return pa.concat_tables(kept)
