"""From a pattern to its rows: sum away what nobody asks for, enumerate the rest.

A variable at the end of one traversal that nobody asks for is summed away: its message says, per
code of its neighbour, how many bindings go with it. For a match without cycles whose rows are only
counted that is the whole work. What is left, the variables asked for and those on cycles, is
enumerated (``enumeration``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes, Index, Mask
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.match.candidates import Candidates, positions
from omnigraph.read.match.enumeration import Enumeration
from omnigraph.read.match.links.edge_link import EdgeLink, both
from omnigraph.read.match.links.link import Link, LinkSet, Message
from omnigraph.read.match.links.value_link import joins_by_value, value_link
from omnigraph.read.match.match_data import FEW, MatchData
from omnigraph.read.match.pattern import Negation, Pattern, Traversal, key_of, variables_of
from omnigraph.read.match.totals import Totals
from omnigraph.read.values.predicates import Rows, holds
from omnigraph.read.values.space import Space

SEED = "#seed"

# Fewer nodes are tested at once: that takes no longer than finding out.
_MANY = 1 << 14


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a match: codes of these variables, and totals of others' properties."""

    kept: frozenset[str]
    totals: Mapping[int, ir.Aggregate] = field(default_factory=dict)
    batch: int | None = None
    """How many rows the first batch needs at most: a limit without an order."""
    among: Mapping[str, Codes] = field(default_factory=dict)
    """Variables that are only wanted with some of their codes."""


def solve(
    data: MatchData, pattern: Pattern, wanted: Wanted, seed: Mapping[str, Codes] | None = None
) -> Iterator[Bindings]:
    """The rows of a match, in batches. With a seed, the rows that extend it, by `#seed`."""
    if not conditions_hold(data, pattern):
        return
    yield from _Solver(data, pattern, wanted, seed or {}).rows()


def conditions_hold(data: MatchData, pattern: Pattern) -> bool:
    """Whether everything is satisfied that does not depend on any variable."""
    rows = Rows({}, {}, data.params, 1)
    if not all(bool(holds(condition, rows)[0]) for condition in pattern.conditions):
        return False
    return not any(
        batch.count
        for negation in pattern.negations
        if not negation.outer
        for batch in solve(data, negation.pattern, Wanted(frozenset()))
    )


def living(data: MatchData, pattern: Pattern, var: str) -> Codes:
    """The codes of one variable that some match has, ascending."""
    found = [
        np.unique(batch.codes[var])
        for batch in solve(data, pattern, Wanted(frozenset({var})))
        if batch.count
    ]
    if len(found) == 1:
        return found[0]
    return np.unique(np.concatenate([np.empty(0, dtype=np.int32), *found]))


def matched(data: MatchData, negation: Negation, codes: Mapping[str, Codes], rows: int) -> Mask:
    """For which rows of the outer variables the inner block has a match."""
    seeds, which = _distinct(data, negation, codes, rows)
    found = np.zeros(rows if which is None else int(which.max(initial=-1)) + 1, dtype=np.bool_)
    for batch in solve(data, negation.pattern, Wanted(frozenset({SEED})), seeds):
        found[batch.codes[SEED]] = True
    return found if which is None else found[which]


def _distinct(
    data: MatchData, negation: Negation, codes: Mapping[str, Codes], rows: int
) -> tuple[dict[str, Codes], Index | None]:
    """The distinct combinations of the outer codes, and which of them each row has."""
    names = sorted(negation.outer)
    key = np.zeros(rows, dtype=np.int64)
    span = 1
    for name in names:
        size = max(1, space_of(data, negation.pattern, name).size)
        if span * size >= 2**62:
            return {name: codes[name] for name in names}, None
        key = key * size + codes[name]
        span *= size
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    if len(first) == rows:
        return {name: codes[name] for name in names}, None
    return {name: codes[name][first] for name in names}, which


def space_of(data: MatchData, pattern: Pattern, name: str) -> Space:
    """The space a variable ranges over."""
    if name in pattern.nodes:
        return data.space("node", pattern.nodes[name])
    return data.space("edge", pattern.edges[name])


class _Solver:
    """One match on its way to rows."""

    def __init__(
        self, data: MatchData, pattern: Pattern, wanted: Wanted, seed: Mapping[str, Codes]
    ) -> None:
        self.data = data
        self.pattern = pattern
        self.wanted = wanted
        self.seed = seed
        self.unit = Candidates(1)
        self.links = LinkSet()
        self.joins, self.equalities = _split(pattern)
        self.candidates: dict[str, Candidates] = {}
        self.must = self._must()
        self.negations: list[Negation] = []

    def _must(self) -> set[str]:
        """The variables that cannot be summed away."""
        pattern = self.pattern
        must = set(self.wanted.kept) | set(pattern.given)
        for join in self.joins:
            must |= variables_of(join)
        for negation in pattern.negations:
            if len(negation.outer) > 1 or negation.outer & pattern.edges.keys():
                must |= negation.outer
        for aggregate in self.wanted.totals.values():
            # An edge's property cannot travel with a message: its rows are enumerated.
            must |= {name for name in _arguments(aggregate) if name in pattern.edges}
        for traversal in pattern.traversals:
            if traversal.edge_var in must or traversal.left == traversal.right:
                must |= traversal.ends
        return must

    def rows(self) -> Iterator[Bindings]:
        if not self._prepare():
            return
        self._sum_away()
        self._reduce()
        if self.unit.weights is not None and not self.unit.weights[0]:
            return
        if all(candidates.count for candidates in self.candidates.values()):
            yield from self._enumerate()

    # -- what each variable may be

    def _prepare(self) -> bool:
        pattern = self.pattern
        late = [name for name in pattern.nodes if self._can_wait(name)]
        for name, type_name in pattern.nodes.items():
            if name in late:
                self.candidates[name] = Candidates(self.data.nodes(type_name).size)
            else:
                self.candidates[name] = self._candidates_of(name, type_name)
            if not self.candidates[name].count:
                return False
        for traversal in pattern.traversals:
            self._bind(traversal)
        spaces = {name: space_of(self.data, pattern, name) for name in pattern.nodes}
        for join in self.equalities:
            self.links.add(value_link(join, spaces))
        for negation in pattern.negations:
            if len(negation.outer) > 1 or negation.outer.isdisjoint(late):
                self._negate(negation)
        while late:
            self._test_late(late.pop(), late)
        return all(candidates.count for candidates in self.candidates.values())

    def _candidates_of(self, name: str, type_name: str) -> Candidates:
        tests = self.pattern.tests.get(name, ())
        if name in self.seed:
            space = self.data.space("node", type_name)
            given = Candidates(space.size, np.unique(self.seed[name]))
            candidates = self.data.narrow(type_name, given, tests)
        else:
            candidates = self._with_totals(name, self.data.candidates(type_name, tests))
        if name in self.wanted.among:
            candidates = candidates.among(np.sort(self.wanted.among[name]))
        return candidates

    def _can_wait(self, name: str) -> bool:
        """Whether a variable of many nodes may be tested after a neighbour has narrowed it."""
        tests = self.pattern.tests.get(name)
        if not tests or name in self.seed or name in self.wanted.among:
            return False
        space = self.data.nodes(self.pattern.nodes[name])
        if space.size < _MANY or any(one.left == one.right for one in self.pattern.traversals):
            return False
        return not any(key_of(space.type, one, self.data.params) for one in tests)

    def _test_late(self, name: str, late: list[str]) -> None:
        """Test a variable, of the neighbours of few nodes only where one of these can be summed away."""
        near = []
        for link in self.links.at(name):
            other = link.ends.other(name)
            child = self.candidates[other]
            if (
                isinstance(link, EdgeLink)
                and other not in self.must
                and other not in late
                and child.codes is not None
                and len(self.links.at(other)) == 1
            ):
                near.append((child.count * link.fan_out(other), other, link))
        if near:
            reach, other, link = min(near, key=lambda entry: entry[:2])
            if reach * FEW <= self.candidates[name].size:
                self.links.remove(link)
                self._absorb([link], other, self.candidates.pop(other))
        type_name, tests = self.pattern.nodes[name], self.pattern.tests[name]
        narrowed = self.data.narrow(type_name, self.candidates[name], tests)
        self.candidates[name] = self._with_totals(name, narrowed)
        for negation in self.pattern.negations:
            # At once: the next one to be tested may sum this one away.
            if negation.outer == {name}:
                self._negate(negation)

    def _bind(self, traversal: Traversal) -> None:
        edge = traversal.edge_var
        tests = () if edge is None or edge in self.must else self.pattern.tests.get(edge, ())
        if traversal.left == traversal.right and edge is None:
            loops = self._loops(traversal)
            name = traversal.left
            self.candidates[name] = self.candidates[name].among(loops)
        else:
            self.links.add(self.data.link(traversal, tests))

    def _loops(self, traversal: Traversal) -> Codes:
        """The nodes a traversal joins with themselves: never by a way through others."""
        name = traversal.left
        listed = self.candidates[name].listed()
        if traversal.min_hops > 1:
            return listed[:0]
        link = self.data.link(traversal, ())
        return listed[np.asarray(link.contains(listed, listed))]

    def _negate(self, negation: Negation) -> None:
        """A block about one node variable narrows it; the others wait for rows."""
        if len(negation.outer) > 1 or negation.outer & self.pattern.edges.keys():
            self.negations.append(negation)
            return
        if not negation.outer:
            return  # Judged with the conditions.
        (name,) = negation.outer
        candidates = self.candidates[name]
        listed = candidates.listed()
        hit = matched(self.data, negation, {name: listed}, len(listed))
        if hit.any():
            self.candidates[name] = candidates.only_listed(~hit)

    def _with_totals(self, name: str, candidates: Candidates) -> Candidates:
        """The variable with its part in the aggregates, unless rows of it are enumerated."""
        totals: dict[int, Totals] = {}
        for key, aggregate in self.wanted.totals.items():
            arg = aggregate.arg
            if not isinstance(arg, ir.PropertyOf) or arg.var != name:
                continue
            column = space_of(self.data, self.pattern, name).column(arg.property)
            chosen: Any = slice(None) if candidates.codes is None else candidates.codes
            valid = np.ones(candidates.size, np.bool_) if column.valid is None else column.valid
            counts = valid[chosen].astype(np.int64)
            match aggregate.function:
                case "sum" | "avg":
                    # Null is 0. Integers wrap, and the aggregate judges whether they could.
                    kind = np.int64 if aggregate.is_whole_sum else np.float64
                    totals[key] = Totals(counts, column, sums=column.numbers[chosen].astype(kind))
                case "min" | "max" as want:
                    best = column.codes[chosen]
                    totals[key] = Totals(counts, column, best=best, want=want)
                case _:
                    totals[key] = Totals(counts, column)
        if candidates.weights is not None:
            totals = {key: entry.times(candidates.weights) for key, entry in totals.items()}
        return replace(candidates, totals={**candidates.totals, **totals})

    # -- summing away

    def _sum_away(self) -> None:
        while True:
            free = [
                (self.candidates[name].is_full, self.candidates[name].count, name)
                for name in self.candidates
                if name not in self.must and self._is_end(name)
            ]
            if not free:
                break
            # Full ones first, whose messages are degrees; then the largest: what is left at the end
            # is the smallest.
            _, _, name = max(free)
            candidates = self.candidates.pop(name)
            links = self.links.at(name)
            if not links:
                # What belongs to dead codes is no part of any total; of counts they add nothing.
                candidates = candidates.alive() if candidates.totals else candidates
                self.unit = self.unit.join(*candidates.summed())
                continue
            for link in links:
                self.links.remove(link)
            self._absorb(links, name, candidates)
        self.candidates = {name: candidates.alive() for name, candidates in self.candidates.items()}

    def _is_end(self, name: str) -> bool:
        """Whether at most one other variable is next to it, by links that send messages."""
        links = self.links.at(name)
        if len(links) <= 1:
            return True
        plain = all(isinstance(one, EdgeLink) and one.ends.edge_var is None for one in links)
        near = frozenset().union(*(one.ends.names for one in links))
        return len(links) == len(near) == 2 and plain and not self.candidates[name].totals

    def _absorb(self, links: list[Link], name: str, child: Candidates) -> None:
        parent = links[0].ends.other(name)
        at = self.candidates[parent]
        if not child.is_full:
            # Degrees are there for every code; other messages take as long as codes are many.
            child, at = child.alive(), at.alive()
        if len(links) == 1:
            message = links[0].message(parent, at, child)
        else:
            one, two = links
            assert isinstance(one, EdgeLink)
            assert isinstance(two, EdgeLink)
            message = both(one, two, parent, at, child)
        self.candidates[parent] = _joined(at, message)

    def _reduce(self) -> None:
        """Narrow every variable to codes that have neighbours, from the ends to the smallest one.

        Enumeration starts there, so it builds no row that comes to nothing further on.
        """
        waiting = LinkSet(self.links)
        roots = sorted(self.candidates, key=lambda name: self.candidates[name].count)
        seen: set[str] = set()
        order: list[tuple[Link, str]] = []
        for root in roots:
            if root in seen:
                continue
            seen.add(root)
            frontier = [root]
            while frontier:
                name = frontier.pop(0)
                for link in waiting.at(name):
                    waiting.remove(link)
                    (other,) = link.ends.names - {name} or {name}
                    if other not in seen:
                        seen.add(other)
                        frontier.append(other)
                        order.append((link, name))
        for link, parent in reversed(order):
            (child,) = link.ends.names - {parent}
            at = self.candidates[parent]
            self.candidates[parent] = link.reached(parent, at, self.candidates[child])

    # -- rows

    def _enumerate(self) -> Iterator[Bindings]:
        enumeration = Enumeration(
            self.data,
            self.pattern,
            self.candidates,
            self.links,
            self.joins,
            self.negations,
            self.wanted.kept,
            matched,
        )
        start = Bindings(1, {})
        if self.seed:
            rows = len(next(iter(self.seed.values())))
            start = Bindings(rows, {**self.seed, SEED: np.arange(rows, dtype=np.int32)})
        for rows_ in enumeration.run(start, self.wanted.batch):
            yield rows_.only(self.wanted.kept).times(self.unit)


def _split(pattern: Pattern) -> tuple[list[ir.Compare], list[ir.Compare]]:
    """The predicates on several variables: those judged row by row, and equalities that join.

    An equality between variables that no traversal connects would otherwise be judged for every
    pair there is. Where one does, its rows are few already.
    """
    component = {name: {name} for name in pattern.nodes}
    for ends in [one.ends for one in pattern.traversals] + [pattern.given & pattern.nodes.keys()]:
        whole = set().union(*(component[name] for name in ends))
        for name in whole:
            component[name] = whole
    judged: list[ir.Compare] = []
    joining: list[ir.Compare] = []
    for join in pattern.joins:
        names = variables_of(join)
        apart = names <= component.keys() and not any(names <= one for one in component.values())
        (joining if apart and joins_by_value(join) else judged).append(join)
    return judged, joining


def _arguments(aggregate: ir.Aggregate) -> set[str]:
    arg = aggregate.arg
    return {arg.var} if isinstance(arg, ir.PropertyOf | ir.NodeId) else set()


def _joined(at: Candidates, message: Message) -> Candidates:
    if message.codes is None:
        return at.join(message.weights, message.totals, message.at_most)
    narrowed = at.among(message.codes)
    if narrowed.count == len(message.codes):
        return narrowed.join(message.weights, message.totals, message.at_most)
    where = positions(message.codes, narrowed.listed())
    totals = {key: entry.at(where) for key, entry in message.totals.items()}
    return narrowed.join(message.weights[where], totals, message.at_most)
