"""What each variable of a match may be, and the links between them, before any row is made.

Tests turn a variable into its candidates, traversals and equalities become links, and a negated block
about one variable narrows it. A test of a variable of many nodes waits until a neighbour has narrowed it.

    $a: Person {name: "ada"}   $a knows $b   $b.age > 30   not { $b knows $a }
    candidates {"a": [0], "b": [2, 5, 7]}, one link, and a block left to be judged row by row
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np

from omnigraph.cancel import look
from omnigraph.lang.query import ir
from omnigraph.lang.query.plan_text import predicate_text
from omnigraph.read.kernels.arrays import Codes, Counts
from omnigraph.read.match.blocks.negations import Negations
from omnigraph.read.match.candidates import Candidates, distinct
from omnigraph.read.match.links.edge_link import EdgeLink
from omnigraph.read.match.links.value_link import joins_by_value, same_node, value_link
from omnigraph.read.match.lookups.asked_ids import is_asked_by_id
from omnigraph.read.match.match_data import MatchData
from omnigraph.read.match.pattern import Negation, OptionalBlock, Pattern, Traversal
from omnigraph.read.match.sum_away import VariableGraph
from omnigraph.read.match.trace import StepRun, traced
from omnigraph.read.match.wanted import Total, Totals, Wanted
from omnigraph.read.values.expressions import column_of, evaluate, variables_of
from omnigraph.read.values.operands import OperandRows, is_worth_all
from omnigraph.read.view.nodes import NodeSpace

Multiplicity = Callable[[OptionalBlock, str], Counts]
"""For every code of a block's only outer variable, how many rows it stands for."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The variables of a match, and the predicates and blocks that are judged row by row.

    Tests of edge variables are judged row by row as well, but those that are ``satisfied`` by all edges of a link.
    """

    graph: VariableGraph
    joins: list[ir.Condition]
    negations: list[Negation]
    satisfied: list[ir.Condition]


def prepare(
    data: MatchData,
    pattern: Pattern,
    wanted: Wanted,
    seed: Mapping[str, Codes],
    negations: Negations,
    multiplicity: Multiplicity,
) -> Prepared | None:
    """Find the candidates of every variable; None when one has none, so there is no row."""
    joins, equalities = _split(pattern)
    graph = VariableGraph(_needed(pattern, wanted, joins), data.trace, is_boolean=wanted.is_boolean)
    preparation = _Preparation(data, pattern, wanted, seed, negations, graph, multiplicity)
    if not preparation.run(equalities):
        return None
    return Prepared(graph, joins, preparation.row_negations, preparation.satisfied)


class _Preparation:
    """Fills the variable graph of one match."""

    def __init__(
        self,
        data: MatchData,
        pattern: Pattern,
        wanted: Wanted,
        seed: Mapping[str, Codes],
        negations: Negations,
        graph: VariableGraph,
        multiplicity: Multiplicity,
    ) -> None:
        self.data = data
        self.pattern = pattern
        self.wanted = wanted
        self.seed = seed
        self.negations = negations
        self.graph = graph
        self.judge = negations.judge(pattern)
        self.multiplicity = multiplicity
        self.row_negations: list[Negation] = []
        self.satisfied: list[ir.Condition] = []

    def run(self, equalities: Iterable[ir.Compare]) -> bool:
        """Fill the graph; False when some variable can be nothing."""
        pattern = self.pattern
        late = [name for name in pattern.nodes if self._can_wait(name)]
        for name in pattern.nodes:
            if name in late:
                self.graph.candidates[name] = Candidates(self.data.of_node(pattern, name).size)
            else:
                with self._scanning(name) as done:
                    found = self._candidates_of(name)
                    done.rows, done.bytes = done.rows + found.count, done.bytes + found.nbytes
                self.graph.candidates[name] = found
            if not self.graph.candidates[name].count:
                return False
        for traversal in pattern.traversals:
            look()
            self._link(traversal)
        for name in pattern.lists.keys() - pattern.given:
            owner = pattern.lists[name].var
            if owner in pattern.edges:
                # Only rows that are there already have edges whose lists are taken apart.
                size = self.data.space_of(pattern, owner).size
                given = distinct(self.seed[owner], size)
                self.graph.candidates[owner] = Candidates(size, given)
            self.graph.links.add(self.data.elements(pattern, name))
        spaces = {name: self.data.space_of(pattern, name) for name in pattern.nodes}
        for join in equalities:
            self.graph.links.add(value_link(join, spaces, self.data.params, self.judge))
        for negation in pattern.negations:
            if len(negation.outer) > 1 or negation.outer.isdisjoint(late):
                self._negate(negation)
        for name in pattern.nodes:
            if name not in late:
                self._multiply(name)
        while late:
            self._test_late(late.pop(), late)
        return all(candidates.count for candidates in self.graph.candidates.values())

    def _scanning(self, name: str) -> AbstractContextManager[StepRun]:
        """A step of the trace: the nodes of a variable and its tests."""
        return traced(self.data.trace, "scan", lambda: scan_text(self.pattern, name))

    def _candidates_of(self, name: str) -> Candidates:
        tests, space = self.pattern.tests.get(name, ()), self.data.of_node(self.pattern, name)
        if name in self.seed:
            given = Candidates(space.size, distinct(self.seed[name], space.size))
            candidates = self.data.narrow(space, given, tests, self.judge)
        else:
            found = self.data.candidates(space, tests, self.judge)
            candidates = self._with_totals(name, found)
        if name in self.wanted.among:
            among = distinct(self.wanted.among[name], candidates.size)
            candidates = candidates.among(among)
        return candidates

    def _can_wait(self, name: str) -> bool:
        """Whether a variable of many nodes may be tested after a neighbour has narrowed it."""
        tests = self.pattern.tests.get(name)
        if not tests or name in self.seed or name in self.wanted.among:
            return False
        space = self.data.of_node(self.pattern, name)
        if not isinstance(space, NodeSpace) or space.size < self.data.thresholds.many_nodes:
            return False
        if any(one.left == one.right for one in self.pattern.traversals):
            return False
        return not is_asked_by_id(space.type, tests, self.data.params)

    def _test_late(self, name: str, late: list[str]) -> None:
        """Test a variable late: only the neighbours of a variable of few nodes, when that can be summed away."""
        near = []
        for link in self.graph.links.at(name):
            other = link.ends.other(name)
            child = self.graph.candidates[other]
            if (
                isinstance(link, EdgeLink)
                and other not in self.graph.must
                and other not in late
                and child.codes is not None
                and len(self.graph.links.at(other)) == 1
            ):
                near.append((child.count * link.fan_out(other), other))
        if near:
            reach, other = min(near)
            if reach * self.data.thresholds.narrowed_share <= self.graph.candidates[name].size:
                self.graph.remove(other)
        space, tests = self.data.of_node(self.pattern, name), self.pattern.tests[name]
        with self._scanning(name) as done:
            listed = self.graph.candidates[name]
            narrowed = self.data.narrow(space, listed, tests, self.judge)
            done.rows, done.bytes = done.rows + narrowed.count, done.bytes + narrowed.nbytes
        self.graph.candidates[name] = self._with_totals(name, narrowed)
        for negation in self.pattern.negations:
            # At once: the next one to be tested may sum this one away.
            if negation.outer == {name}:
                self._negate(negation)
        self._multiply(name)

    def _link(self, traversal: Traversal) -> None:
        edge = traversal.edge_var
        tests = () if edge is None else self.pattern.tests.get(edge, ())
        if edge in self.graph.must:
            # The others wait for rows; the edges that hold are kept, so they are there already.
            tests = tuple(one for one in tests if isinstance(one, ir.Holds))
        if traversal.left == traversal.right and edge is None:
            loops = self._loops(traversal)
            name = traversal.left
            self.graph.candidates[name] = self.graph.candidates[name].among(loops)
        else:
            link = self.data.link(traversal, tests, self.judge)
            if isinstance(link, EdgeLink):
                self.satisfied += link.satisfied
            self.graph.links.add(link)

    def _loops(self, traversal: Traversal) -> Codes:
        """The nodes that a traversal joins with themselves by a self-loop, not by a way through others."""
        name = traversal.left
        listed = self.graph.candidates[name].listed()
        if traversal.min_hops == 0:
            return listed
        if traversal.min_hops > 1 or traversal.weight is not None:
            return listed[:0]
        link = self.data.link(traversal, (), self.judge)
        return listed[np.asarray(link.contains(listed, listed))]

    def _negate(self, negation: Negation) -> None:
        """A block about one node variable narrows it; the others wait for rows."""
        if len(negation.outer) > 1 or negation.outer & self.pattern.edges.keys():
            self.row_negations.append(negation)
            return
        if not negation.outer:
            return  # Judged with the conditions.
        (name,) = negation.outer
        candidates = self.graph.candidates[name]
        with traced(self.data.trace, "anti-join", f"anti join on ${name}") as done:
            hit = self.negations.matching(negation, name, candidates)
            if hit.any():
                self.graph.candidates[name] = candidates.only_listed(~hit)
            done.rows += self.graph.candidates[name].count
            done.bytes += self.graph.candidates[name].nbytes

    def _multiply(self, name: str) -> None:
        """Let each code of a variable stand for as many rows as optional blocks about it match, one at least."""
        for block in () if self.wanted.is_boolean else self.pattern.multiplied:
            if block.outer == {name}:
                candidates = self.graph.candidates[name]
                with traced(self.data.trace, "left-join", f"left join on ${name}") as done:
                    times = self.multiplicity(block, name)
                    listed = times if candidates.codes is None else times.take(candidates.codes)
                    self.graph.candidates[name] = candidates.join(listed, {})
                    done.rows += candidates.count
                    done.bytes += listed.nbytes

    def _with_totals(self, name: str, candidates: Candidates) -> Candidates:
        """The variable with its part in the aggregates, unless rows of it are enumerated."""
        totals: dict[int, Totals] = {}
        for key, total in self.wanted.totals.items():
            if total.var == name:
                totals[key] = self._totals(total, candidates)
        if candidates.weights is not None:
            totals = {key: entry.times(candidates.weights) for key, entry in totals.items()}
        return replace(candidates, totals={**candidates.totals, **totals})

    def _totals(self, total: Total, candidates: Candidates) -> Totals:
        """What an aggregate needs of each candidate; of few of them only their values are worked out."""
        space, codes = self.data.space_of(self.pattern, total.var), candidates.codes
        if (
            isinstance(total.arg, ir.PropertyOf)
            or codes is None
            or is_worth_all(len(codes), space.size)
        ):
            column = column_of(total.arg, space, self.data.params, self.judge)
            return Totals.of_codes(column, total.measures, slice(None) if codes is None else codes)
        rows = OperandRows(
            {total.var: space}, {total.var: codes}, self.data.params, len(codes), self.judge
        )
        return Totals.of_codes(evaluate(total.arg, rows), total.measures, slice(None))


def scan_text(pattern: Pattern, name: str) -> str:
    """A variable and its tests, in the words of a plan."""
    tests = " and ".join(map(predicate_text, pattern.tests.get(name, ())))
    return f"scan ${name}: {pattern.nodes[name]}" + (f" [{tests}]" if tests else "")


def _needed(pattern: Pattern, wanted: Wanted, joins: Iterable[ir.Condition]) -> set[str]:
    """The variables that cannot be summed away."""
    must = set(wanted.kept) | set(pattern.given)
    for join in joins:
        must |= variables_of(join)
    for negation in pattern.negations:
        if len(negation.outer) > 1 or negation.outer & pattern.edges.keys():
            must |= negation.outer
    # An edge's property cannot travel with a message: its rows are enumerated.
    must |= {one.var for one in wanted.totals.values()} & pattern.edges.keys()
    for traversal in pattern.traversals:
        if traversal.edge_var in must or traversal.left == traversal.right:
            must |= traversal.ends
    return must


def _split(pattern: Pattern) -> tuple[list[ir.Condition], list[ir.Compare]]:
    """The predicates on several variables: those judged row by row, and equalities that join.

    An equality between variables that no traversal connects would otherwise be judged for every
    pair there is. Where one does, its rows are few already.
    """
    component = {name: {name} for name in pattern.nodes}
    for ends in [one.ends for one in pattern.traversals] + [pattern.given & pattern.nodes.keys()]:
        whole = set().union(*(component[name] for name in ends))
        for name in whole:
            component[name] = whole
    judged: list[ir.Condition] = []
    joining: list[ir.Compare] = []
    for join in pattern.joins:
        names = variables_of(join)
        apart = names <= component.keys() and not any(names <= one for one in component.values())
        if same_node(join) and not names <= pattern.given:
            # One node has one neighbour of its own, so nothing binds a variable faster.
            joining.append(join)
        elif apart and joins_by_value(join):
            joining.append(join)
        else:
            judged.append(join)
    return judged, joining
