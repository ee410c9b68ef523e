"""Which tasks of Spark read the input of a load, and the frame of their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph import settings
from omnigraph.pipeline.load_input import is_spark_frame
from omnigraph.pipeline.read_tasks import FileTask, FrameTask, LinesTask, ReadTask
from omnigraph.pipeline.request import LoadRequest
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.sources.locations import InMemory, LocalFile
from omnigraph.pipeline.spark.executor_tasks import (
    counted_records,
    read_payloads,
    read_spark_frame,
    read_task,
)
from omnigraph.pipeline.spark.frame_part import MAX_PARTS, numbered_parts
from omnigraph.pipeline.spark.one_pass.first_pass import (
    TOLD,
    FirstPass,
    write_spark_frame,
    write_tasks,
)
from omnigraph.pipeline.spark.payloads import COLUMNS, packed
from omnigraph.runner.spark_tasks import sent_frame, task_frame

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

Numbered = tuple[int, ReadTask]


class ReadPlan:
    """Decides which tasks read the input and where they run, and makes the frame of their results."""

    def __init__(
        self,
        session: SparkSession,
        request: LoadRequest,
        rules: RowRules,
        directory: Path,
        counter: Accumulator[int] | None,
        *,
        is_local: bool,
        sent_bytes: int,
    ) -> None:
        self.session = session
        self.inputs = request.inputs
        self.rules = rules
        self.directory = directory
        self.counter = counter
        self.is_local = is_local
        self.sent_bytes = sent_bytes
        self.away: list[Numbered] = []
        self.here: list[Numbered] = []
        self.frames: list[tuple[int, FrameTask]] = []
        for number, task in self._numbered():
            if isinstance(task, FrameTask) and is_spark_frame(task.frame):
                self.frames.append((number, task))
            elif self._travels(task):
                self.away.append((number, self._visible(task)))
            else:
                self.here.append((number, task))

    @property
    def of_frames(self) -> str | None:
        """The condition that a payload row is one of a frame of Spark's; None where there is no frame."""
        ranges = (f"task BETWEEN {at} AND {at + MAX_PARTS - 1}" for at, _ in self.frames)
        return f"({' OR '.join(ranges)})" if self.frames else None

    def kept(self) -> DataFrame:
        """Return all records as payload rows."""
        frames = [
            self._of_spark_frame(number, task, partial(read_spark_frame, rules=self.rules), COLUMNS)
            for number, task in self.frames
        ]
        if self.away or not (frames or self.here):
            read = partial(read_task, rules=self.rules, counter=self.counter)
            frames.insert(0, task_frame(self.session, read, self.away, COLUMNS))
        return _union([*frames, *self._sent()])

    def written(self, first_pass: FirstPass) -> DataFrame:
        """Return what tasks tell that write their rows at once (see ``first_pass``)."""
        assert not self.here, "rows of this process are sent to executors, which then write them"
        frames = [
            self._of_spark_frame(
                number, task, partial(write_spark_frame, first_pass=first_pass), TOLD
            )
            for number, task in self.frames
        ]
        if self.away or not frames:
            run = partial(write_tasks, first_pass=first_pass, counter=self.counter)
            shares = _shares(self.away, settings.LOAD_CONCURRENCY.get())
            frames.insert(0, task_frame(self.session, run, shares, TOLD))
        return _union(frames)

    def _numbered(self) -> Iterator[Numbered]:
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
        return self.is_local or not self.inputs.is_private(task.source)

    def _visible(self, task: ReadTask) -> ReadTask:
        """Return the task with its bytes in a file; otherwise every task would be sent all bytes."""
        source = task.source
        if not isinstance(source.location, InMemory) or not isinstance(task, LinesTask):
            return task
        path = self.directory / f"source-{source.index}"
        if not path.exists():
            path.write_bytes(source.location.data)
        return replace(task, source=replace(source, location=LocalFile(str(path))))

    def _of_spark_frame(
        self, number: int, task: FrameTask, read: Callable[..., Any], schema: str
    ) -> DataFrame:
        layout = task.layout(self.rules.catalog)
        names = task.frame.columns
        layout.check(names, "the frame")
        of = {"number": number, "source": task.source, "layout": layout, "names": names}
        run = partial(read, **of, counter=self.counter)
        name = f"omnigraph_{self.rules.operation_id}_{number}"
        # The frame belongs to another session; global views are how sessions of one context share.
        rows = numbered_parts(task.frame).mapInArrow(run, schema)
        rows.createOrReplaceGlobalTempView(name)
        data = self.session.table(f"global_temp.{name}").select("*")
        self.session.catalog.dropGlobalTempView(name)
        return data

    # -- frames of this process

    def _sent(self) -> list[DataFrame]:
        """Send what is checked here in parts of bounded size: Spark's driver could not hold it all."""
        parts = self._judged_here()
        if not self.is_local:
            return [self._stored(rows) for rows in parts]
        files = [self._in_file(number, rows) for number, rows in enumerate(parts)]
        return [task_frame(self.session, read_payloads, files, COLUMNS)] if files else []

    def _judged_here(self) -> Iterator[list[pa.RecordBatch]]:
        waiting: list[pa.RecordBatch] = []
        blocks = chain.from_iterable(
            packed(number, task.read(self.rules.catalog), self.rules) for number, task in self.here
        )
        for row in counted_records(blocks, self.counter):
            waiting.append(row)
            if sum(batch.nbytes for batch in waiting) >= self.sent_bytes:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

    def _in_file(self, number: int, rows: list[pa.RecordBatch]) -> str:
        """Write the rows to a file, which executors of this machine read."""
        path = self.directory / f"judged-{number}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows[0].schema) as writer:
            for row in rows:
                writer.write_batch(row)
        return str(path)

    def _stored(self, rows: list[pa.RecordBatch]) -> DataFrame:
        """Send the rows to the disks of executors; the checkpoint frees the driver's copy."""
        from pyspark import StorageLevel

        sent = sent_frame(self.session, pa.Table.from_batches(rows), COLUMNS)
        return sent.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionAll(frame)
    return whole


def _shares(tasks: Sequence[Numbered], at_most: int) -> list[list[Numbered]]:
    """Divide tasks into shares of about the same size, whose rows are written together, in order."""
    parts = Counter(task.source.index for _, task in tasks)
    sizes = [1 + task.source.size / parts[task.source.index] for _, task in tasks]
    ways = max(1, min(len(tasks), at_most))
    shares: list[list[Numbered]] = [[] for _ in range(ways)]
    before, total = 0.0, sum(sizes)
    for numbered, size in zip(tasks, sizes, strict=True):
        shares[int((before + size / 2) / total * ways)].append(numbered)
        before += size
    return [share for share in shares if share]
