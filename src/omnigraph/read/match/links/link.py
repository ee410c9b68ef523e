"""Links between variables: how to get from the codes of one to those of another.

Every kind of link answers the same questions. Where node 0 of `$a` is linked to 1 and 2 of `$b`:

    expand("a", [0])                                 pairs (0, 1) and (0, 2): all neighbours
    contains([0, 0], [1, 5])                         [T, F]: whether pairs are joined
    message("a", a, b with weights {1: 1, 2: 4})     [5]: what 0 gets when $b is summed away

``EdgeLink`` is one step along edges, ``HopLink`` a search of several steps, ``ValueLink`` equal values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from omnigraph.read.kernels.arrays import Codes, Counts, Index, Mask
from omnigraph.read.match.candidates import Candidates
from omnigraph.read.match.measures import COUNT, Entries, Measure
from omnigraph.read.match.wanted import Totals


@dataclass(frozen=True, slots=True)
class LinkEnds:
    """The variables a link joins, and the variable of the edge it goes along, if that has one."""

    left: str
    right: str
    edge_var: str | None = None
    names: frozenset[str] = field(init=False, compare=False)
    """Both variables."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset((self.left, self.right)))

    def other(self, name: str) -> str:
        """The variable at the other end."""
        return self.right if name == self.left else self.left


class Expansion(NamedTuple):
    """Pairs: the position of the origin among the codes asked for, the neighbour, the edge."""

    origins: Index
    targets: Codes
    edges: Codes | None = None


class Message(NamedTuple):
    """What a child leaves at its parent: aligned with ``codes``, or with all listed codes of the parent."""

    codes: Codes | None
    weights: Counts
    totals: dict[int, Totals]
    at_most: int | None = None
    """An upper bound of the weights, if one is known without looking at them."""


class Link(Protocol):
    """What solving a match asks of a link."""

    @property
    def ends(self) -> LinkEnds:
        """The variables it joins."""
        ...

    @property
    def text(self) -> str:
        """What it joins, in the words of the query."""
        ...

    def fan_out(self, origin: str) -> float:
        """About how many neighbours a code of that variable has."""
        ...

    def degrees(self, origin: str) -> Counts | None:
        """How many neighbours each code of that variable has; None where finding out takes a search."""
        ...

    def expand(self, origin: str, codes: Codes, limit: int) -> Iterator[Expansion]:
        """All neighbours of these codes, in pieces of about `limit` pairs."""
        ...

    def contains(self, left: Codes, right: Codes) -> Mask:
        """Which of these pairs are joined."""
        ...

    def message(self, parent: str, at: Candidates, child: Candidates) -> Message:
        """The child summed over the neighbours of every code of the parent."""
        ...

    def reached(self, parent: str, at: Candidates, child: Candidates) -> Candidates:
        """The codes of the parent that have a living neighbour; more where that costs too much."""
        ...


class LinkSet:
    """The links of a match that are still to be used, by the variables they join."""

    def __init__(self, links: Iterable[Link] = ()) -> None:
        self._links: dict[Link, None] = {}
        self._at: dict[str, dict[Link, None]] = {}
        for link in links:
            self.add(link)

    def __iter__(self) -> Iterator[Link]:
        return iter(list(self._links))

    def at(self, name: str) -> list[Link]:
        """The links that join a variable."""
        return list(self._at.get(name, ()))

    def add(self, link: Link) -> None:
        """Add a link."""
        self._links[link] = None
        for name in link.ends.names:
            self._at.setdefault(name, {})[link] = None

    def remove(self, link: Link) -> None:
        """Remove a link once it has been used."""
        del self._links[link]
        for name in link.ends.names:
            del self._at[name][link]


def pieces(sizes: Counts, limit: int) -> Iterator[slice]:
    """Cut rows into runs whose sizes add up to about `limit`; a larger row stands alone."""
    ends = np.cumsum(sizes)
    if not len(ends) or ends[-1] <= limit:
        yield slice(0, len(ends))
        return
    start = 0
    while start < len(ends):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + limit, side="right")))
        yield slice(start, stop)
        start = stop


def summed(
    index: Index, targets: Codes, count: int, child: Candidates, codes: Codes | None
) -> Message:
    """The message over pairs: `index` among the parent's codes, `targets` codes of the child."""
    if child.codes is not None:
        at = child.places(targets)
        keep = at >= 0
        index, targets = index[keep], at[keep]

    def scattered(measure: Measure, entries: Entries) -> Entries:
        return measure.scattered(entries[targets], index, count)

    weights = (
        np.bincount(index, minlength=count).astype(np.int64)
        if child.weights is None
        else scattered(COUNT, child.weights)
    )
    totals = {key: entry.each(scattered) for key, entry in child.totals.items()}
    return Message(codes, weights, totals)


def added(left: Message, right: Message) -> Message:
    """The sum of two messages to the same codes."""
    totals = {key: one.combined(right.totals[key]) for key, one in left.totals.items()}
    return Message(left.codes, left.weights + right.weights, totals)
