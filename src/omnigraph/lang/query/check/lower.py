"""Lowering: from resolved clauses to the steps of a plan.

Traversals connect variables into components. A component starts from an outer variable, else from
its first binding, else from the left end of its first traversal; the other bindings become filters
of the expansion that introduces their variable. Predicates follow, and negations come last.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.check import Checked, CheckedRead
from omnigraph.lang.query.check.patterns import (
    BoundNode,
    Resolved,
    ResolvedHop,
    ResolvedNegation,
    Test,
)

FLIPPED = {
    ir.Direction.OUT: ir.Direction.IN,
    ir.Direction.IN: ir.Direction.OUT,
    ir.Direction.BOTH: ir.Direction.BOTH,
}


def lower(checked: Checked) -> ir.Plan:
    """The plan of a checked query."""
    if not isinstance(checked, CheckedRead):
        return checked
    fresh = (f"#c{number}" for number in itertools.count(1))
    steps, _ = _block(checked.clauses, frozenset(), fresh)
    output = checked.output
    return ir.ReadPlan(
        name=checked.name,
        params=checked.params,
        steps=steps,
        columns=output.columns,
        variables=checked.variables,
        ranking=output.ranking,
        order=output.order,
        limit=output.limit,
    )


def _block(
    clauses: tuple[Resolved, ...], outer: frozenset[str], fresh: Iterator[str]
) -> tuple[tuple[ir.Step, ...], frozenset[str]]:
    block = _Block(clauses, outer, fresh)
    return block.steps(), frozenset(block.available)


class _Block:
    """One match or `not` block on its way to steps."""

    def __init__(
        self, clauses: tuple[Resolved, ...], outer: frozenset[str], fresh: Iterator[str]
    ) -> None:
        self.clauses = clauses
        self.outer = outer
        self.fresh = fresh
        self.available = set(outer)
        self.hops = [clause for clause in clauses if isinstance(clause, ResolvedHop)]
        self.filters: dict[str, tuple[ir.Predicate, ...]] = {}
        self.types: dict[str, str] = {}
        for clause in clauses:
            if isinstance(clause, BoundNode):
                self.filters[clause.var] = self.filters.get(clause.var, ()) + clause.filters
                self.types[clause.var] = clause.type_name

    def steps(self) -> tuple[ir.Step, ...]:
        out: list[ir.Step] = [
            ir.Filter(predicate)
            for var, predicates in self.filters.items()
            if var in self.outer
            for predicate in predicates
        ]
        pending = list(self.hops)
        out += self._expand(pending)
        for clause in self.clauses:
            if isinstance(clause, BoundNode) and clause.var not in self.available:
                out += self._start(clause.var, clause.type_name, pending)
            elif isinstance(clause, ResolvedHop) and clause in pending:
                root, type_name = self._root(clause)
                out += self._start(root, type_name, pending)
        out += [ir.Filter(clause.predicate) for clause in self.clauses if isinstance(clause, Test)]
        for clause in self.clauses:
            if isinstance(clause, ResolvedNegation):
                inner, _ = _block(clause.clauses, frozenset(self.available), self.fresh)
                out.append(ir.AntiJoin(clause.outer, inner))
        return tuple(out)

    def _root(self, first: ResolvedHop) -> tuple[str, str]:
        """Where a component without an outer variable starts: its first binding, if it has one."""
        members = {first.src, first.dst}
        grown = True
        while grown:
            touching = {
                end
                for hop in self.hops
                if {hop.src, hop.dst} & members
                for end in (hop.src, hop.dst)
            }
            grown = not touching <= members
            members |= touching
        for var, type_name in self.types.items():
            if var in members:
                return var, type_name
        return first.src, first.src_type

    def _start(self, var: str, type_name: str, pending: list[ResolvedHop]) -> Iterator[ir.Step]:
        self.available.add(var)
        yield ir.NodeScan(var, type_name, self.filters.get(var, ()))
        yield from self._expand(pending)

    def _expand(self, pending: list[ResolvedHop]) -> Iterator[ir.Step]:
        """Emit, in source order, every pending traversal that has an end available."""
        while True:
            ready = (
                hop for hop in pending if hop.src in self.available or hop.dst in self.available
            )
            hop = next(ready, None)
            if hop is None:
                return
            pending.remove(hop)
            yield from self._expansion(hop)

    def _expansion(self, hop: ResolvedHop) -> Iterator[ir.Step]:
        inverse = hop.src not in self.available
        start, end = (hop.dst, hop.src) if inverse else (hop.src, hop.dst)
        start_type, end_type = (
            (hop.dst_type, hop.src_type) if inverse else (hop.src_type, hop.dst_type)
        )
        closes = end in self.available
        target = next(self.fresh) if closes else end
        yield ir.Expand(
            src=start,
            dst=target,
            edge_type=hop.edge_type,
            direction=FLIPPED[hop.direction] if inverse else hop.direction,
            src_type=start_type,
            dst_type=end_type,
            min_hops=hop.min_hops,
            max_hops=hop.max_hops,
            dst_filters=() if closes else self.filters.get(end, ()),
            edge_var=hop.edge_var,
            inverse=inverse and hop.max_hops > 1,
        )
        self.available.add(target)
        if hop.edge_var is not None:
            self.available.add(hop.edge_var)
        if closes:
            yield ir.Filter(ir.Compare(ir.NodeId(target), "=", ir.NodeId(end)))
