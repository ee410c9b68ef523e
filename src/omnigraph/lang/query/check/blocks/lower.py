"""Lowering: from the resolved clauses of a block to the steps of a plan.

Traversals connect variables into components. A component starts from an outer variable, else from its first binding,
else from the left end of its first traversal; the other bindings become filters of the expansion that introduces
their variable. Sources of rows come first. Conditions follow, and negations; then the optional blocks in their
order; then the conditions that mention one of their variables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.blocks.moments import decided, node_test
from omnigraph.lang.query.check.scope import BoundVariable, Context
from omnigraph.lang.query.check.terms.conditions import conjuncts

FLIPPED = {
    ir.Direction.OUT: ir.Direction.IN,
    ir.Direction.IN: ir.Direction.OUT,
    ir.Direction.BOTH: ir.Direction.BOTH,
}

# ------------------------------------------------------------------ resolved clauses


@dataclass(slots=True, eq=False)
class BoundNode:
    """A binding: the variable and its inline filters; `may_be_null` if an optional block introduced it."""

    variable: BoundVariable
    filters: tuple[ir.Compare, ...]
    may_be_null: bool = False

    @property
    def var(self) -> str:
        """The name of the variable."""
        return self.variable.name

    @property
    def type_name(self) -> str:
        """The type of the variable."""
        return self.variable.type_name


@dataclass(slots=True, eq=False)
class ResolvedHop:
    """A resolved traversal; `direction` leads from `src` to `dst` as written."""

    src: str
    dst: str
    edge_types: tuple[str, ...]
    direction: ir.Direction
    src_type: str
    dst_type: str
    min_hops: int = 1
    max_hops: int | None = 1
    edge_var: str | None = None
    path_var: str | None = None
    edge_filter: ir.Condition | None = None
    weight: str | None = None
    when: ir.When | None = None
    holds: ir.Holds | None = None
    """Whether an edge holds then."""
    between: ir.Holds | None = None
    """Whether a node between the ends does."""
    variables: tuple[BoundVariable, ...] = ()
    """Both ends."""


@dataclass(slots=True, eq=False)
class Test:
    """A condition."""

    predicate: ir.Condition


@dataclass(slots=True, eq=False)
class ResolvedTest:
    """A block that must have a match (`exists`) or none (`not`), and the outer variables it mentions."""

    clauses: tuple[Resolved, ...]
    outer: tuple[str, ...]
    negated: bool


@dataclass(slots=True, eq=False)
class ResolvedOptional:
    """An `optional` block, the outer variables it mentions and those it introduces."""

    clauses: tuple[Resolved, ...]
    outer: tuple[str, ...]
    introduced: tuple[str, ...]


RowsOf = ir.Rows | ir.Elements | ir.Unroll
Resolved = BoundNode | ResolvedHop | Test | ResolvedTest | ResolvedOptional | RowsOf


# ------------------------------------------------------------------ blocks


def lower_block(
    clauses: Iterable[Resolved], outer: Iterable[str], context: Context
) -> tuple[ir.Step, ...]:
    """The steps of a block that is started from rows with the `outer` variables."""
    return _Block(tuple(clauses), frozenset(outer), context).steps()


class _Block:
    """One match, `not`, `exists` or `optional` block on its way to steps."""

    def __init__(
        self, clauses: tuple[Resolved, ...], outer: frozenset[str], context: Context
    ) -> None:
        self.clauses = clauses
        self.outer = outer
        self.context = context
        self.fresh = context.closed
        self.available = set(outer)
        self.done: list[ir.Step] = []
        self.hops: list[ResolvedHop] = []
        self.rows: list[RowsOf] = []
        self.optional: list[ResolvedOptional] = []
        self.filters: dict[str, tuple[ir.Condition, ...]] = {}
        self.tests: list[Test | ResolvedTest] = []
        self.types: dict[str, str] = {}
        for clause in clauses:
            if isinstance(clause, BoundNode):
                self._bind(clause)
            elif isinstance(clause, ResolvedHop):
                self.hops.append(clause)
            elif isinstance(clause, (Test, ResolvedTest)):
                self.tests.append(clause)
            elif isinstance(clause, ResolvedOptional):
                self.optional.append(clause)
            else:
                self.rows.append(clause)
        if context.judged:
            self._judge()

    def _judge(self) -> None:
        """Test whether the nodes that this block introduces hold; at moments of the row, with the other conditions."""
        seen = set(self.outer)
        for clause in self.clauses:
            found = (
                (clause.variable,)
                if isinstance(clause, BoundNode)
                else clause.variables
                if isinstance(clause, ResolvedHop)
                else ()
            )
            for variable in found:
                test = None if variable.name in seen else node_test(self.context, variable)
                seen.add(variable.name)
                if test is None:
                    continue
                if ir.is_per_row(test.when):
                    self.tests.append(Test(test))
                else:
                    own = self.filters.get(variable.name, ())
                    self.filters[variable.name] = (*own, test)

    def _bind(self, clause: BoundNode) -> None:
        """Note the type and the filters of a variable; what names another variable is a test of both."""
        own: tuple[ir.Condition, ...] = ()
        for condition in clause.filters:
            if all(name == clause.var for name in ir.mentioned(condition.right)):
                own += (condition,)
            else:
                self.tests.append(Test(condition))
        if clause.may_be_null and not own:
            own = (ir.Not(ir.IsNull(ir.NodeId(clause.var))),)
        self.filters[clause.var] = self.filters.get(clause.var, ()) + own
        self.types[clause.var] = clause.type_name

    def steps(self) -> tuple[ir.Step, ...]:
        self._add_rows(ir.Elements, ir.Rows)
        for var, predicates in self.filters.items():
            if var in self.outer:
                self.done += [ir.Filter(predicate) for predicate in predicates]
        self._add_pattern()
        self._add_rows(ir.Unroll)
        optional = {name for clause in self.optional for name in clause.introduced}
        self._add_conditions(optional, late=False)
        for clause in self.optional:
            inner = lower_block(clause.clauses, self.available, self.context)
            self.done.append(ir.LeftJoin(clause.outer, inner, clause.introduced))
            self.available |= set(clause.introduced)
        if optional:
            self._add_conditions(optional, late=True)
        return tuple(self.done)

    def _add_rows(self, *kinds: type) -> None:
        for clause in self.rows:
            if isinstance(clause, kinds):
                self.available.add(clause.var)
                self.done.append(clause)

    def _add_conditions(self, optional: set[str], *, late: bool) -> None:
        """Add the conditions, then the blocks to test, that mention none (or, `late`, some) of these variables."""
        blocks: list[ResolvedTest] = []
        for test in self.tests:
            if optional and late == optional.isdisjoint(_names(test)):
                continue
            if isinstance(test, Test):
                self.done.append(ir.Filter(test.predicate))
            else:
                blocks.append(test)
        for block in blocks:
            inner = lower_block(block.clauses, self.available, self.context)
            made = ir.AntiJoin if block.negated else ir.SemiJoin
            self.done.append(made(block.outer, inner))

    # -------------------------------------------------------------- scans and expansions

    def _add_pattern(self) -> None:
        pending = list(self.hops)
        self._expand(pending)
        for clause in self.clauses:
            if isinstance(clause, BoundNode):
                if clause.var not in self.available:
                    self._start(clause.var, clause.type_name, pending)
            elif isinstance(clause, ResolvedHop) and clause in pending:
                root, type_name = self._root(clause)
                self._start(root, type_name, pending)

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

    def _start(self, var: str, type_name: str, pending: list[ResolvedHop]) -> None:
        self.available.add(var)
        self.done.append(ir.NodeScan(var, type_name, self.filters.get(var, ())))
        self._expand(pending)

    def _expand(self, pending: list[ResolvedHop]) -> None:
        """Add, in source order, every pending traversal that has an end available."""
        while True:
            for hop in pending:
                if hop.src in self.available or hop.dst in self.available:
                    break
            else:
                return
            pending.remove(hop)
            self._add_expansion(hop)

    def _add_expansion(self, hop: ResolvedHop) -> None:
        inverse = hop.src not in self.available
        start, end = (hop.dst, hop.src) if inverse else (hop.src, hop.dst)
        start_type, end_type = (
            (hop.dst_type, hop.src_type) if inverse else (hop.src_type, hop.dst_type)
        )
        closes = end in self.available
        target = next(self.fresh) if closes else end
        several = hop.max_hops is None or hop.max_hops > 1
        expand = ir.Expand(
            src=start,
            dst=target,
            edge_type=hop.edge_types[0],
            direction=FLIPPED[hop.direction] if inverse else hop.direction,
            src_type=start_type,
            dst_type=end_type,
            min_hops=hop.min_hops,
            max_hops=hop.max_hops,
            dst_filters=() if closes else self.filters.get(end, ()),
            edge_var=hop.edge_var,
            inverse=inverse and several,
            other_types=hop.edge_types[1:],
            edge_filter=_both(hop.edge_filter, hop.holds),
            path_var=hop.path_var,
            weight=hop.weight,
            between=hop.between,
            ends_hold=hop.between is not None and self._ends_hold(hop),
        )
        self.done.append(expand)
        self.available.add(target)
        named = hop.edge_var or hop.path_var
        if named is not None:
            self.available.add(named)
        if closes:
            same = ir.Compare(ir.NodeId(target), "=", ir.NodeId(end))
            self.done.append(ir.Filter(same))

    def _ends_hold(self, hop: ResolvedHop) -> bool:
        """Whether both ends are known to hold when the traversal wants the nodes between to hold."""
        for variable in hop.variables:
            judged = variable.judged
            # A binding that is still to come may say otherwise of a variable of the block around this one.
            is_open = variable.name in self.outer and judged is not None and not judged.bindings
            if is_open or judged is None or decided(self.context, variable) != hop.when:
                return False
        return True


def _both(one: ir.Condition | None, two: ir.Condition | None) -> ir.Condition | None:
    if one is None or two is None:
        return one or two
    return ir.And((*conjuncts(one), two))


def _names(test: Test | ResolvedTest) -> Iterable[str]:
    return test.outer if isinstance(test, ResolvedTest) else ir.mentioned(test.predicate)
