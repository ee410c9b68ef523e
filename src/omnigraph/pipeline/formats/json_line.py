"""Read JSON one line at a time: this decides what a record means and what is wrong with it.

Reading by columns (`json_columns`) is faster, and must accept only what this accepts, with equal values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from omnigraph.errors import shortened
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity, EntityType, Property
from omnigraph.pipeline.formats.casts import json_of_cell
from omnigraph.pipeline.formats.plain_rows import PlainRows
from omnigraph.pipeline.formats.reject_lines import is_reject, is_row, record_of
from omnigraph.pipeline.formats.typed_batch import (
    Cuts,
    UnreadableRecord,
    batch_schema,
    cut_values,
    given_column,
    may_be_cut,
    stored_column,
)
from omnigraph.spelling import did_you_mean
from omnigraph.types import TEXT, PropType, Unfit, from_json, is_unicode, key_text, shown

_NODE_KEYS = ("type", "data")
_EDGE_KEYS = ("edge", "from", "to", "data")


class Record(NamedTuple):
    """A record that fits its type: the ends of an edge, and stored values in the order of properties."""

    entity: Entity
    id: str | None
    endpoints: tuple[str | None, ...]
    values: list[Any]
    given: tuple[bool, ...] = ()
    """Of a patch: which ends and properties the record gives."""
    cut: tuple[str, ...] = ()
    """The properties with values finer than they are stored, once for each value."""


class JsonLine(NamedTuple):
    """The bytes of a line, and where it begins in its source."""

    offset: int
    data: bytes


class _UnfitProperty(Unfit):
    """Raised for a property that has no value, or one that does not fit."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.property = shortened(name) if is_unicode(name) else None


class _UnknownName(Unfit):
    """Raised for a type that the schema lacks, or a ``property`` that the type lacks."""

    def __init__(self, text: str, type_: str, property_: str | None = None) -> None:
        super().__init__(text)
        self.property = None
        if property_ is not None and is_unicode(property_):
            self.property = shortened(property_)
        element = type_ if property_ is None else f"{type_}.{property_}"
        self.element = element if is_unicode(element) else None


def is_record(line: bytes) -> bool:
    """Whether a line is neither blank nor a comment."""
    start = line.lstrip(b" \t\r\n")[:2]
    return start not in {b"", b"//"}


def read_lines(
    catalog: Catalog,
    source: int,
    lines: Iterable[JsonLine],
    cut: Cuts | None = None,
    *,
    patch: bool = False,
    plain: PlainRows | None = None,
) -> tuple[dict[str, pa.RecordBatch], list[UnreadableRecord]]:
    """Read some lines: one batch per table, and the lines that are no records."""
    tables: dict[str, tuple[Entity, list[Record], list[int]]] = {}
    bad: list[UnreadableRecord] = []
    for line in lines:
        if not is_record(line.data):
            continue
        try:
            record = read_record(catalog, line.data, patch=patch, plain=plain)
            if cut is not None:
                cut.update(record.cut)
        except Unfit as unfit:
            blamed = getattr(unfit, "property", None)
            unknown = unfit.element if isinstance(unfit, _UnknownName) else None
            bad.append(UnreadableRecord(source, line.offset, str(unfit), blamed, unknown=unknown))
            continue
        entity = record.entity
        _, records, offsets = tables.setdefault(entity.table_key, (entity, [], []))
        records.append(record)
        offsets.append(line.offset)
    batches = {
        key: _batch(entity, source, records, offsets, patch=patch)
        for key, (entity, records, offsets) in tables.items()
    }
    return batches, bad


def _batch(
    entity: Entity,
    source: int,
    records: Sequence[Record],
    offsets: Sequence[int],
    *,
    patch: bool,
) -> pa.RecordBatch:
    columns = [pa.array([record.id for record in records], pa.utf8())]
    for position in range(len(entity.implicit_columns) - 1):
        texts = [record.endpoints[position] for record in records]
        columns.append(pa.array(texts, pa.utf8()))
    for position, prop in enumerate(entity.properties.values()):
        values = [record.values[position] for record in records]
        columns.append(stored_column(prop.type, values))
    columns.append(pa.array([source] * len(records), pa.int32()))
    columns.append(pa.array(offsets, pa.int64()))
    if patch:
        masks = [np.array(mask, np.bool_) for mask in zip(*(r.given for r in records), strict=True)]
        columns.append(given_column(entity, masks, len(records)))
    return pa.RecordBatch.from_arrays(columns, schema=batch_schema(entity, patch=patch))


def read_record(
    catalog: Catalog, line: bytes, *, patch: bool = False, plain: PlainRows | None = None
) -> Record:
    """Read the record of a line; ``Unfit`` says the first thing that is wrong with it.

    That of a reject is read too, and with ``plain`` one that only gives values. The record of a ``patch`` may leave out what it does not change.
    """
    record = _decode(line)
    cells = False
    if isinstance(record, dict) and is_reject(record):
        record, cells = record_of(record), is_row(record)
        if isinstance(record, str) and not cells:
            record = _decode(record.encode(errors="surrogatepass"))
    if not isinstance(record, dict):
        raise Unfit(f"a record is a JSON object, got {shown(record)}")
    if plain is not None and not cells:
        record = plain.record(record)
    entity = _entity(catalog, record)
    is_edge = isinstance(entity, EdgeType)
    _check_keys(record, _EDGE_KEYS if is_edge else _NODE_KEYS)
    endpoints: tuple[str | None, ...] = ()
    if is_edge:
        whole = catalog.integer_ends(entity)
        endpoints = tuple(
            None if patch and end not in record else _endpoint(record, entity, end, whole.get(end))
            for end in ("from", "to")
        )
    data = record.get("data")
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise Unfit(f"the data of {entity.name} is a JSON object, got {shown(data)}")
    for name in data:
        if name not in entity.properties and name != "id":
            text = _unknown(f"{entity.name} has no property", name, entity.properties)
            raise _UnknownName(text, entity.table_key, name)
    id_ = data.get("id")
    if id_ is not None:
        id_ = _text(id_, f"the id of {entity.name}")
    if cells:
        data = _read_cells(entity, data)
    if not patch:
        return Record(entity, id_, endpoints, _values(entity, data), cut=_cut(entity, data))
    given = (*(end is not None for end in endpoints), *(name in data for name in entity.properties))
    values = _given_values(entity, data)
    return Record(entity, id_, endpoints, values, given, _cut(entity, data))


def _cut(entity: Entity, data: dict[str, Any]) -> tuple[str, ...]:
    found: list[str] = []
    for name, value in data.items():
        if name != "id" and may_be_cut(entity.properties[name].type):
            found += [f"{entity.name}.{name}"] * cut_values(value)
    return tuple(found)


def _decode(line: bytes) -> object:
    try:
        return _DECODER.decode(line.decode())
    except UnicodeDecodeError as error:
        raise Unfit(f"not UTF-8 text ({error.reason} at byte {error.start + 1})") from None
    except json.JSONDecodeError as error:
        raise Unfit(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise Unfit("not usable JSON: nested too deeply") from None
    except Unfit:
        raise
    except ValueError:
        # Python converts no digit strings of thousands of digits.
        raise Unfit("not usable JSON: a number has too many digits") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise Unfit(f"the key {shown(name)} stands twice in one object")
            seen.add(name)
    return members


def _constant(word: str) -> object:
    raise Unfit(f"not JSON: {word} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def _entity(catalog: Catalog, record: dict[str, Any]) -> Entity:
    if "type" in record and "edge" in record:
        raise Unfit('a record has "type" (a node) or "edge" (an edge), not both')
    if "type" in record:
        name = _name(record["type"], "type")
        node = catalog.nodes.get(name)
        if node is None:
            raise _UnknownName(
                _unknown("there is no node type", name, catalog.nodes), f"node:{name}"
            )
        return node
    if "edge" in record:
        name = _name(record["edge"], "edge")
        edge = catalog.edge(name)
        if edge is None:
            raise _UnknownName(
                _unknown("there is no edge type", name, catalog.edges), f"edge:{name}"
            )
        return edge
    raise Unfit(
        'a record needs "type" (a node) or "edge" (an edge); rows of one type are loaded with load_nodes '
        "and load_edges (--node, --edge)"
    )


def _name(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise Unfit(f'"{key}" is the name of a type, got {shown(value)}')
    return value


def _check_keys(record: dict[str, Any], allowed: Sequence[str]) -> None:
    for name in record:
        if name not in allowed:
            expected = ", ".join(f'"{key}"' for key in allowed)
            raise Unfit(f"a record of this kind has no key {shown(name)}, only {expected}")


def _endpoint(
    record: dict[str, Any], entity: EntityType, end: str, integer: PropType | None
) -> str:
    """The id at an end: a text, or a number where the key of that node type is ``integer``."""
    value = record.get(end)
    if value is None:
        raise Unfit(f'{entity.name} needs "{end}", the id of a node')
    what = f'"{end}" of {entity.name}'
    if integer is None or isinstance(value, str):
        return _text(value, what)
    return key_text(integer, _read(integer, value, what))


def _text(value: object, what: str) -> str:
    text: str = _read(TEXT, value, what)
    return text


def _read(t: PropType, value: object, what: str) -> Any:
    try:
        return from_json(t, value)
    except Unfit as unfit:
        raise Unfit(f"{what}: {unfit}") from None


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    hint = did_you_mean(name, known)
    return f"{what} {shown(name)}" + (f"; {hint}" if hint else "")


def _values(entity: Entity, data: dict[str, Any]) -> list[Any]:
    values: list[Any] = []
    for name, prop in entity.properties.items():
        given = data.get(name)
        if prop.default is not None and name not in data:
            values.append(prop.default)
            continue
        if given is None and not prop.type.nullable:
            if prop.embed is None or not _has_value(entity, data, prop.embed.source):
                raise _UnfitProperty(missing(entity, prop), name)
            values.append(None)
            continue
        values.append(_value(entity, prop, given))
    return values


def _has_value(entity: Entity, data: dict[str, Any], name: str) -> bool:
    left_out = entity.properties[name].default if name not in data else None
    return data.get(name, left_out) is not None


def _given_values(entity: Entity, data: dict[str, Any]) -> list[Any]:
    """The values of a patch; what is left out or null is None, of required properties too."""
    return [
        None if data.get(name) is None else _value(entity, prop, data[name])
        for name, prop in entity.properties.items()
    ]


def _read_cells(entity: Entity, data: dict[str, Any]) -> dict[str, Any]:
    """The values of a row as JSON has them: a cell may hold them as text."""
    found = dict(data)
    for name, value in data.items():
        prop = entity.properties.get(name)
        if isinstance(value, str) and prop is not None:
            try:
                found[name] = json_of_cell(prop.type, value)
            except Unfit as unfit:
                text = f"{entity.name}.{prop.name} ({prop.type}): {unfit}"
                raise _UnfitProperty(text, name) from None
    return found


def _value(entity: Entity, prop: Property, given: object) -> Any:
    try:
        return from_json(prop.type, given)
    except Unfit as unfit:
        text = f"{entity.name}.{prop.name} ({prop.type}): {unfit}"
        raise _UnfitProperty(text, prop.name) from None


def missing(entity: EntityType, prop: Property) -> str:
    """The message for a record without a value for a required property."""
    place = f"{entity.name}.{prop.name} ({prop.type})"
    if prop.default is not None:
        return f"{place}: a value is required, and null is none; what is left out gets the default"
    if prop.embed is None:
        return f"{place}: a value is required"
    return f"{place}: a value is required, or the text of {prop.embed.source} to make it from"
