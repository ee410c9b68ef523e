"""Links between variables that all lead to one and the same node.

    $a knows $b   $a livesIn $x  $x partOf $k   $b livesIn $y  $y partOf $k

Everybody lives in one city at most, and a city is part of one country at most. So the country of a person is
known without a search, and of all acquaintances only those count whose two ends have the same country. The
link between $a and $b is narrowed to these. Then $k need not be reached from $b any more, and $y is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.kernels.csr import Csr
from omnigraph.read.match.candidates import Candidates
from omnigraph.read.match.links.edge_link import EdgeLink
from omnigraph.read.match.links.link import Link, LinkSet
from omnigraph.read.match.trace import Trace, traced

# A link is looked at as a whole where at least one in this number of the nodes at its ends may match.
_SHARE = 4
# What is left of a link is a copy, so a link of more pairs than this is not narrowed.
_MOST_PAIRS = 1 << 24

Narrowed = dict[tuple[int, int, int], Csr]


class NarrowedLink(EdgeLink):
    """A link of which only pairs with the same number at both ends are left; -1 is no number."""

    def __init__(self, link: EdgeLink, numbers: Mapping[str, Codes], known: Narrowed) -> None:
        super().__init__(link.traversal, link.topology, None, link.thresholds)
        self._link = link
        self._numbers = numbers
        self._known = known

    def csr(self, origin: str) -> Csr:
        """Distinct neighbours, from either end."""
        # It may be narrowed already, to another shared end.
        every = self._link.csr(origin)
        of_rows, of_columns = self._numbers[origin], self._numbers[self.ends.other(origin)]
        # Links of one type between variables of one kind are narrowed once.
        key = id(every), id(of_rows), id(of_columns)
        if key not in self._known:
            self._known[key] = every.where_equal(of_rows, of_columns)
        return self._known[key]


class _Way(NamedTuple):
    """How a variable leads to the shared one: the links from there on, and what is between them."""

    start: str
    links: tuple[EdgeLink, ...]
    between: tuple[str, ...]


def narrow_to_same_end(
    candidates: dict[str, Candidates], links: LinkSet, must: set[str], trace: Trace | None
) -> bool:
    """Narrow links between variables that lead to the same node, and return whether there were any.

    A second way to that node is redundant then, and is removed unless it has a variable in ``must``.
    """
    if len(list(links)) < len(candidates):
        return False  # Without a circle nothing can be reached in two ways.
    found = False
    for name in list(candidates):
        found |= _SharedEnd(name, candidates, links, must).narrow(trace)
    return found


class _SharedEnd:
    """The shared variable, and the variables of which every node leads to at most one of its nodes."""

    def __init__(
        self, name: str, candidates: dict[str, Candidates], links: LinkSet, must: set[str]
    ) -> None:
        self.name = name
        self.candidates = candidates
        self.links = links
        self.must = must

    def narrow(self, trace: Trace | None) -> bool:
        if self.name not in self.candidates or len(self.links.at(self.name)) < 2:
            return False
        ways: dict[str, _Way] = {}
        used: set[Link] = set()
        for link in self.links.at(self.name):
            way = self._way(link)
            if way is not None and way.start not in ways and used.isdisjoint(way.links):
                ways[way.start] = way
                used |= {*way.links}
        inner = [one for one in self.links if one not in used and self._can_narrow(one, ways)]
        if not inner:
            return False
        numbers = self._numbers(ways, {name for one in inner for name in one.ends.names})
        known: Narrowed = {}
        groups = {name: {name} for name in numbers}
        for link in inner:
            assert isinstance(link, EdgeLink)
            left, right = link.ends.left, link.ends.right
            with traced(trace, "semi-join", f"narrow {link.text} to one ${self.name}") as done:
                narrowed = NarrowedLink(link, numbers, known)
                found = narrowed.csr(left)
                done.rows, done.bytes = done.rows + len(found.indices), done.bytes + found.nbytes
            self.links.remove(link)
            self.links.add(narrowed)
            if groups[left] is not groups[right]:
                both = groups[left] | groups[right]
                groups.update(dict.fromkeys(both, both))
        for name, group in groups.items():
            if name != min(group):
                self._forget(ways[name])
        return True

    def _way(self, link: Link) -> _Way | None:
        """Back from the shared variable, as far as each has one node of the next at most."""
        seen, name = [self.name], link.ends.other(self.name)
        passed: list[EdgeLink] = []
        while isinstance(link, EdgeLink) and name not in seen and link.function(name) is not None:
            passed.append(link)
            seen.append(name)
            others = [one for one in self.links.at(name) if one is not link]
            at = self.candidates[name]
            if name in self.must or len(others) != 1 or at.weights is not None or at.totals:
                break
            link = others[0]
            name = link.ends.other(name)
        return _Way(seen[-1], tuple(passed), tuple(seen[1:-1])) if passed else None

    def _can_narrow(self, link: Link, ways: Mapping[str, _Way]) -> bool:
        """Whether both ends lead to the shared variable by ways of their own, and many of them may match."""
        left, right = link.ends.left, link.ends.right
        if not isinstance(link, EdgeLink) or link.ends.edge_var is not None or left == right:
            return False
        if left not in ways or right not in ways:
            return False
        ends = self.candidates[left], self.candidates[right]
        many = all(one.count * _SHARE >= one.size for one in ends)
        return many and link.csr(left).entries <= _MOST_PAIRS

    def _numbers(self, ways: Mapping[str, _Way], starts: set[str]) -> dict[str, Codes]:
        """The node that each of these variables leads to, by code, or -1."""
        known: dict[tuple[int, ...], Codes] = {}
        held = []  # Kept alive, so that no other array gets the `id()` of one of these.
        numbers = {}
        for start in sorted(starts):
            way = ways[start]
            names = [start, *reversed(way.between)]
            steps = [
                one.function(name) for one, name in zip(reversed(way.links), names, strict=True)
            ]
            masks = [self.candidates[name] for name in names[1:]]
            held.append(steps)
            key = tuple(map(id, [*steps, *(one.codes for one in masks)]))
            if key not in known:
                known[key] = _followed([one for one in steps if one is not None], masks)
            numbers[start] = known[key]
        return numbers

    def _forget(self, way: _Way) -> None:
        """Remove a way to the shared variable that is redundant beside another one."""
        for link in way.links:
            self.links.remove(link)
        for name in way.between:
            del self.candidates[name]


def _followed(steps: list[Codes], between: list[Candidates]) -> Codes:
    found, *rest = steps
    for step, passed in zip(rest, between, strict=True):
        reached = np.where(found >= 0, step[found], -1)
        if passed.codes is not None:
            reached[~passed.mask()[found]] = -1
        found = reached
    return found
