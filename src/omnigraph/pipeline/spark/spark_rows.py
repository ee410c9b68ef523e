"""The incoming rows of one table that executors wrote: if they are many, executors also read and rewrite them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from omnigraph import settings
from omnigraph.pipeline.local.patched_rows import complete_part, divide
from omnigraph.pipeline.rows.bad_records import Bad
from omnigraph.pipeline.rows.row_rules import RowRules, narrow_columns
from omnigraph.pipeline.rows.stored_rows import Spellings, shown_rows
from omnigraph.pipeline.written.task_files import TAKEN, Destination, TaskFiles, WrittenFiles
from omnigraph.pipeline.written.written_reader import WrittenReader
from omnigraph.pipeline.written.written_rows import WrittenRows
from omnigraph.runner.executors import LARGE_TABLE_ROWS
from omnigraph.runner.runner import Frame, Runner, encoded
from omnigraph.runner.spark_columns import portable, portable_schema, spark_schema
from omnigraph.runner.spark_errors import spark_errors
from omnigraph.runner.spark_runner import SparkFrame, SparkRunner
from omnigraph.runner.spark_tasks import Batches, executor_task, kept_frame, run_tasks, task_frame
from omnigraph.storage.tables.loose_files import read_data_file
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate import rules
from omnigraph.validate.change_set import ORDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


TAKEN_BY_TASKS = "SELECT f.`0rec`, f.`0taken` AS id FROM f WHERE f.`0taken` IS NOT NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSizes:
    """The sizes of a load on Spark; none of them changes what is stored."""

    fetched_rows: int = 200_000
    """Of at most this many rows, the columns that rules look at are fetched without a query."""
    here_rows: int = 100_000
    """Of a load with at most this many rows, this process checks all rules, and writes again what must be."""
    here_table_rows: int = 20_000_000
    """That is done only where no table has more rows: executors scan larger ones."""
    rows_per_task: int = 100_000
    """A task that writes gets at least this number of rows: fewer are not worth a task of their own."""
    shared_bytes: int = 256 << 20
    """Ids, or other values, of at most this number of bytes are read whole by every task that looks
    for some of them; about more the rules themselves are asked."""
    indexed_rows: int = LARGE_TABLE_ROWS
    """Executors build the indexes of a table of at least this number of rows, this process the others."""


class SparkRows(WrittenRows):
    """The rows of one table. Of few, this process reads the files by itself."""

    def __init__(
        self,
        session: SparkSession,
        sizes: SparkSizes,
        destination: Destination,
        written: Sequence[WrittenFiles],
        directory: Path,
        spellings: Spellings,
    ) -> None:
        super().__init__(destination, written, directory, spellings, again="load")
        self.session = session
        self.sizes = sizes
        self._is_small = self.rows <= sizes.fetched_rows
        self._here: pa.Table | None = None
        self._away: DataFrame | None = None
        self._taken_away: DataFrame | None = None

    # -- what set rules look at

    def frame(self, runner: Runner, columns: Sequence[str], *, as_read: bool = False) -> Frame:
        """Return some of the columns that set rules look at, where the runner is."""
        if not isinstance(runner, SparkRunner):
            return super().frame(runner, columns, as_read=as_read)
        if self._is_small:
            rows = self._fetched()
            if not as_read and self._taken is not None:
                batches = [self._taken.apply_to(batch) for batch in rows.to_batches()]
                rows = pa.Table.from_batches(batches, rows.schema)
            return runner.frame(rows.select(list(columns)))
        with spark_errors():
            whole = runner.of(self._rule_columns())
            if not as_read and self._taken_away is not None:
                others = [name for name in whole.columns if name != "id"]
                frames = {"pend": whole, "taken": runner.of(self._taken_away)}
                whole = runner.sql(rules.with_taken_ids(others), frames)
            return runner.of(runner.data(whole).select([f"`{encoded(name)}`" for name in columns]))

    def _fetched(self) -> pa.Table:
        if self._here is None:
            self._here = self.narrow(narrow_columns(self.entity), as_read=True).read_all()
        return self._here

    def _rule_columns(self) -> DataFrame:
        """Return all of these columns as a frame on executors, which read them once."""
        if self._away is None:
            columns = narrow_columns(self.entity)
            run = partial(_read_columns, reading=self.reading, columns=columns)
            schema = spark_schema(portable_schema(self.narrow_schema(columns)))
            # Rules ask for these columns again and again; without this executors would read the files for each
            # question.
            self._away = kept_frame(task_frame(self.session, run, self._filled_tasks, schema))
        return self._away

    @property
    def _filled_tasks(self) -> list[WrittenFiles]:
        return [one for one in self.written if one.rows]

    # -- what rules decide

    def take_ids(self, runner: Runner, taken: Frame) -> bool:
        """Remember the ids that records take, and say whether they differ from the ones before."""
        changed = super().take_ids(runner, taken)
        if changed and not self._is_small and isinstance(runner, SparkRunner):
            assert isinstance(taken, SparkFrame)
            self._free_taken()
            if self._taken is not None:
                with spark_errors():
                    self._taken_away = kept_frame(runner.data(taken))
        return changed

    def _taken_by_tasks(self, runner: Runner) -> Frame:
        if self._is_small or not isinstance(runner, SparkRunner):
            return super()._taken_by_tasks(runner)
        schema = pa.schema({ORDER: pa.int64(), TAKEN: pa.utf8()})
        run = partial(_read_file, ref=self.destination.ref, columns=schema.names)
        names = [one.loose for one in self.written if one.loose is not None]
        with spark_errors():
            shown = spark_schema(portable_schema(schema))
            noted = runner.of(task_frame(self.session, run, names, shown))
            return runner.of(runner.query(TAKEN_BY_TASKS, {"f": noted}))

    # -- whole rows

    def values_of(self, runner: Runner, orders: Sequence[int]) -> dict[int, str]:
        """Return the values of records by column, as JSON, found by their order."""
        has_blobs = self.destination.form == "fragments" and self.entity.blob_properties
        if self._is_small or has_blobs:
            return super().values_of(runner, orders)
        run = partial(_shown, reading=self.reading, orders=list(orders))
        outcomes = run_tasks(self.session, run, self._shares(), at_once=self._at_once)
        return {order: shown for one in outcomes for order, shown in one.get().items()}

    def completed(self, rules_of_rows: RowRules, ref: TableRef, to: TableRef) -> list[Completed]:
        """Have executors make whole rows of the records of a patch, each of a part of the ids.

        ``ref`` is the table as it is now; the rows are written beside ``to``.
        """
        parts = max(1, -(-self.rows // self.sizes.rows_per_task))
        divided = partial(_divide, reading=self.reading, parts=parts)
        complete = partial(
            _complete,
            rules_of_rows=rules_of_rows,
            ref=ref,
            to=Destination(self.entity, to, "rows"),
            named=self.may_repeat,
        )
        with spark_errors():
            by_part = task_frame(
                self.session, divided, self._filled_tasks, "part bigint, data binary"
            )
            # All records of an id must meet, and several parts may land in one partition: sorted, each part
            # comes in one piece.
            together = by_part.repartition(parts, "part").sortWithinPartitions("part")
            told = together.mapInArrow(complete, "result binary").toArrow()
        return [pickle.loads(data) for data in told.column("result").to_pylist()]  # noqa: S301 - written by our own executors

    def write_again(self, to: Destination) -> list[WrittenFiles]:
        """Have executors write the rows once more; few, and those whose vectors are here, this process."""
        # Vectors were made here, by the one process that sends each text once.
        if self.rows <= self.sizes.here_rows or self._filled is not None:
            return super().write_again(to)
        run = partial(self.reading.write_again, to=to)
        shares = self._shares()
        outcomes = run_tasks(
            self.session,
            run,
            shares,
            at_once=self._at_once,
            weight=lambda share: sum(one.rows for one in share),
        )
        return [outcome.get() for outcome in outcomes]

    @property
    def _at_once(self) -> int:
        return settings.LOAD_CONCURRENCY.get()

    def _shares(self) -> list[list[WrittenFiles]]:
        """Put the files of tasks together until a task has enough to do."""
        shares: list[list[WrittenFiles]] = [[]]
        for one in self._filled_tasks:
            if sum(other.rows for other in shares[-1]) >= self.sizes.rows_per_task:
                shares.append([])
            shares[-1].append(one)
        return shares

    def free(self) -> None:
        """Free what executors keep for the rules."""
        self._free_taken()
        if self._away is not None:
            self._away.unpersist()
            self._away = None

    def _free_taken(self) -> None:
        if self._taken_away is not None:
            self._taken_away.unpersist()
            self._taken_away = None


@executor_task
def _read_columns(one: WrittenFiles, *, reading: WrittenReader, columns: Sequence[str]) -> Batches:
    """Yield columns of the rows that a task wrote, under the ids that they were read with."""
    for batch in reading.batches(one, columns, as_read=True):
        yield portable(batch.select(list(columns)))


@executor_task
def _read_file(name: str, *, ref: TableRef, columns: Sequence[str]) -> Batches:
    """Yield columns of a file that a task wrote beside its images."""
    for batch in read_data_file(ref, name, columns):
        yield portable(batch.select(list(columns)))


class Completed(NamedTuple):
    """The whole rows of one part of a patch, and the records that made bad ones."""

    written: WrittenFiles
    bad: list[Bad]


@executor_task
def _divide(one: WrittenFiles, *, reading: WrittenReader, parts: int) -> Batches:
    """Yield the records of a patch by the part that their id belongs to."""
    for records in reading.records([one]):
        for part, mine in divide(records, parts):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, mine.schema) as writer:
                writer.write_batch(mine)
            data = [sink.getvalue().to_pybytes()]
            yield pa.RecordBatch.from_pydict(
                {"part": pa.array([part], pa.int64()), "data": pa.array(data, pa.binary())}
            )


@executor_task
def _complete(
    batches: Batches, *, rules_of_rows: RowRules, ref: TableRef, to: Destination, named: bool
) -> Batches:
    """Make whole rows of the records of a patch, which come sorted by part."""
    rows = ((row["part"], row["data"]) for batch in batches for row in batch.to_pylist())
    table = open_table(ref)
    for part, packed in groupby(rows, key=itemgetter(0)):
        records = [batch for _, data in packed for batch in pa.ipc.open_stream(data)]
        files, bad, unfilled = TaskFiles(to), [], 0
        for judged in complete_part(rules_of_rows, to.entity, records, table, named=named):
            bad += judged.bad
            unfilled += sum(judged.unfilled.values())
            for _, batch in judged.rows:
                files.add(batch)
        written = files.close(part, named=files.rows if named else 0, unfilled=unfilled)
        data = [pickle.dumps(Completed(written, bad))]
        yield pa.RecordBatch.from_pydict({"result": pa.array(data, pa.binary())})


def _shown(
    share: Sequence[WrittenFiles], *, reading: WrittenReader, orders: Sequence[int]
) -> dict[int, str]:
    wanted = pa.array(orders, pa.int64())
    rows = (batch for one in share for batch in reading.batches(one))
    return shown_rows(reading.source.entity, rows, wanted)
