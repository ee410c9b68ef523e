"""The edges of a list that hold: as a list of their own, and by their positions in the whole.

They are kept with the list, under the moments between two neighbouring bounds. When a bound passes, few edges begin or
end, and adjacency that was made for the moments before is changed by these instead of made anew:

    a -> b, a -> b and a -> c hold, then one a -> b ends   ->   a still has b and c, and b once less
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Final

import numpy as np

from omnigraph.cancel import aside, holding
from omnigraph.lang.query.ir import Direction
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.kernels.csr import Csr, Entries, Keys, MultiCsr, csr_and_repeats, pair_keys
from omnigraph.read.values.periods import Held
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.ends import Ends
from omnigraph.read.view.nodes import RowIds

_KEPT: Final = 2
"""How many parts of a list are kept: of those that hold now, and those that held before a bound passed."""
_FEW: Final = 16
"""At most one in this number of edges changes; otherwise adjacency is made anew."""


def held_edges(whole: EdgeList, period: Hashable, held: Held) -> HeldEdges:
    """The edges that hold, by a period; kept while few other moments are asked for."""
    key = period, held.key
    with holding(whole.lock):
        found = whole.parts.pop(key, None)
        if not isinstance(found, HeldEdges):
            # Loaded here: the thread that makes the rest would wait for this lock for ever.
            _ = whole.src
            found = _followed(whole, period, held)
            if found is None:
                found = aside(lambda: HeldEdges.of(whole, held.mask), items=whole.size)
        whole.parts[key] = found
        while len(whole.parts) > _KEPT:
            whole.parts.popitem(last=False)
        return found


def _followed(whole: EdgeList, period: Hashable, held: Held) -> HeldEdges | None:
    """Those of later moments, from those of earlier ones where few edges are different."""
    if held.before is None:
        return None
    key, changed = held.before
    before = whole.parts.get((period, key))
    if not isinstance(before, HeldEdges) or _FEW * len(changed) > whole.size:
        return None
    return before.after(held.mask, changed)


class HeldEdges:
    """Some edges of a list."""

    def __init__(self, whole: EdgeList, mask: Mask, size: int) -> None:
        self._whole = whole
        self._mask = mask
        self.edges = _OwnList(whole, self, size)
        self._in_whole: dict[Direction, MultiCsr] = {}

    @staticmethod
    def of(whole: EdgeList, mask: Mask) -> HeldEdges:
        """Those that a mask selects."""
        return HeldEdges(whole, mask, int(np.count_nonzero(mask)))

    @cached_property
    def positions(self) -> Codes:
        """Their positions in the whole, ascending."""
        return np.flatnonzero(self._mask).astype(np.int32)

    def multi(self, direction: Direction) -> MultiCsr:
        """Adjacency by stored edge, with the positions of the whole list."""
        found = self._in_whole.get(direction)
        if found is None:
            own = self.edges.multi(direction)
            positions = self.positions.take(own.positions)
            found = MultiCsr(own.indptr, own.indices, positions, own.shape)
            self._in_whole[direction] = found
        return found

    def after(self, mask: Mask, changed: Codes) -> HeldEdges:
        """Those that another mask selects, which differs at few positions."""
        new = mask[changed]
        gone, come = changed[~new], changed[new]
        made = HeldEdges(self._whole, mask, self.edges.size + len(come) - len(gone))
        made.edges.follow(self.edges, gone, come)
        for direction, multi in list(self._in_whole.items()):
            if direction is not Direction.BOTH:
                entries = (self._entries(direction, one) for one in (gone, come))
                made._in_whole[direction] = multi.changed(*entries)
        return made

    def _entries(self, direction: Direction, positions: Codes) -> Entries:
        ends = self._whole.src.take(positions), self._whole.dst.take(positions)
        rows, columns = ends if direction is Direction.OUT else ends[::-1]
        return rows, columns, positions

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        positions = self.__dict__.get("positions")
        made = sum(one.nbytes for one in list(self._in_whole.values()))
        return made + self.edges.nbytes + (0 if positions is None else positions.nbytes)


class _OwnList(EdgeList):
    """Some edges as a list of their own, which is only made where somebody asks for more than adjacency."""

    def __init__(self, whole: EdgeList, some: HeldEdges, size: int) -> None:
        nothing = np.empty(0, np.int32)
        super().__init__(Ends(nothing, nothing, np.empty(0, np.uint64)), whole.shape, complete=True)
        self.size = size
        self._ends = None
        self._whole = whole
        self._some = some
        self._repeats: dict[str, Keys] = {}

    def _content(self) -> tuple[Ends, RowIds]:
        ends = self._ends
        if ends is None:
            with holding(self.lock):
                ends = self._ends
                if ends is None:
                    positions = self._some.positions
                    src, dst = self._whole.src.take(positions), self._whole.dst.take(positions)
                    numbers = np.arange(len(positions), dtype=np.uint64)
                    ends = self._ends = Ends(src, dst, numbers), RowIds(numbers)
        return ends

    def out(self) -> Csr:
        """Sources to targets."""
        return self._once("out", lambda: self._counted("out", self.src, self.dst))

    def into(self) -> Csr:
        """Targets to sources."""
        return self._once("into", lambda: self._counted("into", self.dst, self.src))

    def _counted(self, name: str, rows: Codes, columns: Codes) -> Csr:
        made, self._repeats[name] = csr_and_repeats(rows, columns, self._shape(name))
        return made

    def follow(self, before: _OwnList, gone: Codes, come: Codes) -> None:
        """Derive the adjacency that the list before had made; positions are those of the whole."""
        src, dst = self._whole.src, self._whole.dst
        for name, rows, columns in (("out", src, dst), ("into", dst, src)):
            made: Csr | None = before._made.get(name)
            if made is not None:
                pairs = (pair_keys(rows.take(some), columns.take(some)) for some in (gone, come))
                found = made.changed(before._repeats[name], *pairs)
                self._made[name], self._repeats[name] = found

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        return super().nbytes + sum(one.nbytes for one in list(self._repeats.values()))
