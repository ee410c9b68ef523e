"""Index builds: what a type declares, what is missing, and one commit that builds it.

The same functions serve `ensure_indices` and a load that builds inside its own commit. Where the
parts of an index are built (here, or by executors) is the caller's choice: a ``Builds``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.attempts import Attempt, Attempts
from omnigraph.commit.changes import NothingToPublish, StagedStep, TableChange, Write
from omnigraph.commit.heal import heal
from omnigraph.errors import OmniGraphError
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.lang.schema.indexes import IndexKind, declared_indexes
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.filters.pushdown import Condition, filter_expression
from omnigraph.storage.tables.indexes import Coverage, build_segment, coverage, stage_index_segments
from omnigraph.storage.tables.staging import Staged
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_errors import NothingToIndex

Wanted = tuple[str, IndexKind]


@dataclass(frozen=True, slots=True)
class Parts:
    """The built parts of one index, and the fragments that have nothing to index."""

    segments: Sequence[Any]
    without_values: Sequence[int] = ()


Build = Callable[[Table, str, IndexKind], Parts]
Builds = Callable[[Sequence[Wanted]], Build]
"""Given all indexes a table is to get, how to build each: so that they can be built at once."""


def build_here(_wanted: Sequence[Wanted]) -> Build:
    """Each index as one part, in this process, when its turn comes."""

    def build(table: Table, column: str, kind: IndexKind) -> Parts:
        numbers = [fragment.id for fragment in table.fragments()]
        return Parts([build_segment(table, column, kind, numbers)])

    return build


@dataclass
class IndexReport:
    """What was built, what has nothing to be built on yet, and what failed."""

    built: list[tuple[str, str]] = field(default_factory=list)
    pending: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str, str]] = field(default_factory=list)
    commit: GraphCommit | None = None
    engine: str = "local"
    """`spark` when an index was built by executors."""
    note: str | None = None
    """Why the engine is not the one that was to be expected."""

    def to_json(self) -> dict[str, Any]:
        """The public form."""
        return {
            "built": [list(item) for item in self.built],
            "pending_indexes": [list(item) for item in self.pending],
            "failed": [
                {"table_key": key, "property": name, "error": why} for key, name, why in self.failed
            ],
            "engine": self.engine,
            "commit": None if self.commit is None else self.commit.to_json(),
            **({} if self.note is None else {"note": self.note}),
        }


def wanted_indexes(entity: Entity) -> list[Wanted]:
    """Every index a table should have: the implicit columns, then what is declared."""
    implicit = [(name, IndexKind.BTREE) for name in entity.implicit_columns]
    return [*implicit, *declared_indexes(entity)]


def missing_indexes(entity: Entity, table: Table, *, all_of_them: bool = False) -> list[Wanted]:
    """The wanted indexes a table does not have at all (or all, when none will survive)."""
    return [
        (name, kind)
        for name, kind in wanted_indexes(entity)
        if all_of_them or coverage(table, name, kind) is Coverage.NONE
    ]


def index_steps(
    entity: Entity,
    wanted: Sequence[Wanted],
    report: IndexReport,
    builds: Builds = build_here,
) -> Iterator[StagedStep]:
    """Best-effort steps that build indexes on the table as they find it."""
    build = builds(wanted)
    for name, kind in wanted:
        yield StagedStep(_staging(entity, name, kind, report, build), best_effort=True)


def _staging(
    entity: Entity, name: str, kind: IndexKind, report: IndexReport, build: Build
) -> Callable[[Table], Staged | None]:
    def stage(table: Table) -> Staged | None:
        try:
            parts = build(table, name, kind)
            staged = stage_index_segments(table, name, kind, parts.segments, parts.without_values)
        except NothingToIndex:
            report.pending.append((entity.table_key, name))
            return None
        except OmniGraphError as error:
            report.failed.append((entity.table_key, name, str(error)))
            raise
        report.built.append((entity.table_key, name))
        return staged

    return stage


def ensure_indices(
    workspace: Workspace,
    catalog: Catalog,
    branch: str,
    actor_id: str | None = None,
    builds_for: Callable[[TableState], Builds] = lambda _pin: build_here,
) -> IndexReport:
    """Build every missing index of every table that has rows, in one commit.

    What fails is reported and holds up nothing else; where nothing was built there is no commit.
    """
    heal(workspace)

    def build(attempt: Attempt) -> IndexReport:
        report = IndexReport()
        changes = []
        for pin in attempt.state.head.tables.values():
            entity = catalog.entity(pin.table_key)
            todo = _buildable(workspace, entity, pin, report)
            if todo:
                steps = index_steps(entity, todo, report, builds_for(pin))
                changes.append(TableChange(pin, tuple(steps)))
        if changes:
            intent = Intent(new_ulid(), "ensure_indices", stamp_us(), actor_id)
            write = Write(
                "ensure_indices", attempt.state.pin, intent, tuple(changes), only_if_changed=True
            )
            with contextlib.suppress(NothingToPublish):
                report.commit = attempt.commit(write)
        return report

    return Attempts(workspace, branch).run(build)


def _buildable(
    workspace: Workspace, entity: Entity, pin: TableState, report: IndexReport
) -> list[Wanted]:
    """The missing indexes of a table; those without anything to build on are reported."""
    if pin.row_count == 0:
        return []
    table = open_table(workspace.pinned(pin))
    todo = []
    for name, kind in missing_indexes(entity, table):
        if kind is IndexKind.VECTOR and _is_empty(table, name):
            report.pending.append((entity.table_key, name))
        else:
            todo.append((name, kind))
    return todo


def _is_empty(table: Table, column: str) -> bool:
    where = filter_expression(table.schema, [Condition(column, "is_not_null")])
    try:
        return table.count_rows(where) == 0
    except OmniGraphError:
        return False  # The build meets the same trouble, and is reported.
