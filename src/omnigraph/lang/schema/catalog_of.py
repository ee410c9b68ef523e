"""Builds the catalog of an accepted schema from its IR."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.lang.schema.catalog import (
    Catalog,
    EdgeType,
    InterfaceType,
    NodeType,
    Period,
    Property,
)
from omnigraph.lang.schema.defaults import default_value
from omnigraph.lang.schema.ir import Ir, TypeIr
from omnigraph.lang.schema.joins import Joins
from omnigraph.lang.schema.shape import Check, Group, Range, Valid
from omnigraph.lang.schema.syntax.ast import GroupKind


def catalog_of(ir: Ir) -> Catalog:
    """Build the catalog of an accepted schema."""
    joins = Joins(ir)
    return Catalog(
        {type_.name: _interface(type_, joins) for type_ in ir.interfaces},
        {type_.name: _node(type_, joins) for type_ in ir.nodes},
        {type_.name: _edge(type_, joins) for type_ in ir.edges},
    )


def _interface(type_: TypeIr, joins: Joins) -> InterfaceType:
    return InterfaceType(type_.name, type_.type_id, _properties(type_, joins))


def _node(type_: TypeIr, joins: Joins) -> NodeType:
    keys = _groups(type_, "key")
    constraints = type_.shape.constraints
    return NodeType(
        **_shared(type_, joins, keys),
        implements=type_.shape.implements,
        key=tuple(sorted(keys[0], key=type_.property_ids.__getitem__)) if keys else None,
        ranges=tuple(_by_property(each for each in constraints if isinstance(each, Range))),
        checks=tuple(_by_property(each for each in constraints if isinstance(each, Check))),
    )


def _edge(type_: TypeIr, joins: Joins) -> EdgeType:
    shape = type_.shape
    assert shape.endpoints is not None
    assert shape.cardinality is not None
    from_type, to_type = shape.endpoints
    return EdgeType(
        **_shared(type_, joins, ()),
        from_type=from_type,
        to_type=to_type,
        cardinality=shape.cardinality,
    )


def _shared(type_: TypeIr, joins: Joins, keys: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    declared = _groups(type_, "index")
    assert type_.table_incarnation_id is not None
    return {
        "name": type_.name,
        "type_id": type_.type_id,
        "table_incarnation_id": type_.table_incarnation_id,
        "joined_incarnations": joins.others(type_.table_incarnation_id),
        "properties": _properties(type_, joins),
        "unique": _groups(type_, "unique"),
        "index": tuple(sorted({*declared, *keys})),
        "declared_index": declared,
        "annotations": type_.shape.annotations,
        "period": _period(type_),
    }


def _properties(type_: TypeIr, joins: Joins) -> Mapping[str, Property]:
    return {
        prop.name: Property(
            prop.name,
            prop.type,
            type_.property_ids[prop.name],
            prop.annotations,
            prop.embed,
            default_value(prop.type, prop.annotations),
            joins.others(type_.property_ids[prop.name]),
        )
        for prop in type_.shape.properties
    }


def _period(type_: TypeIr) -> Period | None:
    for each in type_.shape.constraints:
        if isinstance(each, Valid):
            prop = type_.shape.property(each.until)
            assert prop is not None
            return Period(each.since, each.until, prop.type.scalar)
    return None


def _groups(type_: TypeIr, kind: GroupKind) -> tuple[tuple[str, ...], ...]:
    return tuple(
        sorted(
            each.properties
            for each in type_.shape.constraints
            if isinstance(each, Group) and each.kind == kind
        )
    )


def _by_property(constraints: Iterable[Any]) -> list[Any]:
    return sorted(constraints, key=lambda each: each.property)
