"""The neighbors of a node: its edges a page at a time, the nodes at their other ends, and counts.

Edges are in the order of (edge type, out before in, edge id). They are found by the indexes of their
ends, so the cost is that of the edges of one node, whatever the size of the tables; the properties of
edges and nodes are read for the page alone. An edge from a node to itself is told once, as going out,
unless only those that come in are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import look
from omnigraph.changes.cursors import (
    ChangePlace,
    NeighborsToken,
    filter_digest,
    read_token,
    write_token,
)
from omnigraph.changes.drawing.drawn import Document, Drawing
from omnigraph.changes.table_side import TableSide
from omnigraph.errors import BadRequest, CursorRejected, EntityNotFound
from omnigraph.lang.schema.catalog import EdgeType, NodeType
from omnigraph.read.values.periods import rows_holding
from omnigraph.storage.filters import Condition, filter_expression

Asked = Literal["out", "in", "both"]

NEIGHBORS: Final = 100
MOST_NEIGHBORS: Final = 1_000


@dataclass(frozen=True, slots=True)
class NeighborsQuestion:
    """A node, which of its edges are followed, and where the page before ended."""

    node: NodeType
    id: str
    direction: Asked
    edges: Sequence[EdgeType]
    limit: int
    after: object = None
    former_ids: Callable[[], Sequence[str]] = tuple
    """The ids of the graphs that this one is a copy of."""


@dataclass(frozen=True, slots=True)
class _Way:
    """One edge type, followed in one direction."""

    edge: EdgeType
    direction: str
    conditions: tuple[Condition, ...]

    @property
    def other_type(self) -> str:
        return self.edge.to_type if self.direction == "out" else self.edge.from_type

    @property
    def other_end(self) -> str:
        return "dst" if self.direction == "out" else "src"


def check_direction(given: object) -> Asked:
    """Return the direction in which edges are followed."""
    if given not in get_args(Asked):
        raise BadRequest(f'direction is {given!r}; give "out", "in" or "both"')
    return given  # type: ignore[return-value]


def neighbors(drawing: Drawing, request: NeighborsQuestion) -> Document:
    """Return a page of the edges of a node, with the nodes at their other ends."""
    place = _place(drawing, request)
    center = drawing.nodes(request.node.name, [request.id]).get(request.id)
    if center is None:
        raise EntityNotFound(
            f"there is no node of type {request.node.name} with the id `{request.id}`{_then(drawing, request)}",
            entity={"kind": "node", "type": request.node.name, "id": request.id},
        )
    page = _Page(drawing, request, place)
    page.read()
    document: Document = {
        "center": center,
        "nodes": page.nodes(),
        "edges": page.edges,
        "counts": page.counts,
    }
    if page.last is not None:
        document["next"] = write_token(
            drawing.snapshot.graph_id,
            NeighborsToken(drawing.snapshot.graph_commit_id, _digest(drawing, request), page.last),
        )
    commit = drawing.snapshot.graph_commit_id
    return {**document, "graph_commit_id": commit, "as_of": drawing.as_of}


def _then(drawing: Drawing, request: NeighborsQuestion) -> str:
    """Return how the error goes on that says a node does not exist, or not at that moment: what to check."""
    if drawing.is_timed(request.node):
        return f' that holds at {drawing.as_of}; check the id, the branch and as_of, which may be "ever"'
    return "; check the id and the branch"


def _place(drawing: Drawing, request: NeighborsQuestion) -> ChangePlace | None:
    """Return the place after which the page begins; refuse a token that was made for another request."""
    if request.after is None:
        return None
    graph_id = drawing.snapshot.graph_id
    token = read_token(graph_id, request.after, NeighborsToken, request.former_ids())
    if token.graph_commit_id != drawing.snapshot.graph_commit_id:
        raise CursorRejected(
            "it was made at another commit, for example before the branch moved on; name the commit "
            "itself (snapshot), or begin anew"
        )
    if token.request != _digest(drawing, request):
        raise CursorRejected("it was made for another request; change nothing but the limit")
    return token.place


def _digest(drawing: Drawing, request: NeighborsQuestion) -> str:
    """Return a digest of all of a request but the size of its pages: a token is good for that request only."""
    edges = [edge.name for edge in request.edges]
    shown = {name: list(names) for name, names in drawing.properties.items()}
    return filter_digest([request.node.name, request.id, request.direction, edges, shown])


class _Page:
    """The edges of one page, found way by way."""

    def __init__(
        self, drawing: Drawing, request: NeighborsQuestion, place: ChangePlace | None
    ) -> None:
        self._drawing = drawing
        self._request = request
        self._place = place
        self._left = request.limit
        self.counts: list[Document] = []
        self.edges: list[Document] = []
        self._others: dict[str, dict[str, None]] = {}
        self.last: ChangePlace | None = None
        """Where the page ends, if there are more edges."""

    def read(self) -> None:
        """Find the edges of the page, and count all of them."""
        is_before = self._place is not None
        ended: ChangePlace | None = None
        for way in _ways(self._request):
            look()
            side = self._drawing.side(way.edge)
            at_place = self._place is not None and _is_way(way, self._place)
            is_before = is_before and not at_place
            if is_before or self._left == 0:
                total = self._count(side, way)
                if total and not is_before:
                    self.last = self.last or ended
            else:
                ids = self._ids(side, way)
                total = len(ids)
                waiting = _behind(ids, self._place) if at_place and self._place else ids
                taken = waiting[: self._left]
                if taken:
                    self._take(side, way, taken)
                    ended = ChangePlace.of(way.direction, way.edge.name, taken[-1])
                if len(waiting) > len(taken):
                    self.last = ended
            self.counts.append({"edge": way.edge.name, "direction": way.direction, "total": total})

    def _is_timed(self, way: _Way) -> bool:
        """Whether some of the edges, or of the nodes at their other ends, may not hold."""
        drawing = self._drawing
        other = drawing.catalog.nodes[way.other_type]
        return drawing.is_timed(way.edge) or drawing.is_timed(other)

    def _count(self, side: TableSide, way: _Way) -> int:
        return len(self._ids(side, way)) if self._is_timed(way) else _count(side, way)

    def _ids(self, side: TableSide, way: _Way) -> list[str]:
        """Return the ids of all edges of a way that hold between nodes that do, sorted."""
        if not self._is_timed(way) or side.row_count == 0:
            return _ids(side, way)
        drawing = self._drawing
        rows = rows_holding(side.rows_where(list(way.conditions)), way.edge, drawing.moment)
        others = rows.column(way.other_end).combine_chunks()
        held = drawing.holding(way.other_type, others.unique())
        rows = rows.filter(pc.is_in(others, value_set=held))
        return sorted(rows.column("id").to_pylist())

    def _take(self, side: TableSide, way: _Way, ids: list[str]) -> None:
        wanted = pa.array(ids, pa.utf8())
        rows = side.rows_of(wanted)
        rows = rows.take(pc.index_in(wanted, value_set=rows.column("id").combine_chunks()))
        self.edges += self._drawing.edges(way.edge, rows)
        self._left -= len(ids)
        others = self._others.setdefault(way.other_type, {})
        others |= dict.fromkeys(rows.column(way.other_end).to_pylist())

    def nodes(self) -> list[Document]:
        """Return the nodes at the other ends, without the one in the middle."""
        found: dict[tuple[str, str], Document] = {}
        for type_name, ids in self._others.items():
            drawn = self._drawing.nodes(type_name, ids)
            found |= {(type_name, row_id): node for row_id, node in drawn.items()}
        found.pop((self._request.node.name, self._request.id), None)
        ends = (edge[end] for edge in self.edges for end in ("from", "to"))
        order = dict.fromkeys((end["type"], end["id"]) for end in ends)
        return [found[name] for name in order if name in found]


def _ways(request: NeighborsQuestion) -> Iterator[_Way]:
    """Yield the edge types that can touch the node, each in the directions that were asked for."""
    for edge in request.edges:
        leaves = edge.from_type == request.node.name and request.direction != "in"
        if leaves:
            yield _Way(edge, "out", (Condition("src", "=", request.id),))
        if edge.to_type == request.node.name and request.direction != "out":
            conditions = [Condition("dst", "=", request.id)]
            if leaves:
                conditions.append(Condition("src", "!=", request.id))
            yield _Way(edge, "in", tuple(conditions))


def _is_way(way: _Way, place: ChangePlace) -> bool:
    return (way.direction, way.edge.name) == (place.kind, place.type)


def _count(side: TableSide, way: _Way) -> int:
    if side.row_count == 0:
        return 0
    with side.reading():
        return side.table.count_rows(filter_expression(side.table.schema, way.conditions))


def _ids(side: TableSide, way: _Way) -> list[str]:
    """Return the ids of all edges of a way, sorted."""
    if side.row_count == 0:
        return []
    with side.reading():
        where = filter_expression(side.table.schema, way.conditions)
        found: list[Any] = side.table.read(["id"], where).column("id").to_pylist()
    return sorted(found)


def _behind(ids: list[str], place: ChangePlace) -> list[str]:
    """Return the ids after a place; of a long id the place has only the beginning."""
    if place.digest is None:
        return [one for one in ids if one > place.id]
    at = next((n for n, one in enumerate(ids) if place.is_at(place.kind, place.type, one)), None)
    if at is None:
        raise CursorRejected("the edge where the page before ended is not there; begin anew")
    return ids[at + 1 :]
