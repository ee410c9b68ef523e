"""The values that statements of a mutation assign, as columns store them; what does not fit is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph.errors import ConstraintError
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import EdgeType, Entity, NodeType
from omnigraph.storage.blob_policy import BlobPolicy
from omnigraph.types import ExternalBlob, Unfit, blob_from_text, derive_id, from_json
from omnigraph.write.pending import ENDPOINT_COLUMNS


def stored_value(
    entity: Entity, assignment: ir.Assignment, params: Mapping[str, Any], blobs: BlobPolicy
) -> Any:
    """Return the value as its column stores it; refuse a parameter value that does not fit.

    Literals were checked with the query, so only values of parameters can fail here.
    """
    value = ir.value_of(assignment.value, params)
    is_endpoint = isinstance(entity, EdgeType) and assignment.property in ENDPOINT_COLUMNS
    prop = None if is_endpoint else entity.properties.get(assignment.property)
    if prop is None or value is None or isinstance(assignment.value, ir.Const):
        return _column_value(assignment.property, id_text(value) if is_endpoint else value, blobs)
    try:
        if prop.type.is_blob:
            value = blob_from_text(value) if isinstance(value, str) else value
        elif prop.type.element.is_numeric or prop.type.is_vector:
            value = from_json(prop.type.as_nullable(False), value)
    except Unfit as unfit:
        raise ConstraintError(
            f"property `{assignment.property}` is {prop.type.display}: {unfit}",
            property=assignment.property,
            violation="overflow",
        ) from None
    return _column_value(assignment.property, value, blobs)


def _column_value(name: str, value: Any, blobs: BlobPolicy) -> Any:
    """Return the value as its pending column holds it; refuse a blob from a place not allowed."""
    if isinstance(value, bytes):
        return {"data": value}
    if not isinstance(value, ExternalBlob):
        return value
    try:
        address = blobs.allowed_address(value.uri)
    except Unfit as unfit:
        raise ConstraintError(
            f"property `{name}`: {unfit}", property=name, violation="blob"
        ) from None
    return {"uri": address}


def require_values(entity: Entity, values: Mapping[str, Any]) -> None:
    """Refuse null for required properties, and edges without both ends."""
    for name, prop in entity.properties.items():
        if name in values and values[name] is None and not prop.type.nullable:
            raise null_error(entity, name)
    for end in ("src", "dst") if isinstance(entity, EdgeType) else ():
        if values.get(end) is None:
            name = "from" if end == "src" else "to"
            raise null_error(entity, name)


def key_id(entity: Entity, values: Mapping[str, Any]) -> str:
    """Return the id that the key of a node determines."""
    assert isinstance(entity, NodeType)
    assert entity.key is not None
    members = [(entity.properties[name].type, values[name]) for name in entity.key]
    try:
        return derive_id(members)
    except Unfit as unfit:
        raise ConstraintError(
            f"the key of {entity.name} cannot be made: {unfit}", violation="key"
        ) from None


def column_of(entity: Entity, name: str) -> str:
    """Return the column a statement means: `from` and `to` are the ends of an edge."""
    return ENDPOINT_COLUMNS.get(name, name) if isinstance(entity, EdgeType) else name


def id_text(value: Any) -> Any:
    """Return a node id as text; a parameter may give it as an integer."""
    return str(value) if isinstance(value, int) else value


def null_error(entity: Entity, name: str) -> ConstraintError:
    """Return the error for a required property without a value."""
    return ConstraintError(
        f"{entity.name}.{name} is required and cannot be null", property=name, violation="null"
    )
