"""Turn incoming rows into rows of their table: redirected ends, records left out, blobs, casts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.schema.catalog import EdgeType, Entity, NodeType
from omnigraph.pipeline.formats.reject_lines import end_names, reject_of_row
from omnigraph.pipeline.formats.typed_batch import GIVEN, given_masks, shown_value
from omnigraph.storage.tables.blobs.columns import as_blobs
from omnigraph.validate.change_set import MADE, ORDER

Spellings = Mapping[str, Mapping[str, str]]
"""By column: texts as the input has them, and the texts to write instead."""


def spellings_of(entity: Entity, aliases: Mapping[str, Mapping[str, str]]) -> Spellings:
    """The spellings that redirect the ends of an edge to the ids that their nodes really have."""
    if not isinstance(entity, EdgeType):
        return {}
    ends = (("src", entity.from_type), ("dst", entity.to_type))
    return {side: aliases[name] for side, name in ends if aliases.get(name)}


def respell(batch: pa.RecordBatch, spellings: Spellings) -> pa.RecordBatch:
    """Replace the texts of some columns."""
    for column, wanted in spellings.items():
        at = batch.schema.get_field_index(column)
        if at >= 0:
            values = [wanted.get(value, value) for value in batch.column(at).to_pylist()]
            batch = batch.set_column(at, batch.schema.field(at), pa.array(values, pa.utf8()))
    return batch


def stored_batch(entity: Entity, schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Turn incoming rows into rows as their table stores them."""
    blobs = set(entity.blob_properties)
    columns = [
        as_blobs(batch.column(field.name)) if field.name in blobs else batch.column(field.name)
        for field in schema
    ]
    stored = [
        column.cast(field.type) if column.type != field.type else column
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(stored, schema=schema)


def stored_rows(
    entity: Entity,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    losers: pa.Array | None = None,
) -> Iterator[pa.RecordBatch]:
    """Turn incoming rows into stored rows, leaving out ``losers``, which are named by their order."""
    return (stored_batch(entity, schema, batch) for batch in drop_losers(batches, losers))


def drop_losers(
    batches: Iterable[pa.RecordBatch], losers: pa.Array | None
) -> Iterator[pa.RecordBatch]:
    """Leave out the records whose order is in ``losers``."""
    for batch in batches:
        if losers is not None and len(losers):
            yield batch.filter(pc.invert(pc.is_in(batch.column(ORDER), losers)))
        else:
            yield batch


def shown_rows(
    entity: Entity, batches: Iterable[pa.RecordBatch], orders: pa.Array
) -> dict[int, str]:
    """What rejects say of the records with these orders.

    Only what the record gives, where that is known, and no id that it need not have. Blobs are there where
    the rows hold them.
    """
    found: dict[int, str] = {}
    for batch in batches:
        rows = batch.filter(pc.is_in(batch.column(ORDER), orders))
        for at, order in enumerate(rows.column(ORDER).to_pylist()):
            found[order] = reject_of_row(entity, _values_of(entity, rows.slice(at, 1)))
    return found


def _values_of(entity: Entity, row: pa.RecordBatch) -> dict[str, Any]:
    there = row.schema.names
    given = given_masks(entity, row.column(GIVEN)) if GIVEN in there else {}
    wanted = [name for name in there if name not in given or given[name][0]]
    values: dict[str, Any] = {}
    keyed = isinstance(entity, NodeType) and entity.key is not None and {*entity.key} <= {*wanted}
    if not keyed and not (MADE in there and row.column(MADE)[0].as_py()):
        values["id"] = row.column("id")[0].as_py()
    for side, name in end_names(entity).items():
        if side in wanted:
            values[name] = row.column(side)[0].as_py()
    for name, prop in entity.properties.items():
        if name in wanted:
            values[name] = shown_value(prop.type, row.column(name))
    return values
