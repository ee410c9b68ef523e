"""A traversal bound to data: how to get from the codes of one variable to those of another.

An ``EdgeLink`` is one step along the edges of a topology, a ``HopLink`` a search of several steps.
Both answer the same questions: all neighbours of some codes (``expand``), whether pairs are joined
(``contains``), and the message a variable sends to its neighbour when it is summed away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from omnigraph.lang.query import ir
from omnigraph.read import hops, kernels
from omnigraph.read.adjacency import Csr, MultiCsr
from omnigraph.read.pattern import FLIPPED
from omnigraph.read.support import TOO_MANY, Support, Totals, positions, too_many

if TYPE_CHECKING:
    import numpy as np

    from omnigraph.read.bindings import Codes, Counts, Floats, Mask
    from omnigraph.read.kernels import Index
    from omnigraph.read.pattern import Traversal
    from omnigraph.read.topology import Topology

# How much more a pair costs when it is sorted, or gathered row by row, than in one sweep.
_PUSH_COST = 6
_GATHER_COST = 3


class Expansion(NamedTuple):
    """Pairs: the position of the origin among the codes asked for, the neighbour, the edge."""

    origins: Index
    targets: Codes
    edges: Codes | None = None


class Message(NamedTuple):
    """What a child leaves at its parent: per code of the parent, or of those listed here."""

    codes: Codes | None
    weights: Counts
    totals: dict[int, Totals]


class Link(Protocol):
    """What enumeration asks of a traversal."""

    @property
    def traversal(self) -> Traversal:
        """The clause it stands for."""
        ...

    def fan_out(self, origin: str) -> float:
        """About how many neighbours a code of that variable has."""
        ...

    def expand(self, origin: str, codes: Codes, limit: int) -> Iterator[Expansion]:
        """All neighbours of these codes, in pieces of about `limit` pairs."""
        ...

    def contains(self, left: Codes, right: Codes) -> Mask:
        """Which of these pairs are joined."""
        ...


def pieces(sizes: Counts, limit: int) -> Iterator[slice]:
    """Cut rows into runs whose sizes add up to about `limit`; a larger row stands alone."""
    import numpy as np

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


class EdgeLink:
    """One step along edges. With an edge variable, every stored edge counts.

    ``edge_mask`` says which stored edges pass the tests on that variable.
    """

    def __init__(
        self, traversal: Traversal, topology: Topology, edge_mask: Mask | None = None
    ) -> None:
        self.traversal = traversal
        self.topology = topology
        self.edge_mask = edge_mask
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

    def _direction(self, origin: str) -> ir.Direction:
        forward = origin == self.traversal.left
        return self.traversal.direction if forward else FLIPPED[self.traversal.direction]

    def fan_out(self, origin: str) -> float:
        """The mean degree."""
        rows = self.rows(origin)
        return len(rows.indices) / max(1, rows.shape[0])

    def expand(self, origin: str, codes: Codes, limit: int) -> Iterator[Expansion]:
        """All neighbours of these codes, in pieces of about `limit` pairs."""
        rows = self.rows(origin)
        for part in pieces(rows.degrees[codes], limit):
            if isinstance(rows, MultiCsr):
                index, targets, edges = kernels.expand_multi(rows, codes[part])
                yield Expansion(index + part.start, targets, edges)
            else:
                index, targets = kernels.expand(rows, codes[part])
                yield Expansion(index + part.start, targets)

    def contains(self, left: Codes, right: Codes) -> Mask:
        """Which of these pairs are joined."""
        return kernels.contains(self.csr(self.traversal.left), left, right)

    def message(self, parent: str, at: Support, child: Support) -> Message:
        """The child summed over the neighbours of every code of the parent."""
        rows = self.rows(parent)
        if child.is_full:
            degrees = rows.degrees
            return Message(None, degrees if at.codes is None else degrees[at.codes], {})
        back = self.rows(self._other(parent))
        sweep = len(rows.indices)
        gather = (
            _GATHER_COST * int(rows.degrees[at.codes].sum()) if at.codes is not None else sweep + 1
        )
        push = (
            _PUSH_COST * int(back.degrees[child.codes].sum())
            if child.codes is not None
            else sweep + 1
        )
        _refuse_wrap(child, rows)
        if push <= min(sweep, gather) and child.codes is not None:
            return _pushed(back, rows, child)
        if gather < sweep and at.codes is not None:
            return _gathered(rows, at.codes, child)
        return _swept(rows, at, child)

    def reached(self, parent: str, at: Support, child: Support) -> Support:
        """The codes of the parent that have a living neighbour."""
        rows = self.rows(parent)
        if child.codes is None and child.weights is None:
            if at.codes is None:
                return at.only(rows.degrees > 0)
            return at.only_listed(rows.degrees[at.codes] > 0)
        alive = child.alive()
        back = self.rows(self._other(parent))
        if alive.codes is not None:
            spread = int(back.degrees[alive.codes].sum())
            if _PUSH_COST * spread <= len(rows.indices):
                return at.among(kernels.push_any(back, alive.codes))
        if at.codes is not None:
            wanted = int(rows.degrees[at.codes].sum())
            if _GATHER_COST * wanted < len(rows.indices):
                index, targets = kernels.expand(rows, at.codes)
                return at.only_listed(_present(index[child.mask()[targets]], at.count))
        return at.only(kernels.pull_any(rows, child.mask()))

    def _other(self, end: str) -> str:
        return self.traversal.right if end == self.traversal.left else self.traversal.left


def _only(multi: MultiCsr, mask: Mask) -> MultiCsr:
    """The entries of the stored edges a mask lets through."""
    import numpy as np

    keep = mask[multi.positions]
    before = np.concatenate([[0], np.cumsum(keep, dtype=np.int64)])
    return MultiCsr(before[multi.indptr], multi.indices[keep], multi.positions[keep], multi.shape)


def _present(index: Index, count: int) -> Mask:
    import numpy as np

    found = np.zeros(count, dtype=np.bool_)
    found[index] = True
    return found


def _refuse_wrap(child: Support, rows: Csr | MultiCsr) -> None:
    """Refuse sums beyond 64 bits; checked in floats only where they could be that large."""
    import numpy as np

    if child.weights is None or not len(child.weights) or not len(rows.degrees):
        return
    if float(child.weights.max()) * float(rows.degrees.max()) < TOO_MANY:
        return
    sums = kernels.pull(rows, child.spread_out(child.weights.astype(np.float64)))
    if sums.max() >= TOO_MANY:
        raise too_many()


def _swept(rows: Csr | MultiCsr, at: Support, child: Support) -> Message:
    """One sweep over all edges, for every code of the parent."""
    chosen = slice(None) if at.codes is None else at.codes
    weights = kernels.pull(rows, child.spread_out(child.multiplicities()))[chosen]
    totals = {}
    for key, entry in child.totals.items():
        counts = kernels.pull(rows, child.spread_out(entry.counts))[chosen]
        sums: Floats | None = None
        if entry.sums is not None:
            sums = kernels.pull(rows, child.spread_out(entry.sums))[chosen]
        best = entry.best
        if best is not None:
            pull = kernels.pull_min if entry.want == "min" else kernels.pull_max
            best = pull(rows, child.spread_out(best, -1))[chosen]
        totals[key] = Totals(counts, entry.column, sums, best, entry.want)
    return Message(None, weights, totals)


def _gathered(rows: Csr | MultiCsr, codes: Codes, child: Support) -> Message:
    """Only the edges of the listed codes of the parent."""
    index, targets = kernels.expand(rows, codes)
    return summed(index, targets, len(codes), child, None)


def summed(
    index: Index, targets: Codes, count: int, child: Support, codes: Codes | None
) -> Message:
    """The message over pairs: `index` among the parent's codes, `targets` codes of the child."""
    import numpy as np

    if child.codes is not None:
        at = positions(child.codes, targets)
        keep = at >= 0
        index, targets = index[keep], at[keep]

    def total(values: np.ndarray) -> np.ndarray:
        out = np.zeros(count, dtype=values.dtype)
        np.add.at(out, index, values[targets])
        return out

    def best(entry: Totals) -> Codes | None:
        if entry.best is None:
            return None
        found = entry.best[targets]
        known = found >= 0
        lowest = entry.want == "min"
        out = np.full(count, np.iinfo(np.int32).max if lowest else -1, dtype=np.int32)
        (np.minimum if lowest else np.maximum).at(out, index[known], found[known])
        return np.where(out == np.iinfo(np.int32).max, -1, out).astype(np.int32)

    weights = (
        np.bincount(index, minlength=count).astype(np.int64)
        if child.weights is None
        else total(child.weights)
    )
    totals = {
        key: Totals(
            total(entry.counts),
            entry.column,
            None if entry.sums is None else total(entry.sums),
            best(entry),
            entry.want,
        )
        for key, entry in child.totals.items()
    }
    return Message(codes, weights, totals)


def _pushed(back: Csr | MultiCsr, rows: Csr | MultiCsr, child: Support) -> Message:
    """Only the edges of the listed codes of the child."""
    assert child.codes is not None
    if any(entry.best is not None for entry in child.totals.values()):
        targets = kernels.push_any(back, child.codes)
        message = _gathered(rows, targets, child)
        return Message(targets, message.weights, message.totals)
    codes, weights = kernels.push(back, child.codes, child.multiplicities())
    totals = {}
    for key, entry in child.totals.items():
        counts = kernels.push(back, child.codes, entry.counts)[1]
        sums = None if entry.sums is None else kernels.push(back, child.codes, entry.sums)[1]
        totals[key] = Totals(counts, entry.column, sums)
    return Message(codes, weights, totals)


@dataclass(frozen=True, slots=True)
class HopLink:
    """A search of several steps, from the left variable."""

    traversal: Traversal
    topology: Topology

    def _search(self, origin: str) -> tuple[Csr, Mask | None, bool]:
        """The steps from that end, the nodes with a loop, and whether it is the search's far end."""
        inverse = origin != self.traversal.left
        direction = FLIPPED[self.traversal.direction] if inverse else self.traversal.direction
        return self.topology.csr(direction), self.topology.loops(), inverse

    def fan_out(self, origin: str) -> float:
        """The mean degree to the power of the steps, at most everything."""
        if not self._connects:
            return 0.0
        csr, _, _ = self._search(origin)
        mean = len(csr.indices) / max(1, csr.shape[0])
        return float(min(csr.shape[1], max(1.0, mean) ** self.traversal.max_hops))

    @property
    def _connects(self) -> bool:
        """Between different types a search ends after one step."""
        one_type = self.traversal.left_type == self.traversal.right_type
        return one_type or self.traversal.min_hops == 1

    def _pairs(self, origin: str, codes: Codes) -> Iterator[tuple[Index, Codes]]:
        if not self._connects:
            return
        csr, loops, inverse = self._search(origin)
        if self.traversal.left_type != self.traversal.right_type:
            yield kernels.expand(csr, codes)
            return
        low, high = self.traversal.min_hops, self.traversal.max_hops
        yield from hops.reach(csr, codes, low, high, loops, inverse)

    def expand(self, origin: str, codes: Codes, limit: int) -> Iterator[Expansion]:  # noqa: ARG002
        """All that the codes reach; the search decides on the pieces."""
        for index, targets in self._pairs(origin, codes):
            yield Expansion(index, targets)

    def contains(self, left: Codes, right: Codes) -> Mask:
        """Which of these pairs are joined: one search from every distinct left code."""
        import numpy as np

        found = np.zeros(len(left), dtype=np.bool_)
        starts, which = np.unique(left, return_inverse=True)
        order = np.lexsort((right, which))
        width = max(1, self.topology.csr(self.traversal.direction).shape[1])
        wanted = which[order].astype(np.int64) * width + right[order]
        for index, targets in self._pairs(self.traversal.left, starts.astype(np.int32)):
            pairs = np.sort(index.astype(np.int64) * width + targets)
            found[order] |= np.isin(wanted, pairs)
        return found

    def message(self, parent: str, at: Support, child: Support) -> Message:
        """The child summed over all that every code of the parent reaches."""
        import numpy as np

        if not self._connects:
            return Message(None, np.zeros(at.count, dtype=np.int64), {})
        same_type = self.traversal.left_type == self.traversal.right_type
        if same_type and not child.totals and at.count <= child.count:
            csr, loops, inverse = self._search(parent)
            weights = None if child.is_full else child.spread_out(child.multiplicities())
            low, high = self.traversal.min_hops, self.traversal.max_hops
            starts = at.listed()
            return Message(
                None, hops.reach_count(csr, starts, low, high, loops, inverse, weights), {}
            )
        if at.count <= child.count:
            return self._merged(at, child, self._pairs(parent, at.listed()))
        other = self.traversal.right if parent == self.traversal.left else self.traversal.left
        sources = child.listed()
        back = (
            (_rows_of(at, targets), sources[index])
            for index, targets in self._pairs(other, sources)
        )
        return self._merged(at, child, ((row[row >= 0], code[row >= 0]) for row, code in back))

    def _merged(self, at: Support, child: Support, pairs: Iterator[tuple[Index, Codes]]) -> Message:
        import numpy as np

        done = summed(np.empty(0, np.int64), np.empty(0, np.int32), at.count, child, None)
        for index, targets in pairs:
            done = _added(done, summed(index, targets, at.count, child, None))
        return done


def _rows_of(at: Support, codes: Codes) -> Index:
    import numpy as np

    return (codes if at.codes is None else positions(at.codes, codes)).astype(np.int64)


def _added(left: Message, right: Message) -> Message:
    import numpy as np

    def best(one: Totals, two: Totals) -> Codes | None:
        if one.best is None or two.best is None:
            return None
        if one.want == "max":
            return np.maximum(one.best, two.best)
        # -1 means none, and is the largest number when it is read without a sign.
        return np.minimum(one.best.view(np.uint32), two.best.view(np.uint32)).view(np.int32)

    totals = {
        key: Totals(
            one.counts + (two := right.totals[key]).counts,
            one.column,
            None if one.sums is None or two.sums is None else one.sums + two.sums,
            best(one, two),
            one.want,
        )
        for key, one in left.totals.items()
    }
    return Message(left.codes, left.weights + right.weights, totals)
