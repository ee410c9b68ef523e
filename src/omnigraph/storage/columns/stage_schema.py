"""Staged changes of a table's columns: at most three transactions with known UUIDs, which copy no row.

Lance numbers the fields of a table, and only its own schema calls continue that numbering; a schema
built from Arrow would number fields by position and mix columns up. Those calls commit by
themselves, so they run on a scratch branch of the table, and the schemas they leave there are what
the transactions on the table itself put in place. For example, dropping ``x`` and adding a new
``x``:

  scratch    add `__added_0`                       -> schema 1: id, x, __added_0
             drop x, rename `__added_0` to x       -> schema 2: id, x (with a number of its own)
  table      Merge(its fragments, schema 1), Project(schema 2)

A column of another type is such a new column with the values of the old one, which an Update between
the two brings in files of their own (`new_column_files.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from omnigraph.storage.columns.new_column_files import (
    ColumnFiles,
    cast_column,
    numbered,
    repeated_value,
    stage_files,
    with_files,
)
from omnigraph.storage.tables.lance_import import lance
from omnigraph.storage.tables.staging import RowCounts, Staged
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_branches import create_branch, delete_branch, remove_residue
from omnigraph.storage.tables.table_errors import lance_errors
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import TransactionKind

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """Columns to add, to rename, to make nullable, to drop and to write anew, all at once.

    ``renamed`` maps old names to new ones, and may cross (a swap). ``relaxed`` and ``dropped`` hold
    old names. An added column may take a name that is renamed away or dropped in the same change:
    it is a new column and reads null, or the one value that ``filled`` has under its name. Added fields
    carry their own metadata; those that are not nullable are among ``filled``.

    ``widened`` and ``cleared`` map the old names of columns to the fields that take their place, under their
    new names: with the same values in a larger type, or without values. Neither is among the others.
    """

    added: tuple[pa.Field, ...] = ()
    filled: Mapping[str, pa.Scalar] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    relaxed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    widened: Mapping[str, pa.Field] = field(default_factory=dict)
    cleared: Mapping[str, pa.Field] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether the table stays as it is."""
        return not (self.added or self.renamed or self.relaxed or self.dropped or self.replaced)

    @property
    def writes_values(self) -> bool:
        """Whether values are written for the rows that are there."""
        return bool(self.filled or self.replaced)

    @property
    def replaced(self) -> Mapping[str, pa.Field]:
        """The fields of other columns that take the place of old ones, by the old names."""
        return {**self.widened, **self.cleared}

    def name_of(self, column: str) -> str:
        """The name that a column which stays has afterwards."""
        if column in self.replaced:
            return str(self.replaced[column].name)
        return self.renamed.get(column, column)

    def keeps_values_of(self, column: str) -> bool:
        """Whether the values of a column are there afterwards."""
        return column not in self.dropped and column not in self.cleared


FilesFor = Callable[[Table], ColumnFiles]
"""Gives the files of a column for a table that has the same rows."""

SCRATCH: Final = "__plan"
"""The Lance branch on which schema operations are tried; no graph branch can have this name."""


@dataclass(frozen=True, slots=True)
class PlannedColumns:
    """The Lance schemas that lead from a table's columns to the wanted ones; None: no such step.

    ``values`` give the files of columns whose rows stay unchanged, ``cleared`` of those whose rows change.
    """

    extended: Any | None
    """With the new columns, some under temporary names."""
    final: Any | None
    """With everything renamed, relaxed and dropped."""
    values: tuple[FilesFor, ...] = ()
    cleared: tuple[FilesFor, ...] = ()

    def stages(self) -> tuple[Callable[[Table], Staged], ...]:
        """The steps in order, each to be staged on the table as the step before left it."""
        steps: list[Callable[[Table], Staged]] = []
        if self.extended is not None:
            steps.append(self._merge)
        if self.values:
            steps.append(lambda table: stage_files(table, *(files(table) for files in self.values)))
        if self.final is not None:
            steps.append(self._project)
        return tuple(steps)

    def _merge(self, table: Table) -> Staged:
        files = (files(table) for files in self.cleared)
        operation = lance().LanceOperation.Merge(with_files(table, *files), self.extended)
        return _staged(table, operation, TransactionKind.MERGE)

    def _project(self, table: Table) -> Staged:
        return _staged(table, lance().LanceOperation.Project(self.final), TransactionKind.PROJECT)


def _staged(table: Table, operation: Any, kind: TransactionKind) -> Staged:
    return Staged(table.ref, lance().Transaction(table.version, operation), kind, RowCounts())


def plan_columns(table: Table, changes: ColumnChanges, *, forks: bool = False) -> PlannedColumns:
    """Try the changes on a scratch branch of the table, and keep the schemas they lead to.

    The scratch branch is gone afterwards, whatever happens; what a crash left of one is removed
    first. The caller holds the table's lock: there is one scratch branch for everybody. The values of columns
    are written now, because that may take long and fail; until they are committed nothing refers to the files.
    If the table ``forks`` first, they are written by the steps: no file of one branch belongs to another.
    """
    if changes.is_empty:
        return PlannedColumns(None, None)
    landing = _landing(table, changes)
    reclaim_scratch(table.ref)
    try:
        planned = _try(create_branch(table, SCRATCH), changes, landing)
    finally:
        reclaim_scratch(table.ref)
    return _with_values(table, changes, planned, landing, forks=forks)


def _with_values(
    table: Table,
    changes: ColumnChanges,
    planned: PlannedColumns,
    landing: Mapping[str, str],
    *,
    forks: bool,
) -> PlannedColumns:
    """The same with the values of the columns that are filled or written anew."""
    import pyarrow as pa

    if not changes.writes_values or not table.fragments():
        return planned
    fields = {one.name(): one for one in planned.extended.fields()}  # type: ignore[union-attr]

    def widened(old: str, new: pa.Field) -> FilesFor:
        return lambda on: numbered(cast_column(on, old, new), fields[landing[new.name]])

    def repeated(new: pa.Field, value: pa.Scalar) -> FilesFor:
        return lambda on: numbered(repeated_value(on, new, value), fields[landing[new.name]])

    def soon(files: FilesFor) -> FilesFor:
        if forks:
            return files
        written = files(table)
        return lambda _on: written

    return replace(
        planned,
        values=(
            *(
                soon(repeated(new, changes.filled[new.name]))
                for new in changes.added
                if new.name in changes.filled
            ),
            *(soon(widened(old, new)) for old, new in changes.widened.items()),
        ),
        # Values that are gone are a change of their rows; only a file with values says so.
        cleared=tuple(
            soon(repeated(new, pa.scalar(None, new.type))) for new in changes.cleared.values()
        ),
    )


def reclaim_scratch(ref: TableRef) -> None:
    """Remove the scratch branch of a table, or what a crash left of it. There may be none."""
    delete_branch(ref, SCRATCH)
    remove_residue(ref, SCRATCH)


def _landing(table: Table, changes: ColumnChanges) -> dict[str, str]:
    """The names under which new columns are added, by their own names: temporary where those are taken."""
    taken = set(table.schema.names)
    new = [*changes.added, *changes.replaced.values()]
    return {
        field.name: _free_name(number, taken) if field.name in taken else field.name
        for number, field in enumerate(new)
    }


def _try(scratch: Table, changes: ColumnChanges, landing: Mapping[str, str]) -> PlannedColumns:
    import pyarrow as pa

    dataset = scratch.dataset
    altered = _alterations(scratch.schema, changes, landing)
    extended = None
    new = [*changes.added, *changes.replaced.values()]
    with lance_errors(f"planning new columns of {scratch.ref.uri}"):
        if new:
            fields = [field.with_name(landing[field.name]).with_nullable(True) for field in new]
            dataset.add_columns(pa.schema(fields))
            extended = dataset.lance_schema
        before = dataset.version
        gone = [*changes.dropped, *changes.replaced]
        if gone:
            dataset.drop_columns(gone)
        if any(one.get("nullable") is False for one in altered):
            # The columns have no values here, and Lance looks for nulls in the rows that are there.
            dataset.delete("true")
        if altered:
            dataset.alter_columns(*altered)
        final = dataset.lance_schema if dataset.version > before else None
    return PlannedColumns(extended, final)


def _free_name(number: int, taken: set[str]) -> str:
    name = f"__added_{number}"
    while name in taken:
        name += "_"
    return name


def _alterations(
    stored: pa.Schema, changes: ColumnChanges, landing: Mapping[str, str]
) -> list[dict[str, Any]]:
    """One entry for each column that gets another name, becomes nullable, or is new and not nullable."""
    altered: dict[str, dict[str, Any]] = {}
    arrived = {at: name for name, at in landing.items() if at != name}
    for old, new in {**changes.renamed, **arrived}.items():
        altered.setdefault(old, {"path": old})["name"] = new
    for old in changes.relaxed:
        altered.setdefault(old, {"path": old})["nullable"] = True
    for new_field in changes.added:
        if not new_field.nullable:
            at = landing[new_field.name]
            altered.setdefault(at, {"path": at})["nullable"] = False
    for old, new_field in changes.widened.items():
        # A column that is nullable in the table may have nulls in deleted rows, which Lance still reads.
        if not new_field.nullable and not stored.field(old).nullable:
            at = landing[new_field.name]
            altered.setdefault(at, {"path": at})["nullable"] = False
    return list(altered.values())
