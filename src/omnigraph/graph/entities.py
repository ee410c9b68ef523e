"""`graph.entity`, `graph.nodes`, `graph.edges` and `graph.to_networkx`: the entities of one state of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadRequest, EntityNotFound
from omnigraph.graph.reads import Moment, moment_at, resolve, retry_if_remade
from omnigraph.graph.state import GraphState
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity
from omnigraph.manifest.snapshot import Target
from omnigraph.spelling import did_you_mean, nearest_name
from omnigraph.types import is_unicode

# Loaded by the first look: it needs numpy and pyarrow.
if TYPE_CHECKING:
    import networkx as nx

    from omnigraph.changes.entity_stream import EntityStream
    from omnigraph.changes.row_pairs import AlignedRows
    from omnigraph.changes.table_side import TableSide
    from omnigraph.read.view.view import View


def find_entity(
    state: GraphState, kind: object, type_name: object, id: object, target: Target
) -> dict[str, Any] | None:
    """Return the image of an entity; None if there is no such type or no such id at the target."""
    _check(kind, type_name, id)

    def find() -> dict[str, Any] | None:
        from omnigraph.changes.images import images

        snapshot, catalog = resolve(state, target)
        entity = _type(catalog, str(kind), str(type_name))
        if entity is None:
            return None
        side, rows = _row(state, state.reader.view(snapshot, catalog), entity, str(id))
        (image,) = images(side, rows)
        if image is None:
            return None
        named = {"kind": kind, "type": entity.name, "id": id}
        return {**named, **image, "graph_commit_id": snapshot.graph_commit_id}

    return retry_if_remade(target, find) if is_unicode(str(id)) else None


def describe_entity(
    state: GraphState, kind: object, type_name: object, id: object, target: Target, *, full: bool
) -> dict[str, Any]:
    """Return an entity as explorers show it; refuse a type and an id that there is not.

    The ends of an edge have their types. Unless it is ``full``, a vector is shown by its dimension,
    ``{"$vector": 3}``, and a blob without its bytes, ``{"$blob": {"size": 5, "etag": "…"}}``.
    """
    _check(kind, type_name, id)

    def describe() -> dict[str, Any]:
        from omnigraph.changes.images import images

        snapshot, catalog = resolve(state, target)
        entity = _type(catalog, str(kind), str(type_name))
        if entity is None:
            raise _unknown_type(catalog, str(kind), str(type_name))
        named = {"kind": kind, "type": entity.name, "id": id}
        view = state.reader.view(snapshot, catalog)
        side, rows = _row(state, view, entity, str(id) if is_unicode(str(id)) else "")
        (image,) = images(side, rows, properties=full)
        if image is None or not is_unicode(str(id)):
            raise EntityNotFound(
                f"there is no {kind} of type {entity.name} with the id `{id}`; check the id and the "
                "branch",
                entity=named,
            )
        shown = image["properties"] if full else _brief(side, rows, str(id))
        document = {**named, "properties": shown}
        if isinstance(entity, EdgeType):
            types = {"from": entity.from_type, "to": entity.to_type}
            document["endpoints"] = {
                end: {"type": types[end], "id": name} for end, name in image["endpoints"].items()
            }
        return {**document, "graph_commit_id": snapshot.graph_commit_id}

    return retry_if_remade(target, describe)


def _check(kind: object, type_name: object, id: object) -> None:
    if kind not in ("node", "edge"):
        raise BadRequest(f'the kind is {kind!r}; give "node" or "edge"')
    for name, value in (("type", type_name), ("id", id)):
        if not isinstance(value, str):
            raise BadRequest(f"the {name} of an entity is a text, not {value!r}")


def checked_type(catalog: Catalog, kind: object, type_name: object, id: object) -> Entity:
    """Return the type of an entity that a caller named; refuse a type that there is not."""
    _check(kind, type_name, id)
    entity = _type(catalog, str(kind), str(type_name))
    if entity is None:
        raise _unknown_type(catalog, str(kind), str(type_name))
    return entity


def _type(catalog: Catalog, kind: str, name: str) -> Entity | None:
    return catalog.nodes.get(name) if kind == "node" else catalog.edge(name)


def _unknown_type(catalog: Catalog, kind: str, name: str) -> BadRequest:
    known = list(catalog.nodes if kind == "node" else catalog.edges)
    close = nearest_name(name, known)
    hint = f"did you mean {close}?" if close else f"there are {', '.join(known) or 'none'}"
    return BadRequest(f"there is no {kind} type `{name}`; {hint}", type=name)


def _row(state: GraphState, view: View, entity: Entity, id: str) -> tuple[TableSide, AlignedRows]:
    """Return the row of an id, found through the index of a table that may be open already."""
    import pyarrow as pa

    from omnigraph.changes.stats import Meter
    from omnigraph.changes.table_side import TableSide

    side = TableSide(
        state.workspace, view.snapshot, entity, Meter(None), pin=lambda: view.table(entity)
    )
    return side, side.aligned(pa.array([id], pa.utf8()))


def _brief(side: TableSide, rows: AlignedRows, id: str) -> dict[str, Any]:
    """Return the properties of one row without what may be large."""
    from omnigraph.types import column_to_json

    shown: dict[str, Any] = {}
    for name, prop in side.entity.properties.items():
        column = rows.table.column(name)
        if not column[0].is_valid:
            shown[name] = None
        elif prop.type.is_blob:
            shown[name] = {"$blob": _blob_facts(side, name, id)}
        elif prop.type.is_vector:
            shown[name] = {"$vector": prop.type.dim}
        else:
            (shown[name],) = column_to_json(prop.type, column)
    return shown


def _blob_facts(side: TableSide, name: str, id: str) -> dict[str, Any]:
    from omnigraph.storage.tables.blobs.reading import find_blob

    column = side.pinned.column_of(name)
    with side.reading():
        blob = None if column is None else find_blob(side.table, column, id)
    if blob is None or blob.facts is None:
        return {}
    facts = {
        "size": blob.facts.size,
        "etag": blob.facts.etag,
        "uri": blob.facts.external_uri,
    }
    return {key: value for key, value in facts.items() if value is not None}


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
    from omnigraph.changes.entity_stream import EntityStream, stream_columns
    from omnigraph.pipeline.datasource.option_values import EndOptions
    from omnigraph.pipeline.datasource.options import end_columns
    from omnigraph.pipeline.formats.frame_layout import check_ends

    check_ends(*ends, one_each=True)
    wanted = _check_columns(columns)
    snapshot, catalog = resolve(state, target)
    entity = _entity_type(catalog, kind, type_name)
    chosen = stream_columns(entity, end_columns(entity, EndOptions(*ends)), wanted)
    return EntityStream(state.workspace, snapshot, entity, chosen)


def _entity_type(catalog: Catalog, kind: str, name: object) -> Entity:
    if not isinstance(name, str):
        raise BadRequest(f"a type is named by a text, not by {name!r}")
    entity: Entity | None = catalog.nodes.get(name) if kind == "node" else catalog.edge(name)
    if entity is not None:
        return entity
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
    state: GraphState, types: Sequence[str] | None, target: Target, as_of: Moment | None
) -> nx.MultiDiGraph[Any]:
    """Return the nodes and edges of a target that hold as a graph of networkx."""
    from omnigraph.changes import node_link as made

    def find() -> nx.MultiDiGraph[Any]:
        snapshot, catalog = resolve(state, target)
        moment = moment_at(as_of, target, snapshot)
        return made.networkx_graph(state.workspace, snapshot, catalog, types, moment)

    return retry_if_remade(target, find)
