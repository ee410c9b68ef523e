"""Index builds: which indexes a type should have, which are missing, and the steps that build them.

The same functions serve maintenance and loads that build indexes in their own commit. Where an index
is built (this process or Spark executors) is the caller's choice: a ``Builds``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from omnigraph.commit.changes import StagedStep
from omnigraph.cores import usable_cores
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted
from omnigraph.errors import OmniGraphError
from omnigraph.lang.schema.catalog import Entity
from omnigraph.lang.schema.indexes import IndexKind, WantedIndex, wanted_indexes
from omnigraph.manifest.rows import GraphCommit
from omnigraph.storage.tables.indexing.index_kinds import describe
from omnigraph.storage.tables.indexing.table_indexes import (
    Coverage,
    best_coverage,
    build_segment,
    list_indexes,
    stage_index_segments,
)
from omnigraph.storage.tables.staging import Staged
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_errors import NothingToIndex

_UNUSABLE = (Coverage.NONE, Coverage.DAMAGED)


@dataclass(frozen=True, slots=True)
class IndexParts:
    """The built parts of one index, and the fragments that have no values to index."""

    segments: Sequence[Any]
    without_values: Sequence[int] = ()


Build = Callable[[Table, str, IndexKind], IndexParts]
Builds = Callable[[Sequence[WantedIndex]], Build]
"""A function from all indexes a table will get to the function that builds one of them.

It sees all of them first, so that they can be built at the same time.
"""


def build_here(wanted: Sequence[WantedIndex]) -> Build:
    """Build each index as one part, in this process; those that take one core at the same time."""
    one_core = [one for one in wanted if describe(one[1]).on_one_core]
    built: dict[WantedIndex, Future[Any]] = {}

    def build(table: Table, column: str, kind: IndexKind) -> IndexParts:
        numbers = [fragment.id for fragment in table.fragments()]
        if (column, kind) not in one_core or len(one_core) == 1:
            return IndexParts([build_segment(table, column, kind, numbers)])
        if not built:
            built.update(_at_the_same_time(table, one_core, numbers))
        return IndexParts([built[column, kind].result()])

    return build


def _at_the_same_time(
    table: Table, wanted: Sequence[WantedIndex], numbers: Sequence[int]
) -> dict[WantedIndex, Future[Any]]:
    """Build indexes on all cores; each of the futures has its part or its error."""

    def build(column: str, kind: IndexKind) -> Any:
        # Lance changes a handle while it builds, so each thread needs one of its own.
        return build_segment(open_table(table.ref), column, kind, numbers)

    with ThreadPoolExecutor(min(len(wanted), usable_cores()), "omnigraph-index") as pool:
        return {one: pool.submit(build, *one) for one in wanted}


@dataclass(repr=False)
class IndexReport(Shown):
    """What was built, what has no values to build on yet, and what failed.

    ``extended`` are the indexes that did not cover all rows, and do now.
    """

    built: list[tuple[str, str]] = field(default_factory=list)
    extended: list[tuple[str, str]] = field(default_factory=list)
    pending: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str, str]] = field(default_factory=list)
    commit: GraphCommit | None = None
    engine: str = "local"
    """`spark` when an index was built by executors."""
    note: str | None = None
    """Why another engine was used than the caller would expect."""

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {
            "built": [list(item) for item in self.built],
            "extended": [list(item) for item in self.extended],
            "pending_indexes": [list(item) for item in self.pending],
            "failed": [
                {"table_key": key, "property": name, "error": why} for key, name, why in self.failed
            ],
            "engine": self.engine,
            "commit": None if self.commit is None else self.commit.to_json(),
            **({} if self.note is None else {"note": self.note}),
        }

    def _panel(self) -> Panel:
        listed = (
            ("built", self.built),
            ("extended", self.extended),
            ("pending", self.pending),
        )
        rows = [(*item, what) for what, items in listed for item in items]
        rows += [(key, name, f"failed: {why}") for key, name, why in self.failed]
        commit = "none" if self.commit is None else self.commit.graph_commit_id
        notes = [] if self.note is None else [self.note]
        title = f"{counted(len(self.built), 'index', 'indexes')} built"
        facts = [("extended", len(self.extended)), ("commit", commit), ("engine", self.engine)]
        if not rows:
            return Panel(title, facts, notes=notes)
        return Panel.of_rows(title, ("table", "property", ""), rows, facts=facts, notes=notes)


def missing_indexes(
    entity: Entity, table: Table, *, all_of_them: bool = False
) -> list[WantedIndex]:
    """Return the wanted indexes that a table does not have at all, or only damaged.

    ``all_of_them`` returns every wanted index, for a write after which none will be left.
    """
    wanted = wanted_indexes(entity)
    if all_of_them:
        return wanted
    states = list_indexes(table)
    return [one for one in wanted if best_coverage(states, *one) in _UNUSABLE]


def index_steps(
    entity: Entity,
    wanted: Sequence[WantedIndex],
    report: IndexReport,
    builds: Builds = build_here,
) -> Iterator[StagedStep]:
    """Yield best-effort steps that build indexes on the table as they find it."""
    build = builds(wanted)
    for name, kind in wanted:
        yield _step(entity, name, kind, report, build)


def _step(
    entity: Entity, name: str, kind: IndexKind, report: IndexReport, build: Build
) -> StagedStep:
    """Return the step that builds one index, and reports the outcome."""
    key = entity.table_key

    def stage(table: Table) -> Staged | None:
        try:
            parts = build(table, name, kind)
            return stage_index_segments(table, name, kind, parts.segments, parts.without_values)
        except NothingToIndex:
            report.pending.append((key, name))
            return None

    def settled(error: OmniGraphError | None) -> None:
        if error is None:
            report.built.append((key, name))
        else:
            report.failed.append((key, name, str(error)))

    return StagedStep(stage, best_effort=True, settled=settled)
