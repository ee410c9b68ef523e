"""`graph.entity`: one node or edge at one state of the graph, found by its id."""

from __future__ import annotations

from typing import Any

from omnigraph.errors import BadRequest
from omnigraph.graph.reads import resolve, retry_if_remade
from omnigraph.graph.state import GraphState
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.manifest.snapshot import Target
from omnigraph.types import is_unicode


def find_entity(
    state: GraphState, kind: object, type_name: object, id: object, target: Target
) -> dict[str, Any] | None:
    """Return the image of an entity; None if there is no such type or no such id at the target."""
    if kind not in ("node", "edge"):
        raise BadRequest(f'the kind is {kind!r}; give "node" or "edge"')
    for name, value in (("type", type_name), ("id", id)):
        if not isinstance(value, str):
            raise BadRequest(f"the {name} of an entity is a text, not {value!r}")

    if not is_unicode(str(id)):
        return None  # such a text cannot be stored
    return retry_if_remade(target, lambda: _find(state, str(kind), str(type_name), str(id), target))


def _find(
    state: GraphState, kind: str, type_name: str, id: str, target: Target
) -> dict[str, Any] | None:
    import pyarrow as pa

    from omnigraph.changes.image_json import images
    from omnigraph.changes.table_side import TableSide

    snapshot, catalog = resolve(state, target)
    entity = _type(catalog, kind, type_name)
    if entity is None:
        return None
    side = TableSide(state.workspace, snapshot, entity)
    (image,) = images(side, side.aligned(pa.array([id], pa.utf8())))
    if image is None:
        return None
    named = {"kind": kind, "type": entity.name, "id": id}
    return {**named, **image, "graph_commit_id": snapshot.graph_commit_id}


def _type(catalog: Catalog, kind: str, name: str) -> Entity | None:
    return catalog.nodes.get(name) if kind == "node" else catalog.edge(name)
