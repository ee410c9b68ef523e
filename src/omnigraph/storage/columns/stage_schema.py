"""Staged changes of a table's columns: metadata only, at most two transactions with known UUIDs.

Lance numbers the fields of a table, and only its own schema calls continue that numbering; a schema
built from Arrow would number fields by position and mix columns up. Those calls commit by
themselves, so they run on a scratch branch of the table, and the schemas they leave there are what
the transactions on the table itself put in place. For example, dropping ``x`` and adding a new
``x``:

  scratch    add `__added_0`                       -> schema 1: id, x, __added_0
             drop x, rename `__added_0` to x       -> schema 2: id, x (with a number of its own)
  table      Merge(its fragments, schema 1), Project(schema 2)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from omnigraph.storage.tables.lance_import import lance
from omnigraph.storage.tables.staging import RowCounts, Staged
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_branches import create_branch, delete_branch, remove_residue
from omnigraph.storage.tables.table_errors import lance_errors
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import Operation

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """Columns to add, to rename, to make nullable and to drop, all at once.

    ``renamed`` maps old names to new ones, and may cross (a swap). ``relaxed`` and ``dropped`` hold
    old names. An added column may take a name that is renamed away or dropped in the same change:
    it is a new column and reads null. Added fields are nullable and carry their own metadata.
    """

    added: tuple[pa.Field, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    relaxed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the table stays as it is."""
        return not (self.added or self.renamed or self.relaxed or self.dropped)


SCRATCH: Final = "__plan"
"""The Lance branch on which schema operations are tried; no graph branch can have this name."""


@dataclass(frozen=True, slots=True)
class PlannedColumns:
    """The Lance schemas that lead from a table's columns to the wanted ones; None: no such step."""

    widened: Any | None
    """With the added columns, some under temporary names."""
    final: Any | None
    """With everything renamed, relaxed and dropped."""

    def stages(self) -> tuple[Callable[[Table], Staged], ...]:
        """The steps in order, each to be staged on the table as the step before left it."""
        steps: list[Callable[[Table], Staged]] = []
        if self.widened is not None:
            steps.append(self._merge)
        if self.final is not None:
            steps.append(self._project)
        return tuple(steps)

    def _merge(self, table: Table) -> Staged:
        operation = lance().LanceOperation.Merge(table.fragments(), self.widened)
        return _staged(table, operation, Operation.MERGE)

    def _project(self, table: Table) -> Staged:
        return _staged(table, lance().LanceOperation.Project(self.final), Operation.PROJECT)


def _staged(table: Table, operation: Any, kind: Operation) -> Staged:
    return Staged(table.ref, lance().Transaction(table.version, operation), kind, RowCounts())


def plan_columns(table: Table, changes: ColumnChanges) -> PlannedColumns:
    """Try the changes on a scratch branch of the table, and keep the schemas they lead to.

    The scratch branch is gone afterwards, whatever happens; what a crash left of one is removed
    first. The caller holds the table's lock: there is one scratch branch for everybody.
    """
    if changes.is_empty:
        return PlannedColumns(None, None)
    reclaim_scratch(table.ref)
    try:
        return _try(create_branch(table, SCRATCH), changes)
    finally:
        reclaim_scratch(table.ref)


def reclaim_scratch(ref: TableRef) -> None:
    """Remove the scratch branch of a table, or what a crash left of it. There may be none."""
    delete_branch(ref, SCRATCH)
    remove_residue(ref, SCRATCH)


def _try(scratch: Table, changes: ColumnChanges) -> PlannedColumns:
    import pyarrow as pa

    dataset = scratch.dataset
    taken = set(scratch.schema.names)
    landing = {
        field.name: _free_name(number, taken) if field.name in taken else field.name
        for number, field in enumerate(changes.added)
    }
    widened = None
    with lance_errors(f"planning new columns of {scratch.ref.uri}"):
        if changes.added:
            dataset.add_columns(
                pa.schema([field.with_name(landing[field.name]) for field in changes.added])
            )
            widened = dataset.lance_schema
        before = dataset.version
        if changes.dropped:
            dataset.drop_columns(list(changes.dropped))
        altered = _alterations(changes, landing)
        if altered:
            dataset.alter_columns(*altered)
        final = dataset.lance_schema if dataset.version > before else None
    return PlannedColumns(widened, final)


def _free_name(number: int, taken: set[str]) -> str:
    name = f"__added_{number}"
    while name in taken:
        name += "_"
    return name


def _alterations(changes: ColumnChanges, landing: dict[str, str]) -> list[dict[str, Any]]:
    """One entry for each column that gets another name or becomes nullable."""
    altered: dict[str, dict[str, Any]] = {}
    arrived = {at: name for name, at in landing.items() if at != name}
    for old, new in {**changes.renamed, **arrived}.items():
        altered.setdefault(old, {"path": old})["name"] = new
    for old in changes.relaxed:
        altered.setdefault(old, {"path": old})["nullable"] = True
    return list(altered.values())
