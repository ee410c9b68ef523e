"""Partial descriptions of types: what a case may say about a node, an edge or an interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from omnigraph.lang.schema.shape import Annotation
from tests.conformance.expectations import only_known, same_value


def describes(entity: Any, wanted: Mapping[str, Any], section: str) -> None:
    """Check every listed key of a description; a key this runner does not know fails."""
    known = DESCRIPTIONS[section]
    only_known(f"description of {entity.name}", wanted, known)
    for key, value in wanted.items():
        got = known[key](entity)
        if key in PER_ENTRY:
            got = {name: got.get(name, "not there") for name in value}
        arranged = _by_text if key in AS_SET else _as_is
        assert same_value(arranged(got), arranged(value)), f"{entity.name}.{key}: {got}"


def _by_text(groups: list[Any]) -> list[Any]:
    return sorted(groups, key=str)


def _as_is(value: Any) -> Any:
    return value


def _properties(entity: Any) -> dict[str, str]:
    return {name: prop.type.display for name, prop in entity.properties.items()}


def _arrow(entity: Any) -> dict[str, str]:
    return {column.name: _column_text(column) for column in entity.arrow_schema()}


def _column_text(column: pa.Field) -> str:
    return _arrow_text(column.type) + ("" if column.nullable else " not null")


def _arrow_text(kind: pa.DataType) -> str:
    """The spelling of the case files, which is not pyarrow's."""
    if pa.types.is_fixed_size_list(kind):
        return f"fixed_size_list<item: {_arrow_text(kind.value_type)}>[{kind.list_size}]"
    if pa.types.is_list(kind):
        return f"list<item: {_arrow_text(kind.value_type)}>"
    names = {"string": "utf8", "float": "float32", "double": "float64", "date32[day]": "date32"}
    return names.get(str(kind), str(kind))


def _groups(groups: Any) -> list[list[str]]:
    return [list(group) for group in groups]


def _annotations(annotations: tuple[Annotation, ...]) -> dict[str, Any]:
    return {
        each.name: {"value": each.value, **dict(each.keywords)} if each.keywords else each.value
        for each in annotations
    }


def _property_annotations(entity: Any) -> dict[str, Any]:
    return {name: _annotations(prop.annotations) for name, prop in entity.properties.items()}


def _embed(entity: Any) -> dict[str, Any]:
    return {
        name: {"source": prop.embed.source, "model": prop.embed.model}
        for name, prop in entity.properties.items()
        if prop.embed is not None
    }


def _ranges(entity: Any) -> list[dict[str, Any]]:
    return [{"property": r.property, "min": r.min, "max": r.max} for r in entity.ranges]


def _checks(entity: Any) -> list[dict[str, Any]]:
    return [{"property": c.property, "pattern": c.pattern} for c in entity.checks]


Reader = Callable[[Any], Any]

_TABLE: dict[str, Reader] = {
    "properties": _properties,
    "arrow": _arrow,
    "unique": lambda entity: _groups(entity.unique),
    "index": lambda entity: _groups(entity.index),
    "annotations": lambda entity: _annotations(entity.annotations),
    "property_annotations": _property_annotations,
    "embed": _embed,
    "blob_properties": lambda entity: list(entity.blob_properties),
}
DESCRIPTIONS: dict[str, dict[str, Reader]] = {
    "interfaces": {
        "properties": _properties,
        "property_annotations": _property_annotations,
        "embed": _embed,
    },
    "nodes": {
        **_TABLE,
        "key": lambda node: None if node.key is None else list(node.key),
        "implements": lambda node: list(node.implements),
        "ranges": _ranges,
        "checks": _checks,
    },
    "edges": {
        **_TABLE,
        "from": lambda edge: edge.from_type,
        "to": lambda edge: edge.to_type,
        "card": lambda edge: [edge.cardinality.min, edge.cardinality.max],
    },
}
# Of these maps only the listed entries are compared; every other value is compared whole.
PER_ENTRY = {"arrow", "property_annotations", "embed"}
# Lists whose order carries no meaning.
AS_SET = {"unique", "index", "ranges", "checks", "implements", "blob_properties"}
