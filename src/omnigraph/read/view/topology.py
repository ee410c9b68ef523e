"""An edge type at a snapshot: adjacency between node ordinals, and its edges as a space.

Edges of several types are a topology as well, and so are those of a type that satisfy a condition:

    Knows 0 -> 1, Follows 0 -> 1 and 1 -> 2   ->   neighbours of 0: 1 (once); edges: Knows 0, Follows 1 and 2

Positions of a union count through its types in the order they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.lang.query.ir import Direction
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.kernels.csr import Csr, MultiCsr
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.values.column import Column, Space, one_array
from omnigraph.read.values.other_spaces import ElementSpace
from omnigraph.read.values.periods import Held, TimeWindow
from omnigraph.read.view.byte_cache import ByteCache
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.ends import Ends
from omnigraph.read.view.held_edges import HeldEdges, held_edges
from omnigraph.read.view.pinned_table import PinnedTable
from omnigraph.read.view.properties import ID, Properties
from omnigraph.types import TEXT

__all__ = ["OR", "Csr", "EdgeSpace", "MultiCsr", "Topology"]

OR = "|"
"""Between the names of edge types that are alternatives; no name holds it."""


class EdgeSpace:
    """Stored edges as a ``Space``: codes are positions in the edge list."""

    def __init__(
        self,
        pinned: PinnedTable,
        edges: EdgeList,
        key: Hashable,
        cache: ByteCache,
        thresholds: ViewThresholds,
    ) -> None:
        self.pinned = pinned
        self._edges = edges
        self._key = key
        self._cache = cache
        self._thresholds = thresholds

    @cached_property
    def _properties(self) -> Properties:
        # Not before it is needed: the row ids of a kept list would have to be loaded.
        rows, cache, thresholds = self._edges.rows, self._cache, self._thresholds
        return Properties(self.pinned, cache, self._key, rows.row_ids, rows.codes, thresholds)

    @property
    def size(self) -> int:
        """How many stored edges there are."""
        return self._edges.size

    def type_names(self, codes: Codes) -> pa.Array:
        """The name of the type, for each of these entities."""
        return pa.repeat(self.pinned.entity.name, len(codes))

    def column(self, name: str) -> Column:
        """A property of all edges by position."""
        return self._properties.column(name)

    def has_column(self, name: str) -> bool:
        """Whether a property of all edges is kept in memory now."""
        return self._properties.has_column(name)

    def values(self, name: str, codes: Codes) -> pa.Array:
        """A property of these edges, repeats included."""
        return self._properties.values(name, codes)

    def holding(self, since: str, until: str, window: TimeWindow) -> Held:
        """Which edges hold."""
        return self._properties.holding(since, until, window)

    def column_keys(self, *names: str) -> tuple[Hashable, ...]:
        """What identifies these properties whatever they are called."""
        return tuple(map(self.pinned.column_key, names))

    def ids(self, codes: Codes) -> pa.StringArray:
        """The ids of these edges."""
        return self._properties.values(ID, codes)

    def ranks(self, codes: Codes) -> Codes:
        """The ranks of their ids among those of these edges."""
        distinct, places = np.unique(codes, return_inverse=True)
        ranks = Column(TEXT, self.ids(distinct.astype(np.int32))).codes
        found: Codes = ranks[places]
        return found


class Topology:
    """An edge type at a snapshot: its stored edges between the ordinals of two node spaces."""

    def __init__(
        self,
        edge: EdgeType,
        sources: Space,
        targets: Space,
        edges: EdgeList,
        space: Space,
    ) -> None:
        self.edge = edge
        self.sources = sources
        self.targets = targets
        self.edges = space
        self._list = edges

    @property
    def size(self) -> int:
        """How many stored edges there are."""
        return self._list.size

    @property
    def src(self) -> Codes:
        """The ordinal of the source by edge position."""
        return self._list.src

    @property
    def dst(self) -> Codes:
        """The ordinal of the target by edge position."""
        return self._list.dst

    @property
    def row_ids(self) -> npt.NDArray[np.uint64]:
        """The stable row id by edge position."""
        return self._list.rows.row_ids

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far, nodes not counted."""
        return self._list.nbytes

    def out(self) -> Csr:
        """Rows are sources."""
        return self._list.out()

    def into(self) -> Csr:
        """Rows are targets."""
        return self._list.into()

    def both(self) -> Csr:
        """Both directions of an edge type between nodes of one type; a self-loop is there once."""
        assert self.edge.from_type == self.edge.to_type
        return self._list.both()

    def neighbours(self) -> Csr:
        """Both directions of such an edge type without self-loops."""
        assert self.edge.from_type == self.edge.to_type
        return self._list.neighbours()

    def csr(self, direction: Direction) -> Csr:
        """The neighbours of a node in a direction."""
        if direction is Direction.BOTH:
            return self.both()
        return self.out() if direction is Direction.OUT else self.into()

    def multi(self, direction: Direction) -> MultiCsr:
        """One entry per stored edge; both ways every edge from either end, a self-loop once."""
        assert direction is not Direction.BOTH or self.edge.from_type == self.edge.to_type
        return self._list.multi(direction)

    def holding(self, since: str, until: str, window: TimeWindow) -> HeldEdges | None:
        """The edges that hold, which are kept; None where edges keep no masks."""
        if not isinstance(self.edges, EdgeSpace):
            return None
        held = self.edges.holding(since, until, window)
        return held_edges(self._list, self.edges.column_keys(since, until), held)

    def loops(self) -> Mask:
        """Which sources have a stored edge to themselves; none when the two types differ."""
        if self.edge.from_type != self.edge.to_type:
            return np.zeros(self.sources.size, np.bool_)
        return self._list.loops()


class UnionSpace:
    """The entities of several spaces one after the other."""

    def __init__(self, parts: Sequence[Space], names: Sequence[str]) -> None:
        self.parts = parts
        self.names = names
        """The name of the type of each part."""
        self.ends = np.cumsum([part.size for part in parts])

    @property
    def size(self) -> int:
        """How many entities there are."""
        return int(self.ends[-1])

    def column(self, name: str) -> Column:
        """A property of all entities: it has one type in all parts."""
        columns = [part.column(name) for part in self.parts]
        arrays = [column.array.cast(columns[0].kind) for column in columns]
        return Column(columns[0].type, one_array(pa.chunked_array(arrays)))

    def has_column(self, name: str) -> bool:
        """Whether that property of all entities is kept in memory now."""
        return all(part.has_column(name) for part in self.parts)

    def values(self, name: str, codes: Codes) -> pa.Array:
        """A property of these entities, repeats included."""
        return self._gathered(codes, lambda part, own: part.values(name, own))

    def ids(self, codes: Codes) -> pa.StringArray:
        """The ids of these entities."""
        return self._gathered(codes, lambda part, own: part.ids(own))

    def ranks(self, codes: Codes) -> npt.NDArray[np.integer]:
        """The ranks of their ids among those of these entities; of equal ids, that of the earlier type first."""
        distinct, places = np.unique(codes, return_inverse=True)
        ids = Column(TEXT, self.ids(distinct.astype(np.int32))).codes.astype(np.int64)
        found: npt.NDArray[np.integer] = (ids * len(self.parts) + self.part_of(distinct))[places]
        return found

    def part_of(self, codes: Codes) -> npt.NDArray[np.int64]:
        """In which part each entity is."""
        return np.searchsorted(self.ends, codes, side="right")

    def type_names(self, codes: Codes) -> pa.Array:
        """The name of the type of each entity."""
        return pa.array(self.names, pa.string()).take(pa.array(self.part_of(codes)))

    def _gathered(self, codes: Codes, read: Callable[[Space, Codes], pa.Array]) -> pa.Array:
        part_of = self.part_of(codes)
        pieces, places = [], []
        for at, part in enumerate(self.parts):
            here = np.flatnonzero(part_of == at)
            if not len(here) and len(codes):
                continue  # Nor need it have that property.
            first = 0 if at == 0 else self.ends[at - 1]
            pieces.append(read(part, (codes[here] - first).astype(np.int32)))
            places.append(here)
        whole = one_array(pa.chunked_array([piece.cast(pieces[0].type) for piece in pieces]))
        order = np.empty(len(codes), np.int64)
        order[np.concatenate(places)] = np.arange(len(codes))
        return whole.take(pa.array(order))


class SubSpace:
    """Some entities of a space, numbered anew in their order."""

    def __init__(self, whole: Space, size: int, codes: Callable[[], Codes]) -> None:
        self._whole = whole
        self.size = size
        """How many entities there are."""
        self._find = codes

    @cached_property
    def _codes(self) -> Codes:
        return self._find()

    def column(self, name: str) -> Column:
        """A property of all of them."""
        whole = self._whole.column(name)
        return Column(whole.type, whole.array.take(pa.array(self._codes)))

    def has_column(self, name: str) -> bool:
        """Whether that property is kept in memory now."""
        return self._whole.has_column(name)

    def values(self, name: str, codes: Codes) -> pa.Array:
        """A property of these entities, repeats included."""
        return self._whole.values(name, self._codes.take(codes))

    def ids(self, codes: Codes) -> pa.StringArray:
        """The ids of these entities."""
        return self._whole.ids(self._codes.take(codes))

    def type_names(self, codes: Codes) -> pa.Array:
        """The name of the type of each of these entities."""
        return self._whole.type_names(self._codes.take(codes))

    def ranks(self, codes: Codes) -> npt.NDArray[np.integer]:
        """Numbers in the order of the ids of these entities."""
        return self._whole.ranks(self._codes.take(codes))


def union_list(parts: Sequence[Topology]) -> EdgeList:
    """The edges of topologies between the same nodes, as one list."""
    src = np.concatenate([part.src for part in parts])
    dst = np.concatenate([part.dst for part in parts])
    shape = parts[0].sources.size, parts[0].targets.size
    return EdgeList.of(Ends(src, dst, np.arange(len(src), dtype=np.uint64)), shape)


def union(parts: Sequence[Topology], edges: EdgeList) -> Topology:
    """Topologies between the same nodes as one; ``edges`` is what ``union_list`` made of them."""
    first = parts[0]
    space = UnionSpace([part.edges for part in parts], [part.edge.name for part in parts])
    return Topology(first.edge, first.sources, first.targets, edges, space)


class HoldingEdges(Topology):
    """The edges of a topology that hold, numbered as all are."""

    def __init__(self, whole: Topology, some: HeldEdges) -> None:
        super().__init__(whole.edge, whole.sources, whole.targets, some.edges, whole.edges)
        self._some = some

    def multi(self, direction: Direction) -> MultiCsr:
        """One entry per stored edge."""
        return self._some.multi(direction)


def holding(topology: Topology, some: HeldEdges, *, in_whole: bool = False) -> Topology:
    """The edges that hold; ``in_whole``: numbered as all are, otherwise anew."""
    if in_whole:
        return HoldingEdges(topology, some)
    space = SubSpace(topology.edges, some.edges.size, lambda: some.positions)
    return Topology(topology.edge, topology.sources, topology.targets, some.edges, space)


def only(topology: Topology, mask: Mask) -> Topology:
    """The edges that a mask over all positions selects."""
    codes = np.flatnonzero(mask).astype(np.int32)
    ends = Ends(
        topology.src.take(codes), topology.dst.take(codes), np.arange(len(codes), dtype=np.uint64)
    )
    edges = EdgeList.of(ends, (topology.sources.size, topology.targets.size))
    space = SubSpace(topology.edges, len(codes), lambda: codes)
    return Topology(topology.edge, topology.sources, topology.targets, edges, space)


def element_edges(elements: ElementSpace) -> Topology:
    """What leads from entities to the elements of their lists, as if it were edges."""
    sizes = np.diff(elements.offsets)
    owners = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    every = np.arange(elements.size, dtype=np.int32)
    ends = Ends(owners, every, every.astype(np.uint64))
    edges = EdgeList.of(ends, (len(sizes), elements.size))
    nothing = EdgeType("elements", 0, 0, {}, from_type="owner", to_type="element")
    return Topology(nothing, elements, elements, edges, elements)
