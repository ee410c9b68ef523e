"""Chosen nodes, and the edges that have both of their ends among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from omnigraph.cancel import look
from omnigraph.changes.drawing.drawn import Document, Drawing
from omnigraph.changes.node_link import edges_among
from omnigraph.errors import BadRequest, ResourceLimit
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.read.values.periods import rows_holding

MOST_NODES: Final = 5_000
MOST_EDGES: Final = 20_000

Names = Sequence[tuple[str, str]]
"""Nodes by type and id, each once."""


@dataclass(frozen=True, slots=True)
class FoundNodes:
    """The nodes that a query found: the first of them, and how many there are as far as was counted."""

    nodes: Names
    total: int
    is_cut: bool


def node_names(given: object) -> Names:
    """Return the nodes that a caller names, each once: pairs of type and id, or dicts with both."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise BadRequest(f"nodes is {given!r}; give a list of (type, id)")
    names: dict[tuple[str, str], None] = {}
    for number, one in enumerate(given, 1):
        parts = (one.get("type"), one.get("id")) if isinstance(one, Mapping) else one
        if (
            not isinstance(parts, Sequence)
            or len(parts) != 2
            or not all(isinstance(part, str) for part in parts)
        ):
            raise BadRequest(f"{one!r} names no node; give (type, id), both texts")
        names[parts[0], parts[1]] = None
        if number > MOST_NODES:
            raise ResourceLimit(
                f"there are more than {MOST_NODES:,} nodes; ask for fewer at a time",
                resource="nodes",
                limit=MOST_NODES,
                actual=number,
            )
    return list(names)


def subgraph(
    drawing: Drawing,
    names: Names,
    edges: Sequence[EdgeType],
    limit: int,
    found: FoundNodes | None = None,
) -> Document:
    """Return the nodes and the first edges among them; ``found`` if a query named the nodes."""
    by_type: dict[str, list[str]] = {}
    for type_name, row_id in names:
        by_type.setdefault(type_name, []).append(row_id)
    drawn: dict[tuple[str, str], Document] = {}
    there: dict[str, pa.Array] = {}
    for type_name, ids in by_type.items():
        # A query has judged when its nodes hold, which its text may say.
        nodes = drawing.nodes(type_name, ids, ever=found is not None)
        drawn |= {(type_name, row_id): node for row_id, node in nodes.items()}
        there[type_name] = pa.array(list(nodes), pa.utf8())
    shown, is_cut = _edges(drawing, edges, there, limit)
    document: Document = {
        "nodes": [drawn[name] for name in names if name in drawn],
        "missing": [{"type": name[0], "id": name[1]} for name in names if name not in drawn],
        "edges": shown,
        "truncated": is_cut or (found is not None and found.is_cut),
    }
    if found is not None:
        document["total_nodes"] = found.total
    commit = drawing.snapshot.graph_commit_id
    return {**document, "graph_commit_id": commit, "as_of": drawing.as_of}


def _edges(
    drawing: Drawing, edges: Sequence[EdgeType], nodes: Mapping[str, pa.Array], limit: int
) -> tuple[list[Document], bool]:
    """Return the first edges among nodes, by type and id, and whether there are more."""
    shown: list[Document] = []
    for edge in edges:
        if not (len(nodes.get(edge.from_type, ())) and len(nodes.get(edge.to_type, ()))):
            continue
        look()
        side = drawing.side(edge)
        among = edges_among(side, nodes[edge.from_type], nodes[edge.to_type])
        rows = rows_holding(among, edge, drawing.moment).sort_by("id")
        left = limit - len(shown)
        shown += drawing.edges(edge, rows.slice(0, left))
        if rows.num_rows > left:
            return shown, True
    return shown, False
