"""The relation of `{min,max}` hops over one edge type: which nodes a breadth-first search emits.

From ``x`` it emits ``y`` when the distance from ``x`` to ``y`` lies in [min, max] and is at least 1, or
when the distance is min - 1 and ``y`` has a stored self-loop, which is then the hop that emits it.
Searched from ``y`` instead (``inverse``), along adjacency in the opposite direction, the pairs are the
same: a start with a self-loop admits distances from min - 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.read import kernels

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph.read.bindings import Codes, Counts, Mask
    from omnigraph.read.kernels import Adjacency

    Index = npt.NDArray[np.int64]

# Pairs of start and node a search holds marks for; bounds the pairs of a chunk.
CHUNK = 1 << 22


def reach(
    csr: Adjacency,
    starts: Codes,
    min: int,
    max: int,
    loops: Mask | None = None,
    inverse: bool = False,
) -> Iterator[tuple[Index, Codes]]:
    """The nodes emitted from each start, in chunks of whole starts.

    The first array holds the place in ``starts``; both ascend, the nodes within a start. ``csr`` is
    the adjacency the search follows; without ``loops`` self-loops are looked up in it.
    """
    search = _Search(csr, min, max, loops, inverse)
    step = _starts_at_a_time(csr)
    for begin in range(0, len(starts), step):
        index, targets = search.emitted(starts[begin : begin + step])
        yield index + begin, targets


def reach_count(
    csr: Adjacency,
    starts: Codes,
    min: int,
    max: int,
    loops: Mask | None = None,
    inverse: bool = False,
    weights: Counts | None = None,
) -> Counts:
    """How many nodes are emitted from each start, or the sum of their weights."""
    counts = np.zeros(len(starts), np.int64)
    for index, targets in reach(csr, starts, min, max, loops, inverse):
        if weights is None:
            counts += np.bincount(index, minlength=len(starts))
        else:
            np.add.at(counts, index, weights[targets])
    return counts


def reach_any(
    csr: Adjacency,
    starts: Codes,
    min: int,
    max: int,
    loops: Mask | None = None,
    inverse: bool = False,
) -> Codes:
    """The nodes emitted from at least one start, ascending."""
    if min == 1:
        return _reached_at_all(csr, np.unique(starts), max, loops)
    found = np.zeros(csr.shape[0], np.bool_)
    for _, targets in reach(csr, np.unique(starts), min, max, loops, inverse):
        found[targets] = True
    return np.flatnonzero(found).astype(np.int32)


def _starts_at_a_time(csr: Adjacency) -> int:
    size = csr.shape[0]
    return CHUNK // size if 0 < size <= CHUNK else 1


def _looped(csr: Adjacency, loops: Mask | None, nodes: Codes) -> Mask:
    return kernels.contains(csr, nodes, nodes) if loops is None else loops[nodes]


@dataclass(frozen=True, slots=True)
class _Search:
    """Breadth-first searches side by side: a node of one of them is ``search * size + node``."""

    csr: Adjacency
    min: int
    max: int
    loops: Mask | None
    inverse: bool

    def emitted(self, starts: Codes) -> tuple[Index, Codes]:
        size = self.csr.shape[0]
        visited = np.zeros(len(starts) * size, np.bool_)
        emitted = np.zeros(len(starts) * size, np.bool_)
        least = np.full(len(starts), self.min)
        if self.inverse:
            least -= _looped(self.csr, self.loops, starts)
        search, node = np.arange(len(starts)), starts
        for distance in range(self.max + 1):
            if not len(node):
                break
            keys = search * size + node
            visited[keys] = True
            if distance >= self.min:
                emitted[keys] = True
            elif distance == self.min - 1:
                last = least[search] <= distance
                if not self.inverse:
                    last = _looped(self.csr, self.loops, node)
                emitted[keys[last]] = True
            if distance < self.max:
                place, targets = kernels.expand(self.csr, node)
                following = search[place] * size + targets
                following = np.unique(following[~visited[following]])
                search, node = _split(following, size)
        return _split(np.flatnonzero(emitted), size)


def _split(keys: Index, size: int) -> tuple[Index, Codes]:
    if not len(keys):
        return keys, np.zeros(0, np.int32)
    search, node = np.divmod(keys, size)
    return search, node.astype(np.int32)


def _reached_at_all(csr: Adjacency, starts: Codes, max: int, loops: Mask | None) -> Codes:
    """What {1,max} emits from any start: all that one search from all starts together reaches.

    Except for the starts themselves: such a node is emitted only by its self-loop or from another
    start. So every node learns the two nearest starts, and passes on only those.
    """
    nearest = np.full(csr.shape[0], -1, np.int32)
    second = nearest.copy()
    nearest[starts] = starts
    node, origin = starts, starts
    for _ in range(max):
        if not len(node):
            break
        place, targets = kernels.expand(csr, node)
        origins = origin[place]
        news = (nearest[targets] != origins) & (second[targets] == -1)
        node, origin = _distinct_pairs(targets[news], origins[news])
        first_slot = _first_of_each(node) & (nearest[node] == -1)
        nearest[node[first_slot]] = origin[first_slot]
        rest = ~first_slot
        rest[rest] = _first_of_each(node[rest])
        second[node[rest]] = origin[rest]
        kept = first_slot | rest
        node, origin = node[kept], origin[kept]
    found = nearest != -1
    found[starts] = (second[starts] != -1) | _looped(csr, loops, starts)
    return np.flatnonzero(found).astype(np.int32)


def _distinct_pairs(targets: Codes, origins: Codes) -> tuple[Codes, Codes]:
    keys = np.unique(targets.astype(np.int64) << 32 | origins)
    return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)


def _first_of_each(ordered: Codes) -> Mask:
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return first
