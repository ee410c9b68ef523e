"""The edges of a list that hold: as a list of their own, and by their positions in the whole.

They are kept with the list, under the moments between two neighbouring bounds. When a bound passes, few edges begin or
end, and adjacency stays that of the moments before but for these. It is copied when somebody needs all of it, or has
read single rows often enough (``kernels.late_csr``):

    a -> b, a -> b and a -> c hold, then one a -> b ends   ->   a still has b and c, and b once less
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np

from omnigraph.cancel import aside, holding
from omnigraph.lang.query.ir import Direction
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.kernels.csr import Csr, Entries, Keys, MultiCsr, csr_and_repeats, pair_keys
from omnigraph.read.kernels.late_csr import LateCsr, LateMultiCsr
from omnigraph.read.values.periods import Held
from omnigraph.read.view.edges import EdgeList, Sized
from omnigraph.read.view.ends import Ends
from omnigraph.read.view.nodes import RowIds

_KEPT: Final = 2
"""How many parts of a list are kept: of those that hold now, and those that held before a bound passed."""
_FEW: Final = 16
"""At most one in this number of edges changes; otherwise adjacency is made anew."""


def held_edges(whole: EdgeList, period: Hashable, held: Held) -> HeldEdges:
    """The edges that hold, by a period; kept while few other moments are asked for."""
    key = period, held.key
    parts = whole.parts
    if parts and parts[-1][0] == key and isinstance(parts[-1][1], HeldEdges):
        return parts[-1][1]
    with holding(whole.lock):
        kept = dict(whole.parts)
        found = kept.pop(key, None)
        if not isinstance(found, HeldEdges):
            # Loaded here: the thread that makes the rest would wait for this lock for ever.
            _ = whole.src
            found = _followed(kept, whole, period, held)
            if found is None:
                found = aside(lambda: HeldEdges.of(whole, held), items=whole.size)
        whole.parts = (*kept.items(), (key, found))[-_KEPT:]
        return found


def _followed(
    kept: Mapping[Hashable, Sized], whole: EdgeList, period: Hashable, held: Held
) -> HeldEdges | None:
    """Those of later moments, from those of earlier ones where few edges are different."""
    if held.change is None:
        return None
    before = kept.get((period, held.change.key))
    if not isinstance(before, HeldEdges) or _FEW * len(held.change.rows) > whole.size:
        return None
    return before.after(held)


class HeldEdges:
    """Some edges of a list."""

    def __init__(self, whole: EdgeList, held: Held, size: int) -> None:
        self._whole = whole
        self._held = held
        self.edges = _OwnList(whole, self, size)
        self._in_whole: dict[Direction, MultiCsr] = {}
        self._origins: dict[Direction, _Origin[MultiCsr]] = {}

    @staticmethod
    def of(whole: EdgeList, held: Held) -> HeldEdges:
        """Those that hold."""
        return HeldEdges(whole, held, int(np.count_nonzero(held.mask)))

    @cached_property
    def positions(self) -> Codes:
        """Their positions in the whole, ascending."""
        return np.flatnonzero(self._held.mask).astype(np.int32)

    def which(self, positions: Codes) -> Codes:
        """Those of some positions in the whole that are among them."""
        return positions[self._held.mask.take(positions)] if len(positions) else positions

    def multi(self, direction: Direction) -> MultiCsr:
        """Adjacency by stored edge, with the positions of the whole list."""
        found = self._in_whole.get(direction)
        if found is None:
            origin = self._origins.get(direction)
            if origin is not None:
                entries = (self._entries(direction, some) for some in origin.changed)
                found = LateMultiCsr(origin.made, *entries)
            else:
                own = self.edges.multi(direction)
                positions = self.positions.take(own.positions)
                found = MultiCsr(own.indptr, own.indices, positions, own.shape)
            self._in_whole[direction] = found
        return found

    def after(self, held: Held) -> HeldEdges:
        """Those that hold later, which differ from these at few positions."""
        assert held.change is not None
        _, changed, new = held.change
        gone, come = changed[~new], changed[new]
        made = HeldEdges(self._whole, held, self.edges.size + len(come) - len(gone))
        made.edges.follow(self.edges, gone, come)
        for direction in Direction:
            multi = self._in_whole.get(direction)
            if isinstance(multi, LateMultiCsr):
                multi = multi.whole
            origin = _origin_of(multi, None, self._origins.get(direction), (gone, come))
            if origin is not None:
                made._origins[direction] = origin
        return made

    def _entries(self, direction: Direction, positions: Codes) -> Entries:
        src, dst = self._whole.src.take(positions), self._whole.dst.take(positions)
        if direction is Direction.OUT:
            return src, dst, positions
        if direction is Direction.IN:
            return dst, src, positions
        # A loop read backwards is the same edge again.
        back = np.flatnonzero(src != dst)
        rows, columns = np.concatenate([src, dst[back]]), np.concatenate([dst, src[back]])
        return rows, columns, np.concatenate([positions, positions[back]])

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        positions = self.__dict__.get("positions")
        made = sum(one.nbytes for one in list(self._in_whole.values()))
        made += _derived_bytes(self._origins, self._in_whole)
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
        self._origins: dict[str, _Origin[Csr]] = {}

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
        return self._late("out") or self._once(
            "out", lambda: self._counted("out", self.src, self.dst)
        )

    def into(self) -> Csr:
        """Targets to sources."""
        return self._late("into") or self._once(
            "into", lambda: self._counted("into", self.dst, self.src)
        )

    def both(self) -> Csr:
        """Either way along an edge between nodes of one type."""

        def build() -> Csr:
            ends = np.concatenate([self.src, self.dst]), np.concatenate([self.dst, self.src])
            return self._counted("both", *ends)

        return self._late("both") or self._once("both", build)

    def loops(self) -> Mask:
        """Which nodes have an edge to themselves."""
        made: Mask | None = self._made.get("loops")
        if made is None:
            made = np.zeros(self.shape[0], np.bool_)
            made[self._whole.src.take(self._some.which(self._whole.looped()))] = True
            self._made["loops"] = made
        return made

    def _counted(self, name: str, rows: Codes, columns: Codes) -> Csr:
        made, self._repeats[name] = csr_and_repeats(rows, columns, self._shape(name))
        return made

    def _late(self, name: str) -> Csr | None:
        """Adjacency that was made for earlier moments, with what changed since."""
        found: Csr | None = self._made.get(name)
        origin = self._origins.get(name)
        if found is None and origin is not None:
            assert origin.repeats is not None
            pairs = (self._pairs(name, some) for some in origin.changed)
            found = self._made[name] = LateCsr(origin.made, origin.repeats, *pairs)
        return found

    def _pairs(self, name: str, positions: Codes) -> Keys:
        src, dst = self._whole.src.take(positions), self._whole.dst.take(positions)
        if name == "both":
            return np.concatenate([pair_keys(src, dst), pair_keys(dst, src)])
        return pair_keys(src, dst) if name == "out" else pair_keys(dst, src)

    def follow(self, before: _OwnList, gone: Codes, come: Codes) -> None:
        """Derive the adjacency that the list before had made; positions are those of the whole."""
        for name in ("out", "into", "both"):
            made, repeats = before._made.get(name), before._repeats.get(name)
            if isinstance(made, LateCsr):
                made, repeats = made.whole or (None, None)
            origin = _origin_of(made, repeats, before._origins.get(name), (gone, come))
            if origin is not None:
                self._origins[name] = origin

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        repeats = sum(one.nbytes for one in list(self._repeats.values()))
        return super().nbytes + repeats + _derived_bytes(self._origins, self._made)


Made = TypeVar("Made", Csr, MultiCsr)


class _Origin(NamedTuple, Generic[Made]):
    """Adjacency of earlier moments, the repeats of its list, and the positions of the edges that went and came since."""

    made: Made
    repeats: Keys | None
    changed: tuple[Codes, Codes]


def _origin_of(
    made: Made | None,
    repeats: Keys | None,
    before: _Origin[Made] | None,
    changed: tuple[Codes, Codes],
) -> _Origin[Made] | None:
    """What adjacency is derived from: what was made just before, or else what that would have been derived from."""
    if made is not None:
        return _Origin(made, repeats, changed)
    if before is None:
        return None
    gone, come = (np.concatenate(pair) for pair in zip(before.changed, changed, strict=True))
    if (len(gone) + len(come)) * _FEW > before.made.entries:
        return None
    # What came and went since is neither.
    if len(gone) and len(come):
        again = np.intersect1d(gone, come)
        gone, come = gone[~np.isin(gone, again)], come[~np.isin(come, again)]
    return _Origin(before.made, before.repeats, (gone, come))


def _derived_bytes(origins: Mapping[Any, _Origin[Any]], made: Mapping[Any, Any]) -> int:
    """The bytes of adjacency from which nothing was derived yet."""
    return sum(one.made.nbytes for name, one in list(origins.items()) if name not in made)
