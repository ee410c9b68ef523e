"""What a match runs on: nodes as ordinals and edges as adjacency, of whole tables or a part of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.match.candidates import Candidates
from omnigraph.read.match.links.edge_link import EdgeLink
from omnigraph.read.match.links.hop_link import HopLink
from omnigraph.read.match.pattern import Pattern, Traversal, key_of
from omnigraph.read.match.trace import Trace
from omnigraph.read.search.text_match import text_matches
from omnigraph.read.thresholds import MatchThresholds
from omnigraph.read.values.column import Space
from omnigraph.read.values.predicates import OperandRows, holds, mask_of
from omnigraph.read.view.nodes import NodeSpace
from omnigraph.read.view.topology import Topology
from omnigraph.read.view.view import View


class EntitySource(Protocol):
    """Where a match finds its nodes and edges."""

    def nodes(self, type_name: str) -> NodeSpace:
        """The nodes of a type, numbered."""
        ...

    def topology(self, edge_type_name: str) -> Topology:
        """The edges of a type between numbered nodes."""
        ...

    def text_matches(
        self, node_type: NodeType, predicate: ir.TextMatch, params: Mapping[str, Any]
    ) -> Codes:
        """The nodes, ascending, whose text satisfies a predicate."""
        ...


class WholeTables:
    """Everything that a view shows, as the source of a match."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.nodes = view.nodes
        self.topology = view.topology

    def text_matches(
        self, node_type: NodeType, predicate: ir.TextMatch, params: Mapping[str, Any]
    ) -> Codes:
        """The nodes, ascending, whose text satisfies a predicate."""
        return text_matches(self._view, node_type, predicate, params)


class MatchData:
    """Nodes and edges of one match; ``params`` are bound parameters, `now()` included."""

    def __init__(
        self, source: EntitySource, params: Mapping[str, Any], thresholds: MatchThresholds
    ) -> None:
        self.source = source
        self.params = params
        self.thresholds = thresholds
        self.trace: Trace | None = None
        """Where the steps of the match are written down, if a profile is wanted."""
        self._nodes: dict[str, NodeSpace] = {}
        self._topologies: dict[str, Topology] = {}

    def nodes(self, type_name: str) -> NodeSpace:
        """The nodes of a type, the same object for the whole match."""
        if type_name not in self._nodes:
            self._nodes[type_name] = self.source.nodes(type_name)
        return self._nodes[type_name]

    def topology(self, edge_type: str) -> Topology:
        """The stored edges of a type, the same object for the whole match."""
        if edge_type not in self._topologies:
            self._topologies[edge_type] = self.source.topology(edge_type)
        return self._topologies[edge_type]

    def space_of(self, pattern: Pattern, name: str) -> Space:
        """The entities a variable of the pattern ranges over."""
        if name in pattern.nodes:
            return self.nodes(pattern.nodes[name])
        return self.topology(pattern.edges[name]).edges

    def candidates(self, type_name: str, tests: Sequence[ir.Predicate]) -> Candidates:
        """The nodes that pass the tests; a test of the whole key is a look-up."""
        space = self.nodes(type_name)
        everything = Candidates(space.size)
        for test in tests:
            wanted = key_of(space.type, test, self.params)
            if wanted is not None:
                found = space.ordinal_of(wanted)
                listed = np.array([found] if found >= 0 else [], dtype=np.int32)
                others = [one for one in tests if one is not test]
                return self.narrow(type_name, Candidates(space.size, listed), others)
        return self.narrow(type_name, everything, tests)

    def narrow(
        self, type_name: str, candidates: Candidates, tests: Sequence[ir.Predicate]
    ) -> Candidates:
        """Those of the listed nodes that pass the tests; text comes last, it costs most."""
        space = self.nodes(type_name)
        compares = [test for test in tests if isinstance(test, ir.Compare)]
        if compares and candidates.count:
            share = candidates.count * self.thresholds.narrowed_share
            if candidates.codes is not None and share <= candidates.size:
                for test in compares:
                    rows = _rows_of(test, space, candidates.listed(), self.params)
                    candidates = candidates.only_listed(holds(test, rows))
            else:
                candidates = candidates.only(mask_of(compares, space, self.params))
        for text in tests:
            if isinstance(text, ir.TextMatch) and candidates.count:
                found = self.source.text_matches(space.type, text, self.params)
                candidates = candidates.among(found)
        return candidates

    def link(self, traversal: Traversal, edge_tests: Sequence[ir.Predicate]) -> EdgeLink | HopLink:
        """A traversal over the adjacency of its edge type."""
        topology = self.topology(traversal.edge_type)
        if not traversal.is_single_hop:
            return HopLink(traversal, topology)
        compares = [test for test in edge_tests if isinstance(test, ir.Compare)]
        mask = mask_of(compares, topology.edges, self.params) if compares else None
        return EdgeLink(traversal, topology, mask, self.thresholds)


def _rows_of(
    test: ir.Compare, space: Space, codes: Codes, params: Mapping[str, Any]
) -> OperandRows:
    names = [one.var for one in (test.left, test.right) if isinstance(one, ir.PropertyOf)]
    return OperandRows(dict.fromkeys(names, space), dict.fromkeys(names, codes), params, len(codes))
