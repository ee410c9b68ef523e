"""The Spark engine of a load: executors read, check, keep and write the records.

This process plans the tasks. Every task gives the same result each time it runs, so Spark may run it
again, twice at once, or elsewhere. Input that exists only in this process is checked here and sent
to the executors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.engine import Incoming, ReadRecords, Tell
from omnigraph.pipeline.load_input import is_spark_frame
from omnigraph.pipeline.progress import ProgressReport
from omnigraph.pipeline.read_tasks import FileTask, FrameTask, LinesTask, ReadTask
from omnigraph.pipeline.request import LoadRequest
from omnigraph.pipeline.rows.bad_records import Bad, BadRecords
from omnigraph.pipeline.rows.row_rules import Aliases, RowRules
from omnigraph.pipeline.rows.stored_rows import Spellings, spellings_of
from omnigraph.pipeline.sources.locations import InMemory, LocalFile
from omnigraph.pipeline.spark.executor_tasks import (
    PART,
    counted_records,
    read_payloads,
    read_spark_frame,
    read_task,
)
from omnigraph.pipeline.spark.maintenance_jobs import build_on_spark
from omnigraph.pipeline.spark.payloads import (
    ALIASES,
    BAD,
    COLUMNS,
    COUNT,
    FAILURE,
    ROWS,
    aliases_of,
    bad_of,
    packed,
)
from omnigraph.pipeline.spark.sizes import SparkSizes
from omnigraph.pipeline.spark.spark_rows import SparkRows
from omnigraph.pipeline.spark.tally import Tally
from omnigraph.runner.masters import local_cores
from omnigraph.runner.spark_errors import error_of, spark_errors
from omnigraph.runner.spark_runner import SparkRunner, working_session
from omnigraph.runner.spark_tasks import task_frame
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate.change_set import SHOWN
from omnigraph.write.index_builds import Builds, build_here

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

MAX_PARTS = 1 << 15
"""More than the partitions of any DataFrame: sources of one frame are numbered in steps of it."""


class SparkEngine:
    """The executors of one Spark session."""

    name = "spark"
    sizes: ClassVar[SparkSizes] = SparkSizes()

    def __init__(self, session: SparkSession) -> None:
        with spark_errors():
            self.session = working_session(session)
            self.is_local = local_cores(self.session.sparkContext.master or "") is not None
            self.cores = self.session.sparkContext.defaultParallelism
        self._payloads: list[DataFrame] = []
        self._rows: list[SparkRows] = []

    def runner(self) -> SparkRunner:
        """Return a runner in the session that holds the incoming rows."""
        return SparkRunner(self.session)

    def read(
        self, request: LoadRequest, rules: RowRules, directory: Path, report: ProgressReport
    ) -> ReadRecords:
        """Have executors read everything; raise if any record is bad, unless it is to be skipped."""
        report.tell("reading")
        tally = Tally(self.session, report.read if report.wanted else None)
        with spark_errors():
            with tally.watched():
                payloads = _Plan(self, request, rules, directory, tally.counter).frame()
                self._payloads.append(payloads)
                found = _Found.of(payloads)
            tally.settle(found.records)
            bad = found.bad(request, directory)
            incoming = self._incoming(request, rules, found)
        return ReadRecords(incoming, bad)

    def complete(
        self,
        rules: RowRules,
        records: Incoming,
        ref: TableRef,
        directory: Path,  # noqa: ARG002 - executors keep the rows
        tell: Tell,
    ) -> Incoming:
        """Have executors make whole rows of the records of a patch, each of a part of the ids."""
        from pyspark import StorageLevel

        assert isinstance(records, SparkRows)
        with spark_errors(), contextlib.closing(self.runner()) as runner:
            payloads = records.completed(runner, rules, ref).persist(StorageLevel.DISK_ONLY)
            self._payloads.append(payloads)
            found = _Found.of(payloads)
            for bad in found.all_bad():
                tell(bad)
            return self._rows_of(records.entity, found, {})

    def _incoming(
        self, request: LoadRequest, rules: RowRules, found: _Found
    ) -> dict[str, Incoming]:
        aliases = found.aliases()
        for entity in request.types_to_empty(rules.catalog):
            found.rows.setdefault(entity.table_key, 0)
        incoming: dict[str, Incoming] = {}
        for key in found.rows:
            entity = rules.catalog.entity(key)
            incoming[key] = self._rows_of(entity, found, spellings_of(entity, aliases))
        return incoming

    def _rows_of(self, entity: Entity, found: _Found, spellings: Spellings) -> SparkRows:
        key = entity.table_key
        payloads = found.payloads.where(f"kind = '{ROWS}'").where(found.payloads["key"] == key)
        rows = SparkRows(
            self.runner(),
            entity,
            found.rows.get(key, 0),
            found.named.get(key, 0),
            self.cores,
            payloads,
            spellings,
            self.sizes,
            found.unfilled.get(key, 0),
        )
        self._rows.append(rows)
        return rows

    def builds(self, rows: int) -> Builds:
        """Have executors build the indexes of a large table, and this process those of a small one."""
        is_small = rows < self.sizes.indexed_rows
        return build_here if is_small else partial(build_on_spark, self.session)

    def close(self) -> None:
        """Free what the executors keep of the load."""
        with spark_errors():
            for rows in self._rows:
                rows.free()
            for payloads in self._payloads:
                payloads.unpersist()


class _Plan:
    """Decides which tasks read the input and where they run, and makes the frame of their results."""

    def __init__(
        self,
        engine: SparkEngine,
        request: LoadRequest,
        rules: RowRules,
        directory: Path,
        counter: Accumulator[int] | None,
    ) -> None:
        self.engine = engine
        self.counter = counter
        self.session = engine.session
        self.inputs = request.inputs
        self.rules = rules
        self.directory = directory

    def frame(self) -> DataFrame:
        """Return all payload rows as a frame, kept on the disks of the executors."""
        from pyspark import StorageLevel

        away: list[tuple[int, ReadTask]] = []
        here: list[tuple[int, ReadTask]] = []
        frames: list[DataFrame] = []
        for number, task in self._numbered():
            if isinstance(task, FrameTask) and is_spark_frame(task.frame):
                frames.append(self._of_spark_frame(number, task))
            elif self._travels(task):
                away.append((number, self._visible(task)))
            else:
                here.append((number, task))
        if away or not (frames or here):
            read = partial(read_task, rules=self.rules, counter=self.counter)
            frames.insert(0, task_frame(self.session, read, away, COLUMNS))
        frames += self._sent(here)
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionAll(frame)
        return whole.persist(StorageLevel.DISK_ONLY)

    def _numbered(self) -> Iterator[tuple[int, ReadTask]]:
        number = 0
        for task in self.inputs.tasks(self.rules.catalog, patch=self.rules.patch):
            for part in task.parts() if isinstance(task, FileTask) else [task]:
                yield number, part
                is_spark = isinstance(part, FrameTask) and is_spark_frame(part.frame)
                number += MAX_PARTS if is_spark else 1

    def _travels(self, task: ReadTask) -> bool:
        """Say whether executors can read the input. On this machine they can read all but frames."""
        if isinstance(task, FrameTask):
            return False
        return self.engine.is_local or not self.inputs.is_private(task.source)

    def _visible(self, task: ReadTask) -> ReadTask:
        """Return the task with its bytes in a file; otherwise every task would be sent all bytes."""
        source = task.source
        if not isinstance(source.location, InMemory) or not isinstance(task, LinesTask):
            return task
        path = self.directory / f"source-{source.index}"
        if not path.exists():
            path.write_bytes(source.location.data)
        return replace(task, source=replace(source, location=LocalFile(str(path))))

    def _of_spark_frame(self, number: int, task: FrameTask) -> DataFrame:
        from pyspark.sql import functions

        layout = task.layout(self.rules.catalog)
        layout.check(task.frame.columns, "the frame")
        run = partial(
            read_spark_frame,
            number=number,
            source=task.source,
            layout=layout,
            rules=self.rules,
            counter=self.counter,
        )
        name = f"omnigraph_{self.rules.operation_id}_{number}"
        # The frame belongs to another session; global views are how sessions of one context share.
        numbered = task.frame.withColumn(PART, functions.spark_partition_id())
        numbered.mapInArrow(run, COLUMNS).createGlobalTempView(name)
        data = self.session.table(f"global_temp.{name}").select("*")
        self.session.catalog.dropGlobalTempView(name)
        return data

    def _sent(self, tasks: list[tuple[int, ReadTask]]) -> list[DataFrame]:
        """Send what is checked here in parts of bounded size: Spark's driver could not hold it all."""
        parts = self._judged_here(tasks)
        if not self.engine.is_local:
            return [self._stored(rows) for rows in parts]
        files = [self._written(number, rows) for number, rows in enumerate(parts)]
        return [task_frame(self.session, read_payloads, files, COLUMNS)] if files else []

    def _judged_here(self, tasks: list[tuple[int, ReadTask]]) -> Iterator[list[pa.RecordBatch]]:
        waiting: list[pa.RecordBatch] = []
        blocks = chain.from_iterable(
            packed(number, task.read(self.rules.catalog), self.rules) for number, task in tasks
        )
        for row in counted_records(blocks, self.counter):
            waiting.append(row)
            if sum(batch.nbytes for batch in waiting) >= self.engine.sizes.sent_bytes:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

    def _written(self, number: int, rows: list[pa.RecordBatch]) -> str:
        """Write the rows to a file, which executors of this machine read."""
        path = self.directory / f"judged-{number}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows[0].schema) as writer:
            for row in rows:
                writer.write_batch(row)
        return str(path)

    def _stored(self, rows: list[pa.RecordBatch]) -> DataFrame:
        """Send the rows to the disks of executors; the checkpoint frees the driver's copy."""
        from pyspark import StorageLevel

        sent = self.session.createDataFrame(pa.Table.from_batches(rows), COLUMNS)
        return sent.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)


@dataclass(slots=True)
class _Found:
    """The numbers of what was read: small, however many records there are."""

    payloads: DataFrame
    rows: dict[str, int]
    named: dict[str, int]
    unfilled: dict[str, int]
    kinds: dict[str, int]

    @classmethod
    def of(cls, payloads: DataFrame) -> _Found:
        """Run the tasks that read, and count what they found."""
        from pyspark.sql import functions as f

        counted = payloads.groupBy("kind", "key").agg(
            f.sum("records").alias("records"),
            f.sum("named").alias("named"),
            f.sum("pending").alias("pending"),
        )
        totals = counted.toArrow().to_pylist()
        rows = [total for total in totals if total["kind"] == ROWS]
        kinds: dict[str, int] = {}
        for total in totals:
            kinds[total["kind"]] = kinds.get(total["kind"], 0) + total["records"]
        by_key = {total["key"]: total["records"] for total in rows}
        named = {total["key"]: total["named"] for total in rows}
        unfilled = {total["key"]: total["pending"] for total in rows}
        return cls(payloads, by_key, named, unfilled, kinds)

    @property
    def records(self) -> int:
        """The number of records that were read, bad ones included."""
        return self.kinds.get(ROWS, 0) + self.kinds.get(BAD, 0)

    def _of_kind(self, kind: str) -> DataFrame:
        return self.payloads.where(f"kind = '{kind}'").orderBy("task", "seq")

    def bad(self, request: LoadRequest, directory: Path) -> BadRecords:
        """Return the bad records; raise whatever ends the load: the first failure, or they."""
        if FAILURE in self.kinds:
            raise error_of(self._of_kind(FAILURE).collect()[0]["wide"])
        if COUNT in self.kinds:
            self._number_parts(request)
        rejects, sources = request.rejects, request.inputs.sources
        bad = BadRecords(None if rejects is None else directory / "bad.jsonl")
        if BAD not in self.kinds:
            return bad
        found = self._of_kind(BAD).select("wide")
        for row in (found.limit(SHOWN) if rejects is None else found).toLocalIterator():
            bad.add(bad_of(row["wide"]))
        bad.total = self.kinds[BAD]
        if not request.skips:
            bad.end(sources, rejects)
        return bad

    def all_bad(self) -> Iterator[list[Bad]]:
        """Yield the bad records, those of one block at a time."""
        if BAD in self.kinds:
            for row in self._of_kind(BAD).select("wide").toLocalIterator():
                yield bad_of(row["wide"])

    def _number_parts(self, request: LoadRequest) -> None:
        """Note the sizes of the partitions of DataFrames, from which row numbers are computed."""
        counted = self.payloads.where(f"kind = '{COUNT}'").select("key", "pending", "records")
        parts: dict[int, dict[int, int]] = {}
        for row in counted.toArrow().to_pylist():
            parts.setdefault(int(row["key"]), {})[row["pending"]] = row["records"]
        sources = request.inputs.sources
        for index, rows in parts.items():
            sizes = tuple(rows.get(part, 0) for part in range(max(rows) + 1))
            sources[index] = replace(sources[index], parts=sizes)

    def aliases(self) -> Aliases:
        """Return all spellings of ids that differ from the ids themselves."""
        aliases: Aliases = {}
        if ALIASES in self.kinds:
            for row in self._of_kind(ALIASES).select("wide").toLocalIterator():
                for name, spelled in aliases_of(row["wide"]).items():
                    aliases.setdefault(name, {}).update(spelled)
        return aliases
