"""Index builds and compactions as Spark jobs: executors write files, the driver commits them.

A task gets the address of a table at one version and returns what the commit needs (an index part, a
compaction result): a kilobyte or so. Files of a lost or repeated task are referenced by nothing. What
is committed, and how, is decided in `maintenance/work_steps.py`, for both engines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from omnigraph import settings
from omnigraph.errors import OmniGraphError
from omnigraph.lang.schema.indexes import IndexKind, WantedIndex
from omnigraph.runner.spark_tasks import TaskOutcome, run_tasks
from omnigraph.storage.fragment_groups import balanced_groups, fragment_sizes
from omnigraph.storage.tables.indexing.index_kinds import describe
from omnigraph.storage.tables.indexing.table_indexes import build_segment
from omnigraph.storage.tables.rewriting import run_task
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_errors import NothingToIndex
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.write.index_builds import Build, IndexParts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Every search asks every part of an index, so a part has at least this number of rows.
ROWS_PER_PART = 50_000


# ------------------------------------------------------------------ indexes


@dataclass(frozen=True, slots=True)
class BuildPart:
    """A part of an index that one task builds."""

    ref: TableRef
    column: str
    kind: IndexKind
    fragment_ids: tuple[int, ...]
    rows: int

    def build(self) -> Any:
        """Build the part and return it (``lance.Index``)."""
        return build_segment(open_table(self.ref), self.column, self.kind, self.fragment_ids)


def build_on_spark(session: SparkSession, wanted: Sequence[WantedIndex]) -> Build:
    """Return a function that builds all indexes of a table in one job, at its first call.

    Later calls see the table some index commits later, with the same fragments.
    """
    built: dict[WantedIndex, list[tuple[BuildPart, TaskOutcome[Any]]]] = {}

    def build(table: Table, column: str, kind: IndexKind) -> IndexParts:
        if not built:
            parts = list(plan_parts(table, wanted, session.sparkContext.defaultParallelism))
            outcomes = run_tasks(
                session,
                BuildPart.build,
                parts,
                at_once=settings.MAINTENANCE_CONCURRENCY.get(),
                weight=lambda part: part.rows,
                final=(NothingToIndex,),
            )
            for part, outcome in zip(parts, outcomes, strict=True):
                built.setdefault((part.column, part.kind), []).append((part, outcome))
        return _joined(built[column, kind])

    return build


def plan_parts(table: Table, wanted: Sequence[WantedIndex], cores: int) -> Iterator[BuildPart]:
    """Divide the indexes of a table into parts: one for each core, if that is worth while."""
    sizes = fragment_sizes(table)
    worthwhile = max(1, min(cores, sum(rows for _, rows in sizes) // ROWS_PER_PART))
    for column, kind in wanted:
        described = describe(kind)
        # Of a trained index, the next ``optimize`` would build more parts again as one.
        most = described.most_parts if described.is_trained else worthwhile
        for group in balanced_groups(sizes, min(most, worthwhile)):
            yield BuildPart(table.ref, column, kind, group.fragment_ids, group.rows)


def _joined(built: Sequence[tuple[BuildPart, TaskOutcome[Any]]]) -> IndexParts:
    """Return the parts of one index, and the fragments that have no value to index."""
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
    return IndexParts(segments, without_values)


# ------------------------------------------------------------------ compaction


def rewrite_on_spark(session: SparkSession, table: Table, tasks: Sequence[Any]) -> list[Any]:
    """Run the tasks of a planned compaction on executors and return their results."""
    rewrite = partial(_rewritten, table.ref)
    at_once = settings.MAINTENANCE_CONCURRENCY.get()
    return [outcome.get() for outcome in run_tasks(session, rewrite, tasks, at_once=at_once)]


def _rewritten(ref: TableRef, task: Any) -> Any:
    return run_task(open_table(ref), task)
