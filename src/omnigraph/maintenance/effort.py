"""How much maintenance may do to a table, and which indexes that folds: pure functions.

To fold an index is to extend it to the fragments it does not cover, without training it again. The new
rows become a part of their own or are merged with the newest parts; every search reads all parts.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.storage.tables.indexing.index_kinds import describe
from omnigraph.storage.tables.indexing.indexes import IndexState


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
