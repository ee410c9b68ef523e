"""How much maintenance may do to a table, which fragments that merges and which indexes it folds: pure functions.

Fragments are put together until one would have too many rows or bytes. No two results would fit
together, so doing it again finds nothing to do, and a full fragment is never written again for the
few rows that came after it.

To fold an index is to extend it to the fragments it does not cover, without training it again. The new
rows become a part of their own or are merged with the newest parts; every search reads all parts.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from omnigraph.storage.tables.indexing.index_kinds import describe
from omnigraph.storage.tables.indexing.table_indexes import IndexState


class Effort(enum.Enum):
    """Which work is due, and how it is done."""

    THOROUGH = "thorough"
    """All of it, as ``optimize`` does."""
    INDEXES = "indexes"
    """All that concerns indexes, and fragments stay, as ``ensure_indices`` does."""
    LIGHT = "light"
    """What costs about as much as the latest writes did, as upkeep does: nothing is built or dropped."""


# Upkeep: a new part of an index that is not trained costs what was written, merging its parts what is there.
FEW_PARTS: Final = 8
"""This many parts of such an index stay, however large the newer ones are."""
MOST_PARTS: Final = 32
NEWER_SHARE: Final = 10
"""With more than a few parts: they are merged when the newer ones hold one row in this number."""
MERGED_ROWS: Final = 1_000_000
"""In tables of up to this many rows, upkeep extends the other indexes too, which merges parts."""

SIMILAR: Final = 3
"""A part of a trained index is merged with what came after it if it is at most this many times as large."""

NEW_PART: Final = 0
"""Make a part of the new rows alone, which not every kind of index can have."""


@dataclass(frozen=True, slots=True)
class Fold:
    """An index to extend: the new rows are merged with that many of its newest parts.

    ``NEW_PART`` merges none; None leaves it to Lance, which makes a new part of a trained index,
    or trains it again.
    """

    state: IndexState
    merged: int | None


def due_folds(states: Iterable[IndexState], rows: Mapping[int, int], effort: Effort) -> list[Fold]:
    """Return the indexes that must be extended or merged, given the rows of each fragment.

    One that is damaged is built anew instead (``missing_indexes``).
    """
    states = [state for state in states if state.damage is None]
    if effort is Effort.LIGHT:
        found = [_light_fold(state, rows) for state in states]
    else:
        all_of_them = effort is Effort.THOROUGH
        found = [_thorough_fold(state) for state in states if all_of_them or state.tail]
    return [fold for fold in found if fold is not None]


def _thorough_fold(state: IndexState) -> Fold | None:
    """As many parts are left as the kind may have."""
    most = None if state.kind is None else describe(state.kind).most_parts
    if most is not None and state.segments + bool(state.tail) > most:
        return Fold(state, state.segments)
    return Fold(state, None) if state.tail else None


def _light_fold(state: IndexState, rows: Mapping[int, int]) -> Fold | None:
    if not state.tail:
        return None
    described = None if state.kind is None else describe(state.kind)
    if described is not None and described.takes_new_part and not described.is_trained:
        return Fold(state, _parts_to_merge(state, rows))
    if sum(rows.values()) > MERGED_ROWS:
        return None
    if described is None:
        return Fold(state, None)
    # To merge the oldest part of a trained index would be to build it again, which takes minutes.
    return Fold(state, _similar_parts(state, rows) if described.is_trained else state.segments)


def _parts_to_merge(state: IndexState, rows: Mapping[int, int]) -> int:
    """Return how many parts are merged, given that the tail would become one more."""
    after = state.segments + 1
    newer = frozenset(state.tail).union(*state.parts[1:])
    held = sum(rows[number] for number in newer)
    if after > FEW_PARTS and held * NEWER_SHARE >= sum(rows.values()):
        return state.segments
    return state.segments - 1 if after >= MOST_PARTS else NEW_PART


def _similar_parts(state: IndexState, rows: Mapping[int, int]) -> int:
    """Return how many of the newest parts are not much larger than all that came after them.

    Merging those, and never the oldest, keeps the parts few and costs about what was written.
    """
    held, merged = sum(rows[number] for number in state.tail), 0
    for part in reversed(state.parts[1:]):
        size = sum(rows[number] for number in part)
        if size > SIMILAR * held:
            break
        held, merged = held + size, merged + 1
    return merged


def part_of(fragment: int, state: IndexState, fold: Fold | None) -> Hashable:
    """Return which part of an index will cover a fragment after the fold, None for no part.

    Only fragments with the same part of every index that follows rewrites can be merged.
    """
    merged = 0 if fold is None or fold.merged is None else fold.merged
    oldest_merged = state.segments - merged
    for number, part in enumerate(state.parts):
        if fragment in part:
            return min(number, oldest_merged)
    if fold is None:
        return None
    return oldest_merged


TARGET_ROWS: Final = 1_000_000
TARGET_BYTES: Final = 1 << 30
MOST_DELETED: Final = 0.1
"""A fragment with a larger share of deleted rows is written again without them."""

SMALL_ROWS: Final = 8_192
"""Upkeep merges fragments of fewer rows than this."""
UPKEEP_ROWS: Final = 200_000
"""It rewrites at most this many rows, those of the smallest fragments first."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """What decides whether a fragment is merged, and with which others."""

    number: int
    rows: int
    deleted: int = 0
    size: int = 0
    """The bytes of its rows."""
    parts: Hashable = None
    """The parts of the indexes that cover it: only fragments with the same ones can be merged."""

    @property
    def is_full(self) -> bool:
        """Whether no other fragment should join it."""
        return self.rows >= TARGET_ROWS or self.size >= TARGET_BYTES

    @property
    def is_worn(self) -> bool:
        """Whether enough of its rows are deleted to write it again, even without merging it with another."""
        return self.deleted > MOST_DELETED * (self.rows + self.deleted)


@dataclass(slots=True)
class _Bin:
    parts: Hashable
    rows: int = 0
    size: int = 0
    members: list[Fragment] = field(default_factory=list)

    def takes(self, fragment: Fragment) -> bool:
        return (
            self.parts == fragment.parts
            and self.rows + fragment.rows <= TARGET_ROWS
            and self.size + fragment.size <= TARGET_BYTES
        )

    def add(self, fragment: Fragment) -> None:
        self.rows += fragment.rows
        self.size += fragment.size
        self.members.append(fragment)


def thorough_groups(fragments: Iterable[Fragment]) -> list[tuple[int, ...]]:
    """Return the groups of fragments to merge; a group of one only loses its deleted rows."""
    return _numbers(
        one for one in _first_fit(fragments) if len(one) > 1 or any(each.is_worn for each in one)
    )


def light_groups(fragments: Iterable[Fragment]) -> list[tuple[int, ...]]:
    """Return the groups of small fragments to merge, of a limited number of rows in all.

    The smallest ones are taken, and one more while it has no more rows than they have together. So what
    was merged before waits until as much has come: a row is rewritten a few times until its fragment
    is not small any more, and no more than a few fragments wait.
    """
    small = sorted((one for one in fragments if one.rows < SMALL_ROWS), key=lambda one: one.rows)
    taken, held = 0, 0
    for count, fragment in enumerate(small, start=1):
        if held + fragment.rows > UPKEEP_ROWS:
            break
        if fragment.rows <= held:
            taken = count
        held += fragment.rows
    in_order = sorted(small[:taken], key=_by_number)
    return _numbers(one for one in _first_fit(in_order) if len(one) > 1)


def _first_fit(fragments: Iterable[Fragment]) -> list[list[Fragment]]:
    """Put each fragment with the first ones that it fits with."""
    bins: list[_Bin] = []
    for fragment in fragments:
        place = None if fragment.is_full else next((b for b in bins if b.takes(fragment)), None)
        if place is None:
            place = _Bin(fragment.parts)
            bins.append(place)
        place.add(fragment)
    return [one.members for one in bins]


def _numbers(groups: Iterable[Sequence[Fragment]]) -> list[tuple[int, ...]]:
    return [tuple(fragment.number for fragment in group) for group in groups]


def _by_number(fragment: Fragment) -> int:
    return fragment.number
