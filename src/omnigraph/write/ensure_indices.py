"""Index builds: what a type declares, what is missing, and one commit that builds it.

The same functions serve `ensure_indices` and a load that builds inside its own commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from omnigraph.commit.changes import StagedStep, TableChange, Write
from omnigraph.commit.heal import heal
from omnigraph.commit.protocol import commit
from omnigraph.commit.workspace import Workspace
from omnigraph.errors import OmniGraphError
from omnigraph.lang.schema.catalog import Catalog, EdgeType, NodeType, declared_indexes
from omnigraph.manifest.create import new_commit_id, now_us
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit
from omnigraph.storage.handles import Table, open_table
from omnigraph.storage.indexes import Coverage, IndexKind, coverage, stage_create_index
from omnigraph.storage.pushdown import Condition, filter_expression
from omnigraph.storage.staging import Staged
from omnigraph.storage.table_errors import NothingToIndex

KINDS = {"btree": IndexKind.BTREE, "fts": IndexKind.INVERTED, "vector": IndexKind.VECTOR}

Wanted = tuple[str, IndexKind]


@dataclass
class IndexReport:
    """What was built, what has nothing to be built on yet, and what failed."""

    built: list[tuple[str, str]] = field(default_factory=list)
    pending: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str, str]] = field(default_factory=list)
    commit: GraphCommit | None = None

    def to_json(self) -> dict[str, Any]:
        """The public form."""
        return {
            "built": [list(item) for item in self.built],
            "pending_indexes": [list(item) for item in self.pending],
            "failed": [
                {"table_key": key, "property": name, "error": why} for key, name, why in self.failed
            ],
            "commit": None if self.commit is None else self.commit.to_json(),
        }


def wanted_indexes(entity: NodeType | EdgeType) -> list[Wanted]:
    """Every index a table should have: the implicit columns, then what is declared."""
    implicit = [(name, IndexKind.BTREE) for name in entity.implicit_columns]
    return implicit + [(name, KINDS[kind]) for name, kind in declared_indexes(entity)]


def missing_indexes(
    entity: NodeType | EdgeType, table: Table, *, all_of_them: bool = False
) -> list[Wanted]:
    """The wanted indexes a table does not have at all (or all, when none will survive)."""
    return [
        (name, kind)
        for name, kind in wanted_indexes(entity)
        if all_of_them or coverage(table, name, kind) is Coverage.NONE
    ]


def index_steps(
    entity: NodeType | EdgeType, wanted: list[Wanted], report: IndexReport
) -> Iterator[StagedStep]:
    """Best-effort steps that build indexes on the table as they find it."""
    for name, kind in wanted:
        yield StagedStep(_builder(entity, name, kind, report), best_effort=True)


def _builder(entity: NodeType | EdgeType, name: str, kind: IndexKind, report: IndexReport) -> Any:
    def stage(table: Table) -> Staged | None:
        try:
            staged = stage_create_index(table, name, kind)
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
    space: Workspace, catalog: Catalog, branch: str, actor_id: str | None = None
) -> IndexReport:
    """Build every missing index of every table that has rows, in one commit."""
    heal(space)
    report = IndexReport()
    tables = space.manifest.state(branch).head.tables
    changes = []
    for key, pin in tables.items():
        entity = catalog.entity(key)
        if pin.row_count == 0:
            continue
        table = open_table(space.pinned(pin))
        todo = []
        for name, kind in missing_indexes(entity, table):
            if kind is IndexKind.VECTOR and not _has_values(table, name):
                report.pending.append((entity.table_key, name))
            else:
                todo.append((name, kind))
        if todo:
            changes.append(TableChange(pin, tuple(index_steps(entity, todo, report))))
    if changes:
        intent = Intent(new_commit_id(), "ensure_indices", now_us(), actor_id)
        write = Write("ensure_indices", branch, intent, tuple(changes))
        report.commit = commit(space, write)
    return report


def _has_values(table: Table, column: str) -> bool:
    where = filter_expression(table.schema, [Condition(column, "is_not_null")])
    return table.count_rows(where) > 0
