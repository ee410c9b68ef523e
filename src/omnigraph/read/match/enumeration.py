"""Enumerating the rows of a match: one variable after the other, whole columns at a time.

Rows start from the variable with the fewest candidates. Each step binds a neighbour of what is bound, or
the common neighbours of two variables, and every test is made as soon as its variables are bound. Batches
are cut before they grow, so memory stays bounded.

    $a knows $b, candidates of $a [0, 3], edges 0 -> 1, 0 -> 2, 3 -> 1
    bind $a: a [0, 3]        bind $b: a [0, 0, 3], b [1, 2, 1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels import frontier
from omnigraph.read.kernels.arrays import Codes, Counts, Mask
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.match.candidates import Candidates, positions, refuse_wrap
from omnigraph.read.match.links.edge_link import EdgeLink
from omnigraph.read.match.links.link import Link, LinkSet, pieces

Step = Callable[[Bindings, int], Iterator[Bindings]]


@dataclass(frozen=True, slots=True, eq=False)
class RowTest:
    """A test of whole rows, which can be made as soon as the variables it names are bound."""

    names: frozenset[str]
    holds: Callable[[Bindings], Mask]
    """Which of the rows pass."""


class Enumeration:
    """The order in which variables are bound, and the steps that bind them."""

    def __init__(
        self,
        candidates: Mapping[str, Candidates],
        links: Iterable[Link],
        tests: Iterable[RowTest],
        kept: frozenset[str],
        batch_rows: int,
    ) -> None:
        self.candidates = candidates
        self.batch_rows = batch_rows
        self.kept = kept
        self.links = LinkSet(links)
        self.tests = list(tests)
        self.bound: set[str] = set()
        self.steps: list[tuple[Step, frozenset[str]]] = []
        self.needed: list[frozenset[str]] = []

    def run(self, start: Bindings, batch: int | None = None) -> Iterator[Bindings]:
        """All rows that extend the start, in batches; the first has about ``batch`` rows."""
        for name in start.codes:
            self.bound.add(name)
            if name in self.candidates:
                self.steps.append((self._member(name), frozenset({name})))
        self._settle()
        while remaining := [name for name in self.candidates if name not in self.bound]:
            self._bind_next(remaining)
            self._settle()
        needed = self.kept
        for _, reads in reversed(self.steps):
            self.needed.insert(0, needed)
            needed = needed | reads
        yield from self._run(start, self.batch_rows if batch is None else batch)

    # -- choosing the order

    def _bind_next(self, remaining: list[str]) -> None:
        connected = [name for name in remaining if self._ready(name)]
        if connected:
            name = min(connected, key=self._growth)
            links = self._ready(name)
            for link in links:
                self.links.remove(link)
            self._extend(name, sorted(links, key=lambda link: self._link_growth(link, name)))
        else:
            name = min(remaining, key=lambda one: self.candidates[one].count)
            self.steps.append((self._scan(name), frozenset()))
        self.bound.add(name)

    def _ready(self, name: str) -> list[Link]:
        """The traversals from what is bound to this variable."""
        return [
            link
            for link in self.links.at(name)
            if link.ends.left != link.ends.right and link.ends.other(name) in self.bound
        ]

    def _growth(self, name: str) -> float:
        """About how many codes of this variable one row gets."""
        growth = min(self._link_growth(link, name) for link in self._ready(name))
        # Every further traversal is a test.
        return float(growth / 8 ** (len(self._ready(name)) - 1))

    def _link_growth(self, link: Link, name: str) -> float:
        candidates = self.candidates[name]
        origin = link.ends.other(name)
        return link.fan_out(origin) * candidates.count / max(1, candidates.size)

    # -- steps

    def _extend(self, name: str, links: list[Link]) -> None:
        first, *rest = links
        plain = [
            link for link in links if isinstance(link, EdgeLink) and link.ends.edge_var is None
        ]
        last = not [one for one in self.candidates if one not in self.bound and one != name]
        if len(plain) == len(links) == 2:
            if last and self._only_counted(name):
                self.steps.append((self._count_common(name, plain), _origins(plain, name)))
                return
            self.steps.append((self._meet(name, plain), _origins(plain, name)))
            return
        edge = first.ends.edge_var
        if edge is not None:
            self.bound.add(edge)
        self.steps.append((self._expand(name, first), _origins([first], name)))
        self.bound.add(name)
        for link in rest:
            self._close(link)

    def _only_counted(self, name: str) -> bool:
        needed = set(self.kept)
        needed |= {one for test in self.tests for one in test.names}
        needed |= {one for link in self.links for one in link.ends.names}
        return name not in needed and not self.candidates[name].totals

    def _settle(self) -> None:
        """Add a step for everything that can be decided with what is bound."""
        for link in [one for one in self.links if one.ends.names <= self.bound]:
            self.links.remove(link)
            self._close(link)
        for test in [one for one in self.tests if one.names <= self.bound]:
            self.tests.remove(test)
            self.steps.append((self._filter(test), test.names))

    def _close(self, link: Link) -> None:
        edge = link.ends.edge_var
        if edge is None:
            self.steps.append((self._check(link), link.ends.names))
        else:
            self.bound.add(edge)
            self.steps.append((self._expand_closed(link, edge), link.ends.names))

    def _scan(self, name: str) -> Step:
        """Put every candidate of the variable beside every row."""
        candidates = self.candidates[name]

        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:
            listed = candidates.listed()
            if rows.count == 1:
                width = max(1, limit)
                for start in range(0, len(listed), width):
                    part = slice(start, start + width)
                    codes = listed[part]
                    beside = rows.at(np.zeros(len(codes), dtype=np.int64))
                    yield self._weighed(beside.binding(name, codes), name, part)
                return
            height = max(1, limit // max(1, len(listed)))
            for start in range(0, rows.count, height):
                index = np.arange(start, min(start + height, rows.count))
                beside = rows.at(np.repeat(index, len(listed)))
                where = np.tile(np.arange(len(listed), dtype=np.int32), len(index))
                yield self._weighed(beside.binding(name, listed[where]), name, where)

        return step

    def _weighed(self, rows: Bindings, name: str, where: np.ndarray | slice) -> Bindings:
        """Multiply the rows by the weights of the candidates at these places of the variable's list."""
        candidates = self.candidates[name]
        weights = None if candidates.weights is None else candidates.weights[where]
        return rows.join(weights, {k: entry.at(where) for k, entry in candidates.totals.items()})

    def _expand(self, name: str, link: Link) -> Step:
        origin = link.ends.other(name)
        edge = link.ends.edge_var

        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:
            for found in link.expand(origin, rows.codes[origin], limit):
                keep, where = self._living(name, found.targets)
                look()
                index = found.origins if keep is None else found.origins[keep]
                grown = rows.at(index)
                grown = grown.binding(name, found.targets if keep is None else found.targets[keep])
                if edge is not None and found.edges is not None:
                    edges = found.edges if keep is None else found.edges[keep]
                    grown = grown.binding(edge, edges)
                yield grown if where is None else self._weighed(grown, name, where)

        return step

    def _living(self, name: str, codes: Codes) -> tuple[Mask | None, np.ndarray | None]:
        """Which codes are alive (None: all), and the places of those in the variable's list."""
        candidates = self.candidates[name]
        if candidates.is_full:
            return None, None
        if candidates.codes is None:
            return None, codes
        at = positions(candidates.codes, codes)
        keep = at >= 0
        return keep, at[keep]

    def _member(self, name: str) -> Step:
        """Drop rows whose given code is not alive."""

        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:  # noqa: ARG001 - never grows
            keep, where = self._living(name, rows.codes[name])
            narrowed = rows if keep is None else rows.at(keep)
            yield narrowed if where is None else self._weighed(narrowed, name, where)

        return step

    def _meet(self, name: str, links: Sequence[EdgeLink]) -> Step:
        """The common neighbours of two bound variables."""
        one, two = links
        left, right = one.ends.other(name), two.ends.other(name)

        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:
            first, second = one.csr(left), two.csr(right)
            a, b = rows.codes[left], rows.codes[right]
            sizes = np.minimum(first.degrees[a], second.degrees[b])
            for part in pieces(sizes, limit):
                index, targets = frontier.common_expand(first, a[part], second, b[part])
                keep, where = self._living(name, targets)
                if keep is not None:
                    index, targets = index[keep], targets[keep]
                grown = rows.at(index + part.start).binding(name, targets)
                yield grown if where is None else self._weighed(grown, name, where)

        return step

    def _count_common(self, name: str, links: Sequence[EdgeLink]) -> Step:
        """How many common neighbours two bound variables have, without listing them."""
        one, two = links
        left, right = one.ends.other(name), two.ends.other(name)
        candidates = self.candidates[name]

        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:  # noqa: ARG001 - never grows
            first, second = one.csr(left), two.csr(right)
            a, b = rows.codes[left], rows.codes[right]

            def count(weights: Counts | None) -> Counts:
                return frontier.common_count(first, a, second, b, weights)

            refuse_wrap(candidates, lambda part: count(candidates.spread_out(part)))
            weights = (
                None if candidates.is_full else candidates.spread_out(candidates.multiplicities())
            )
            counts = count(weights)
            keep = counts > 0
            yield rows.at(keep).join(counts[keep], {})

        return step

    def _check(self, link: Link) -> Step:
        left, right = link.ends.left, link.ends.right

        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:  # noqa: ARG001 - never grows
            yield rows.at(link.contains(rows.codes[left], rows.codes[right]))

        return step

    def _expand_closed(self, link: Link, edge: str) -> Step:
        """Every stored edge between two bound variables."""
        left, right = link.ends.left, link.ends.right

        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:
            for found in link.expand(left, rows.codes[left], limit):
                keep = found.targets == rows.codes[right][found.origins]
                assert found.edges is not None
                yield rows.at(found.origins[keep]).binding(edge, found.edges[keep])

        return step

    def _filter(self, test: RowTest) -> Step:
        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:  # noqa: ARG001 - never grows
            yield rows.at(test.holds(rows))

        return step

    # -- running

    def _run(self, start: Bindings, limit: int) -> Iterator[Bindings]:
        """Run the steps depth first, without recursion: a match may have more steps than calls may nest."""
        if not self.steps and start.count:
            yield start
        if not self.steps or not start.count:
            return
        open_steps = [self.steps[0][0](start, limit)]
        limits = [limit]
        while open_steps:
            look()
            at = len(open_steps) - 1
            grown = next(open_steps[at], None)
            if grown is None:
                open_steps.pop()
                limits.pop()
                continue
            limit = limits[at]
            limits[at] = min(self.batch_rows, limit * 4)
            rows = grown.only(self.needed[at])
            if rows.count and at + 1 == len(self.steps):
                yield rows
            elif rows.count:
                open_steps.append(self.steps[at + 1][0](rows, limit))
                limits.append(limit)


def _origins(links: Sequence[Link], name: str) -> frozenset[str]:
    return frozenset(link.ends.other(name) for link in links)
