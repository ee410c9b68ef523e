"""What a match runs on: nodes as ordinals and edges as adjacency, of whole tables or a part of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
import pyarrow as pa

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.kernels.meeting import Distances
from omnigraph.read.match.candidates import Candidates
from omnigraph.read.match.links.edge_link import EdgeLink
from omnigraph.read.match.links.hop_link import HopLink
from omnigraph.read.match.links.through_link import ThroughLink, ThroughPaths
from omnigraph.read.match.lookups.asked_ids import ids_asked
from omnigraph.read.match.paths import PathSearch, refuse_weights
from omnigraph.read.match.pattern import ELEMENTS, Pattern, Traversal
from omnigraph.read.match.trace import Trace
from omnigraph.read.match.trees import conjuncts
from omnigraph.read.search.text_match import text_matches
from omnigraph.read.thresholds import MatchThresholds
from omnigraph.read.values.column import Space
from omnigraph.read.values.expressions import holds, mask_of, value_of, variables_of
from omnigraph.read.values.operands import Judge, OperandRows
from omnigraph.read.values.other_spaces import ElementSpace, OptionalSpace
from omnigraph.read.values.periods import TimeWindow, window_of
from omnigraph.read.view.nodes import NodeSpace
from omnigraph.read.view.topology import Topology, element_edges, holding, only
from omnigraph.read.view.view import View
from omnigraph.types import is_unicode


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
        self.rows_of: Callable[[ir.Rows | ir.Elements], Space] = _no_rows
        """Where the rows of a source come from."""
        self._nodes: dict[str, NodeSpace] = {}
        self._topologies: dict[str, Topology] = {}
        self._chosen: dict[Hashable, Topology] = {}
        self._distances: dict[Hashable, Distances] = {}
        self._others: dict[int, Space] = {}
        self._optionals: dict[int, OptionalSpace] = {}

    def nodes(self, type_name: str) -> NodeSpace:
        """The nodes of a type, the same object for the whole match."""
        if type_name not in self._nodes:
            self._nodes[type_name] = self.source.nodes(type_name)
        return self._nodes[type_name]

    def topology(self, edge_types: str) -> Topology:
        """The stored edges of a type, or of several as one, the same object for the whole match."""
        if edge_types not in self._topologies:
            self._topologies[edge_types] = self.source.topology(edge_types)
        return self._topologies[edge_types]

    def edges_of(self, traversal: Traversal) -> Topology:
        """The edges that a traversal may follow, the same object for the whole match."""
        whole = self.topology(traversal.edge_name)
        narrowed = traversal.between is not None and traversal.ends_hold
        if traversal.edge_filter is None and traversal.weight is None and not narrowed:
            return whole
        key = _edges_key(traversal)
        if key not in self._chosen:
            self._chosen[key] = self._edges_chosen(whole, traversal)
        return self._chosen[key]

    def _edges_chosen(self, whole: Topology, traversal: Traversal) -> Topology:
        """The edges that satisfy what a traversal asks of them, and of their ends if these hold as it does."""
        tests = () if traversal.edge_filter is None else tuple(conjuncts(traversal.edge_filter))
        chosen, tests = self._holding(whole, tests)
        masks: list[Mask] = []
        if tests:
            masks.append(mask_of(tests, chosen.edges, self.params))
        if traversal.weight is not None:
            column = chosen.edges.column(traversal.weight)
            masks += [] if column.valid is None else [column.valid]
            weights = column.numbers[np.logical_and.reduce(masks)] if masks else column.numbers
            refuse_weights(weights, traversal.weight)
        if traversal.between is not None and traversal.ends_hold:
            through = self.through(traversal)
            masks.append(through.take(chosen.src) & through.take(chosen.dst))
        mask = np.logical_and.reduce(masks) if masks else None
        return chosen if mask is None or mask.all() else only(chosen, mask)

    def _holding(
        self, whole: Topology, tests: tuple[ir.Condition, ...], *, in_whole: bool = False
    ) -> tuple[Topology, tuple[ir.Condition, ...]]:
        """The edges of whole tables that hold, which are kept there, and the tests that are left."""
        for test in tests:
            window = self._window(test) if isinstance(test, ir.Holds) else None
            if window is None or window.is_empty:
                continue
            assert isinstance(test, ir.Holds)
            [period] = test.periods
            some = whole.holding(period.since.property, period.until.property, window)
            if some is not None:
                rest = tuple(one for one in tests if one is not test)
                return holding(whole, some, in_whole=in_whole), rest
        return whole, tests

    def through(self, traversal: Traversal) -> Mask:
        """Which nodes may stand between the ends of a traversal."""
        assert traversal.between is not None
        return mask_of([traversal.between], self.nodes(traversal.left_type), self.params)

    def space_of(self, pattern: Pattern, name: str) -> Space:
        """What a variable of the pattern ranges over."""
        if name in pattern.nodes:
            return self.of_node(pattern, name)
        if name in pattern.edges:
            return self.topology(pattern.edges[name]).edges
        for block in pattern.optionals:
            if name in block.introduced:
                return self.optional_space(block.pattern, name)
        raise KeyError(name)

    def of_node(self, pattern: Pattern, name: str) -> Space:
        """What a variable that is no edge ranges over: nodes, rows, or elements of a list."""
        kind = pattern.nodes[name]
        if not kind.startswith("#"):
            return self.nodes(kind)
        origin = pattern.lists.get(name) or pattern.sources[name]
        if id(origin) not in self._others:
            if isinstance(origin, ir.PropertyOf):
                owner = self.space_of(pattern, origin.var)
                self._others[id(origin)] = ElementSpace(owner.column(origin.property))
            else:
                self._others[id(origin)] = self.rows_of(origin)
        return self._others[id(origin)]

    def nothing(self, pattern: Pattern, name: str) -> int:
        """The code of nothing, of a variable of an optional block."""
        return self.space_of(pattern, name).size - 1

    def optional_space(self, pattern: Pattern, name: str) -> OptionalSpace:
        """What a variable of an optional block ranges over outside it; ``pattern`` is that of the block."""
        space = self.space_of(pattern, name)
        if isinstance(space, OptionalSpace):
            return space
        if id(space) not in self._optionals:
            self._optionals[id(space)] = OptionalSpace(space)
        return self._optionals[id(space)]

    def candidates(self, space: Space, tests: Sequence[ir.Condition], judge: Judge) -> Candidates:
        """The nodes or rows that pass the tests; a test of the whole key is a look-up."""
        everything = Candidates(space.size)
        for test in tests if isinstance(space, NodeSpace) else ():
            assert isinstance(space, NodeSpace)
            wanted = ids_asked(space.type, test, self.params)
            if wanted is not None:
                listed = _ordinals(space, wanted.ids)
                others = [one for one in tests if one is not test or not wanted.exact]
                return self.narrow(space, Candidates(space.size, listed), others, judge)
        return self.narrow(space, everything, tests, judge)

    def narrow(
        self,
        space: Space,
        candidates: Candidates,
        tests: Sequence[ir.Condition],
        judge: Judge,
    ) -> Candidates:
        """Those of the listed nodes or rows that pass the tests; text comes last, it costs most."""
        compares = [test for test in tests if not isinstance(test, ir.TextMatch)]
        if compares and candidates.count:
            share = candidates.count * self.thresholds.narrowed_share
            if candidates.codes is not None and share <= candidates.size:
                for test in compares:
                    codes = candidates.listed()
                    held = self._holding_of(test, space, codes)
                    if held is None:
                        held = holds(test, _rows_of(test, space, codes, self.params, judge))
                    candidates = candidates if held.all() else candidates.only_listed(held)
            else:
                candidates = candidates.only(mask_of(compares, space, self.params, judge))
        for text in tests:
            if isinstance(text, ir.TextMatch) and candidates.count:
                assert isinstance(space, NodeSpace), "only nodes have text that is searched"
                found = self.source.text_matches(space.type, text, self.params)
                candidates = candidates.among(found)
        return candidates

    def _holding_of(self, test: ir.Condition, space: Space, codes: Codes) -> Mask | None:
        """Which of few nodes hold, where that is kept."""
        if not isinstance(test, ir.Holds) or not isinstance(space, NodeSpace):
            return None
        window = self._window(test)
        if window is None or window.is_empty:
            return None
        [period] = test.periods
        return space.holding_of(period.since.property, period.until.property, window, codes)

    def _window(self, test: ir.Holds) -> TimeWindow | None:
        """The moments of a test that are the same for all rows; None where it is about none, or about all."""
        if test.by_type or ir.is_per_row(test.when):
            return None
        return window_of(test.when, self.params, lambda one: value_of(one, self.params))

    def texts_matching(self, type_name: str, test: ir.TextMatch) -> Mask:
        """Which nodes have a text that satisfies a predicate, over all nodes of a type."""
        space = self.nodes(type_name)
        mask = np.zeros(space.size, np.bool_)
        mask[self.source.text_matches(space.type, test, self.params)] = True
        return mask

    def link(
        self, traversal: Traversal, edge_tests: Sequence[ir.Condition], judge: Judge
    ) -> EdgeLink | HopLink:
        """A traversal over the adjacency of its edge type."""
        topology = self.edges_of(traversal)
        if not traversal.is_single_hop:
            if traversal.between is not None and not traversal.ends_hold:
                return ThroughLink(traversal, topology, self.through(traversal))
            return HopLink(traversal, topology, self._distances_of(traversal))
        chosen, tests = self._holding(topology, tuple(edge_tests), in_whole=True)
        mask = mask_of(tests, topology.edges, self.params, judge) if tests else None
        satisfied = [one for one in edge_tests if not any(one is other for other in tests)]
        return EdgeLink(traversal, chosen, mask, self.thresholds, satisfied)

    def path_search(self, traversal: Traversal) -> PathSearch:
        """What searches the paths of a traversal."""
        topology = self.edges_of(traversal)
        if traversal.between is not None and not traversal.ends_hold:
            return ThroughPaths(traversal, topology, self.through(traversal))
        return PathSearch(traversal, topology, self._distances_of(traversal))

    def _distances_of(self, traversal: Traversal) -> Distances:
        """What is found of pairs of nodes in searches along the same edges in the same direction and as far."""
        key = _edges_key(traversal), traversal.direction, traversal.max_hops
        return self._distances.setdefault(key, Distances())

    def elements(self, pattern: Pattern, name: str) -> EdgeLink:
        """What joins an entity with the elements of its list."""
        owner, elements = pattern.lists[name].var, self.of_node(pattern, name)
        assert isinstance(elements, ElementSpace)
        kinds = pattern.nodes.get(owner) or pattern.edges[owner], pattern.nodes[name]
        step = Traversal(owner, name, *kinds, (ELEMENTS + name,), ir.Direction.OUT)
        return EdgeLink(step, element_edges(elements), None, self.thresholds)


def _edges_key(traversal: Traversal) -> Hashable:
    """What tells the edges that a traversal may follow from those of others."""
    between = traversal.between if traversal.ends_hold else None
    told = _told_apart(traversal.edge_filter), _told_apart(between)
    return traversal.edge_name, *told, traversal.weight


def _told_apart(condition: ir.Condition | None) -> Hashable:
    """What tells a condition from others: its text, since lists of literals have no hash."""
    if isinstance(condition, ir.Holds) and condition.when is ir.AT_THE_MOMENT:
        return condition  # Its text would take longer than the look-up it is for.
    return repr(condition)


def _no_rows(source: ir.Rows | ir.Elements) -> NoReturn:
    raise AssertionError(f"nobody said where the rows of ${source.var} come from")


def _ordinals(space: NodeSpace, ids: Collection[str]) -> Codes:
    """The nodes of these ids that are there, ascending."""
    if len(ids) == 1:
        found = space.ordinal_of(*ids)
        return np.array([found] if found >= 0 else [], dtype=np.int32)
    # A text with half a surrogate pair is no id, and Arrow refuses it.
    ordinals = space.ordinals_of(pa.array(filter(is_unicode, ids), pa.string()))
    return np.sort(ordinals[ordinals >= 0])


def _rows_of(
    test: ir.Condition, space: Space, codes: Codes, params: Mapping[str, Any], judge: Judge
) -> OperandRows:
    names = variables_of(test)
    return OperandRows(
        dict.fromkeys(names, space), dict.fromkeys(names, codes), params, len(codes), judge
    )
