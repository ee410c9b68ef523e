"""What one table needs: the one description that ``optimize``, upkeep and ``status`` share.

```python
work = table_work(table, entity, Effort.THOROUGH)
if work.is_due:
    outcome = Outcome()
    change = TableChange(pin, prepare(work, table).steps(outcome))  # of ``work_steps``
```
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.errors import OmniGraphError
from omnigraph.lang.schema.catalog import Entity
from omnigraph.lang.schema.indexes import WantedIndex, wanted_indexes
from omnigraph.maintenance.effort import (
    Effort,
    Fold,
    Fragment,
    due_folds,
    light_groups,
    part_of,
    thorough_groups,
)
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.blobs.blob_columns import blob_columns
from omnigraph.storage.tables.blobs.carry import BlobSizes, batch_rows, blob_sizes
from omnigraph.storage.tables.indexing.index_kinds import describe, follows_rewrites
from omnigraph.storage.tables.indexing.table_indexes import IndexState, is_named_by_us, list_indexes
from omnigraph.storage.tables.table import Table
from omnigraph.storage.versions import find_auto_cleanup
from omnigraph.write.index_builds import missing_indexes

NO_BLOBS = BlobSizes()


@dataclass(frozen=True, slots=True)
class MergeGroup:
    """Fragments to merge into one."""

    fragment_ids: tuple[int, ...]
    batch_rows: int | None = None
    """How many rows may be in memory at a time, None for any number."""


@dataclass(frozen=True, slots=True)
class TableWork:
    """What a table needs; ``is_due`` says whether that is anything at all."""

    effort: Effort
    entity: Entity | None = None
    folds: tuple[Fold, ...] = ()
    """Indexes that do not cover all fragments, or have too many parts."""
    groups: tuple[MergeGroup, ...] = ()
    missing: tuple[WantedIndex, ...] = ()
    """Declared indexes to build."""
    pending: tuple[str, ...] = ()
    """Properties whose declared index has no value to be built on yet."""
    undeclared: tuple[str, ...] = ()
    """Indexes to drop, by name: their property is declared without one now."""
    auto_cleanup: tuple[str, ...] = ()
    """Settings by which Lance would delete old versions on its own."""
    large_blobs: bool = False
    """Whether fragments are left alone because of the size of a blob."""

    @property
    def is_due(self) -> bool:
        """Whether there is anything to do."""
        return any((self.folds, self.groups, self.missing, self.undeclared, self.auto_cleanup))

    def building(self, indexes: Iterable[WantedIndex]) -> TableWork:
        """Return this work and the building of these indexes, which may be there already."""
        chosen = dict.fromkeys((*self.missing, *indexes))
        missing = tuple(one for one in chosen if one[0] not in self.pending)
        folds = tuple(
            one for one in self.folds if (one.state.column, one.state.kind) not in missing
        )
        return replace(self, missing=missing, folds=folds)


# ------------------------------------------------------------------ what is due


def table_work(table: Table, entity: Entity | None, effort: Effort) -> TableWork:
    """Return what a table needs; on a branch it must be a table that the branch has forked.

    ``entity`` is its type, which says which indexes it should have; None leaves that alone.
    """
    states = list_indexes(table, examine=effort is not Effort.LIGHT)
    fragments = table.fragments()
    rows = {fragment.id: fragment.num_rows for fragment in fragments}
    builds, drops = effort is not Effort.LIGHT, effort is Effort.THOROUGH
    undeclared = list(_undeclared(table, entity, states)) if drops and entity is not None else []
    declared = [state for state in states if state.name not in undeclared]
    folds = due_folds(declared, rows, effort)
    groups: tuple[MergeGroup, ...] = ()
    large_blobs = False
    if effort is not Effort.INDEXES:
        groups, large_blobs = _groups(table, fragments, _Limits.of(declared, folds), effort)
    missing: tuple[WantedIndex, ...] = ()
    pending: tuple[str, ...] = ()
    if builds and entity is not None and any(rows.values()):
        missing, pending = _missing(table, entity)
    return TableWork(
        effort,
        entity,
        folds=tuple(folds),
        groups=groups,
        missing=missing,
        pending=pending,
        undeclared=tuple(undeclared),
        auto_cleanup=find_auto_cleanup(table),
        large_blobs=large_blobs,
    )


def _undeclared(table: Table, entity: Entity, states: Iterable[IndexState]) -> Iterator[str]:
    """Yield the names of our own indexes that the type does not ask for any more."""
    wanted = set(wanted_indexes(entity))
    for state in states:
        if state.kind is None or (state.column, state.kind) in wanted:
            continue
        if is_named_by_us(table, state):
            yield state.name


def _missing(table: Table, entity: Entity) -> tuple[tuple[WantedIndex, ...], tuple[str, ...]]:
    """Return the indexes to build, and the properties that have no value to build one on."""
    missing = missing_indexes(entity, table)
    pending = [
        (name, kind)
        for name, kind in missing
        if describe(kind).needs_values and _is_empty(table, name)
    ]
    todo = tuple(one for one in missing if one not in pending)
    return todo, tuple(name for name, _ in pending)


def _is_empty(table: Table, column: str) -> bool:
    where = filter_expression(table.schema, [Condition(column, "is_not_null")])
    try:
        return table.count_rows(where) == 0
    except OmniGraphError:
        return False  # the build will meet the same error and report it


@dataclass(frozen=True, slots=True)
class _Limits:
    """The indexes that keep fragments apart, each with the fold that comes before the merging."""

    folds: tuple[tuple[IndexState, Fold | None], ...]

    @classmethod
    def of(cls, states: Iterable[IndexState], folds: Iterable[Fold]) -> _Limits:
        chosen = {fold.state.name: fold for fold in folds}
        limiting = (state for state in states if follows_rewrites(state.kind))
        return cls(tuple((state, chosen.get(state.name)) for state in limiting))

    def parts(self, fragment: int) -> tuple[Hashable, ...]:
        return tuple(part_of(fragment, state, fold) for state, fold in self.folds)


def is_kept_apart(fragment_ids: Iterable[int], states: Iterable[IndexState]) -> bool:
    """Return whether an index covers some of these fragments otherwise than others, as it is now."""
    limits = _Limits.of(states, ())
    return len({limits.parts(number) for number in fragment_ids}) > 1


def _groups(
    table: Table, fragments: Iterable[Any], limits: _Limits, effort: Effort
) -> tuple[tuple[MergeGroup, ...], bool]:
    """Return the groups of own fragments to merge, and whether large blobs were left alone."""
    choose = light_groups if effort is Effort.LIGHT else thorough_groups
    own = [one for one in fragments if not _is_inherited(one)]
    found = choose(_describe(own, limits, {}))
    if not found or not blob_columns(table.schema):
        return tuple(MergeGroup(group) for group in found), False
    # The sizes of blobs are read of those fragments only that might be merged.
    sizes = blob_sizes(table, sorted(number for group in found for number in group))
    fitting = [one for one in own if one.id in sizes and not sizes[one.id].too_large]
    groups = choose(_describe(fitting, limits, sizes))
    return (
        tuple(MergeGroup(group, batch_rows(sizes[number] for number in group)) for group in groups),
        any(size.too_large for size in sizes.values()),
    )


def _describe(
    fragments: Iterable[Any], limits: _Limits, blobs: Mapping[int, BlobSizes]
) -> Iterator[Fragment]:
    for one in fragments:
        size = _live_bytes(one) + blobs.get(one.id, NO_BLOBS).total
        yield Fragment(one.id, one.num_rows, one.num_deletions, size, limits.parts(one.id))


def _is_inherited(fragment: Any) -> bool:
    """Whether a fragment of a branch has a data file in the directory of another one."""
    return any(file.base_id is not None for file in fragment.files)


def _live_bytes(fragment: Any) -> int:
    """The bytes of the rows that are not deleted, about."""
    stored: int = sum(file.file_size_bytes or 0 for file in fragment.files)
    return stored * int(fragment.num_rows) // max(1, int(fragment.physical_rows))
