"""Which tasks read and write the input of a load, and what such a task does.

A task of Spark reads a part of the input, judges the rows and writes them to files. What it gives to Spark is one
row, its pickled `TaskResult`. What only this process can read it writes itself, by the same function.
"""

from __future__ import annotations

import collections
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

import pyarrow as pa

from omnigraph import settings
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.pipeline.formats.frame_blocks import read_batches
from omnigraph.pipeline.formats.frame_layout import Layout
from omnigraph.pipeline.formats.typed_batch import SOURCE_SHIFT, Parsed
from omnigraph.pipeline.load_input import is_spark_frame
from omnigraph.pipeline.load_plan import LoadPlan
from omnigraph.pipeline.read_tasks import FileTask, FrameTask, LinesTask, ReadTask
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.sources.locations import InMemory, LocalFile
from omnigraph.pipeline.sources.sources import PART_SHIFT, InputSource
from omnigraph.pipeline.written.task_rows import TaskPlan, TaskResult, TaskRows
from omnigraph.runner.spark_columns import columns_of_frame
from omnigraph.runner.spark_errors import error_bytes
from omnigraph.runner.spark_tasks import Batches, executor_task, task_frame

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession


Numbered: TypeAlias = tuple[int, ReadTask]
Counter: TypeAlias = "Accumulator[int] | None"
"""What a task adds the number of its records to; None if no progress is reported."""

RESULTS = "result binary"
"""The columns of the frame that tasks give."""
PART = "0part"
"""The column that says which partition of a DataFrame a row is in."""
MAX_PARTS = 1 << (SOURCE_SHIFT - PART_SHIFT)
"""The most partitions of a DataFrame, whose tasks are numbered in steps of it.

With more, rows would share an order, and with it an id that is made of it."""


class InputPlan:
    """Decides which tasks read the input and where they run, and runs them."""

    def __init__(
        self,
        session: SparkSession,
        request: LoadPlan,
        rules: RowRules,
        directory: Path,
        counter: Accumulator[int] | None,
        *,
        is_local: bool,
    ) -> None:
        self.session = session
        self.inputs = request.inputs
        self.rules = rules
        self.directory = directory
        self.counter = counter
        self.is_local = is_local
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

    def run(self, plan: TaskPlan) -> list[TaskResult]:
        """Run all tasks, and return what they tell in the order of the input."""
        frames = [self._of_spark_frame(number, task, plan) for number, task in self.frames]
        if self.away:
            run = partial(write_share, plan=plan, counter=self.counter)
            shares = _shares(self.away, settings.LOAD_CONCURRENCY.get())
            frames.insert(0, task_frame(self.session, run, shares, RESULTS))
        results: list[TaskResult] = []
        if frames:
            told = _union(frames).toArrow().column("result").to_pylist()
            results += map(pickle.loads, told)
        if self.here:
            # Frames of this process, and on a cluster its files: no executor can read them.
            results.append(written_share(self.here, plan, self.counter))
        return sorted(results, key=lambda one: one.task)

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

    def _of_spark_frame(self, number: int, task: FrameTask, plan: TaskPlan) -> DataFrame:
        layout = task.layout(self.rules.catalog)
        names = task.frame.columns
        layout.check(names, "the frame")
        run = partial(
            write_part,
            number=number,
            source=task.source,
            layout=layout,
            names=names,
            plan=plan,
            counter=self.counter,
        )
        name = f"omnigraph_{self.rules.operation_id}_{number}"
        # The frame belongs to another session; global views are how sessions of one context share.
        rows = numbered_parts(task.frame).mapInArrow(run, RESULTS)
        rows.createOrReplaceGlobalTempView(name)
        data = self.session.table(f"global_temp.{name}").select("*")
        self.session.catalog.dropGlobalTempView(name)
        return data


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionAll(frame)
    return whole


def _shares(tasks: Sequence[Numbered], at_most: int) -> list[list[Numbered]]:
    """Divide tasks into shares of about the same size, whose rows are written together, in order."""
    parts = collections.Counter(task.source.index for _, task in tasks)
    sizes = [1 + task.source.size / parts[task.source.index] for _, task in tasks]
    ways = max(1, min(len(tasks), at_most))
    shares: list[list[Numbered]] = [[] for _ in range(ways)]
    before, total = 0.0, sum(sizes)
    for numbered, size in zip(tasks, sizes, strict=True):
        shares[int((before + size / 2) / total * ways)].append(numbered)
        before += size
    return [share for share in shares if share]


# ------------------------------------------------------------------ in a task


@executor_task
def write_share(share: Sequence[Numbered], *, plan: TaskPlan, counter: Counter = None) -> Batches:
    """Read the input of some tasks, and write their rows together."""
    yield _packed(written_share(share, plan, counter))


def written_share(share: Sequence[Numbered], plan: TaskPlan, counter: Counter) -> TaskResult:
    """Do the same in this process."""
    parts = ((number, lambda task=task: task.read(plan.rules.catalog)) for number, task in share)
    return _written(parts, plan, counter)


@executor_task
def write_part(
    batches: Batches,
    *,
    number: int,
    source: InputSource,
    layout: Layout,
    names: Sequence[str],
    plan: TaskPlan,
    counter: Counter = None,
) -> Batches:
    """Write the rows of a partition of a DataFrame, whose first partition has the task ``number``."""
    part = FramePart.of(batches, names)
    if part is not None:
        blocks = iter([(number + part.part, lambda: part.blocks(layout, source))])
        result = _written(blocks, plan, counter)
        yield _packed(replace(result, part=(source.index, part.part, part.seen)))


def _written(
    parts: Iterator[tuple[int, Callable[[], Iterator[Parsed]]]], plan: TaskPlan, counter: Counter
) -> TaskResult:
    """Write the rows of parts together. An error that ends the load is part of the result.

    If it were raised, Spark would run the task again; and the driver must see the errors of all tasks to
    report the first one in the input.
    """
    task = 0
    try:
        with TaskRows(plan, partial(count, counter)) as rows:
            for task, blocks in parts:
                rows.take(task, blocks())
            return rows.finish(task)
    except OmniGraphError as error:
        return TaskResult(task, failure=error_bytes(error))


def _packed(result: TaskResult) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"result": pa.array([pickle.dumps(result)], pa.binary())})


def numbered_parts(frame: DataFrame) -> DataFrame:
    """Return the rows with the column ``PART``, and their own columns by position instead of by name.

    ``mapInArrow`` looks columns up by name: it misses those with a dot or a backtick in it, and takes two
    that differ only in case for one. The task gives the names back (``FramePart``). Refuses columns of types
    that tasks cannot be given.
    """
    from pyspark.sql import functions

    columns_of_frame(frame.schema)
    by_position = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
    return by_position.withColumn(PART, functions.spark_partition_id())


def count(counter: Counter, rows: int) -> None:
    """Add rows to a tally."""
    if counter is not None:
        counter.add(rows)


class FramePart:
    """A partition with rows. They are numbered by partition and by place in it.

    The column ``PART`` has the partition: the number of the task that runs is another one where a task
    of a later stage reads rows again that died with their executor.
    """

    def __init__(self, first: pa.RecordBatch, others: Batches, names: Sequence[str]) -> None:
        self.part: int = first.column(PART)[0].as_py()
        if self.part >= MAX_PARTS:
            raise BadRequest(f"the frame has more than {MAX_PARTS} partitions; coalesce it")
        self.seen = 0
        """How many rows were read so far."""
        self._batches = chain([first], others)
        self._names = list(names)

    @classmethod
    def of(cls, batches: Batches, names: Sequence[str]) -> Self | None:
        """Return the partition of a frame with columns of these names; None if it has no rows."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        return None if first is None else cls(first, filled, names)

    def blocks(self, layout: Layout, source: InputSource) -> Iterator[Parsed]:
        """Read the rows, block by block."""
        first_row = (self.part << PART_SHIFT) + 1
        return read_batches(layout, self._counted(), source=source.index, first_row=first_row)

    def _counted(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.seen += batch.num_rows
            own = batch.remove_column(batch.schema.get_field_index(PART))
            yield own.rename_columns(self._names)
