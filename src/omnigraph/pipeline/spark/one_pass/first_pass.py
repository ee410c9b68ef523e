"""The one pass of a load that appends or overwrites: a task reads, judges and writes its rows.

Rows go from their source into the fragments of their table without a stop. What Spark gets and keeps
is small, in one frame for all tables (`TOLD`): a few notes of each task, told apart by ``what``:

* `SUMMARY`: a payload row without rows: how many there are, and the fragments that hold them;
* `BAD_RECORDS`: bad records, sorted by task (``one``) and block (``two``);
* `PLACES`: where the rows of one table are (``one`` is its number), and their order in the input, so that
  columns of the rows can be read again.

A task that runs again gives the same rows but new files; those of other attempts are referenced by
nobody, and cleanup removes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from omnigraph.errors import OmniGraphError
from omnigraph.pipeline.formats.frame_layout import Layout
from omnigraph.pipeline.formats.typed_batch import Parsed
from omnigraph.pipeline.read_tasks import ReadTask
from omnigraph.pipeline.rows.row_rules import Judged, RowRules
from omnigraph.pipeline.sources.sources import Source
from omnigraph.pipeline.spark.executor_tasks import Counter
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
    ipc_bytes,
)
from omnigraph.pipeline.spark.tally import count
from omnigraph.pipeline.written.task_files import Destination, TaskFiles, Written
from omnigraph.runner.spark_columns import portable
from omnigraph.runner.spark_errors import error_bytes
from omnigraph.runner.spark_tasks import Batches, executor_task
from omnigraph.storage.tables.loose_files import data_files, read_data_file
from omnigraph.storage.tables.staging import fragment_of, fragment_text
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate.change_set import ORDER

TOLD = "what int, one bigint, two bigint, data binary"
SUMMARY, PLACES, BAD_RECORDS = -1, -2, -3


@dataclass(frozen=True, slots=True)
class FirstPass:
    """What every task of the pass needs to know; it is pickled to them."""

    rules: RowRules
    places: dict[str, TableRef]
    overwrite: bool

    def task_rows(self, counter: Counter) -> TaskRows:
        """Return what takes the rows of one task."""
        return TaskRows(self, counter)

    def files(self, key: str) -> TaskFiles:
        """Return what writes the rows of a table."""
        entity = self.rules.catalog.entity(key)
        return TaskFiles(Destination(entity, self.places[key], "fragments", self.overwrite))

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
    first_pass: FirstPass,
    counter: Counter = None,
) -> Batches:
    """Judge and write the rows of a partition of a DataFrame, numbered as ``read_spark_frame`` does."""
    part = FramePart.of(batches)
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
        if judged.aliases:
            spelled = json.dumps(judged.aliases).encode()
            yield note(SUMMARY, packed_note(Payload(number, seq, ALIASES, None, 0, wide=spelled)))

    def write(self, number: int, judged: Judged) -> None:
        """Write the rows of a block."""
        for key, batch in judged.rows:
            if not batch.num_rows:
                continue
            if key not in self.tables:
                self.tables[key] = _TableRows(self._pass, key, number)
            table = self.tables[key]
            table.add(batch, judged.named[key])
            count(self._counter, batch.num_rows)

    def finish(self) -> Batches:
        """Write what is left, and tell about it."""
        if self.is_refused:
            return
        for key, table in self.tables.items():
            written = table.files.close(table.task, named=table.named)
            files = _files_bytes(written)
            told = Payload(table.task, 0, ROWS, key, written.rows, table.named, wide=files)
            yield note(SUMMARY, packed_note(told))
            yield note(PLACES, _place_bytes(files, table.orders), self._pass.number(key))


class _TableRows:
    """The rows of one table and task."""

    def __init__(self, first_pass: FirstPass, key: str, task: int) -> None:
        self.files = first_pass.files(key)
        self.task = task
        self.named = 0
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


def _place_bytes(files: bytes, orders: Sequence[tuple[int, bytes]]) -> bytes:
    """Pack the files of a table and the order of their rows."""
    row = {
        "files": pa.array([files], pa.binary()),
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
def read_again(batches: Batches, *, ref: TableRef, columns: Sequence[str]) -> Batches:
    """Yield columns of written rows, with their order, from notes of the kind `PLACES`."""
    stored = [name for name in columns if name != ORDER]
    for batch in batches:
        for data in batch.column("data").to_pylist():
            (place,) = batch_of(data).to_pylist()
            order = _orders_of(place)
            files = files_of(place["files"])
            names = data_files(files.fragments) if files.loose is None else [files.loose]
            at = 0
            for name in names:
                for rows in read_data_file(ref, name, stored):
                    mine = pa.array(order[at : at + rows.num_rows])
                    at += rows.num_rows
                    yield portable(rows.append_column(ORDER, mine).select(list(columns)))
