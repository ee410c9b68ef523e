"""Index builds and compactions as Spark jobs: executors put files down, the driver commits them.

A task gets the address of a table at one version and hands back what the commit needs (an index
part, a compaction result): a kilobyte or so. Whatever a lost or repeated task wrote is referenced
by nobody. What is committed, and how, is the business of `write/ensure_indices.py` and
`write/compaction.py`, whoever did the work.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from omnigraph import settings
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.pipeline.load_options import ENGINES, EngineName
from omnigraph.runner.job_errors import explained_failures
from omnigraph.runner.session import is_running, spark_session
from omnigraph.storage.tables.indexes import IndexKind, build_segment
from omnigraph.storage.tables.inline_residual import run_compaction_task
from omnigraph.storage.tables.table import Table, TableRef, open_table
from omnigraph.storage.tables.table_errors import NothingToIndex
from omnigraph.write.compaction import CompactionReport, Rewrite, compact, rewrite_here
from omnigraph.write.ensure_indices import (
    Build,
    Builds,
    IndexReport,
    Parts,
    Wanted,
    build_here,
    ensure_indices,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A smaller table has one fragment, and is done here before executors have begun.
LARGE_TABLE_ROWS = 1_000_000
# Every search asks every part of an index, so there is no part for less.
ROWS_PER_PART = 50_000

Item = TypeVar("Item")
Result = TypeVar("Result")


def ensure_indices_on(
    engine: EngineName,
    workspace: Workspace,
    catalog: Catalog,
    branch: str,
    actor_id: str | None = None,
) -> IndexReport:
    """Build every missing index in one commit, on that engine."""
    executors = _Executors(engine)
    used = set()

    def builds_for(pin: TableState) -> Builds:
        chosen = executors.for_table(pin)
        used.add("local" if chosen is None else "spark")
        return build_here if chosen is None else partial(build_on_spark, chosen)

    report = ensure_indices(workspace, catalog, branch, actor_id, builds_for)
    report.engine = "spark" if "spark" in used else "local"
    report.note = executors.note
    return report


def compact_on(
    engine: EngineName, workspace: Workspace, branch: str, actor_id: str | None = None
) -> CompactionReport:
    """Compact every table that has fragments to merge in one commit, on that engine."""
    executors = _Executors(engine)

    def rewrite_for(pin: TableState) -> Rewrite:
        chosen = executors.for_table(pin)
        return rewrite_here if chosen is None else partial(rewrite_on_spark, chosen)

    report = compact(workspace, branch, actor_id, rewrite_for)
    report.note = executors.note
    return report


class _Executors:
    """The session that works on tables, or none.

    ``auto`` starts none that nobody asked for, and none for small tables; where it does not start,
    this process does the work, and ``note`` says why.
    """

    def __init__(self, engine: EngineName) -> None:
        if engine not in ENGINES:
            raise BadRequest(f"engine is {engine!r}; give one of {', '.join(ENGINES)}")
        self.note: str | None = None
        self._auto = engine == "auto"
        # Now, so that what is wrong with it is said before any work.
        self._session = spark_session() if engine == "spark" else None
        self._wanted = self._auto and (is_running() or settings.SPARK_MASTER.get() is not None)

    def for_table(self, pin: TableState) -> SparkSession | None:
        """The session to work on a table with; None to do it here."""
        if self._wanted and pin.row_count >= LARGE_TABLE_ROWS:
            self._wanted = False
            try:
                self._session = spark_session()
            except OmniGraphError as failure:
                why = failure.message.partition("\n")[0]
                self.note = f"this process did the work of Spark's executors: {why}"
        return None if self._auto and pin.row_count < LARGE_TABLE_ROWS else self._session


# ------------------------------------------------------------------ indexes


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an index to be built by one task."""

    ref: TableRef
    column: str
    kind: IndexKind
    fragment_ids: tuple[int, ...]
    rows: int

    def build(self) -> Any:
        """The built part (``lance.Index``)."""
        return build_segment(open_table(self.ref), self.column, self.kind, self.fragment_ids)


def build_on_spark(session: SparkSession, wanted: Sequence[Wanted]) -> Build:
    """Build all indexes of a table by one job, when the first of them is asked for.

    Later ones find the table some index commits further on, with the same fragments.
    """
    built: dict[Wanted, list[tuple[_Part, Outcome[Any]]]] = {}

    def build(table: Table, column: str, kind: IndexKind) -> Parts:
        if not built:
            parts = list(_parts(table, wanted, session.sparkContext.defaultParallelism))
            outcomes = run_tasks(session, _Part.build, parts, weight=lambda part: part.rows)
            for part, outcome in zip(parts, outcomes, strict=True):
                built.setdefault((part.column, part.kind), []).append((part, outcome))
        return _joined(built[column, kind])

    return build


def _parts(table: Table, wanted: Sequence[Wanted], ways: int) -> Iterator[_Part]:
    groups = _groups([(f.id, f.num_rows) for f in table.fragments()], ways)
    for column, kind in wanted:
        for numbers, rows in groups:
            yield _Part(table.ref, column, kind, numbers, rows)


def _groups(fragments: Sequence[tuple[int, int]], ways: int) -> list[tuple[tuple[int, ...], int]]:
    """Fragments, given as (id, rows), in up to that many groups of about as many rows.

    Neighbours stay together: a compaction merges neighbours, and only those that the same parts of
    all indexes cover.
    """
    total = sum(rows for _, rows in fragments)
    ways = min(ways, max(1, total // ROWS_PER_PART))
    groups: dict[int, list[tuple[int, int]]] = {}
    start = 0
    for number, rows in fragments:
        middle = (2 * start + rows) * ways // max(1, 2 * total)
        groups.setdefault(min(middle, ways - 1), []).append((number, rows))
        start += rows
    return [
        (tuple(number for number, _ in group), sum(rows for _, rows in group))
        for group in groups.values()
    ]


def _joined(built: Sequence[tuple[_Part, Outcome[Any]]]) -> Parts:
    """The parts of one index; fragments without a value are named beside them."""
    segments = []
    without_values: list[int] = []
    nothing: OmniGraphError | None = None
    for part, outcome in built:
        if isinstance(outcome.error, NothingToIndex):
            nothing = outcome.error
            without_values += part.fragment_ids
        else:
            segments.append(outcome.get())
    if nothing is not None and not segments:
        raise nothing
    return Parts(segments, without_values)


# ------------------------------------------------------------------ compaction


def rewrite_on_spark(session: SparkSession, table: Table, tasks: Sequence[Any]) -> list[Any]:
    """Run the tasks of a planned compaction on executors."""
    rewrite = partial(_rewritten, table.ref)
    return [outcome.get() for outcome in run_tasks(session, rewrite, tasks)]


def _rewritten(ref: TableRef, task: Any) -> Any:
    return run_compaction_task(open_table(ref), task)


# ------------------------------------------------------------------ tasks


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Result]):
    """What came of one task: its result, or the error it ended with."""

    result: Result | None = None
    error: OmniGraphError | None = None

    def get(self) -> Result:
        """The result; raises the error."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]


def run_tasks(
    session: SparkSession,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    weight: Callable[[Item], int] = lambda _item: 1,
) -> list[Outcome[Result]]:
    """Call a function for every item on executors; heavy ones first, outcomes in order.

    At most OMNIGRAPH_MAINTENANCE_CONCURRENCY run at a time. An error of ours is given to Spark to
    try again where that can help, and is an outcome in the end: one item does not fail the others.
    """
    if not items:
        return []
    order = sorted(range(len(items)), key=lambda at: -weight(items[at]))
    ways = min(len(items), settings.MAINTENANCE_CONCURRENCY.get())
    shares = [[(at, items[at]) for at in order[way::ways]] for way in range(ways)]
    # On this machine Spark gives a task one try only.
    tries = 1 if str(session.sparkContext.master).startswith("local") else 2
    work = partial(_work, pickle.dumps(function), [pickle.dumps(share) for share in shares], tries)
    with explained_failures():
        rows = session.range(0, ways, 1, ways).mapInArrow(work, "at long, outcome binary").collect()
    outcomes = {row.at: pickle.loads(bytes(row.outcome)) for row in rows}  # noqa: S301 - our own
    return [outcomes[at] for at in range(len(items))]


def _work(
    function: bytes, shares: Sequence[bytes], tries: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """An executor's side: the shares of the numbers that came to it."""
    from pyspark import TaskContext

    context = TaskContext.get()
    last = context is None or context.attemptNumber() + 1 >= tries
    call = pickle.loads(function)  # noqa: S301 - from our driver
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for at, item in pickle.loads(shares[number]):  # noqa: S301 - from our driver
                done = pickle.dumps(_outcome(call, item, last=last))
                yield pa.RecordBatch.from_pydict({"at": [at], "outcome": [done]})


def _outcome(call: Callable[[Any], Any], item: Any, *, last: bool) -> Outcome[Any]:
    try:
        return Outcome(call(item))
    except NothingToIndex as nothing:
        return Outcome(error=nothing)
    except OmniGraphError as error:
        if not last:
            raise
        return Outcome(error=error)
