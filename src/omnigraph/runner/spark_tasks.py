"""Run functions on Spark's executors: a list of tasks in, a frame or a list of outcomes out.

`task_frame` gives one Spark task to each item and leaves the rows on the executors: loads read their
input this way, and the Spark runner scans tables. `run_tasks` brings a small result of each item
here: index builds and compactions. `executor_task` marks a function that maps batches there.
`kept_frame` caches rows that are asked about more than once.

```python
outcomes = run_tasks(session, build_part, parts, at_once=8)
segments = [outcome.get() for outcome in outcomes]  # raises the error of a part that failed
```
"""

from __future__ import annotations

import functools
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from omnigraph.errors import OmniGraphError
from omnigraph.runner.spark_errors import carried_errors, error_bytes, error_of, spark_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator["pa.RecordBatch"]
Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")


def executor_task(function: Callable[Arguments, Batches]) -> Callable[Arguments, Batches]:
    """Return the generator as one for executors: errors reach the driver, Lance uses one thread."""

    @functools.wraps(function)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Batches:
        # Every core has a task of its own, so one thread each.
        os.environ.setdefault("LANCE_CPU_THREADS", "1")
        with carried_errors():
            yield from function(*args, **kwargs)

    return run


@contextmanager
def same_active_session(session: SparkSession) -> Iterator[Any]:
    """Give Java's class of sessions, and leave the active session of this thread as it was.

    `df.write` looks in the active session for the data sources that are written in Python.
    """
    from pyspark.sql import SparkSession as Sessions

    jvm: Any = session._jvm  # noqa: SLF001
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    here, before = Sessions._activeSession, sessions.getActiveSession()  # noqa: SLF001
    try:
        yield sessions
    finally:
        Sessions._activeSession = here  # noqa: SLF001
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def sent_frame(session: SparkSession, rows: Any, schema: Any) -> DataFrame:
    """Return rows of this process as a DataFrame; the caller's session stays the active one."""
    with same_active_session(session):
        return session.createDataFrame(rows, schema)


def kept_frame(data: DataFrame) -> DataFrame:
    """Return the rows as a cached frame whose plan is a single leaf.

    Spark analyses the whole plan of a frame in every query about it, cached or not: of frames that
    are made from each other, each query would take longer than the one before. Rows that an
    executor loses are computed again, as for any cached frame.
    """
    return leaf_frame(data).persist()


def leaf_frame(data: DataFrame) -> DataFrame:
    """Return the frame as a single leaf, of which Spark does not know how large it is.

    Spark takes what `mapInArrow` gives for as small as what it was given, and would send a whole table to
    every executor. Of a leaf it finds the size out while it runs. Nothing runs here.
    """
    from pyspark.sql import DataFrame as Frames

    session: Any = data.sparkSession
    java: Any = data._jdf  # noqa: SLF001
    rows = java.queryExecution().toRdd()
    leaf = session._jsparkSession.internalCreateDataFrame(rows, java.schema(), False)  # noqa: SLF001
    return Frames(leaf, session)


def task_frame(
    session: SparkSession, function: Callable[[Item], Batches], items: Sequence[Item], schema: Any
) -> DataFrame:
    """Return a frame of the batches that an `executor_task` gives for each item.

    Every item is a Spark task of its own. Nothing runs until the frame is used.
    """
    # Rows of numbers that Spark spreads evenly; a frame of the items themselves it would not.
    numbers = session.range(0, len(items), 1, max(1, len(items)))
    return numbers.mapInArrow(partial(_run_numbered, function=function, items=items), schema)


def _run_numbered(
    batches: Batches, *, function: Callable[[Any], Batches], items: Sequence[Any]
) -> Batches:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from function(items[number])


# ------------------------------------------------------------------ small results


@dataclass(frozen=True, slots=True)
class TaskOutcome(Generic[Result]):
    """The result of one item, or the error that its task ended with."""

    result: Result | None = None
    error: OmniGraphError | None = None

    def get(self) -> Result:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]


def run_tasks(
    session: SparkSession,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    at_once: int,
    weight: Callable[[Item], int] = lambda _item: 1,
    final: tuple[type[OmniGraphError], ...] = (),
) -> list[TaskOutcome[Result]]:
    """Call a function for every item on executors, and return the outcomes in the items' order.

    At most ``at_once`` items run at the same time, heavy ones first. An OmniGraph error becomes the
    outcome of its item and does not fail the others. On a cluster Spark tries the item once more
    before that, unless the error is one of the ``final`` ones.
    """
    if not items:
        return []
    order = sorted(range(len(items)), key=lambda at: -weight(items[at]))
    ways = min(len(items), at_once)
    shares = [[(at, items[at]) for at in order[way::ways]] for way in range(ways)]
    # With a `local` master Spark tries a task only once.
    tries = 1 if str(session.sparkContext.master).startswith("local") else 2
    run = partial(_run_share, function=function, tries=tries, final=final)
    with spark_errors("the Spark job"):
        rows = task_frame(session, run, shares, "at long, result binary, error binary").collect()
    outcomes = {row.at: _outcome(row.result, row.error) for row in rows}
    return [outcomes[at] for at in range(len(items))]


def _run_share(
    share: Sequence[tuple[int, Any]],
    *,
    function: Callable[[Any], Any],
    tries: int,
    final: tuple[type[OmniGraphError], ...],
) -> Batches:
    """Run the items of one share, in an executor."""
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    is_last_try = context is None or context.attemptNumber() + 1 >= tries
    for at, item in share:
        result = error = None
        with carried_errors():
            try:
                result = pickle.dumps(function(item))
            except OmniGraphError as failure:
                if not is_last_try and not isinstance(failure, final):
                    raise
                error = error_bytes(failure)
        columns = {
            "at": pa.array([at], pa.int64()),
            "result": pa.array([result], pa.binary()),
            "error": pa.array([error], pa.binary()),
        }
        yield pa.RecordBatch.from_pydict(columns)


def _outcome(result: bytearray | None, error: bytearray | None) -> TaskOutcome[Any]:
    if error is not None:
        return TaskOutcome(error=error_of(bytes(error)))
    assert result is not None
    return TaskOutcome(pickle.loads(bytes(result)))  # noqa: S301 - written by our own executors
