"""Which of several rows cannot hold beside the others: the later ones, so that earlier ones stay.

This is asked only about rows that break a rule. Bounds are integers or times; None is open.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple


class HoldingRow(NamedTuple):
    """A row that holds at some moment."""

    id: str
    since: Any
    until: Any

    def overlaps(self, other: HoldingRow) -> bool:
        """Whether both hold at one moment."""
        return _before(self.since, other.until) and _before(other.since, self.until)


def _before(since: Any, until: Any) -> bool:
    return since is None or until is None or since < until


class OneAtATime:
    """Rows of which no two hold at one moment, ordered by when they begin."""

    def __init__(self) -> None:
        self._kept: list[HoldingRow] = []
        self._begins: list[Any] = []
        self._from_ever: HoldingRow | None = None

    def add(self, span: HoldingRow) -> HoldingRow | None:
        """Keep a row, or return the one that is in its way."""
        before = self._from_ever
        at = 0
        if span.since is not None:
            at = bisect_left(self._begins, span.since)
            before = self._kept[at - 1] if at else before
        after = self._kept[at] if at < len(self._kept) else None
        for other in (before, after):
            if other is not None and other.overlaps(span):
                return other
        if span.since is None:
            self._from_ever = span
        else:
            self._kept.insert(at, span)
            self._begins.insert(at, span.since)
        return None


def too_many_at_once(spans: Iterable[tuple[HoldingRow, bool]], most: int) -> Iterator[HoldingRow]:
    """Yield the rows to leave out so that at no moment more than ``most`` hold.

    Rows come in the order in which they are kept; one that is not to be left out is marked by False.
    """
    kept: list[HoldingRow] = []
    for span, may_go in spans:
        beside = [other for other in kept if other.overlaps(span)]
        if may_go and len(beside) >= most and _peak(beside, span) >= most:
            yield span
        else:
            kept.append(span)


def _peak(others: Sequence[HoldingRow], within: HoldingRow) -> int:
    """How many of the others hold at one moment of a row at most: that is when one of them begins, or it does."""
    starts = [within, *(one for one in others if _begins_within(one, within))]
    return max(sum(_holds_at(other, start.since) for other in others) for start in starts)


def _begins_within(one: HoldingRow, within: HoldingRow) -> bool:
    return one.since is not None and (within.since is None or one.since >= within.since)


def _holds_at(span: HoldingRow, moment: Any) -> bool:
    """Whether a row holds at a moment; None stands for the beginning of time."""
    if moment is None:
        return span.since is None
    return (span.since is None or span.since <= moment) and _before(moment, span.until)
