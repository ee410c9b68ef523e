"""The values that statements of a mutation assign, as columns store them; what does not fit is refused.

A row that is inserted without a key gets an id. An edge that a tuple identifies (``EdgeType.identity``) gets the
id made from it, as in loads, unless another edge has that id: then the tuples differ, or the rule about tuples
has something to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.clock import new_ulid
from omnigraph.errors import ConstraintError
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import EdgeType, Entity, NodeType
from omnigraph.storage.blob_policy import BlobPolicy
from omnigraph.types import ExternalBlob, Unfit, blob_from_text, derive_id, from_json
from omnigraph.validate.committed import KEY_LIMIT
from omnigraph.write.pending import ENDPOINT_COLUMNS, PendingTable


def stored_value(
    entity: Entity, assignment: ir.Assignment, params: Mapping[str, Any], blobs: BlobPolicy
) -> Any:
    """Return the value as its column stores it; refuse a parameter value that does not fit.

    Literals were checked with the query, so only values of parameters can fail here.
    """
    assert isinstance(assignment.value, ir.Value)
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


def new_id(table: PendingTable, values: Mapping[str, Any]) -> str:
    """The id of a row to be inserted; ``settle_ids`` looks at it again."""
    import pyarrow as pa

    edge = table.entity
    if not isinstance(edge, EdgeType) or edge.identity is None:
        return new_ulid()
    schema = edge.arrow_schema()
    (made,) = edge.tuple_ids(
        lambda name: pa.array([values.get(name)], schema.field(name).type)
    ).to_pylist()
    if made is None or made in table.made_ids:
        return new_ulid()
    table.made_ids[made] = None
    return str(made)


def settle_ids(table: PendingTable) -> None:
    """Give new ids to inserted edges whose id a committed edge has."""
    import pyarrow as pa

    taken = set(_committed_ids(table, table.made_ids))
    if taken:
        ids = [new_ulid() if one in taken else one for one in table.rows.column("id").to_pylist()]
        table.set_column("id", pa.array(ids, pa.utf8()))


def _committed_ids(table: PendingTable, ids: Iterable[str]) -> Iterable[str]:
    if not table.pin.row_count:
        return
    made = list(ids)
    for start in range(0, len(made), KEY_LIMIT):
        yield from table.committed_ids(made[start : start + KEY_LIMIT])
