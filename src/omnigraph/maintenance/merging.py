"""Which fragments of a table to merge: pure functions.

Fragments are put together until one would have too many rows or bytes. No two results would fit
together, so doing it again finds nothing to do, and a full fragment is never written again for the
few rows that came after it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

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
        """Whether so many rows are deleted that it is worth writing again, even alone."""
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
