"""`graph.nodes`, `graph.edges`, `graph.to_networkx`, and the graph of a query's answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadRequest
from omnigraph.graph.reads import resolve, retry_if_remade
from omnigraph.graph.state import GraphState
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.manifest.snapshot import Target
from omnigraph.spelling import did_you_mean

if TYPE_CHECKING:
    import networkx as nx

    from omnigraph.changes.frames.entity_stream import EntityStream


def node_stream(
    state: GraphState, type_name: object, columns: object, target: Target
) -> EntityStream:
    """Return all nodes of a type at a target, as a stream that is read later."""
    return _stream(state, "node", type_name, columns, ("from", "to"), target)


def edge_stream(
    state: GraphState,
    type_name: object,
    columns: object,
    ends: tuple[str, str],
    target: Target,
) -> EntityStream:
    """Return all edges of a type at a target; ``ends`` are the names of the columns of their ends."""
    return _stream(state, "edge", type_name, columns, ends, target)


def _stream(
    state: GraphState,
    kind: str,
    type_name: object,
    columns: object,
    ends: tuple[str, str],
    target: Target,
) -> EntityStream:
    from omnigraph.changes.frames.entity_stream import EntityStream, stream_columns
    from omnigraph.pipeline.datasource.option_values import Ends
    from omnigraph.pipeline.datasource.options import end_columns
    from omnigraph.pipeline.formats.frame_layout import check_ends

    check_ends(*ends, one_each=True)
    wanted = _check_columns(columns)
    snapshot, catalog = resolve(state, target)
    entity = _type(catalog, kind, type_name)
    chosen = stream_columns(entity, end_columns(entity, Ends(*ends)), wanted)
    return EntityStream(state.workspace, snapshot, entity, chosen)


def _type(catalog: Catalog, kind: str, name: object) -> Entity:
    if not isinstance(name, str):
        raise BadRequest(f"a type is named by a text, not by {name!r}")
    found: Entity | None = catalog.nodes.get(name) if kind == "node" else catalog.edge(name)
    if found is not None:
        return found
    known: Iterable[str] = catalog.nodes if kind == "node" else catalog.edges
    hint = did_you_mean(name, known)
    if hint is None:
        hint = f"its {kind} types are {', '.join(known)}" if known else f"it has no {kind} types"
    raise BadRequest(f"the graph has no {kind} type `{name}`; {hint}", type=name)


def _check_columns(columns: object) -> Sequence[str] | None:
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise BadRequest(f"columns is {columns!r}; give a list of names, or leave it out")
    return [str(name) for name in columns]


def networkx_graph(
    state: GraphState, types: Sequence[str] | None, target: Target
) -> nx.MultiDiGraph[Any]:
    """Return the nodes and edges of a target as a graph of networkx."""
    from omnigraph.changes.frames import networkx_graph as made

    return retry_if_remade(
        target, lambda: made.networkx_graph(state.workspace, *resolve(state, target), types)
    )
