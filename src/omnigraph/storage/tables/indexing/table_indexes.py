"""Indexes of one table: stage a build, and say how much of the table each index covers."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from omnigraph.cancel import current, look_at
from omnigraph.lang.schema.catalog import PROPERTY_ID_METADATA
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.tables.indexing.index_health import damage_at, find_damage, index_parts
from omnigraph.storage.tables.indexing.index_kinds import (
    DESCRIPTIONS,
    KindDescription,
    describe,
    has_direction,
    stands_in_the_way,
)
from omnigraph.storage.tables.lance_import import lance
from omnigraph.storage.tables.staging import RowCounts, Staged
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_errors import NothingToIndex, lance_errors
from omnigraph.storage.tables.transactions import TransactionKind


class Coverage(enum.StrEnum):
    """How much of a table an index covers. Queries are right in every case, only slower."""

    INDEXED = "indexed"
    DEGRADED = "degraded"
    DAMAGED = "damaged"
    """Its files are lost or damaged, so that it is not used."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index as the open version has it."""

    name: str
    column: str
    kind: IndexKind | None
    tail: tuple[int, ...]
    """The numbers of the fragments it does not cover."""
    unindexed_rows: int
    parts: tuple[frozenset[int], ...]
    """The fragments that each of its parts covers, the oldest part first."""
    built_at_version: int
    places: tuple[str, ...] = ()
    """Where the files of its parts are."""

    @property
    def damage(self) -> str | None:
        """Why it cannot be used, as far as this process knows; None if it can."""
        return damage_at(self.places)

    @property
    def segments(self) -> int:
        """The number of its parts; every search reads all of them."""
        return len(self.parts)

    @property
    def coverage(self) -> Coverage:
        """Full, or partial because rows were added or rewritten since, or none because of damage."""
        if self.damage is not None:
            return Coverage.DAMAGED
        return Coverage.DEGRADED if self.tail else Coverage.INDEXED


def index_name(table: Table, column: str, kind: IndexKind) -> str:
    """The name of the product's index of that kind on a column, which can have several kinds.

    An index that is there keeps its name. A new one is named by the id of its property, because
    Lance binds a name to its field and a rename does not change it: ``p7_btree`` stays free for
    property 7, whatever another property called its column before.
    """
    for entry in table.dataset.describe_indices():
        if entry.field_names[0] == column and _kind(entry) is kind:
            return str(entry.name)
    return _new_name(table, column, kind)


def _new_name(table: Table, column: str, kind: IndexKind) -> str:
    metadata = table.schema.field(column).metadata or {}
    number = metadata.get(PROPERTY_ID_METADATA.encode())
    return f"{column if number is None else f'p{number.decode()}'}_{kind}"


def is_named_by_us(table: Table, state: IndexState) -> bool:
    """Whether an index has the name that the product gives it; others made the other ones."""
    return state.kind is not None and state.name == _new_name(table, state.column, state.kind)


def list_indexes(table: Table, *, examine: bool = False) -> list[IndexState]:
    """Every index of the table, by name; with ``examine`` their files are looked at first."""
    if examine:
        find_damage(table.ref, table.dataset)
    places: dict[str, list[str]] = {}
    for part in index_parts(table.ref, table.dataset):
        places.setdefault(part.index, []).append(part.place)
    with lance_errors(f"listing the indexes of {table.ref}"):
        fragments = table.fragments()
        return [
            _state(entry, fragments, tuple(places.get(entry.name, ())))
            for entry in table.dataset.describe_indices()
        ]


def _state(entry: Any, fragments: Sequence[Any], places: tuple[str, ...]) -> IndexState:
    # Not `index_statistics`: that opens the index files, and its fragment bitmap is this one.
    segments = sorted(entry.segments, key=lambda one: one.dataset_version_at_last_update)
    numbers = {fragment.id for fragment in fragments}
    parts = tuple(frozenset(numbers.intersection(one.fragment_ids)) for one in segments)
    covered = frozenset().union(*parts)
    missing = [fragment for fragment in fragments if fragment.id not in covered]
    return IndexState(
        name=entry.name,
        column=entry.field_names[0],
        kind=_kind(entry),
        tail=tuple(fragment.id for fragment in missing),
        unindexed_rows=sum(fragment.num_rows for fragment in missing),
        parts=parts,
        built_at_version=segments[-1].dataset_version_at_last_update,
        places=places,
    )


def _kind(entry: Any) -> IndexKind | None:
    """The kind of a listed index; None when the product would not have built one like it."""
    for described in DESCRIPTIONS:
        if entry.index_type.startswith(described.listed_as) and described.fits(entry.details):
            return described.kind
    return None


def coverage(table: Table, column: str, kind: IndexKind) -> Coverage:
    """How much of the table the best index of that kind on that column covers."""
    return best_coverage(list_indexes(table), column, kind)


def best_coverage(states: Iterable[IndexState], column: str, kind: IndexKind) -> Coverage:
    """The coverage of the index that serves the column best, among those that were listed."""
    found = [state.coverage for state in states if state.column == column and state.kind is kind]
    return min(found, key=_WORST_LAST.index, default=Coverage.NONE)


_WORST_LAST = list(Coverage)


def stage_create_index(table: Table, column: str, kind: IndexKind) -> Staged:
    """Build an index over the whole table and stage it in place of the one of that kind, if any.

    ``NothingToIndex`` when a vector column has no value at all; any other table
    works, even one without rows (its index is empty and covers nothing).
    """
    segment = build_segment(table, column, kind, [fragment.id for fragment in table.fragments()])
    return stage_index_segments(table, column, kind, [segment])


def build_segment(table: Table, column: str, kind: IndexKind, fragment_ids: Sequence[int]) -> Any:
    """Build the part of an index that covers these fragments (``lance.Index``, can be pickled).

    Parts for different fragments of one version can be built in different processes. Vector
    fragments without a value raise ``NothingToIndex``; pass them to ``stage_index_segments``.
    """
    described = describe(kind)
    with lance_errors(f"building the {described.built_as} index on {column} of {table.ref}"):
        if described.needs_values and not _any_value(table, column, described, fragment_ids):
            raise NothingToIndex(
                f"no row of {table.ref} has a {column} yet, so no {kind} index can be built",
                table=table.ref.dataset_uri,
                column=column,
            )
        if described.build is not None:
            without_rows = partial(_build, table, column, described, (), train=False)
            built = described.build(table, column, fragment_ids, without_rows)
            if built is not None:
                return built
        return _build(table, column, described, fragment_ids)


def _build(
    table: Table, column: str, described: KindDescription, fragment_ids: Sequence[int], **more: Any
) -> Any:
    chosen = set(fragment_ids)
    rows = sum(item.num_rows for item in table.fragments() if item.id in chosen)
    token = current() if described.calls_back else None
    if token is not None:
        # From a thread of Lance, where no token counts by itself.
        more["progress_callback"] = lambda _: look_at(token)
    return table.dataset.create_index_uncommitted(
        column,
        described.built_as,
        name=index_name(table, column, described.kind),
        fragment_ids=list(fragment_ids),
        replace=True,
        **described.parameters(rows),
        **more,
    )


def _any_value(
    table: Table, column: str, described: KindDescription, fragment_ids: Sequence[int]
) -> bool:
    from omnigraph.storage.filters import Condition, filter_expression

    if not fragment_ids:
        return False
    # Not `fragment.count_rows`, which lets no other thread run while it waits for the store (pylance 14).
    has_value = filter_expression(table.schema, [Condition(column, "is_not_null")])
    if described.needs_directions:
        batches = table.scan([column], has_value, fragment_ids=list(fragment_ids))
        return any(has_direction(batch.column(column)).any() for batch in batches)
    found = table.read([], has_value, with_row_id=True, limit=1, fragment_ids=list(fragment_ids))
    return bool(found.num_rows)


def stage_index_segments(
    table: Table,
    column: str,
    kind: IndexKind,
    segments: Sequence[Any],
    without_values: Sequence[int] = (),
) -> Staged:
    """Stage an index made of parts from ``build_segment``, in place of the parts of that name.

    Our index of the column for another metric goes with it, because Lance searches only one of them.
    The parts may come from an older version of the table with the same fragments.
    ``without_values`` are fragments in which no row has anything to index: the first part covers
    them too, because a search has nothing to look for there.
    """
    new = list(segments)
    if without_values:
        new[0] = replace(new[0], fragment_ids={*new[0].fragment_ids, *without_values})
    described = describe(kind)
    with lance_errors(f"building the {described.built_as} index on {column} of {table.ref}"):
        if described.joins_parts:
            # Unmerged, the parts lack files that every search opens.
            new = [table.dataset.merge_existing_index_segments(new)]
        # Parts that are not listed as removed would stay in use beside the new ones.
        names = [new[0].name, *_ours_in_the_way(table, column, kind)]
        return _staged(table, new, [part for name in names for part in _segments(table, name)])


def _ours_in_the_way(table: Table, column: str, kind: IndexKind) -> list[str]:
    """The names of our indexes that Lance could search instead of one of that kind."""
    return [
        state.name
        for state in list_indexes(table)
        if state.column == column
        and stands_in_the_way(state.kind, kind)
        and is_named_by_us(table, state)
    ]


def stage_drop_index(table: Table, name: str) -> Staged:
    """Stage the removal of an index."""
    with lance_errors(f"dropping the index {name} of {table.ref}"):
        return _staged(table, [], _segments(table, name))


def part_fragments(table: Table) -> dict[str, frozenset[int]]:
    """The numbers of the fragments that each part of an index was built over, by the UUID of the part."""
    with lance_errors(f"listing the indexes of {table.ref}"):
        return {
            str(part.uuid): frozenset(part.fragment_ids)
            for entry in table.dataset.describe_indices()
            for part in entry.segments
        }


def stage_drop_parts(table: Table, uuids: Collection[str]) -> Staged | None:
    """Stage the removal of some parts of indexes; None if the table has none of them."""
    with lance_errors(f"dropping parts of the indexes of {table.ref}"):
        names = {entry.name for entry in table.dataset.describe_indices()}
        parts = [part for name in sorted(names) for part in _segments(table, name)]
        removed = [part for part in parts if str(part.uuid) in uuids]
        return _staged(table, [], removed) if removed else None


def stage_missing_part(table: Table, column: str, kind: IndexKind) -> Staged | None:
    """Stage what an index lacks after parts of it were dropped: one part more, or all of it; None if nothing."""
    tails = [one.tail for one in list_indexes(table) if (one.column, one.kind) == (column, kind)]
    if not tails or not describe(kind).takes_new_part:
        return stage_create_index(table, column, kind)
    if not tails[0]:
        return None
    segment = build_segment(table, column, kind, tails[0])
    with lance_errors(f"building a part of the index on {column} of {table.ref}"):
        return _staged(table, [segment], [])


def _staged(table: Table, new: list[Any], removed: list[Any]) -> Staged:
    operation = lance().LanceOperation.CreateIndex(new, removed)
    transaction = lance().Transaction(table.version, operation)
    return Staged(table.ref, transaction, TransactionKind.CREATE_INDEX, RowCounts())


def _segments(table: Table, name: str) -> list[Any]:
    """The parts of the index of that name, in the form a transaction lists them."""
    return [
        lance().Index(
            uuid=segment.uuid,
            name=name,
            fields=list(entry.fields),
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
        )
        for entry in table.dataset.describe_indices()
        if entry.name == name
        for segment in entry.segments
    ]
