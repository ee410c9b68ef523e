"""`graph.neighbors`, `graph.subgraph` and the picture of a query: small parts of one state of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadRequest
from omnigraph.graph.reads import (
    PICTURE_NODES,
    PICTURE_ROWS,
    Moment,
    Name,
    Params,
    moment_at,
    picture,
    resolve,
    retry_if_remade,
)
from omnigraph.graph.state import GraphState
from omnigraph.graph.turns import TURNS
from omnigraph.lang.query.params import named_or_given
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.snapshot import Target

# Loaded by the first picture: it needs numpy and pyarrow.
if TYPE_CHECKING:
    from omnigraph.changes.drawing.drawn import Drawing
    from omnigraph.changes.drawing.subgraph import FoundNodes, Names


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownParts:
    """What is shown of a part of a graph: which edges, which properties by type, at most how many."""

    edges: object = None
    properties: object = None
    limit: object = None
    as_of: Moment | None = None
    """The moment that the caller names."""


def neighbors(
    state: GraphState,
    type_name: object,
    id: object,
    direction: object,
    after: object,
    shown: ShownParts,
    target: Target,
) -> dict[str, Any]:
    """Return a page of the edges of a node and the nodes at their other ends."""
    from omnigraph.changes.drawing import neighbors as made
    from omnigraph.changes.drawing.drawn import check_count, chosen_edges, node_type

    if not isinstance(id, str):
        raise BadRequest(f"the id of a node is a text, not {id!r}")
    asked = made.check_direction(direction)
    limit = check_count("limit", shown.limit, made.NEIGHBORS, made.MOST_NEIGHBORS)

    def find() -> dict[str, Any]:
        drawing = _drawing(state, target, shown)
        request = made.NeighborsQuestion(
            node_type(drawing.catalog, type_name),
            id,
            asked,
            chosen_edges(drawing.catalog, shown.edges),
            limit,
            after,
            former_ids=lambda: state.workspace.manifest.state(MAIN).head.former_ids,
        )
        return made.neighbors(drawing, request)

    return retry_if_remade(target, find)


def subgraph(
    state: GraphState,
    nodes: object,
    query: object,
    asked: tuple[Name, Params],
    shown: ShownParts,
    target: Target,
) -> dict[str, Any]:
    """Return nodes that are named, or found by a query, and the edges among them."""
    from omnigraph.changes.drawing import subgraph as made
    from omnigraph.changes.drawing.drawn import check_count, chosen_edges, node_type

    if (nodes is None) == (query is None):
        raise BadRequest("a subgraph is of nodes or of a query; give one of the two")
    if query is None and asked != (None, None):
        raise BadRequest("name and params belong to a query, and there is none; leave them out")
    limit = check_count("limit", shown.limit, made.MOST_EDGES, made.MOST_EDGES)
    given = None if nodes is None else made.node_names(nodes)

    def find() -> dict[str, Any]:
        drawing = _drawing(state, target, shown)
        edges = chosen_edges(drawing.catalog, shown.edges)
        found: FoundNodes | None = None
        names: Names
        if given is None:
            found = _found(state, drawing, query, asked)
            names = found.nodes
        else:
            for type_name, _ in given:
                node_type(drawing.catalog, type_name)
            names = given
        return made.subgraph(drawing, names, edges, limit, found)

    if given is not None:
        return retry_if_remade(target, find)
    with TURNS.reading():
        return retry_if_remade(target, find)


def _drawing(state: GraphState, target: Target, shown: ShownParts) -> Drawing:
    from omnigraph.changes.drawing.drawn import Drawing, chosen_properties

    snapshot, catalog = resolve(state, target)
    properties = chosen_properties(catalog, shown.properties)
    moment = moment_at(shown.as_of, target, snapshot)
    return Drawing(state.workspace, state.reader.view(snapshot, catalog), properties, moment)


def _found(
    state: GraphState, drawing: Drawing, query: object, asked: tuple[Name, Params]
) -> FoundNodes:
    """Return the first nodes of the picture of a query, and how many it has in the rows that are looked at."""
    from omnigraph.changes.drawing.subgraph import FoundNodes

    name, params = named_or_given(*asked)
    nodes, rows = picture(state, drawing.view, query, name, params, drawing.moment)
    is_cut = len(nodes) > PICTURE_NODES or rows > PICTURE_ROWS
    return FoundNodes(nodes[:PICTURE_NODES], len(nodes), is_cut)
