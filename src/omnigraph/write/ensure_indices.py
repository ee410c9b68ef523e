"""Index builds: which indexes a type should have, which are missing, and one commit that builds them.

The same functions serve ``ensure_indices`` and loads that build indexes in their own commit. Where
an index is built (this process or Spark executors) is the caller's choice: a ``Builds``.
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
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.filters.pushdown import Condition, filter_expression
from omnigraph.storage.tables.indexes import Coverage, build_segment, coverage, stage_index_segments
from omnigraph.storage.tables.staging import Staged
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_errors import NothingToIndex

WantedIndex = tuple[str, IndexKind]


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


def build_here(_wanted: Sequence[WantedIndex]) -> Build:
    """Build each index as one part, in this process, when its step runs."""

    def build(table: Table, column: str, kind: IndexKind) -> IndexParts:
        numbers = [fragment.id for fragment in table.fragments()]
        return IndexParts([build_segment(table, column, kind, numbers)])

    return build


@dataclass
class IndexReport:
    """What was built, what has no values to build on yet, and what failed."""

    built: list[tuple[str, str]] = field(default_factory=list)
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
            "pending_indexes": [list(item) for item in self.pending],
            "failed": [
                {"table_key": key, "property": name, "error": why} for key, name, why in self.failed
            ],
            "engine": self.engine,
            "commit": None if self.commit is None else self.commit.to_json(),
            **({} if self.note is None else {"note": self.note}),
        }


def wanted_indexes(entity: Entity) -> list[WantedIndex]:
    """Return every index a table should have: the implicit columns first, then what is declared."""
    implicit = [(name, IndexKind.BTREE) for name in entity.implicit_columns]
    return [*implicit, *declared_indexes(entity)]


def missing_indexes(
    entity: Entity, table: Table, *, all_of_them: bool = False
) -> list[WantedIndex]:
    """Return the wanted indexes that a table does not have at all.

    ``all_of_them`` returns every wanted index, for a write after which none will be left.
    """
    return [
        (name, kind)
        for name, kind in wanted_indexes(entity)
        if all_of_them or coverage(table, name, kind) is Coverage.NONE
    ]


def index_steps(
    entity: Entity,
    wanted: Sequence[WantedIndex],
    report: IndexReport,
    builds: Builds = build_here,
) -> Iterator[StagedStep]:
    """Yield best-effort steps that build indexes on the table as they find it."""
    build = builds(wanted)
    for name, kind in wanted:
        yield StagedStep(_make_stage(entity, name, kind, report, build), best_effort=True)


def _make_stage(
    entity: Entity, name: str, kind: IndexKind, report: IndexReport, build: Build
) -> Callable[[Table], Staged | None]:
    """Return the function that builds and stages one index, and reports the outcome."""

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
    catalog_at: Callable[[BranchState], Catalog],
    branch: str,
    actor_id: str | None = None,
    builds_for: Callable[[TableState], Builds] = lambda _pin: build_here,
) -> IndexReport:
    """Build every missing index of every table that has rows, in one commit.

    ``catalog_at`` gives the types of a state of the branch; each attempt asks it, so that a schema
    that changed meanwhile is followed. An index that fails is reported and does not stop the
    others. If nothing was built, there is no commit.
    """
    heal(workspace)

    def build(attempt: Attempt) -> IndexReport:
        catalog = catalog_at(attempt.state)
        report = IndexReport()
        changes = []
        for pin in attempt.state.head.tables.values():
            entity = catalog.entity(pin.table_key)
            todo = _find_buildable(workspace, entity, pin, report)
            if todo:
                steps = index_steps(entity, todo, report, builds_for(pin))
                changes.append(TableChange(pin, tuple(steps)))
        if changes:
            intent = Intent(new_ulid(), "ensure_indices", stamp_us(), actor_id)
            write = Write(
                "ensure_indices",
                attempt.state.pin,
                intent,
                tuple(changes),
                ir_hash=attempt.state.head.ir_hash,
                only_if_changed=True,
            )
            with contextlib.suppress(NothingToPublish):
                report.commit = attempt.commit(write)
        return report

    return Attempts(workspace, branch).run(build)


def _find_buildable(
    workspace: Workspace, entity: Entity, pin: TableState, report: IndexReport
) -> list[WantedIndex]:
    """Return the missing indexes of a table; those without values to build on are reported."""
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
        return False  # the build will meet the same error and report it
