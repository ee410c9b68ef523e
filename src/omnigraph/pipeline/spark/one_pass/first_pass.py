"""The one pass of a load that appends or overwrites: a task reads, judges and writes its rows.

Rows go from their source into the fragments of their table without a stop. What Spark gets and keeps
is small, in one frame for all tables (`TOLD`): a few notes of each task, told apart by ``what``:

* `SUMMARY`: a payload row without rows: how many there are, and the fragments that hold them;
* `BAD_RECORDS`: bad records, sorted by task (``one``) and block (``two``);
* `KEPT`: rows of a table that cannot be written yet because vectors are to be made for them, as a payload
  row (``one`` is the number of the table);
* `PLACES`: the order in the input of the rows of one table (``one`` is its number), so that columns of the
  rows can be read again.

A task that runs again gives the same rows but new files; the files of other attempts are referenced nowhere,
and cleanup removes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from omnigraph.errors import OmniGraphError
from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.formats.frame_layout import Layout
from omnigraph.pipeline.formats.typed_batch import Parsed
from omnigraph.pipeline.read_tasks import ReadTask
from omnigraph.pipeline.rows.row_rules import Judged, RowRules, narrow_columns
from omnigraph.pipeline.sources.sources import Source
from omnigraph.pipeline.spark.executor_tasks import Counter, shown_batches
from omnigraph.pipeline.spark.frame_part import FramePart
from omnigraph.pipeline.spark.payloads import (
    ALIASES,
    BAD,
    FAILURE,
    ROWS,
    Payload,
    arrow_row,
    bad_bytes,
    batch_of,
    cut_payloads,
    ipc_bytes,
    rows_payload,
    values_of,
)
from omnigraph.pipeline.spark.same_rows import other_rows
from omnigraph.pipeline.spark.tally import count
from omnigraph.pipeline.written.task_files import Destination, Form, TaskFiles, Written
from omnigraph.runner.spark_columns import portable
from omnigraph.runner.spark_errors import error_bytes
from omnigraph.runner.spark_tasks import Batches, executor_task
from omnigraph.storage.tables.loose_files import data_files, read_data_file
from omnigraph.storage.tables.staging import fragment_of, fragment_text
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate.change_set import ORDER

if TYPE_CHECKING:
    import numpy.typing as npt

TOLD = "what int, one bigint, two bigint, data binary"
SUMMARY, PLACES, BAD_RECORDS, KEPT = -1, -2, -3, -4


@dataclass(frozen=True, slots=True)
class FirstPass:
    """What every task of the pass needs to know; it is pickled to them.

    Rows of the ``kept`` tables are not written: only the columns that set rules look at are, to files of
    their own.
    """

    rules: RowRules
    places: dict[str, TableRef]
    overwrite: bool
    kept: frozenset[str] = frozenset()

    def task_rows(self, counter: Counter) -> TaskRows:
        """Return what takes the rows of one task."""
        return TaskRows(self, counter)

    def files(self, key: str) -> TaskFiles:
        """Return what writes the rows of a table."""
        entity = self.rules.catalog.entity(key)
        form: Form = "rows" if key in self.kept else "fragments"
        return TaskFiles(Destination(entity, self.places[key], form, self.overwrite))

    def number(self, key: str) -> int:
        """Return the number that stands for a table."""
        keys = [entity.table_key for entity in self.rules.catalog.entities()]
        return keys.index(key)


@executor_task
def write_tasks(
    share: Sequence[tuple[int, ReadTask]], *, first_pass: FirstPass, counter: Counter = None
) -> Batches:
    """Read the input of some tasks, and write their rows together."""
    with first_pass.task_rows(counter) as rows:
        for number, task in share:
            yield from rows.take(number, task.read(first_pass.rules.catalog))
        yield from rows.finish()


@executor_task
def write_spark_frame(
    batches: Batches,
    *,
    number: int,
    source: Source,
    layout: Layout,
    names: Sequence[str],
    first_pass: FirstPass,
    counter: Counter = None,
) -> Batches:
    """Judge and write the rows of a partition of a DataFrame, numbered as ``read_spark_frame`` does."""
    part = FramePart.of(batches, names)
    if part is None:
        return
    task = number + part.part
    with first_pass.task_rows(counter) as rows:
        yield from rows.take(task, part.blocks(layout, source))
        yield from rows.finish()
    yield note(SUMMARY, packed_note(part.size(task, source)))


class TaskRows:
    """The rows of one task on their way into fragments. Files of a task that fails are removed."""

    def __init__(self, first_pass: FirstPass, counter: Counter) -> None:
        self._pass = first_pass
        self._counter = counter
        self.tables: dict[str, _TableRows] = {}
        self.is_refused = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self.is_refused or failure[0] is not None:
            for table in self.tables.values():
                table.files.discard()

    def take(self, number: int, blocks: Iterable[Parsed]) -> Batches:
        """Judge and write the blocks of a task; an error that ends the load is a note, as in ``packed``."""
        seq = 0
        try:
            for parsed in blocks:
                judged = self._pass.rules.judge(parsed)
                yield from self._noted(number, seq, judged)
                if not self.is_refused:
                    yield from self._kept(number, seq, judged)
                    self.write(number, judged)
                seq += 1
        except OmniGraphError as error:
            self.is_refused = True
            failed = Payload(number, seq, FAILURE, None, 0, wide=error_bytes(error))
            yield note(SUMMARY, packed_note(failed))

    def _noted(self, number: int, seq: int, judged: Judged) -> Batches:
        if judged.bad:
            self.is_refused = True
            count(self._counter, len(judged.bad))
            yield note(BAD_RECORDS, bad_bytes(judged.bad), number, seq)
            yield note(SUMMARY, packed_note(Payload(number, seq, BAD, None, len(judged.bad))))
        for payload in cut_payloads(number, seq, judged):
            yield note(SUMMARY, packed_note(payload))
        if judged.aliases:
            spelled = json.dumps(judged.aliases).encode()
            yield note(SUMMARY, packed_note(Payload(number, seq, ALIASES, None, 0, wide=spelled)))

    def _kept(self, number: int, seq: int, judged: Judged) -> Batches:
        for key, batch in judged.rows:
            if key in self._pass.kept and batch.num_rows:
                payload = rows_payload(number, seq, key, batch, judged, self._pass.rules)
                yield note(KEPT, packed_note(payload), self._pass.number(key))

    def write(self, number: int, judged: Judged) -> None:
        """Write the rows of a block."""
        for key, batch in judged.rows:
            if not batch.num_rows:
                continue
            if key not in self.tables:
                self.tables[key] = _TableRows(self._pass, key, number)
            table, rows = self.tables[key], batch
            if key in self._pass.kept:
                rows = batch.select(narrow_columns(self._pass.rules.catalog.entity(key)))
                table.unfilled += judged.unfilled[key]
            table.add(rows, judged.named[key])
            count(self._counter, batch.num_rows)

    def finish(self) -> Batches:
        """Write what is left, and tell about it."""
        if self.is_refused:
            return
        for key, table in self.tables.items():
            written = table.files.close(table.task, named=table.named)
            files = _files_bytes(written)
            told = Payload(
                table.task, 0, ROWS, key, written.rows, table.named, table.unfilled, wide=files
            )
            yield note(SUMMARY, packed_note(told))
            if key in self._pass.kept:
                continue
            place = _place_bytes(table.task, table.orders)
            yield note(PLACES, place, self._pass.number(key))


class _TableRows:
    """The rows of one table and task."""

    def __init__(self, first_pass: FirstPass, key: str, task: int) -> None:
        self.files = first_pass.files(key)
        self.task = task
        self.named = 0
        self.unfilled = 0
        self.orders: list[tuple[int, bytes]] = []

    def add(self, batch: pa.RecordBatch, named: int) -> None:
        self.files.add(batch, named=named > 0)
        self.named += named
        # Most records follow each other closely, so that almost nothing is left of their order.
        steps = np.diff(batch.column(ORDER).to_numpy(), prepend=np.int64(0))
        packed = pa.compress(steps.tobytes(), codec="zstd", asbytes=True)
        self.orders.append((batch.num_rows, packed))


# ------------------------------------------------------------------ rows of the frame


def note(what: int, data: Any, one: int = 0, two: int = 0) -> pa.RecordBatch:
    """Return a row of the frame."""
    columns = {
        "what": pa.array([what], pa.int32()),
        "one": pa.array([one], pa.int64()),
        "two": pa.array([two], pa.int64()),
        "data": pa.array([bytes(data)], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def packed_note(payload: Payload) -> bytes:
    """Return a payload row as bytes, for ``summary_of``."""
    return bytes(ipc_bytes(arrow_row(payload)))


def summary_of(data: bytes) -> Payload:
    """Return the payload behind a note of the kind `SUMMARY`."""
    (row,) = batch_of(data).to_pylist()
    return Payload(**row)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The files that a task wrote for one table.

    ``loose`` has the columns of set rules, where they cannot be read from the fragments.
    """

    fragments: list[Any]
    loose: str | None


def _files_bytes(written: Written) -> bytes:
    fragments = [fragment_text(one) for one in written.fragments]
    return json.dumps({"fragments": fragments, "loose": written.loose}).encode()


def files_of(data: bytes) -> TaskResult:
    """Return the files that a summary names."""
    told = json.loads(data)
    return TaskResult([fragment_of(text) for text in told["fragments"]], told["loose"])


def _place_bytes(task: int, orders: Sequence[tuple[int, bytes]]) -> bytes:
    """Pack the order of the rows that a task wrote for a table."""
    row = {
        "task": pa.array([task], pa.int64()),
        "rows": pa.array([[rows for rows, _ in orders]], pa.list_(pa.int64())),
        "steps": pa.array([[steps for _, steps in orders]], pa.list_(pa.binary())),
    }
    return bytes(ipc_bytes(pa.RecordBatch.from_pydict(row)))


def _orders_of(place: dict[str, Any]) -> np.ndarray[Any, Any]:
    pieces = [
        np.cumsum(np.frombuffer(pa.decompress(steps, rows * 8, codec="zstd"), np.int64))
        for rows, steps in zip(place["rows"], place["steps"], strict=True)
    ]
    return np.concatenate([np.empty(0, np.int64), *pieces])


@executor_task
def kept_payloads(batches: Batches) -> Batches:
    """Yield the payload rows of notes of the kind `KEPT`."""
    for batch in batches:
        for data in values_of(batch.column("data")):
            yield batch_of(data.to_pybytes())


@executor_task
def read_again(
    batches: Batches, *, ref: TableRef, columns: Sequence[str], by_task: Mapping[int, bytes]
) -> Batches:
    """Yield columns that set rules look at, with the order of rows, from notes of the kind `PLACES`.

    The rows are those of the files ``by_task``, which become part of the table: a task that ran again
    after its note was lost has written others.
    """
    stored = [name for name in columns if name != ORDER]
    for files, order in _files_and_orders(batches, by_task):
        names = data_files(files.fragments) if files.loose is None else [files.loose]
        for rows in _in_order(ref, names, stored, order):
            yield portable(rows.select(list(columns)))


@executor_task
def show_again(
    batches: Batches,
    *,
    ref: TableRef,
    entity: Entity,
    orders: Sequence[int],
    by_task: Mapping[int, bytes],
) -> Batches:
    """Yield the values of the records with these orders, by column, as JSON, from the same notes."""
    stored = [*entity.implicit_columns, *entity.properties]
    for files, order in _files_and_orders(batches, by_task):
        if not np.isin(order, orders).any():
            continue
        rows = _in_order(ref, data_files(files.fragments), stored, order)
        yield from shown_batches(entity, rows, orders)


def _files_and_orders(
    batches: Batches, by_task: Mapping[int, bytes]
) -> Iterator[tuple[TaskResult, npt.NDArray[np.int64]]]:
    for batch in batches:
        for data in batch.column("data").to_pylist():
            (place,) = batch_of(data).to_pylist()
            if place["task"] not in by_task:
                raise other_rows()
            yield files_of(by_task[place["task"]]), _orders_of(place)


def _in_order(
    ref: TableRef, names: Sequence[str], columns: Sequence[str], order: npt.NDArray[np.int64]
) -> Batches:
    """Yield columns of files with the order of each row."""
    at = 0
    for name in names:
        for rows in read_data_file(ref, name, columns):
            mine = pa.array(order[at : at + rows.num_rows])
            at += rows.num_rows
            if at > len(order):
                raise other_rows()
            yield rows.append_column(ORDER, mine)
