"""Incoming rows on their way to a table, wherever an engine keeps them.

They have an `id`, the ends of an edge, every property in the form of a typed batch, and the order
column. They are read more than once: for the rules, for writing, and perhaps again on a fork.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.pipeline.formats.typed_batch import OFFSET, SOURCE
from omnigraph.pipeline.progress import ProgressReport, Told
from omnigraph.pipeline.request import LoadMode, LoadRequest
from omnigraph.runner.protocol import Frame, Runner
from omnigraph.storage.tables.blobs import blob_array
from omnigraph.storage.tables.staging import Staged
from omnigraph.storage.tables.table import Table
from omnigraph.validate.change_set import ORDER
from omnigraph.write.ensure_indices import Builds

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.pipeline.rows.row_rules import RowRules

SOURCE_SHIFT = 48
"""A record's order is its source index above its byte offset, in one 64-bit number."""


class Incoming(Protocol):
    """The incoming rows of one table."""

    @property
    def entity(self) -> Entity:
        """The type they are of."""
        ...

    @property
    def rows(self) -> int:
        """How many there are, those that lose to a later record included."""
        ...

    @property
    def may_repeat(self) -> bool:
        """Whether an id may be that of another row, there or incoming; made ids never are."""
        ...

    @property
    def any_made(self) -> bool:
        """Whether an id was made for some row, because its record has none."""
        ...

    def stopper(self) -> Callable[[], object] | None:
        """What makes the ``stage`` that comes next give up in another thread.

        None where tables are staged one by one.
        """
        ...

    def frame(self, runner: Runner, columns: Sequence[str], *, as_read: bool = False) -> Frame:
        """Some columns of all rows; ``as_read``, with the ids that they had before any was taken."""
        ...

    def take_ids(self, runner: Runner, taken: Frame) -> bool:
        """Give the records of this frame, by their order, its ids, and all others those as read.

        All of them are to be written again, and it says whether any has another id than before.
        """
        ...

    def leave_out(self, runner: Runner, losers: Frame) -> int:
        """Write no record whose order is in this frame; says how many those are."""
        ...

    def stage(self, table: Table, mode: LoadMode, told: Told | None = None) -> Staged:
        """Write the rows for a table, in one transaction that is not committed.

        ``told`` hears of the rows that were written, while others are.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """All records of a load, read and judged: none of them is bad."""

    incoming: dict[str, Incoming]
    embeddings_pending: int = 0


class Engine(Protocol):
    """What runs the stages of one load. The rules of loading are not its business."""

    @property
    def name(self) -> str:
        """`local` or `spark`."""
        ...

    def runner(self) -> Runner:
        """A runner for the set rules of one attempt."""
        ...

    def read(
        self, request: LoadRequest, rules: RowRules, directory: Path, report: ProgressReport
    ) -> ReadRecords:
        """Stages 1 and 2; any bad record ends the load. ``directory`` is for files of the load."""
        ...

    def builds(self, rows: int) -> Builds:
        """How the indexes of a table of so many rows are built."""
        ...

    def close(self) -> None:
        """Free what the incoming rows hold."""
        ...


def record_order(batch: pa.RecordBatch) -> pa.Array:
    """One number per record: the greatest is the last record of the input."""
    import pyarrow as pa
    import pyarrow.compute as pc

    shifted = pc.shift_left(batch.column(SOURCE).cast(pa.int64()), SOURCE_SHIFT)
    return pc.bit_wise_or(shifted, batch.column(OFFSET))


def place_of(order: int) -> tuple[int, int]:
    """The source index and offset behind a record's order."""
    return order >> SOURCE_SHIFT, order & ((1 << SOURCE_SHIFT) - 1)


Spellings = Mapping[str, Mapping[str, str]]
"""By column: texts as the input has them, and what shall stand there instead."""


def spellings_of(entity: Entity, aliases: Mapping[str, Mapping[str, str]]) -> Spellings:
    """How the ends of an edge are to be led to the ids that their nodes really have."""
    if not isinstance(entity, EdgeType):
        return {}
    ends = (("src", entity.from_type), ("dst", entity.to_type))
    return {side: aliases[name] for side, name in ends if aliases.get(name)}


def respelled(batch: pa.RecordBatch, spellings: Spellings) -> pa.RecordBatch:
    """The batch with texts of some columns replaced."""
    import pyarrow as pa

    for column, wanted in spellings.items():
        at = batch.schema.get_field_index(column)
        if at >= 0:
            values = [wanted.get(value, value) for value in batch.column(at).to_pylist()]
            batch = batch.set_column(at, batch.schema.field(at), pa.array(values, pa.utf8()))
    return batch


def stored_batch(entity: Entity, schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows as their table stores them."""
    import pyarrow as pa

    blobs = set(entity.blob_properties)
    columns = [
        _blob(batch.column(field.name)) if field.name in blobs else batch.column(field.name)
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
    """Rows as their table stores them, leaving out the records named by their order."""
    return (stored_batch(entity, schema, batch) for batch in without(batches, losers))


def without(batches: Iterable[pa.RecordBatch], losers: pa.Array | None) -> Iterator[pa.RecordBatch]:
    """The rows, leaving out the records named by their order."""
    import pyarrow.compute as pc

    for batch in batches:
        if losers is not None and len(losers):
            yield batch.filter(pc.invert(pc.is_in(batch.column(ORDER), losers)))
        else:
            yield batch


def _blob(column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return blob_array(pc.struct_field(column, "data"), pc.struct_field(column, "uri"))
