"""Typed batches: what reading gives per table, beside the records that could not be read.

A typed batch has one column per property, in catalog order and Arrow storage types, and
besides:

* ``0id``: the id that the record gives, or null; ``rows.ids.derive_ids`` makes the stored id of it;
* ``src`` and ``dst`` of an edge, as given;
* ``0source`` and ``0offset``: the index of the source, and the byte offset of the record in it
  (of a row in columnar input: its 1-based number). "Last record" is the greatest of these pairs.

A Blob column is a struct as ``storage.tables.blobs.blob_columns`` describes it. The record of a file to take
in has its path as ``uri``, ``position`` 0 and no ``size`` yet: ``rows.blob_rules`` looks at the file.

Every required property has a value, with one exception: a required `@embed` vector whose source
text is there is left null for the embedder to fill. Enum membership, ranges and checks are rules
of validation and not looked at here.

The batches of a patch have one more column, ``0given``: which ends and properties a record gives, as
bits. There any value may be missing, because only the row that a patch makes must be whole.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.lang.schema.catalog import Entity, EntityType
from omnigraph.types import (
    BlobAddress,
    Family,
    FileBlob,
    PropType,
    blob_to_text,
    from_arrow,
    to_arrow,
    to_json,
)

# No property can have these names, because they begin with a digit.
ID = "0id"
SOURCE = "0source"
OFFSET = "0offset"
GIVEN = "0given"

SOURCE_SHIFT = 48
"""A record's order is its source index above its byte offset, in one 64-bit number."""
MAX_SOURCES = 1 << (63 - SOURCE_SHIFT)
"""With more sources, records would share an order, and with it an id that is made of it."""


Cuts = Counter[str]
"""How many values of a property were cut, by `Type.property`."""

_FINER = r"[.,][0-9]{3}[0-9]*[1-9]"
_FINER_TEXT = re.compile(_FINER, re.ASCII)


class TypedBatch(NamedTuple):
    """Rows of one table as they were read, before any rule looked at them."""

    table_key: str
    batch: pa.RecordBatch


class UnreadableRecord(NamedTuple):
    """A record that cannot be read: where it is, why, and which property is to blame, if one is.

    ``record`` has the values of a row by column, as JSON. The text of a line is in its source.
    """

    source: int
    offset: int
    reason: str
    property: str | None = None
    record: str | None = None
    unknown: str | None = None
    """The type or property that the schema lacks: `node:Ship`, `node:Ship.built`."""


class Parsed(NamedTuple):
    """The records of one block: at most one batch per table, rows in the order of the input.

    ``bad`` has the columns of ``bad_schema``; a record is either in a batch or there. ``cut`` says how many
    values of a property were given finer than they are stored, by `Type.property`.
    """

    batches: list[TypedBatch]
    bad: pa.RecordBatch
    cut: Mapping[str, int] = {}


ReadBlock = Callable[[], Parsed]
"""Reads one block that was fetched already; any thread may call it."""


def bad_schema() -> pa.Schema:
    """The columns of a batch of bad records."""
    texts = ((name, pa.utf8()) for name in UnreadableRecord._fields[2:])
    return pa.schema([("source", pa.int32()), ("offset", pa.int64()), *texts])


def bad_batch(records: Iterable[UnreadableRecord]) -> pa.RecordBatch:
    """Bad records as Arrow, in the order of the input."""
    rows = [record._asdict() for record in sorted(records, key=lambda one: one[:2])]
    if not rows:
        return _none_bad()
    return pa.RecordBatch.from_pylist(rows, schema=bad_schema())


@cache
def _none_bad() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=bad_schema())


def column_type(t: PropType) -> pa.DataType:
    """The Arrow type of a property's column in a typed batch."""
    if t.is_blob:
        return _blob_type()
    return t.arrow_type()


@cache
def _blob_type() -> pa.DataType:
    numbers = [("position", pa.uint64()), ("size", pa.uint64())]
    return pa.struct([("data", pa.large_binary()), ("uri", pa.utf8()), *numbers])


def batch_schema(entity: EntityType, *, patch: bool = False) -> pa.Schema:
    """The columns of a typed batch; all nullable, because rows are not validated yet."""
    fields = [(ID, pa.utf8()), *((name, pa.utf8()) for name in entity.implicit_columns[1:])]
    fields += [(name, column_type(prop.type)) for name, prop in entity.properties.items()]
    fields += [(SOURCE, pa.int32()), (OFFSET, pa.int64())]
    return pa.schema([*fields, (GIVEN, given_type(entity))] if patch else fields)


def givable_names(entity: EntityType) -> list[str]:
    """The columns that a record of a patch may leave out: the ends of an edge, and the properties."""
    return [*entity.implicit_columns[1:], *entity.properties]


def given_type(entity: EntityType) -> pa.DataType:
    """The type of the column ``0given``: a bit for each of ``givable_names``."""
    return pa.binary(max(1, -(-len(givable_names(entity)) // 8)))


def given_column(entity: EntityType, given: Sequence[NDArray[np.bool_]], rows: int) -> pa.Array:
    """The column ``0given`` of masks, one for each of ``givable_names``."""
    kind = given_type(entity)
    masks = np.zeros((rows, 8 * kind.byte_width), np.bool_)
    for place, mask in enumerate(given):
        masks[:, place] = mask
    bits = np.packbits(masks, axis=1)
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(bits)])


def given_masks(entity: EntityType, column: pa.Array) -> dict[str, NDArray[np.bool_]]:
    """For each of ``givable_names``, which rows give it."""
    width = column.type.byte_width
    data = np.frombuffer(column.buffers()[1], np.uint8)
    start = column.offset * width
    bits = data[start : start + len(column) * width].reshape(len(column), width)
    return {
        name: (bits[:, place // 8] & (128 >> place % 8)).astype(np.bool_)
        for place, name in enumerate(givable_names(entity))
    }


def no_rows(entity: Entity) -> Parsed:
    """A block with one empty batch."""
    none = pa.RecordBatch.from_pylist([], schema=batch_schema(entity))
    return Parsed([TypedBatch(entity.table_key, none)], bad_batch([]))


def stored_column(t: PropType, values: Sequence[Any]) -> pa.Array:
    """The column of a property made of stored values, as ``types.from_json`` gives them, or None."""
    if not t.is_blob:
        return to_arrow(t, values)
    return pa.array([_blob(value) for value in values], column_type(t))


def _blob(value: bytes | BlobAddress | FileBlob | None) -> dict[str, Any] | None:
    match value:
        case None:
            return None
        case BlobAddress():
            return {"uri": value.uri}
        case FileBlob():
            return {"uri": value.path, "position": 0}
    return {"data": value}


def bytes_column(data: pa.Array) -> pa.Array:
    """The Blob column of a typed batch made of bytes."""
    size = len(data)
    numbers = pa.nulls(size, pa.uint64())
    return pa.StructArray.from_arrays(
        [data, pa.nulls(size, pa.utf8()), numbers, numbers],
        names=["data", "uri", "position", "size"],
        mask=data.is_null(),
    )


def shown_value(t: PropType, column: pa.Array) -> Any:
    """The only value of a column as JSON; None also where a blob lies elsewhere than in the column."""
    if not t.is_blob:
        (value,) = from_arrow(t.as_nullable(), column)
        return None if value is None else to_json(t, value)
    blob = column[0].as_py() if pa.types.is_struct(column.type) else None
    if blob is None or not blob.keys() >= {"data", "uri", "position"}:
        return None
    if blob["data"] is not None:
        return blob_to_text(blob["data"])
    return blob["uri"] if blob["position"] is None else {"$file": blob["uri"]}


def required_names(entity: EntityType) -> list[str]:
    """The properties that every record must give a value for."""
    return [
        name
        for name, prop in entity.properties.items()
        if not prop.type.nullable and prop.embed is None
    ]


def required_embeds(entity: EntityType) -> dict[str, str]:
    """The required `@embed` vectors, each with the text property that may be given instead."""
    return {
        name: prop.embed.source
        for name, prop in entity.properties.items()
        if not prop.type.nullable and prop.embed is not None
    }


def record_order(batch: pa.RecordBatch) -> pa.Array:
    """One number per record: the greatest is the last record of the input."""
    shifted = pc.shift_left(batch.column(SOURCE).cast(pa.int64()), SOURCE_SHIFT)
    return pc.bit_wise_or(shifted, batch.column(OFFSET))


def order_of(source: int, offset: int) -> int:
    """The order of the record at a place."""
    return source << SOURCE_SHIFT | offset


def place_of(order: int) -> tuple[int, int]:
    """The source index and offset behind a record's order."""
    return order >> SOURCE_SHIFT, order & ((1 << SOURCE_SHIFT) - 1)


def may_be_cut(t: PropType) -> bool:
    """Whether values of a type can be given finer than they are stored."""
    return t.scalar.traits.family is Family.TEMPORAL and not t.scalar.counts_days


def cut_texts(t: PropType, array: pa.Array) -> int:
    """How many texts of a column, or of lists in it, say more than milliseconds."""
    if not may_be_cut(t):
        return 0
    texts = array.flatten() if t.is_list else array
    return pc.sum(pc.match_substring_regex(texts, _FINER)).as_py() or 0


def cut_values(value: Any) -> int:
    """How many texts in a value of JSON say more than milliseconds."""
    values: Iterable[Any] = value if isinstance(value, list) else (value,)
    return sum(isinstance(one, str) and _FINER_TEXT.search(one) is not None for one in values)
