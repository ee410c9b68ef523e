"""The graph that an algorithm runs on: some nodes of one type in the order of their ids, and the edges among them.

Nodes are numbers from 0 on. Where all nodes of the type take part, the adjacency is the one that queries use, so it
is made once and kept. Parallel edges are there once, except in ``src`` and ``dst``, which have every stored edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from omnigraph.display.text import counted
from omnigraph.errors import BadRequest
from omnigraph.lang.query.ir import EVER
from omnigraph.read.kernels.arrays import Codes, Floats, Index, Mask
from omnigraph.read.kernels.csr import Csr, multi_csr_of
from omnigraph.read.kernels.frontier import expand
from omnigraph.read.values.periods import Moment, TimeWindow
from omnigraph.read.view.nodes import NodeSpace
from omnigraph.read.view.topology import OR, Topology, holding, union, union_list
from omnigraph.read.view.view import View


class Weighted(NamedTuple):
    """Adjacency with a weight for each entry."""

    csr: Csr
    weights: Floats


class NodeGraph:
    """Nodes by number, and the edges among them, as far as they hold at a moment."""

    def __init__(
        self, view: View, edges: Sequence[str], chosen: Codes | None = None, moment: Moment = EVER
    ) -> None:
        self._parts = [_holding(view.topology(name), moment) for name in edges]
        self._topology: Topology = self._parts[0]
        if len(edges) > 1:
            is_whole = all(part.edge.period is None for part in self._parts) or moment == EVER
            self._topology = (
                view.topology(OR.join(edges))
                if is_whole
                else union(self._parts, union_list(self._parts))
            )
        self.nodes: NodeSpace = view.nodes(self._topology.edge.from_type)
        self._chosen = _chosen(self.nodes, chosen, moment)

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return self.nodes.size if self._chosen is None else len(self._chosen)

    @cached_property
    def ids(self) -> pa.StringArray:
        """The ids by number."""
        every = self.nodes.id_array
        return every if self._chosen is None else every.take(pa.array(self._chosen))

    @cached_property
    def ordinals(self) -> Codes:
        """The number of each node among all nodes of its type."""
        if self._chosen is None:
            return np.arange(self.nodes.size, dtype=np.int32)
        return self._chosen

    def numbers_of(self, ids: Sequence[str]) -> Codes:
        """The numbers of these ids, -1 for those that no node has."""
        codes = self.nodes.ordinals_of(pa.array(ids, pa.string()))
        if self._numbers is None:
            return codes
        return np.where(codes >= 0, self._numbers.take(codes), np.int32(-1))

    @cached_property
    def _numbers(self) -> Codes | None:
        """For all nodes of the type their numbers here, -1 for those left out; None: all take part."""
        if self._chosen is None:
            return None
        numbers = np.full(self.nodes.size, -1, np.int32)
        numbers[self._chosen] = np.arange(len(self._chosen), dtype=np.int32)
        return numbers

    @cached_property
    def stored(self) -> tuple[Codes, Codes, Codes]:
        """Every stored edge: its source, its target, and its position in the edge list."""
        src, dst, numbers = self._topology.src, self._topology.dst, self._numbers
        if numbers is None:
            return src, dst, np.arange(len(src), dtype=np.int32)
        src, dst = numbers.take(src), numbers.take(dst)
        places = np.flatnonzero((src >= 0) & (dst >= 0)).astype(np.int32)
        return src.take(places), dst.take(places), places

    @cached_property
    def out(self) -> Csr:
        """Sources to targets, loops included."""
        return self._within(self._topology.out())

    @cached_property
    def into(self) -> Csr:
        """Targets to sources, loops included."""
        return self._within(self._topology.into())

    @cached_property
    def neighbours(self) -> Csr:
        """Either way along an edge, without loops."""
        return self._within(self._topology.neighbours())

    def _within(self, csr: Csr) -> Csr:
        if self._chosen is None or self._numbers is None:
            return csr
        index, targets = expand(csr, self._chosen)
        targets = self._numbers.take(targets)
        return _kept(index, targets, targets >= 0, self.size)

    def weighted_into(self, weight: str) -> tuple[Weighted, Floats]:
        """Targets to sources with the sums of their weights, and the sum of what leaves each node."""
        src, dst, weights = self._weighted(weight)
        leaving: Floats = np.bincount(src, weights, self.size).astype(float, copy=False)
        return _merged(dst, src, weights, self.size), leaving

    def weighted_neighbours(self, weight: str | None) -> Weighted:
        """Either way along an edge, without loops; without a weight every edge has 1."""
        if weight is None:
            return Weighted(self.neighbours, np.ones(len(self.neighbours.indices)))
        src, dst, weights = self._weighted(weight)
        others = np.flatnonzero(src != dst)
        src, dst, weights = src.take(others), dst.take(others), weights.take(others)
        ends = np.concatenate([src, dst]), np.concatenate([dst, src])
        return _merged(*ends, np.concatenate([weights, weights]), self.size)

    def _weighted(self, weight: str) -> tuple[Codes, Codes, Floats]:
        """The stored edges that have a weight."""
        src, dst, places = self.stored
        parts = []
        for part in self._parts:
            column = part.edges.column(weight).array
            parts.append(column.cast(pa.float64(), safe=False))
        column = pa.chunked_array(parts, pa.float64()).combine_chunks().take(pa.array(places))
        there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        weights = column.fill_null(0.0).to_numpy().take(there)
        check_weights(weight, weights)
        return src.take(there), dst.take(there), weights


def _holding(topology: Topology, moment: Moment) -> Topology:
    """The edges of a type that hold."""
    period = topology.edge.period
    if period is None or isinstance(moment, str):
        return topology
    some = topology.holding(*period.names, TimeWindow(moment))
    return topology if some is None else holding(topology, some)


def _chosen(nodes: NodeSpace, chosen: Codes | None, moment: Moment) -> Codes | None:
    """The nodes that take part and hold, ascending; None for all."""
    period = nodes.type.period
    if period is None or isinstance(moment, str):
        return chosen
    held = nodes.holding(*period.names, TimeWindow(moment)).mask
    if chosen is not None:
        return chosen[held.take(chosen)]
    return None if held.all() else np.flatnonzero(held).astype(np.int32)


def check_weights(name: str, weights: Floats) -> None:
    """Refuse weights that are negative, infinite or not a number."""
    # Not a number is neither above nor below.
    wrong = np.flatnonzero(~((weights >= 0) & np.isfinite(weights)))
    if len(wrong):
        raise BadRequest(
            f"the weight {name} of {counted(len(wrong), 'edge')} cannot be used, for example "
            f"{weights.take(wrong).min()}; weights are finite and not negative",
            property=name,
        )


def _kept(rows: Codes | Index, columns: Codes, which: Mask, size: int) -> Csr:
    """The pairs that a mask selects; they are in order."""
    places = np.flatnonzero(which)
    degrees = np.bincount(rows.take(places), minlength=size)
    indptr = np.zeros(size + 1, np.int64)
    np.cumsum(degrees, out=indptr[1:])
    return Csr(indptr, columns.take(places), (size, size))


def _merged(rows: Codes, columns: Codes, weights: Floats, size: int) -> Weighted:
    """The distinct pairs, each with the sum of its weights."""
    positions = np.arange(len(rows), dtype=np.int32)
    multi = multi_csr_of(rows, columns, positions, (size, size))
    entries = np.repeat(np.arange(size, dtype=np.int64) << 32, multi.degrees) | multi.indices
    starts = np.flatnonzero(np.diff(entries, prepend=-1))
    if not len(starts):
        return Weighted(Csr(np.zeros(size + 1, np.int64), multi.indices, (size, size)), weights[:0])
    sums = np.add.reduceat(weights.take(multi.positions), starts)
    indptr = np.searchsorted(starts, multi.indptr)
    return Weighted(Csr(indptr, multi.indices.take(starts), (size, size)), sums)
