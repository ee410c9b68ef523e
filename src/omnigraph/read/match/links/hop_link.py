"""A search of several steps along edges, as a link between its two ends.

For example:

    $a knows{1,2} $b, edges 0 -> 1 -> 2   ->   pairs (0, 1), (0, 2), (1, 2)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels import frontier, hops
from omnigraph.read.kernels.arrays import Codes, Counts, Index, Mask
from omnigraph.read.kernels.csr import Csr
from omnigraph.read.kernels.meeting import Distances
from omnigraph.read.match.candidates import Candidates, refuse_wrap
from omnigraph.read.match.links.link import Expansion, LinkEnds, Message, added, summed
from omnigraph.read.match.pattern import FLIPPED, Traversal
from omnigraph.read.view.topology import Topology

# Steps an estimate looks ahead; bounds may be any integer.
_STEPS = 64
# Codes for each one that is found, where the others are left out.
_SPARSE = 8
# Pairs that are searched one by one, from both of their ends.
_FEW_PAIRS = 4


class HopLink:
    """A search of several steps, from the left variable."""

    def __init__(self, traversal: Traversal, topology: Topology, distances: Distances) -> None:
        self.traversal = traversal
        self.topology = topology
        self._distances = distances
        self.ends = LinkEnds(traversal.left, traversal.right)

    def _search(self, origin: str) -> tuple[Csr, Mask, bool]:
        """The adjacency to follow from that end, the nodes with a loop, and whether the search runs backwards."""
        inverse = origin != self.traversal.left
        direction = FLIPPED[self.traversal.direction] if inverse else self.traversal.direction
        if self.traversal.weight is None:
            loops = self.topology.loops()
        else:  # A cheapest path never leads back to its start.
            loops = np.zeros(self.topology.sources.size, np.bool_)
        return self.topology.csr(direction), loops, inverse

    @property
    def text(self) -> str:
        """The traversal in the words of the query."""
        return self.traversal.text

    def degrees(self, origin: str) -> None:  # noqa: ARG002
        """Not known without a search."""
        return

    def fan_out(self, origin: str) -> float:
        """The mean degree to the power of the steps, at most everything."""
        if not self._connects:
            return 0.0
        csr, _, _ = self._search(origin)
        everything, reached = float(csr.shape[1]), 1.0
        mean = max(1.0, csr.entries / max(1, csr.shape[0]))
        for _ in range(min(self._most, _STEPS)):
            reached *= mean
            if reached >= everything:
                return everything
        return min(reached, everything)

    @property
    def _connects(self) -> bool:
        """Whether anything can be joined: between different types a search ends after one step."""
        one_type = self.traversal.left_type == self.traversal.right_type
        return one_type or self.traversal.min_hops == 1

    @property
    def _most(self) -> int:
        """How many steps a search may take: no distance is larger than the number of nodes."""
        most = self.traversal.max_hops
        return self.topology.sources.size if most is None else most

    def _pairs(self, origin: str, codes: Codes) -> Iterator[tuple[Index, Codes]]:
        if not self._connects:
            return
        csr, loops, inverse = self._search(origin)
        if self.traversal.left_type != self.traversal.right_type:
            yield frontier.expand(csr, codes)
            return
        low, high = self.traversal.min_hops, self._most
        yield from hops.reach(csr, codes, low, high, loops, inverse)

    def expand(self, origin: str, codes: Codes, limit: int) -> Iterator[Expansion]:  # noqa: ARG002
        """All that the codes reach; the search decides on the pieces."""
        for index, targets in self._pairs(origin, codes):
            yield Expansion(index, targets)

    def meets(self, origin: str, codes: Codes, wanted: Candidates) -> tuple[Index, Index] | None:
        """The places of the codes and of those wanted that are joined; None unless all are few pairs of one type."""
        one_type = self.traversal.left_type == self.traversal.right_type
        if not one_type or len(codes) * wanted.count > _FEW_PAIRS:
            return None
        index = np.repeat(np.arange(len(codes)), wanted.count)
        where = np.tile(np.arange(wanted.count), len(codes))
        ends = codes.take(index), wanted.listed().take(where)
        joined = self.contains(*(ends if origin == self.traversal.left else ends[::-1]))
        return index[joined], where[joined]

    def contains(self, left: Codes, right: Codes) -> Mask:
        """Which of these pairs are joined: one search from every distinct left code, or for few pairs from both ends."""
        if len(left) <= _FEW_PAIRS and self.traversal.left_type == self.traversal.right_type:
            asked = zip(left.tolist(), right.tolist(), strict=True)
            return np.fromiter((self._joins(*pair) for pair in asked), np.bool_, len(left))
        found = np.zeros(len(left), dtype=np.bool_)
        starts, which = np.unique(left, return_inverse=True)
        order = np.lexsort((right, which))
        width = max(1, self.topology.csr(self.traversal.direction).shape[1])
        wanted = which[order].astype(np.int64) * width + right[order]
        for index, targets in self._pairs(self.traversal.left, starts.astype(np.int32)):
            pairs = np.sort(index.astype(np.int64) * width + targets)
            found[order] |= np.isin(wanted, pairs)
        return found

    def _joins(self, left: int, right: int) -> bool:
        """Whether a pair of nodes of one type is joined, searched from both of them."""
        out, loops, _ = self._search(self.traversal.left)
        back, _, _ = self._search(self.traversal.right)
        least = self.traversal.min_hops
        most = min(self._most, out.shape[0])
        edges = self._distances.between(out, back, left, right, most)
        return edges >= least or (0 <= edges == least - 1 and bool(loops[right]))

    def message(self, parent: str, at: Candidates, child: Candidates) -> Message:
        """The child summed over all that every code of the parent reaches."""
        if not self._connects:
            return Message(None, np.zeros(at.count, dtype=np.int64), {})
        refuse_wrap(child, lambda part: self._sums(parent, at, child.spread_out(part)))
        same_type = self.traversal.left_type == self.traversal.right_type
        met = self.meets(parent, at.listed(), child) if at.count <= _FEW_PAIRS else None
        if met is not None:
            index, where = met
            return self._merged(at, child, iter([(index, child.listed().take(where))]))
        if same_type and not child.totals and at.count <= child.count:
            weights = None if child.is_full else child.spread_out(child.multiplicities())
            return Message(None, self._sums(parent, at, weights), {})
        if at.count <= child.count:
            return self._merged(at, child, self._pairs(parent, at.listed()))
        sources = child.listed()
        back = self._pairs(self.ends.other(parent), sources)
        return self._arriving(at, child, ((targets, sources[index]) for index, targets in back))

    def _arriving(
        self, at: Candidates, child: Candidates, pairs: Iterator[tuple[Codes, Codes]]
    ) -> Message:
        """The child summed over searches that end at the parent: a few codes are listed, of many all have a place."""
        targets, sources = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        for found, origins in pairs:
            look()
            targets.append(found)
            sources.append(origins)
            if sum(map(len, targets)) * _SPARSE > at.size:
                every = itertools.chain(zip(targets, sources, strict=True), pairs)
                back = ((_rows_of(at, one), codes) for one, codes in every)
                return self._merged(at, child, ((r[r >= 0], c[r >= 0]) for r, c in back))
        codes, index = np.unique(np.concatenate(targets), return_inverse=True)
        return summed(index, np.concatenate(sources), len(codes), child, codes)

    def _sums(self, parent: str, at: Candidates, weights: Counts | None) -> Counts:
        """The weights of all that every code of the parent reaches, added up."""
        csr, loops, inverse = self._search(parent)
        # Between different types there is no second step: the targets are no rows of this adjacency.
        same_type = self.traversal.left_type == self.traversal.right_type
        if not same_type and weights is not None:
            return frontier.pull(csr, weights)[at.listed()]
        low, high = self.traversal.min_hops, self._most
        return hops.reach_count(csr, at.listed(), low, high, loops, inverse, weights)

    def _merged(
        self, at: Candidates, child: Candidates, pairs: Iterator[tuple[Index, Codes]]
    ) -> Message:
        done = summed(np.empty(0, np.int64), np.empty(0, np.int32), at.count, child, None)
        for index, targets in pairs:
            look()
            done = added(done, summed(index, targets, at.count, child, None))
        return done

    def reached(self, parent: str, at: Candidates, child: Candidates) -> Candidates:  # noqa: ARG002
        """All codes of the parent: to exclude some, the search would have to run twice."""
        return at


def _rows_of(at: Candidates, codes: Codes) -> Index:
    return at.places(codes).astype(np.int64)
