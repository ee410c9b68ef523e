"""An edge type at a snapshot: adjacency between node ordinals, and its edges as a space."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.lang.query.ir import Direction
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.kernels.csr import Csr, MultiCsr
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.values.column import Column
from omnigraph.read.view.byte_cache import ByteCache
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.nodes import NodeSpace
from omnigraph.read.view.pinned_table import PinnedTable
from omnigraph.read.view.properties import ID, Properties
from omnigraph.types import TEXT

__all__ = ["Csr", "EdgeSpace", "MultiCsr", "Topology"]


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

    def column(self, name: str) -> Column:
        """A property of all edges by position."""
        return self._properties.column(name)

    def has_column(self, name: str) -> bool:
        """Whether a property of all edges is kept in memory now."""
        return self._properties.has_column(name)

    def values(self, name: str, codes: Codes) -> pa.Array:
        """A property of these edges, repeats included."""
        return self._properties.values(name, codes)

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
        sources: NodeSpace,
        targets: NodeSpace,
        edges: EdgeList,
        space: EdgeSpace,
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

    def csr(self, direction: Direction) -> Csr:
        """The neighbours of a node in a direction."""
        if direction is Direction.BOTH:
            return self.both()
        return self.out() if direction is Direction.OUT else self.into()

    def multi(self, direction: Direction) -> MultiCsr:
        """One entry per stored edge; both ways every edge from either end, a self-loop once."""
        assert direction is not Direction.BOTH or self.edge.from_type == self.edge.to_type
        return self._list.multi(direction)

    def loops(self) -> Mask:
        """Which sources have a stored edge to themselves; none when the two types differ."""
        if self.edge.from_type != self.edge.to_type:
            return np.zeros(self.sources.size, np.bool_)
        return self._list.loops()
