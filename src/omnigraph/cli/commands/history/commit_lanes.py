"""Draw a commit graph in lanes, as text: one line per commit, and lines that join lanes between.

For a branch that was merged, newest commit first:

    ●    M2 merges X1
    ├─╮
    │ ●  X1
    ● │  M1
    ├─╯
    ●    G

A lane waits for one commit: the parent of the last one drawn in it. Where several lanes wait for the
same commit they end at the first of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Signs:
    """The characters to draw with."""

    commit: str
    lane: str
    across: str
    crossing: str
    from_right: str
    """Where the lane of a commit goes on and a line leaves it to the right; then to the left."""
    from_left: str
    opens_right: str
    """Where a line from the left turns down into a new lane; then from the right."""
    opens_left: str
    ends_right: str
    """Where a lane ends in a line to the left."""


DRAWN = Signs(*"●│─┼├┤╮╭╯")
TYPED = Signs(*"*|-+||\\//")
"""For output that cannot express the others."""


class DrawnLine(NamedTuple):
    """One line of the drawing: its characters, and the lane whose colour each has; a commit or None."""

    signs: str
    lanes: tuple[int, ...]
    commit: str | None = None


def draw(commits: Iterable[tuple[str, Sequence[str]]], signs: Signs = DRAWN) -> Iterator[DrawnLine]:
    """Yield the lines for commits given with the ids of their parents, children before parents."""
    lanes: list[str | None] = []
    for name, parents in commits:
        at = lanes.index(name) if name in lanes else _free(lanes)
        lanes[at] = name
        for other in range(at + 1, len(lanes)):
            if lanes[other] == name:
                yield _joined(lanes, at, other, signs, signs.ends_right)
                lanes[other] = None
        yield _commit_line(lanes, at, signs)
        lanes[at] = parents[0] if parents else None
        for parent in parents[1:]:
            opens = parent not in lanes
            other = _free(lanes, at) if opens else lanes.index(parent)
            lanes[other] = parent
            turn = signs.opens_right if other > at else signs.opens_left
            far = signs.from_left if other > at else signs.from_right
            yield _joined(lanes, at, other, signs, turn if opens else far)
        while lanes and lanes[-1] is None:
            lanes.pop()


def _free(lanes: list[str | None], beside: int = -1) -> int:
    """Return a lane that waits for nothing, to the right of another one if there is any."""
    for at in range(beside + 1, len(lanes)):
        if lanes[at] is None:
            return at
    lanes.append(None)
    return len(lanes) - 1


def _commit_line(lanes: Sequence[str | None], at: int, signs: Signs) -> DrawnLine:
    row = [signs.lane if waits is not None else " " for waits in lanes]
    row[at] = signs.commit
    return _spread(row, [" "] * (len(row) - 1), at, (), lanes[at])


def _joined(lanes: Sequence[str | None], at: int, other: int, signs: Signs, end: str) -> DrawnLine:
    """Return the line that leads from the lane of a commit to another one, across those between."""
    row = [signs.lane if waits is not None else " " for waits in lanes]
    between = range(min(at, other) + 1, max(at, other))
    for lane in between:
        row[lane] = signs.across if lanes[lane] is None else signs.crossing
    row[at] = signs.from_right if other > at else signs.from_left
    row[other] = end
    gaps = [
        signs.across if min(at, other) <= gap < max(at, other) else " "
        for gap in range(len(row) - 1)
    ]
    return _spread(row, gaps, other, gaps, None)


def _spread(
    row: Sequence[str], gaps: Sequence[str], colour: int, drawn: Sequence[str], commit: str | None
) -> DrawnLine:
    """Put lanes and the gaps between them side by side."""
    signs, lanes = [row[0]], [0]
    for at, gap in enumerate(gaps):
        signs += [gap, row[at + 1]]
        lanes += [colour if drawn else at, at + 1]
    return DrawnLine("".join(signs), tuple(lanes), commit)
