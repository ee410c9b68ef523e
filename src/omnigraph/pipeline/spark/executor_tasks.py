"""The functions that a load runs on Spark's executors.

`read_task` and `read_spark_frame` turn input into payload rows, `narrow_rows` unpacks what set rules
look at, `write_payloads` and `merge_payloads` write fragments, `drop_matched` deletes replaced rows.
Every one of them gives the same result however often Spark runs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.formats.frame_layout import Layout
from omnigraph.pipeline.read_tasks import ReadTask
from omnigraph.pipeline.rows.patched_rows import complete_part, divide
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.rows.stored_rows import (
    Spellings,
    respell,
    shown_rows,
    stored_batch,
    stored_rows,
)
from omnigraph.pipeline.sources.sources import Source
from omnigraph.pipeline.spark.frame_part import FramePart
from omnigraph.pipeline.spark.payloads import (
    BAD,
    ROWS,
    arrow_row,
    batch_of,
    ipc_bytes,
    joined,
    packed,
    payloads_of,
    values_of,
    whole_batches,
)
from omnigraph.pipeline.spark.tally import count
from omnigraph.runner.spark_columns import portable
from omnigraph.runner.spark_tasks import Batches, executor_task
from omnigraph.storage.tables.staging import (
    MAX_BYTES_PER_FILE,
    MAX_ROWS_PER_FILE,
    drop_rows,
    fragment_text,
    write_fragments,
)
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate.change_set import ORDER

if TYPE_CHECKING:
    from pyspark import Accumulator

TASK = "0task"
VALUES = "rec bigint, shown string"
"""The values of records, by column, as JSON."""

MATCH, DATA = 0, 1
"""The two kinds of rows that ``merge_payloads`` gets: what to do with records, and the records."""


Counter: TypeAlias = "Accumulator[int] | None"
"""The counter that a task adds its processed records to; None if no progress is reported."""


def counted_records(payloads: Batches, counter: Counter) -> Batches:
    """Yield the payload rows unchanged, and count their records."""
    for row in payloads:
        if counter is not None and row.column("kind")[0].as_py() in {ROWS, BAD}:
            count(counter, row.column("records")[0].as_py())
        yield row


@executor_task
def read_task(
    numbered: tuple[int, ReadTask], *, rules: RowRules, counter: Counter = None
) -> Batches:
    """Read the records of a task, check them, and return them as payload rows."""
    number, task = numbered
    yield from counted_records(packed(number, task.read(rules.catalog), rules), counter)


@executor_task
def read_payloads(file: str) -> Batches:
    """Return the payload rows in a file of this machine."""
    with pa.memory_map(file) as data:
        reader = pa.ipc.open_file(data)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


@executor_task
def read_spark_frame(
    batches: Batches,
    *,
    number: int,
    source: Source,
    layout: Layout,
    names: Sequence[str],
    rules: RowRules,
    counter: Counter = None,
) -> Batches:
    """Check the rows of a partition of a DataFrame and yield them as payload rows."""
    part = FramePart.of(batches, names)
    if part is not None:
        task = number + part.part
        yield from counted_records(packed(task, part.blocks(layout, source), rules), counter)
        yield arrow_row(part.size(task, source))


@executor_task
def narrow_rows(batches: Batches, *, spellings: Spellings) -> Batches:
    """Yield the columns that set rules look at, and the task of each row, from payload rows."""
    for batch in batches:
        tasks = batch.column("task").to_pylist()
        for task, data in zip(tasks, values_of(batch.column("narrow")), strict=True):
            rows = respell(batch_of(data), spellings)
            numbers = pa.array(np.full(rows.num_rows, task, np.int64))
            yield portable(rows.append_column(TASK, numbers))


@executor_task
def write_payloads(
    batches: Batches,
    *,
    ref: TableRef,
    entity: Entity,
    mode: Literal["append", "overwrite"],
    spellings: Spellings,
    counter: Counter = None,
) -> Batches:
    """Write payload rows of one table as fragments, and yield descriptions of the fragments."""
    rows = (respell(batch, spellings) for batch in whole_batches(batches))
    first = next(rows, None)
    if first is None:
        return
    table = open_table(ref)

    def stored() -> Iterator[pa.RecordBatch]:
        assert first is not None
        yield stored_batch(entity, table.schema, first)
        yield from stored_rows(entity, table.schema, rows)

    reader = pa.RecordBatchReader.from_batches(table.schema, stored())
    yield from _describe(write_fragments(table, reader, mode=mode), counter)


@executor_task
def merge_payloads(
    batches: Batches,
    *,
    ref: TableRef,
    entity: Entity,
    spellings: Spellings,
    mode: Literal["append", "overwrite"] = "append",
    counter: Counter = None,
) -> Batches:
    """Write payload rows of one table so that they keep the row ids of the rows they replace.

    The input is sorted by task. Of each task come first the records that replace a row (``rid``),
    take an id (``taken``) or lose to a later record (neither), then its payloads.
    """
    merge = _Merge(ref, entity, mode)
    for rows, row_ids in _changed_records(batches, spellings):
        merge.add(rows, row_ids)
        if merge.is_full:
            yield from _describe(merge.written(), counter)
    yield from _describe(merge.written(), counter)


def _changed_records(
    batches: Batches, spellings: Spellings
) -> Iterator[tuple[pa.RecordBatch, pa.Array | None]]:
    """Yield the records of payload rows that are not lost, with the ids that they take.

    Beside them are the row ids that they keep, null for new rows; None where all are new.
    """
    task: int | None = None
    expected: list[pa.RecordBatch] = []
    known: pa.Table | None = None
    for batch in batches:
        tasks, kinds = batch.column("task").to_pylist(), batch.column("kind").to_pylist()
        at = 0
        while at < len(tasks):
            end = at + 1
            if tasks[at] != task:
                task, expected, known = tasks[at], [], None
            if kinds[at] == MATCH:
                while end < len(tasks) and kinds[end] == MATCH and tasks[end] == task:
                    end += 1
                expected.append(batch.slice(at, end - at).select(["rec", "rid", "taken"]))
                known = None
            else:
                narrow, wide = (batch.column(name)[at] for name in ("narrow", "wide"))
                rows = respell(joined(narrow.as_buffer(), wide.as_buffer()), spellings)
                if known is None and expected:
                    known = pa.Table.from_batches(expected).combine_chunks()
                yield (rows, None) if known is None else _change(rows, known)
            at = end


def _change(rows: pa.RecordBatch, known: pa.Table) -> tuple[pa.RecordBatch, pa.Array]:
    """Give rows the ids that they take, and leave out those that lose."""
    place = pc.index_in(rows.column(ORDER), known.column("rec").combine_chunks())
    row_ids, taken = (known.column(name).combine_chunks().take(place) for name in ("rid", "taken"))
    at = rows.schema.get_field_index("id")
    rows = rows.set_column(at, "id", pc.coalesce(taken, rows.column(at)))
    lost = pc.and_(place.is_valid(), pc.and_(row_ids.is_null(), taken.is_null()))
    stays = pc.invert(lost)
    return rows.filter(stays), row_ids.filter(stays)


@executor_task
def divide_payloads(batches: Batches, *, parts: int, spellings: Spellings) -> Batches:
    """Yield the records of a patch by the part that their id belongs to; the input is as above."""
    seq = 0
    for rows, _ in _changed_records(batches, spellings):
        for part, mine in divide(rows, parts):
            columns = {
                "part": pa.array([part], pa.int64()),
                "seq": pa.array([seq], pa.int64()),
                "data": pa.array([ipc_bytes(mine).to_pybytes()], pa.binary()),
            }
            seq += 1
            yield pa.RecordBatch.from_pydict(columns)


@executor_task
def complete_parts(
    batches: Batches, *, ref: TableRef, key: str, rules: RowRules, named: bool
) -> Batches:
    """Make whole rows of the records of a patch, which come sorted by part, as payload rows."""
    table = open_table(ref)
    waiting: list[pa.RecordBatch] = []
    current: int | None = None

    def completed() -> Batches:
        entity = rules.catalog.entity(key)
        made = complete_part(rules, entity, waiting, table, named=named)
        for seq, judged in enumerate(made):
            for payload in payloads_of(current or 0, seq, judged, rules):
                yield arrow_row(payload)

    for batch in batches:
        parts = batch.column("part").to_pylist()
        for part, data in zip(parts, values_of(batch.column("data")), strict=True):
            if part != current:
                yield from completed()
                waiting, current = [], part
            waiting.append(batch_of(data.to_pybytes()))
    yield from completed()


@executor_task
def show_records(batches: Batches, *, entity: Entity, orders: Sequence[int]) -> Batches:
    """Yield the values of the records with these orders, by column, as JSON."""
    yield from shown_batches(entity, whole_batches(batches), orders)


def shown_batches(
    entity: Entity, batches: Iterable[pa.RecordBatch], orders: Sequence[int]
) -> Batches:
    """Yield rows of `VALUES` for the records with these orders."""
    for record, text in shown_rows(entity, batches, pa.array(orders, pa.int64())).items():
        yield pa.RecordBatch.from_pydict(
            {"rec": pa.array([record], pa.int64()), "shown": pa.array([text], pa.utf8())}
        )


class _Merge:
    """Collects the rows of a partition and writes them: replacements sorted by row id, then new rows."""

    def __init__(self, ref: TableRef, entity: Entity, mode: Literal["append", "overwrite"]) -> None:
        self.table = open_table(ref)
        self.entity = entity
        self.mode = mode
        self._clear()

    def _clear(self) -> None:
        self._replacing: list[pa.RecordBatch] = []
        self._ids: list[pa.Array] = []
        self._new: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._rows >= MAX_ROWS_PER_FILE or self._bytes >= MAX_BYTES_PER_FILE

    def add(self, batch: pa.RecordBatch, row_ids: pa.Array | None) -> None:
        """Add rows; those with a row id replace a row."""
        if row_ids is None:
            self._take_new(batch)
            return
        self._take_new(batch.filter(row_ids.is_null()))
        replacing = batch.filter(row_ids.is_valid())
        if replacing.num_rows:
            self._replacing.append(replacing)
            self._ids.append(row_ids.drop_null())
            self._count(replacing)

    def _take_new(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._new.append(batch)
            self._count(batch)

    def _count(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        self._bytes += batch.nbytes

    def written(self) -> list[Any]:
        """Write the collected rows as fragments, and start to collect anew."""
        if not self._rows:
            return []
        schema = self.table.schema
        rows: list[pa.RecordBatch] = []
        ids = pa.array([], pa.int64())
        if self._replacing:
            all_ids = pa.concat_arrays(self._ids)
            order = pa.compute.sort_indices(all_ids)
            ids = all_ids.take(order)
            rows.append(pa.concat_batches(self._replacing).take(order))
        new = sum(batch.num_rows for batch in self._new)
        rows += self._new
        row_ids = pa.concat_arrays([ids, pa.nulls(new, pa.int64())])
        self._clear()
        reader = pa.RecordBatchReader.from_batches(schema, stored_rows(self.entity, schema, rows))
        return write_fragments(self.table, reader, row_ids, self.mode)


@executor_task
def drop_matched(batches: Batches, *, ref: TableRef) -> Batches:
    """Delete the rows at the addresses that come in, sorted; yield what is left of each fragment.

    A fragment without rows left is yielded without a description.
    """
    table = open_table(ref)
    number: int | None = None
    offsets: list[int] = []
    for batch in batches:
        for address in batch.column("addr").to_pylist():
            if address >> 32 != number and number is not None:
                yield _left(table, number, offsets)
                offsets = []
            number = address >> 32
            offsets.append(address & 0xFFFF_FFFF)
    if number is not None:
        yield _left(table, number, offsets)


def _left(table: Table, number: int, offsets: list[int]) -> pa.RecordBatch:
    left = drop_rows(table, number, offsets)
    text = None if left is None else fragment_text(left)
    return pa.RecordBatch.from_pydict(
        {"fragment": pa.array([number], pa.int64()), "left": pa.array([text], pa.utf8())}
    )


def _describe(fragments: Sequence[Any], counter: Counter) -> Iterator[pa.RecordBatch]:
    """Yield a row for each written fragment, and count its rows."""
    for fragment in fragments:
        count(counter, fragment.physical_rows)
        yield pa.RecordBatch.from_pydict({"fragment": pa.array([fragment_text(fragment)])})
