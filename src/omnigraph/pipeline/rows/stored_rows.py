"""Turn incoming rows into rows of their table: redirected ends, taken ids, records left out, blobs, casts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.schema.catalog import EdgeType, Entity, NodeType
from omnigraph.pipeline.formats.reject_lines import end_names, reject_of_row
from omnigraph.pipeline.formats.typed_batch import GIVEN, given_masks, shown_value
from omnigraph.runner.runner import Frame, Runner
from omnigraph.storage.tables.blobs.blob_columns import as_blobs
from omnigraph.validate.change_set import MADE, ORDER


@dataclass(frozen=True, slots=True)
class Spellings:
    """By end of an edge: ids of nodes as the input has them, and the ids to write instead.

    It is false where nothing is written otherwise. ``entity`` is the type of the edges.
    """

    entity: Entity | None = None
    ends: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.ends)


def spellings_of(entity: Entity, aliases: Mapping[str, Mapping[str, str]]) -> Spellings:
    """The spellings that redirect the ends of an edge to the ids that their nodes really have."""
    if not isinstance(entity, EdgeType):
        return Spellings()
    ends = (("src", entity.from_type), ("dst", entity.to_type))
    return Spellings(entity, {side: aliases[name] for side, name in ends if aliases.get(name)})


def respell(batch: pa.RecordBatch, spellings: Spellings) -> pa.RecordBatch:
    """Redirect the ends of edges, and make the ids anew that were made from them."""
    if not spellings:
        return batch
    for column, wanted in spellings.ends.items():
        values = [wanted.get(value, value) for value in batch.column(column).to_pylist()]
        batch = _with_column(batch, column, pa.array(values, pa.utf8()))
    edge = spellings.entity
    if isinstance(edge, EdgeType) and edge.identity is not None:
        again = pc.coalesce(edge.tuple_ids(batch.column), batch.column("id"))
        ids = pc.if_else(batch.column(MADE), again, batch.column("id"))
        batch = _with_column(batch, "id", ids)
    return batch


def _with_column(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, batch.schema.field(at), values)


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


class TakenIds:
    """Ids that records take, by their order. They lie in a mapped file and use no memory of their own."""

    def __init__(self, table: pa.Table) -> None:
        self._orders = table.column(ORDER).to_numpy()
        self._ids = table.column("id")

    @classmethod
    def of(cls, runner: Runner, taken: Frame, path: Path) -> TakenIds | None:
        """Write the frame to ``path``; None where no record takes an id."""
        schema = pa.schema({ORDER: pa.int64(), "id": pa.utf8()})
        with pa.ipc.new_file(str(path), schema) as file:
            for batch in runner.stream(taken, order_by=ORDER):
                file.write_batch(batch.select(schema.names).cast(schema))
        with pa.memory_map(str(path)) as mapped:
            table = pa.ipc.open_file(mapped).read_all()
        return cls(table) if table.num_rows else None

    def apply_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Replace the ids of rows that take one; the others keep theirs."""
        if not batch.num_rows:
            return batch
        orders = batch.column(ORDER).to_numpy()
        low, high = np.searchsorted(self._orders, [orders.min(), orders.max() + 1])
        if low == high:
            return batch
        near = self._orders[low:high]
        place = np.minimum(np.searchsorted(near, orders), len(near) - 1)
        found = pa.array(place, mask=near[place] != orders)
        taken = self._ids.slice(low, high - low).take(found).combine_chunks()
        at = batch.schema.get_field_index("id")
        ids = pc.coalesce(taken, batch.column(at))
        return batch.set_column(at, batch.schema.field(at), ids)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TakenIds)
            and len(self._orders) == len(other._orders)
            and bool((self._orders == other._orders).all())
            and self._ids.equals(other._ids)
        )

    __hash__ = None  # type: ignore[assignment]
