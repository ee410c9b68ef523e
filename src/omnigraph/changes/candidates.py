"""Which entities may differ between two states of one table, found at the cost of what changed.

The states of a table form a tree: a branch of the table goes on from one version of its parent. Two
states have a lowest common one, and whatever differs between them was changed on one of the two ways
from there. Lance knows what changed between two versions of one branch:

    main     1 ─ 2 ─ 3 ─ 4 ─ 5          states: review 6 and main 5, lowest common: main 3
                 └ review 3 ─ 4 ─ 5 ─ 6  candidates: review 3 → 6, main 3 → 5

Row ids are numbered per branch, so only ids of entities cross from one branch to another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.row_changes import ROW_ID
from omnigraph.changes.table_side import TableSide
from omnigraph.errors import StorageError
from omnigraph.storage.tables.branch_refs import read_branch
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_errors import VersionMissing
from omnigraph.storage.tables.table_ref import TableRef


class _Place(NamedTuple):
    """A version of one branch of a table; ``identifier`` is None on main."""

    branch: str | None
    identifier: str | None
    version: int

    @property
    def lineage(self) -> tuple[str | None, str | None]:
        return self.branch, self.identifier


class Segment(NamedTuple):
    """A stretch of one branch of a table: everything after ``start`` up to ``end.version``."""

    end: TableRef
    start: int


def candidate_ids(before: TableSide, after: TableSide, limit: int) -> pa.Array | None:
    """Ids that include every entity that differs, ascending and each once.

    None: any may differ, because more than ``limit`` rows changed or Lance cannot tell what did.
    """
    found: list[pa.Array] = []
    left = limit
    try:
        for segment in segments_between(before, after):
            for ids in _changed_ids(segment):
                found.append(ids)
                left -= len(ids)
                if left < 0:
                    return None
    except VersionMissing:
        # Cleanup removed the version where the two ways part.
        return None
    every = pa.chunked_array(found, pa.utf8()).unique()
    return every.take(pc.array_sort_indices(every))


def segments_between(before: TableSide, after: TableSide) -> list[Segment]:
    """The ways from the lowest common state of the table to either side, cut at forks."""
    ways = [_way(side) for side in (before, after)]
    left, right = ({place.lineage: place for place in way} for way in ways)
    shared = next(place.lineage for place in ways[0] if place.lineage in right)
    start = min(left[shared].version, right[shared].version)
    segments = []
    for side, way in zip((before, after), ways, strict=True):
        for place, parent in zip(way, [*way[1:], None], strict=True):
            at_fork = start if place.lineage == shared or parent is None else parent.version
            if place.version > at_fork:
                ref = side.pinned.ref.on(place.branch, place.version, place.identifier)
                segments.append(Segment(ref, at_fork))
            if place.lineage == shared:
                break
    return segments


def _way(side: TableSide) -> list[_Place]:
    """The state of a side, then the one that its branch of the table was made from, down to main."""
    pinned = side.pinned
    fork = pinned.fork
    version = pinned.state.table_version
    way = []
    while fork is not None:
        way.append(_Place(fork.name, fork.identifier, version))
        version = fork.parent_version
        if fork.parent is None:
            break
        # Lance keeps a branch as long as another one was made from it.
        parent = read_branch(side.workspace.store, pinned.state.location, fork.parent)
        if parent is None:
            raise StorageError(
                f"the branch {fork.parent} of {pinned.ref.uri}, from which {fork.name} was made, is "
                "missing; restore the graph from a copy"
            )
        fork = parent
    return [*way, _Place(None, None, version)]


def _changed_ids(segment: Segment) -> Iterator[pa.Array]:
    """The ids of what was inserted, updated or deleted, batch by batch."""
    start = open_table(segment.end.at(segment.start))
    end = open_table(segment.end)
    delta = end.delta(segment.start)
    for reader in (delta.inserted(), delta.updated()):
        for batch in reader:
            yield batch.column("id")
    for batch in delta.deleted_row_ids():
        yield _ids_of(start, batch.column(ROW_ID))


def _ids_of(table: Table, row_ids: pa.Array) -> pa.Array:
    if not len(row_ids):
        return pa.array([], pa.utf8())
    return table.take(row_ids.to_pylist(), ["id"]).column("id").combine_chunks()
