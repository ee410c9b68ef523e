"""Types of past snapshots under the names they have today.

A type and its properties are what their ids say. At a past snapshot a type has the properties that
were declared there; where one still exists, it goes by its current name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from omnigraph.changes.change_filter import Kind
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity, NodeType

Type = TypeVar("Type", NodeType, EdgeType)

TypeId = tuple[Kind, int]
"""`node` or `edge`, and the incarnation of the table: one type for ever, whatever its name is."""


def types_of(catalog: Catalog) -> dict[TypeId, Entity]:
    """Return the types of a schema by their identity."""
    found: dict[TypeId, Entity] = {}
    for node in catalog.nodes.values():
        found["node", node.table_incarnation_id] = node
    for edge in catalog.edges.values():
        found["edge", edge.table_incarnation_id] = edge
    return found


def type_names(catalog: Catalog) -> list[str]:
    """Return which type has which name: the order of changes, and so a page of them, rests on it."""
    types = types_of(catalog).items()
    return sorted(f"{kind}:{number}:{one.name}" for (kind, number), one in types)


def property_ids(entity: Entity) -> frozenset[int]:
    """Return the ids of the declared properties."""
    return frozenset(prop.property_id for prop in entity.properties.values())


def under_current_names(then: Entity, now: Entity | None) -> Entity:
    """Return a type with the properties it had then, under the names it and they have now.

    A name that a dropped property had, and another one has now, cannot mean both: such a type keeps
    the names of then for all its properties.
    """
    if now is None or now is then:
        return then
    if isinstance(then, EdgeType):
        assert isinstance(now, EdgeType)
        return _renamed(then, now)
    assert isinstance(now, NodeType)
    return _renamed(then, now)


def _renamed(then: Type, now: Type) -> Type:
    current = {prop.property_id: name for name, prop in now.properties.items()}
    names = {name: current.get(prop.property_id, name) for name, prop in then.properties.items()}
    if len(set(names.values())) < len(names):
        return replace(then, name=now.name)
    return replace(
        then,
        name=now.name,
        properties={
            names[name]: replace(prop, name=names[name]) for name, prop in then.properties.items()
        },
    )


def all_names(type_id: TypeId, *types: dict[TypeId, Entity]) -> Iterator[str]:
    """Yield every name a type has in these schemas."""
    for one in types:
        if type_id in one:
            yield one[type_id].name
