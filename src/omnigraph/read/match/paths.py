"""What a path variable stands for: the path between the two ends of its traversal, found for rows that are listed.

A path is determined by its ends, so a match never carries one: it keeps the ends, and their paths are searched when a value of
them is asked for.

    $a $p:knows{1,3} $b   rows a [0, 0], b [4, 7]   length($p)   ->   one search from 0, lengths [1, 3]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import BadRequest
from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes, Floats, Index, Mask
from omnigraph.read.kernels.meeting import Distances, least_way
from omnigraph.read.kernels.paths import (
    Tree,
    cheapest_tree,
    edges_between,
    least_costs,
    least_tree,
    tree_of,
)
from omnigraph.read.match.pattern import FLIPPED, Traversal
from omnigraph.read.values.column import Space
from omnigraph.read.view.topology import Topology, UnionSpace

# Ends of one start that are searched one by one, from both sides; to more of them, all paths from the start are found.
_FEW_ENDS = 4


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths of pairs of ends: which there are, their nodes and edges one path after the other, and their costs."""

    there: Mask
    lengths: Index
    """In edges; 0 where there is no path."""
    nodes: Codes
    edges: Codes
    costs: Floats

    @property
    def node_offsets(self) -> npt.NDArray[np.int32]:
        """Where the nodes of each path begin, and the end of the last."""
        return _offsets(np.where(self.there, self.lengths + 1, 0))

    @property
    def edge_offsets(self) -> npt.NDArray[np.int32]:
        """Where the edges of each path begin, and the end of the last."""
        return _offsets(self.lengths)


class PathSearch:
    """Searches the paths of one traversal."""

    def __init__(self, traversal: Traversal, topology: Topology, distances: Distances) -> None:
        self.traversal = traversal
        self.topology = topology
        self._distances = distances
        self._one_type = traversal.left_type == traversal.right_type
        self._loops = topology.loops() if self._one_type else None

    @property
    def nodes(self) -> Space:
        """The nodes of its paths: those of one type, or those of the left type and then those of the right."""
        if self._one_type:
            return self.topology.sources
        ends = [self.topology.sources, self.topology.targets]
        if self.traversal.direction is not ir.Direction.OUT:
            ends.reverse()
        return UnionSpace(ends, [self.traversal.left_type, self.traversal.right_type])

    def lengths(self, left: Codes, right: Codes) -> tuple[Index, Mask]:
        """The number of edges between each pair, and which pairs are joined."""
        if not self._one_type:
            single = self._single_edges(left, right)
            return single.lengths, single.there
        found = np.full(len(left), -1, np.int64)
        for start, rows in _by_start(left):
            found[rows] = self._length(self._levels(start, right[rows]), right[rows])
        return np.maximum(found, 0), found >= 0

    def costs(self, left: Codes, right: Codes) -> tuple[Floats, Mask]:
        """The cost of the cheapest path between each pair, and which pairs are joined."""
        if not self._one_type:
            single = self._single_edges(left, right)
            return single.costs, single.there
        costs = np.zeros(len(left))
        there = np.zeros(len(left), np.bool_)
        for start, rows in _by_start(left):
            ends = right[rows]
            every = least_costs(self._multi, self._weights, start)
            found, joined = every.take(ends), ends != start
            if not np.isfinite(found).all():
                # Not reached, or only by paths of infinite cost: that the paths tell.
                tree = tree_of(self._multi, self._weights, start, every)
                joined = tree.levels.take(ends) >= 1
            there[rows] = joined
            costs[rows] = np.where(joined, found, 0.0)
        return costs, there

    def paths(self, left: Codes, right: Codes) -> Paths:
        """The whole path between each pair."""
        if not self._one_type:
            return self._single_edges(left, right)
        lengths = np.full(len(left), -1, np.int64)
        costs = np.zeros(len(left))
        ways: list[list[int]] = [[] for _ in range(len(left))]
        for start, rows in _by_start(left):
            ends = right[rows]
            found = np.zeros(0)
            if self.traversal.weight is not None:
                tree, found = cheapest_tree(self._multi, self._weights, start)
                of_ends = _ways_of(tree, ends)
            elif len(ends) <= _FEW_ENDS:
                between = (
                    least_way(*self._both_sides, start, end, self._most) for end in ends.tolist()
                )
                of_ends = [way or [] for way in between]
            else:
                of_ends = _ways_of(least_tree(self._csr, start, self._most), ends)
            levels = np.array([len(way) - 1 for way in of_ends])
            lengths[rows] = self._length(levels, ends)
            costs[rows] = np.where(levels >= 0, found[ends], 0.0) if len(found) else 0.0
            for row, way in zip(rows.tolist(), of_ends, strict=True):
                if lengths[row] >= 0:
                    # Where the last edge is a loop, the way to its node has one edge less.
                    ways[row] = way if len(way) == lengths[row] + 1 else [*way, way[-1]]
        there = lengths >= 0
        lengths = np.maximum(lengths, 0)
        nodes = np.array([node for way in ways for node in way], np.int32)
        return Paths(
            there, lengths, nodes, self._edges(nodes, lengths, there), np.where(there, costs, 0.0)
        )

    def _single_edges(self, left: Codes, right: Codes) -> Paths:
        """Paths between nodes of different types, which end after one edge."""
        joined, edges = self._least_edges(left, right)
        if self.traversal.min_hops > 1:
            joined, edges = joined[:0], edges[:0]
        there = np.zeros(len(left), np.bool_)
        there[joined] = True
        costs = np.zeros(len(left))
        if self.traversal.weight is not None:
            costs[joined] = self._weights.take(edges)
        behind = self._csr.shape[0]
        nodes = np.stack([left.take(joined), right.take(joined) + behind], axis=1).ravel()
        return Paths(there, there.astype(np.int64), nodes.astype(np.int32), edges, costs)

    def _levels(self, start: int, ends: Codes) -> Index:
        """How many edges the path from a node to each of the others has; -1 where it reaches them not at all."""
        if self.traversal.weight is not None:
            tree, _ = cheapest_tree(self._multi, self._weights, start)
            return tree.levels.take(ends).astype(np.int64)
        if len(ends) <= _FEW_ENDS:
            sides, most = self._both_sides, self._most
            between = (self._distances.between(*sides, start, end, most) for end in ends.tolist())
            return np.fromiter(between, np.int64, len(ends))
        return least_tree(self._csr, start, self._most).levels.take(ends).astype(np.int64)

    @property
    def _both_sides(self) -> tuple[Any, Any]:
        """The adjacency to follow from the start, and from the end."""
        return self._csr, self.topology.csr(FLIPPED[self.traversal.direction])

    @property
    def _csr(self) -> Any:
        return self.topology.csr(self.traversal.direction)

    @property
    def _multi(self) -> Any:
        return self.topology.multi(self.traversal.direction)

    @property
    def _weights(self) -> Floats:
        assert self.traversal.weight is not None
        return self.topology.edges.column(self.traversal.weight).numbers.astype(
            np.float64, copy=False
        )

    @property
    def _most(self) -> int:
        size = self.topology.csr(self.traversal.direction).shape[0]
        most = self.traversal.max_hops
        return size if most is None else min(most, size)

    def _length(self, levels: Index, right: Codes) -> Index:
        """The edges of the path to each node at that distance; -1 where the traversal does not join it with the start."""
        if self.traversal.weight is not None:
            return np.where(levels >= 1, levels, -1)
        least = self.traversal.min_hops
        found = np.where(levels >= least, levels, -1)
        if self._loops is not None and least >= 1:
            looped = (levels == least - 1) & self._loops.take(right)
            found = np.where(looped, levels + 1, found)
        return found

    def _edges(self, nodes: Codes, lengths: Index, there: Mask) -> Codes:
        """The least edge between the nodes of each step, one path after the other."""
        counts = np.where(there, lengths + 1, 0)
        ends = np.cumsum(counts)
        is_last = np.zeros(len(nodes), np.bool_)
        is_last[ends[counts > 0] - 1] = True
        at = np.flatnonzero(~is_last)
        sources, targets = nodes.take(at), nodes.take(at + 1)
        return self._least_edges(sources, targets)[1]

    def _least_edges(self, sources: Codes, targets: Codes) -> tuple[Index, Codes]:
        """The places of the pairs that an edge joins, and of each of these the least edge."""
        places, positions = edges_between(self._multi, sources, targets)
        if self.traversal.weight is not None:
            # Of parallel edges only the cheapest are on a cheapest path.
            weights = self._weights.take(positions)
            least = np.full(len(sources), np.inf)
            np.minimum.at(least, places, weights)
            keep = weights == least.take(places)
            places, positions = places[keep], positions[keep]
        ranks = self.topology.edges.ranks(positions)
        order = np.lexsort((ranks, places))
        joined, first = np.unique(places.take(order), return_index=True)
        return joined, positions.take(order.take(first))


def _by_start(left: Codes) -> Iterator[tuple[int, Index]]:
    """Each distinct start, and its rows."""
    starts, which = np.unique(left, return_inverse=True)
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(starts)))
    for at, start in enumerate(starts.tolist()):
        yield start, order[(ends[at - 1] if at else 0) : ends[at]]


def _ways_of(tree: Tree, ends: Codes) -> list[list[int]]:
    return [tree.way_to(end) if tree.levels[end] >= 0 else [] for end in ends.tolist()]


def path_array(kind: ir.PathValue, paths: Paths, nodes: Space, topology: Topology) -> pa.Array:
    """What is asked of paths, one value for each."""
    if kind.what == "nodes":
        return _node_lists(kind.property, paths, nodes)
    if kind.what == "edges":
        return _edge_lists(kind, paths, topology)
    assert isinstance(kind.type, ir.ObjectType)
    fields = dict(kind.type.fields)
    edges = fields["edges"]
    whole = {
        "nodes": _node_lists(None, paths, nodes),
        "edges": _edge_lists(ir.PathValue(kind.var, "edges", edges), paths, topology),
        "length": pa.array(paths.lengths),
        "cost": pa.array(paths.costs),
    }
    chosen = [whole[name] for name in fields]
    return pa.StructArray.from_arrays(chosen, list(fields), mask=pa.array(~paths.there))


def _node_lists(name: str | None, paths: Paths, nodes: Space) -> pa.Array:
    values = nodes.ids(paths.nodes) if name is None else nodes.values(name, paths.nodes)
    return _listed(paths.node_offsets, values, paths.there)


def _edge_lists(kind: ir.PathValue, paths: Paths, topology: Topology) -> pa.Array:
    space = topology.edges
    if kind.property is not None:
        values = space.values(kind.property, paths.edges)
        return _listed(paths.edge_offsets, values, paths.there)
    assert isinstance(kind.type, ir.ObjectList)
    columns = []
    for name, inner in kind.type.item.fields:
        if name == "type":
            columns.append(space.type_names(paths.edges))
        elif name in ("from", "to"):
            ends = topology.src if name == "from" else topology.dst
            of = topology.sources if name == "from" else topology.targets
            columns.append(of.ids(ends.take(paths.edges)))
        else:
            columns.append(space.values(name, paths.edges).cast(inner.arrow_type()))
    names = [name for name, _ in kind.type.item.fields]
    return _listed(paths.edge_offsets, pa.StructArray.from_arrays(columns, names), paths.there)


def _listed(offsets: npt.NDArray[np.int32], values: pa.Array, there: Mask) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(~there))


def _offsets(sizes: Index) -> npt.NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)


def refuse_weights(weights: Floats, name: str) -> None:
    """Refuse a search by weights of which one is negative or no number."""
    wrong = np.flatnonzero(~(weights >= 0))
    if len(wrong):
        raise BadRequest(
            f"runtime error: a cheapest path needs weights that are not negative, and `{name}` is {weights[wrong[0]]} "
            "somewhere; leave such edges out with a condition in brackets",
            property=name,
        )
