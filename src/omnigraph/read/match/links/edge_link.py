"""One step along the edges of a topology.

A message can be computed in three ways; the cheapest is chosen by the number of edges it looks at:

    sweep     all edges, once
    gather    the edges of the parent's candidates, when those are few
    push      the edges of the child's candidates, when those are fewer still
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from omnigraph.lang.query import ir
from omnigraph.read.kernels import frontier, pairs
from omnigraph.read.kernels.arrays import Codes, Counts, Index, Mask
from omnigraph.read.kernels.csr import Csr, MultiCsr
from omnigraph.read.match.candidates import Candidates, refuse_wrap
from omnigraph.read.match.links.link import Expansion, LinkEnds, Message, pieces, summed
from omnigraph.read.match.measures import Entries, Measure
from omnigraph.read.match.pattern import FLIPPED, Traversal
from omnigraph.read.thresholds import MatchThresholds
from omnigraph.read.view.topology import Topology

# If at most one in this number of neighbours is dead, it is not worth finding out which.
_NEARLY = 8


class EdgeLink:
    """One step along edges. With an edge variable, every stored edge counts.

    ``edge_mask`` says which stored edges pass the tests on that variable. The topology has only edges that pass
    those that are ``satisfied``.
    """

    def __init__(
        self,
        traversal: Traversal,
        topology: Topology,
        edge_mask: Mask | None,
        thresholds: MatchThresholds,
        satisfied: Sequence[ir.Condition] = (),
    ) -> None:
        self.traversal = traversal
        self.satisfied = satisfied
        self.ends = LinkEnds(traversal.left, traversal.right, traversal.edge_var)
        self.topology = topology
        self.edge_mask = edge_mask
        self.thresholds = thresholds
        self._masked: dict[ir.Direction, MultiCsr] = {}

    def csr(self, origin: str) -> Csr:
        """Distinct neighbours, from either end."""
        return self.topology.csr(self._direction(origin))

    def rows(self, origin: str) -> Csr | MultiCsr:
        """Neighbours as often as they count, from either end."""
        if self.traversal.edge_var is None:
            return self.csr(origin)
        direction = self._direction(origin)
        if self.edge_mask is None:
            return self.topology.multi(direction)
        if direction not in self._masked:
            self._masked[direction] = _only(self.topology.multi(direction), self.edge_mask)
        return self._masked[direction]

    def function(self, origin: str) -> Codes | None:
        """Where nothing at that end has two neighbours: the one of every code, or -1. Otherwise None."""
        return self.csr(origin).function if self.traversal.edge_var is None else None

    def _direction(self, origin: str) -> ir.Direction:
        forward = origin == self.traversal.left
        return self.traversal.direction if forward else FLIPPED[self.traversal.direction]

    @property
    def text(self) -> str:
        """The traversal in the words of the query."""
        return self.traversal.text

    def fan_out(self, origin: str) -> float:
        """The mean degree."""
        rows = self.rows(origin)
        return rows.entries / max(1, rows.shape[0])

    def degrees(self, origin: str) -> Counts:
        """The degree of every code."""
        return self.rows(origin).degrees

    def expand(self, origin: str, codes: Codes, limit: int) -> Iterator[Expansion]:
        """All neighbours of these codes, in pieces of about `limit` pairs."""
        rows = self.rows(origin)
        rows = rows.at(codes)
        for part in pieces(rows.degrees.take(codes), limit):
            if isinstance(rows, MultiCsr):
                index, targets, edges = frontier.expand_multi(rows, codes[part])
                yield Expansion(index + part.start, targets, edges)
            else:
                index, targets = frontier.expand(rows, codes[part])
                yield Expansion(index + part.start, targets)

    def contains(self, left: Codes, right: Codes) -> Mask:
        """Which of these pairs are joined."""
        csr = self.csr(self.traversal.left).at(left)
        bits = csr.bits_for(len(left))
        if bits is not None:
            return pairs.marked(bits, csr.shape[1], left, right)
        return pairs.contains(csr, left, right)

    def message(self, parent: str, at: Candidates, child: Candidates) -> Message:
        """The child summed over the neighbours of every code of the parent."""
        rows = self.rows(parent)
        if child.is_full:
            degrees = rows.degrees if at.codes is None else _degrees_of(rows, at.codes)
            return Message(None, degrees, {}, rows.most)
        back = self.rows(self.ends.other(parent))
        refuse_wrap(child, lambda part: _pulled(rows, child.spread_out(part)))
        sweep = rows.entries
        push = _cost(self.thresholds.push_cost, back, child, sweep)
        # If pushing costs less than one step per parent code, gathering cannot win: no degrees are added up.
        gather = sweep if push <= at.count else _cost(self.thresholds.gather_cost, rows, at, sweep)
        if push <= gather and push < sweep:
            return _pushed(back, rows, child)
        if gather < sweep and at.codes is not None:
            return _gathered(rows, at.codes, child)
        return _swept(rows, at, child)

    def reached(self, parent: str, at: Candidates, child: Candidates) -> Candidates:
        """The codes of the parent that have a living neighbour."""
        rows = self.rows(parent)
        if child.weights is None and _NEARLY * child.count >= (_NEARLY - 1) * child.size:
            # Almost every neighbour is alive, so a code that has neighbours nearly always has a living one.
            if len(rows.filled) == rows.shape[0]:
                return at
            if at.is_full:
                return Candidates(at.size, rows.filled, members=rows.is_filled)
            return at.only(rows.is_filled)
        alive = child.alive()
        back = self.rows(self.ends.other(parent))
        if alive.codes is not None:
            back = back.at(alive.codes)
            spread = int(back.degrees.take(alive.codes).sum())
            if self.thresholds.push_cost * spread <= rows.entries:
                return at.among(frontier.push_any(back, alive.codes))
        if at.codes is not None:
            wanted = int(_degrees_of(rows, at.codes).sum())
            if self.thresholds.gather_cost * wanted < rows.entries:
                index, targets = frontier.expand(rows.at(at.codes), at.codes)
                return at.only_listed(_present(index[child.mask()[targets]], at.count))
        return at.only(_any_alive(rows, child.mask()))


def _cost(each: int, rows: Csr | MultiCsr, candidates: Candidates, most: int) -> int:
    """What the edges of the listed codes cost one by one; `most` when all are listed."""
    if candidates.codes is None or each * len(candidates.codes) >= 8 * most:
        return most
    return min(most, each * int(_degrees_of(rows, candidates.codes).sum()))


def _degrees_of(rows: Csr | MultiCsr, codes: Codes) -> Counts:
    return rows.at(codes).degrees.take(codes)


def _only(multi: MultiCsr, mask: Mask) -> MultiCsr:
    """The entries of the stored edges a mask lets through."""
    keep = mask[multi.positions]
    before = np.concatenate([[0], np.cumsum(keep, dtype=np.int64)])
    return MultiCsr(before[multi.indptr], multi.indices[keep], multi.positions[keep], multi.shape)


def _present(index: Index, count: int) -> Mask:
    found = np.zeros(count, dtype=np.bool_)
    found[index] = True
    return found


def _swept(rows: Csr | MultiCsr, at: Candidates, child: Candidates) -> Message:
    """One sweep over all edges, for every code of the parent."""
    is_one = isinstance(rows, Csr) and rows.function is not None
    if is_one and at.codes is None and child.weights is not None and not child.totals:
        # One neighbour at most, so that nothing is added up: only the codes that have it are listed.
        found = child.spread_out(child.weights).take(rows.indices)
        every = rows.entries == rows.shape[0]
        return Message(None if every else rows.filled, found, {}, child.at_most)
    chosen = slice(None) if at.codes is None else at.codes
    if child.weights is None:
        weights = _counted(rows, child.mask())[chosen]
    else:
        weights = _pulled(rows, child.spread_out(child.weights))[chosen]

    def swept(measure: Measure, entries: Entries) -> Entries:
        return measure.swept(rows, child.spread_out(entries, measure.neutral))[chosen]

    totals = {key: entry.each(swept) for key, entry in child.totals.items()}
    return Message(None, weights, totals, child.most if is_one else None)


def _pulled(rows: Csr | MultiCsr, x: Counts) -> Counts:
    """For every row the sum of ``x`` over its targets; a look-up where each has one at most."""
    function = rows.function if isinstance(rows, Csr) else None
    if function is None:
        return frontier.pull(rows, x)
    found = x.take(function)
    if function is not rows.indices:
        found[function < 0] = 0
    return found


def _counted(rows: Csr | MultiCsr, mask: Mask) -> Counts:
    """For every row how many of its targets ``mask`` holds for."""
    if isinstance(rows, Csr) and rows.function is not None:
        return _any_alive(rows, mask).astype(np.int64)
    return frontier.pull_count(rows, mask)


def _any_alive(rows: Csr | MultiCsr, mask: Mask) -> Mask:
    """For every row whether ``mask`` holds for one of its targets."""
    function = rows.function if isinstance(rows, Csr) else None
    if function is None:
        return frontier.pull_any(rows, mask)
    found = mask.take(function)
    if function is not rows.indices:
        found &= function >= 0
    return found


def _gathered(rows: Csr | MultiCsr, codes: Codes, child: Candidates) -> Message:
    """Only the edges of the listed codes of the parent."""
    index, targets = frontier.expand(rows.at(codes), codes)
    return summed(index, targets, len(codes), child, None)


def _pushed(back: Csr | MultiCsr, rows: Csr | MultiCsr, child: Candidates) -> Message:
    """Only the edges of the listed codes of the child."""
    assert child.codes is not None
    back = back.at(child.codes)
    if not all(one.can_push for entry in child.totals.values() for one in entry.measures):
        targets = frontier.push_any(back, child.codes)
        message = _gathered(rows, targets, child)
        return Message(targets, message.weights, message.totals)
    pushed_to = child.codes

    def pushed(measure: Measure, entries: Entries) -> Entries:
        return measure.pushed(back, pushed_to, entries)

    codes, weights = frontier.push(back, child.codes, child.multiplicities())
    totals = {key: entry.each(pushed) for key, entry in child.totals.items()}
    return Message(codes, weights, totals)


def both(one: EdgeLink, two: EdgeLink, parent: str, at: Candidates, child: Candidates) -> Message:
    """The child summed over the neighbours that two links share."""
    listed = at.listed()
    first, second = one.csr(parent), two.csr(parent)

    def count(weights: Counts | None) -> Counts:
        return pairs.common_count(first, listed, second, listed, weights)

    refuse_wrap(child, lambda part: count(child.spread_out(part)))
    counts = count(None if child.is_full else child.spread_out(child.multiplicities()))
    return Message(None, counts, {})
