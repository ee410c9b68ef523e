"""Turn incoming rows into rows of their table: redirected ends, records left out, blobs, casts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.storage.tables.blobs.columns import as_blobs
from omnigraph.types import PropType, from_arrow, to_json
from omnigraph.validate.change_set import ORDER

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
    """The values of the records with these orders, by column, as JSON; ends are called `from` and `to`.

    Blobs are not among them.
    """
    ends = {"src": "from", "dst": "to"}
    if not ends.keys() <= set(entity.implicit_columns) or entity.properties.keys() & ends.values():
        ends = {}
    found: dict[int, str] = {}
    for batch in batches:
        rows = batch.filter(pc.is_in(batch.column(ORDER), orders))
        for at, order in enumerate(rows.column(ORDER).to_pylist()):
            values = {
                ends.get(name, name): rows.column(name)[at].as_py()
                for name in entity.implicit_columns
            }
            values |= {
                name: _shown(prop.type, rows.column(name).slice(at, 1))
                for name, prop in entity.properties.items()
                if name in rows.schema.names and not prop.type.is_blob
            }
            found[order] = json.dumps(values)
    return found


def _shown(t: PropType, column: pa.Array) -> Any:
    (value,) = from_arrow(t.as_nullable(), column)
    return None if value is None else to_json(t, value)
