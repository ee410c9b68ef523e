"""Enumerating the rows of a match: one variable after the other, whole columns at a time.

The steps say in which order variables are bound (``order``). Each binds a neighbour of what is bound, or
the common neighbours of two variables, and every test is made as soon as its variables are bound. Batches
are cut before they grow, so memory stays bounded.

    $a knows $b, candidates of $a [0, 3], edges 0 -> 1, 0 -> 2, 3 -> 1
    bind $a: a [0, 3]        bind $b: a [0, 0, 3], b [1, 2, 1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels import pairs
from omnigraph.read.kernels.arrays import Codes, Counts, Mask
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.match.candidates import Candidates, refuse_wrap
from omnigraph.read.match.links.edge_link import EdgeLink
from omnigraph.read.match.links.hop_link import HopLink
from omnigraph.read.match.links.link import Link, pieces
from omnigraph.read.match.listing.merging import common_counts, expand_merged
from omnigraph.read.match.listing.steps import (
    Close,
    Expand,
    GivenFilter,
    Intersect,
    RowTest,
    Scan,
    Step,
)
from omnigraph.read.match.trace import StepRun, Trace

Run = Callable[[Bindings, int], Iterator[Bindings]]


class Enumeration:
    """Runs the steps that bind the variables of a match."""

    def __init__(
        self,
        candidates: Mapping[str, Candidates],
        steps: Sequence[Step],
        kept: frozenset[str],
        batch_rows: int,
        trace: Trace | None = None,
    ) -> None:
        self.candidates = candidates
        self.batch_rows = batch_rows
        self.needed: list[frozenset[str]] = []
        """The variables that are needed after each step."""
        needed = kept
        for step in reversed(steps):
            self.needed.insert(0, needed)
            needed = needed | step.reads
        self.steps = list(map(self._run_of, steps, self.needed))
        if trace is not None:
            records = [trace.of(step.op, step.text, step.estimated) for step in steps]
            self.steps = list(map(_recorded, self.steps, records, repeat(trace)))

    def run(self, start: Bindings, batch: int | None = None) -> Iterator[Bindings]:
        """All rows that extend the start, in batches; the first has about ``batch`` rows."""
        yield from self._run(start, self.batch_rows if batch is None else batch)

    # -- steps

    def _run_of(self, step: Step, needed: frozenset[str]) -> Run:
        match step:
            case GivenFilter():
                return self._member(step.name)
            case Scan():
                return self._scan(step.name)
            case Expand():
                followed = function_of(step.link, step.name)
                if followed is not None:
                    return self._follow(step.name, step.link.ends.other(step.name), followed)
                return self._expand(step.name, step.link, needed)
            case Intersect():
                for one, other in (step.links, step.links[::-1]):
                    followed = function_of(one, step.name)
                    if followed is not None:
                        follow = self._follow(step.name, one.ends.other(step.name), followed)
                        return _one_after_the_other(follow, self._check(other))
                how = self._count_common if step.counted else self._meet
                return how(step.name, step.links)
            case Close():
                edge = step.link.ends.edge_var
                return self._check(step.link) if edge is None else self._edges(step.link, edge)
            case _:
                return self._filter(step.test)

    def _scan(self, name: str) -> Run:
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

    def _expand(self, name: str, link: Link, needed: frozenset[str]) -> Run:
        origin = link.ends.other(name)
        edge = link.ends.edge_var
        can_merge = edge is None and origin not in needed

        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:
            if can_merge and isinstance(link, EdgeLink):
                merged = expand_merged(rows, needed, origin, link.csr(origin), name, limit)
                if merged is not None:
                    for part in merged:
                        keep, where = self._living(name, part.codes[name])
                        grown = part if keep is None else part.at(keep)
                        yield grown if where is None else self._weighed(grown, name, where)
                    return
            met = None
            if isinstance(link, HopLink):
                met = link.meets(origin, rows.codes[origin], self.candidates[name])
            if met is not None:
                index, where = met
                grown = rows.at(index).binding(name, self.candidates[name].listed().take(where))
                yield self._weighed(grown, name, where)
                return
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

    def _follow(self, name: str, origin: str, function: Codes) -> Run:
        """Bind a variable that has one code at most for each of another: rows stay where they are."""

        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:  # noqa: ARG001 - never grows
            targets = function.take(rows.codes[origin])
            grown = rows.binding(name, targets)
            found = targets >= 0
            if not found.all():
                grown = grown.at(found)
            keep, where = self._living(name, grown.codes[name])
            if keep is not None:
                grown = grown.at(keep)
            yield grown if where is None else self._weighed(grown, name, where)

        return step

    def _living(self, name: str, codes: Codes) -> tuple[Mask | None, np.ndarray | None]:
        """Which codes are alive (None: all), and the places of those in the variable's list (None: any)."""
        candidates = self.candidates[name]
        if candidates.is_full:
            return None, None
        if candidates.codes is None:
            return None, codes
        if candidates.weights is None and not candidates.totals:
            return candidates.has(codes), None
        at = candidates.places(codes)
        keep = at >= 0
        return keep, at[keep]

    def _member(self, name: str) -> Run:
        """Drop rows whose given code is not alive."""

        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:  # noqa: ARG001 - never grows
            keep, where = self._living(name, rows.codes[name])
            narrowed = rows if keep is None else rows.at(keep)
            yield narrowed if where is None else self._weighed(narrowed, name, where)

        return step

    def _meet(self, name: str, links: Sequence[EdgeLink]) -> Run:
        """The common neighbours of two bound variables."""
        one, two = links
        left, right = one.ends.other(name), two.ends.other(name)

        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:
            first, second = one.csr(left), two.csr(right)
            a, b = rows.codes[left], rows.codes[right]
            sizes = np.minimum(first.degrees.take(a), second.degrees.take(b))
            for part in pieces(sizes, limit):
                index, targets = pairs.common_expand(first, a[part], second, b[part])
                keep, where = self._living(name, targets)
                if keep is not None:
                    index, targets = index[keep], targets[keep]
                grown = rows.at(index + part.start).binding(name, targets)
                yield grown if where is None else self._weighed(grown, name, where)

        return step

    def _count_common(self, name: str, links: Sequence[EdgeLink]) -> Run:
        """How many common neighbours two bound variables have, without listing them."""
        one, two = links
        left, right = one.ends.other(name), two.ends.other(name)
        candidates = self.candidates[name]

        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:  # noqa: ARG001 - never grows
            first, second = one.csr(left), two.csr(right)
            a, b = rows.codes[left], rows.codes[right]

            def count(weights: Counts | None) -> Counts:
                return common_counts(first, a, second, b, two.csr(name), weights)

            refuse_wrap(candidates, lambda part: count(candidates.spread_out(part)))
            weights = (
                None if candidates.is_full else candidates.spread_out(candidates.multiplicities())
            )
            counts = count(weights)
            keep = counts > 0
            yield rows.at(keep).join(counts[keep], {})

        return step

    def _check(self, link: Link) -> Run:
        left, right = link.ends.left, link.ends.right

        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:  # noqa: ARG001 - never grows
            yield rows.at(link.contains(rows.codes[left], rows.codes[right]))

        return step

    def _edges(self, link: Link, edge: str) -> Run:
        """Every stored edge between two bound variables."""
        left, right = link.ends.left, link.ends.right

        def step(rows: Bindings, limit: int) -> Iterator[Bindings]:
            for found in link.expand(left, rows.codes[left], limit):
                keep = found.targets == rows.codes[right][found.origins]
                assert found.edges is not None
                yield rows.at(found.origins[keep]).binding(edge, found.edges[keep])

        return step

    def _filter(self, test: RowTest) -> Run:
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
        open_steps = [self.steps[0](start, limit)]
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
                open_steps.append(self.steps[at + 1](rows, limit))
                limits.append(limit)


def function_of(link: Link, name: str) -> Codes | None:
    """What a link binds the variable to for every code of its other end, where that is one code at most."""
    return link.function(link.ends.other(name)) if isinstance(link, EdgeLink) else None


def _one_after_the_other(first: Run, second: Run) -> Run:
    def step(rows: Bindings, limit: int) -> Iterator[Bindings]:
        for grown in first(rows, limit):
            yield from second(grown, limit)

    return step


def _recorded(run: Run, record: StepRun, trace: Trace) -> Run:
    """The same step, which also writes down what it did."""

    def step(rows: Bindings, limit: int) -> Iterator[Bindings]:
        parts = run(rows, limit)
        while True:
            with trace.during(record):
                part = next(parts, None)
            if part is None:
                return
            record.rows += part.count
            record.bytes += part.nbytes
            yield part

    return step
