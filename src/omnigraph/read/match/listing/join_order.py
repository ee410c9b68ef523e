"""The order of variables with the least work, and the steps it takes.

The work of an order is the rows it makes on the way and what it takes to make them. Orders that bind the
same variables make the same rows from there on, so of these only the cheapest is followed, and always the
cheapest of all first (Dijkstra's algorithm over sets of variables). A match of many variables is continued
with the cheapest next step only.

    $a knows $b, $b livesIn $c, with one $a, thousands of $b and three $c
    a, b, c: 1 row, the few that a knows, as many again        c, b, a: 3 rows, thousands, few
    {a, b} is reached by a, b and by b, a: only the cheaper of the two is continued with c
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from omnigraph.cancel import look
from omnigraph.read.match.links.edge_link import EdgeLink
from omnigraph.read.match.links.link import Link
from omnigraph.read.match.listing.steps import (
    Close,
    Estimates,
    Expand,
    GivenFilter,
    Intersect,
    Judge,
    LinkEstimate,
    RowTest,
    Scan,
    Step,
)

# Sets of variables that are looked at before the search is cut short.
_SETS = 400
# With more variables than this, the search starts with the smallest and looks at one set at a time.
_VARIABLES = 24
_MOST = 1e300


@dataclass(frozen=True, slots=True, order=True)
class _State:
    """Some variables are bound: the work so far, and the rows there are."""

    work: float
    tie: int
    bound: frozenset[str] = field(compare=False)
    order: tuple[str, ...] = field(compare=False)
    rows: float = field(compare=False)


def order_of(estimates: Estimates, counted: frozenset[str]) -> list[str]:
    """The variables in the cheapest order. ``counted`` are those of which a number is enough."""
    given = frozenset(estimates.given)
    unbound = [name for name in estimates.candidates if name not in given]
    if len(unbound) <= 1:
        return unbound
    if not given and len(unbound) == 2 and len(estimates.links) == 1:
        # Either way the same rows are made.
        return sorted(unbound, key=lambda name: estimates.candidates[name].count)
    return _only_way(estimates, unbound) or _Search(estimates, counted).run(unbound)


def _only_way(estimates: Estimates, unbound: list[str]) -> list[str] | None:
    """The order along a chain that begins with the one variable of a single candidate; None if there is a choice."""
    starts = [name for name in unbound if estimates.candidates[name].count <= 1]
    if len(starts) != 1 or estimates.given:
        return None
    order = starts
    while len(order) < len(unbound):
        ends = {one.link.ends.other(name) for name in order for one in estimates.at[name]}
        near = ends.difference(order)
        if len(near) != 1:
            return None
        order += near
    return order


class _Search:
    def __init__(self, estimates: Estimates, counted: frozenset[str]) -> None:
        self.estimates = estimates
        self.counted = counted
        self.ties = count()

    def run(self, unbound: list[str]) -> list[str]:
        given = frozenset(self.estimates.given)
        rows = float(max(self.estimates.given.values(), default=1))
        start = _State(0.0, next(self.ties), given, (), rows)
        unbound = sorted(unbound, key=lambda name: self.estimates.candidates[name].count)
        all_names = len(unbound)
        if all_names > _VARIABLES:
            return self._greedy(start, unbound)
        waiting = [start]
        done: set[frozenset[str]] = set()
        while True:
            state = heapq.heappop(waiting)
            if len(state.order) == all_names:
                return list(state.order)
            if state.bound in done:
                continue
            done.add(state.bound)
            if len(done) > _SETS:
                best = min([state, *waiting], key=lambda one: (-len(one.order), one.work))
                return self._greedy(best, unbound)
            for following in self._following(state, unbound):
                if following.bound not in done:
                    heapq.heappush(waiting, following)

    def _following(self, state: _State, unbound: list[str]) -> Iterator[_State]:
        rest = [name for name in unbound if name not in state.bound]
        near = [(name, ready) for name in rest if (ready := self._ready(name, state))]
        if not near:
            # No link leads on from what is bound. Any variable may be the first of all; later on, only the
            # smallest one is put beside the rows there are.
            apart = rest if not state.bound else rest[:1]
            near = [(name, []) for name in apart]
        following = [self._bound(state, name, ready, len(rest) == 1) for name, ready in near]
        shrinking = [one for one in following if one.rows <= state.rows]
        if shrinking:
            # A step that makes no more rows than there are can always come next without harm.
            yield min(shrinking, key=lambda one: (one.rows, one.work))
        else:
            yield from following

    def _ready(self, name: str, state: _State) -> list[LinkEstimate]:
        return self.estimates.ready(name, state.bound) if state.bound else []

    def _bound(self, state: _State, name: str, ready: list[LinkEstimate], is_last: bool) -> _State:
        estimates = self.estimates
        rows = min(state.rows * estimates.factor(name, state.bound, ready), _MOST)
        if not ready:
            work = rows
        elif meets(ready):
            fewest = min(estimates.generated(one, name, state.bound) for one in ready[:2])
            work = state.rows * (2 + 1.5 * fewest) + 2 * rows
            if is_last and len(ready) == 2 and name in self.counted:
                work = state.rows * (2 + fewest)
        else:
            made = state.rows * estimates.generated(ready[0], name, state.bound)
            work = state.rows + ready[0].effort * made + made
            work += sum(2 * one.effort * made for one in ready[1:]) + rows
        return _State(
            min(state.work + work, _MOST),
            next(self.ties),
            state.bound | {name},
            (*state.order, name),
            rows,
        )

    def _greedy(self, state: _State, unbound: list[str]) -> list[str]:
        """Continue with the cheapest next variable, looking at the neighbours of what is bound only."""
        order = list(state.order)
        waiting = dict.fromkeys(name for name in unbound if name not in state.bound)
        near = {name for name in waiting if self._ready(name, state)}
        while waiting:
            look()
            names = near or {next(iter(waiting))}
            state = min(
                self._bound(state, name, self._ready(name, state), len(waiting) == 1)
                for name in sorted(names)
            )
            name = state.order[-1]
            # Long orders are not copied along.
            state = _State(0.0, state.tie, state.bound, (), state.rows)
            order.append(name)
            del waiting[name]
            near.discard(name)
            ends = (one.link.ends.other(name) for one in self.estimates.at[name])
            near |= {end for end in ends if end in waiting}
        return order


def meets(ready: Sequence[LinkEstimate]) -> bool:
    """Whether a variable is bound to the common neighbours along the first two links."""
    return len(ready) > 1 and ready[0].is_plain and ready[1].is_plain


def steps_of(
    estimates: Estimates, order: Sequence[str], counted: frozenset[str], *, told: bool = True
) -> list[Step]:
    """The steps that bind the variables in this order, each test as soon as it can be made.

    ``told``: with about how many rows each makes, which takes longer than many a match.
    """
    return _Steps(estimates, told=told).of(order, counted)


class _Steps:
    def __init__(self, estimates: Estimates, *, told: bool) -> None:
        self.estimates = estimates
        self.steps: list[Step] = []
        self.rows = float(max(estimates.given.values(), default=1)) if told else None
        self.bound: frozenset[str] = frozenset()
        self.links: dict[Link, None] = dict.fromkeys(one.link for one in estimates.links)
        self.tests: dict[RowTest, None] = dict.fromkeys(estimates.tests)

    def of(self, order: Sequence[str], counted: frozenset[str]) -> list[Step]:
        for name in self.estimates.given:
            self.bound |= {name}
            if name in self.estimates.candidates:
                self.steps.append(GivenFilter(name, self.rows))
        self._settle(self.links, self.rows)
        for at, name in enumerate(order):
            look()
            ready = self.estimates.ready(name, self.bound)
            ready = [one for one in ready if one.link in self.links]
            rows = self._times(self.estimates.factor, name, self.bound, ready)
            self._bind(name, ready, rows, at + 1 == len(order) and name in counted)
            self.rows = rows
            self.bound |= {name}
            near = [one.link for one in self.estimates.at[name]]
            self._settle([one for one in near if one in self.links], rows)
        return self.steps

    def _times(self, factor: Callable[..., float], *args: object) -> float | None:
        """The rows there are, times a factor that is only worked out where rows are told."""
        return None if self.rows is None else min(self.rows * factor(*args), _MOST)

    def _bind(
        self, name: str, ready: list[LinkEstimate], rows: float | None, is_counted: bool
    ) -> None:
        for one in ready:
            del self.links[one.link]
        if not ready:
            self.steps.append(Scan(name, rows))
            return
        links = [one.link for one in ready]
        if meets(ready):
            plain = [one for one in links[:2] if isinstance(one, EdgeLink)]
            is_counted = is_counted and len(links) == 2
            self.steps.append(Intersect(name, plain, is_counted, rows))
            rest = links[2:]
        else:
            edge = links[0].ends.edge_var
            if edge is not None:
                self.bound |= {edge}
            if len(links) > 1:
                made = self._times(self.estimates.generated, ready[0], name, self.bound)
            else:
                made = rows
            self.steps.append(Expand(name, links[0], made))
            rest = links[1:]
        for link in rest:
            self._close(link, rows)

    def _settle(self, links: Sequence[Link] | dict[Link, None], rows: float | None) -> None:
        """Add a step for everything that can be decided with what is bound."""
        for link in [one for one in links if one.ends.names <= self.bound]:
            del self.links[link]
            self._close(link, rows)
        for test in [one for one in self.tests if one.names <= self.bound]:
            del self.tests[test]
            self.steps.append(Judge(test, rows))

    def _close(self, link: Link, rows: float | None) -> None:
        if link.ends.edge_var is not None:
            self.bound |= {link.ends.edge_var}
        self.steps.append(Close(link, rows))
