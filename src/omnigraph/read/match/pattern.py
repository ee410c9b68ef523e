"""A match as a graph of variables: what the steps of a plan say, without their order.

    $a: Person  $a knows $b  $b.age > 30
    nodes {a: Person, b: Person}, traversals (a -knows-> b), tests {b: (age > 30)}

A closed cycle, which the plan writes as an expansion to a hidden variable that must equal another one,
becomes a traversal between the two. Each traversal runs from the variable its search starts from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.lang.query import ir
from omnigraph.lang.query.describe import ARROWS
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.types import key_text

FLIPPED = {
    ir.Direction.OUT: ir.Direction.IN,
    ir.Direction.IN: ir.Direction.OUT,
    ir.Direction.BOTH: ir.Direction.BOTH,
}


@dataclass(frozen=True, slots=True)
class Traversal:
    """`left` reaches `right` over edges of a type; both may be one variable."""

    left: str
    right: str
    left_type: str
    right_type: str
    edge_type: str
    direction: ir.Direction
    min_hops: int = 1
    max_hops: int = 1
    edge_var: str | None = None

    @property
    def is_single_hop(self) -> bool:
        """Whether it is one step along an edge."""
        return self.min_hops == self.max_hops == 1

    @property
    def ends(self) -> frozenset[str]:
        """The variables it connects."""
        return frozenset((self.left, self.right))

    @property
    def text(self) -> str:
        """In the words of a plan."""
        before, after = ARROWS[self.direction]
        edge = f"${self.edge_var}:{self.edge_type}" if self.edge_var else self.edge_type
        hops = "" if self.is_single_hop else f"{{{self.min_hops},{self.max_hops}}}"
        return f"${self.left} {before}{edge}{hops}{after} ${self.right}"


@dataclass(frozen=True, slots=True)
class Negation:
    """A block that must have no match. `outer` are the variables of the row it is judged for."""

    outer: frozenset[str]
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Pattern:
    """A conjunctive query. `given` variables are bound from outside (inside a negation)."""

    nodes: Mapping[str, str]
    """The node type of every variable, the given ones included."""
    edges: Mapping[str, str]
    """The edge type of every edge variable, the given ones included."""
    given: frozenset[str]
    tests: Mapping[str, tuple[ir.Predicate, ...]]
    """Predicates on exactly one variable."""
    traversals: tuple[Traversal, ...] = ()
    joins: tuple[ir.Compare, ...] = ()
    """Predicates on several variables."""
    conditions: tuple[ir.Compare, ...] = ()
    """Predicates on no variable at all."""
    negations: tuple[Negation, ...] = ()


@dataclass(slots=True)
class _Draft:
    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)
    equal: dict[str, str] = field(default_factory=dict)
    expansions: list[ir.Expand] = field(default_factory=list)
    predicates: list[ir.Predicate] = field(default_factory=list)
    negations: list[ir.AntiJoin] = field(default_factory=list)


def pattern_of(steps: Iterable[ir.Step]) -> Pattern:
    """The pattern of a plan's steps."""
    return _pattern(steps, {}, {})


def _pattern(
    steps: Iterable[ir.Step], outer_nodes: Mapping[str, str], outer_edges: Mapping[str, str]
) -> Pattern:
    draft = _Draft()
    for step in steps:
        _add(draft, step)
    nodes = {**outer_nodes, **draft.nodes}
    edges = {**outer_edges, **draft.edges}
    for hidden in draft.equal:
        del nodes[hidden]
    tests: dict[str, tuple[ir.Predicate, ...]] = {}
    joins: list[ir.Compare] = []
    conditions: list[ir.Compare] = []
    for predicate in draft.predicates:
        names = sorted(variables_of(predicate))
        if len(names) == 1:
            tests[names[0]] = (*tests.get(names[0], ()), predicate)
        elif isinstance(predicate, ir.Compare):
            (joins if names else conditions).append(predicate)
    traversals = tuple(_traversal(step, draft.equal) for step in draft.expansions)
    negations = tuple(
        Negation(inner.given, inner)
        for inner in (_pattern(step.inner, nodes, edges) for step in draft.negations)
    )
    own = draft.nodes.keys() | draft.edges.keys()
    used = set(tests)
    used |= {name for traversal in traversals for name in traversal.ends}
    used |= {name for join in joins for name in variables_of(join)}
    used |= {name for negation in negations for name in negation.outer}
    given = frozenset(used - own)
    return Pattern(
        {name: kind for name, kind in nodes.items() if name in own or name in given},
        {name: kind for name, kind in edges.items() if name in own or name in given},
        given,
        tests,
        traversals,
        joins=tuple(joins),
        conditions=tuple(conditions),
        negations=negations,
    )


def _add(draft: _Draft, step: ir.Step) -> None:
    match step:
        case ir.NodeScan():
            draft.nodes[step.var] = step.type_name
            draft.predicates += step.filters
        case ir.Expand():
            draft.nodes[step.dst] = step.dst_type
            if step.edge_var is not None:
                draft.edges[step.edge_var] = step.edge_type
            draft.expansions.append(step)
            draft.predicates += step.dst_filters
        case ir.Filter(ir.Compare(ir.NodeId(hidden), "=", ir.NodeId(end))):
            draft.equal[hidden] = end
        case ir.Filter():
            draft.predicates.append(step.predicate)
        case ir.AntiJoin():
            draft.negations.append(step)


def _traversal(step: ir.Expand, equal: Mapping[str, str]) -> Traversal:
    start, end = step.src, equal.get(step.dst, step.dst)
    start_type, end_type, direction = step.src_type, step.dst_type, step.direction
    if step.inverse:
        start, end, start_type, end_type = end, start, end_type, start_type
        direction = FLIPPED[direction]
    return Traversal(
        start,
        end,
        start_type,
        end_type,
        step.edge_type,
        direction,
        min_hops=step.min_hops,
        max_hops=step.max_hops,
        edge_var=step.edge_var,
    )


def merged(pattern: Pattern, old: str, new: str) -> Pattern:
    """The pattern with one variable standing for two of one type."""

    def name(one: str) -> str:
        return new if one == old else one

    tests: dict[str, tuple[ir.Predicate, ...]] = {}
    for var, predicates in pattern.tests.items():
        moved = tuple(_renamed(predicate, old, new) for predicate in predicates)
        tests[name(var)] = (*tests.get(name(var), ()), *moved)
    joins = []
    for join in pattern.joins:
        moved_join = _renamed(join, old, new)
        assert isinstance(moved_join, ir.Compare)
        if len(variables_of(moved_join)) == 1:
            tests[new] = (*tests.get(new, ()), moved_join)
        else:
            joins.append(moved_join)
    return replace(
        pattern,
        nodes={name(var): kind for var, kind in pattern.nodes.items()},
        given=frozenset(map(name, pattern.given)),
        tests=tests,
        traversals=tuple(
            replace(one, left=name(one.left), right=name(one.right)) for one in pattern.traversals
        ),
        joins=tuple(joins),
        negations=tuple(
            Negation(frozenset(map(name, one.outer)), merged(one.pattern, old, new))
            for one in pattern.negations
        ),
    )


def _renamed(predicate: ir.Predicate, old: str, new: str) -> ir.Predicate:
    def operand(one: ir.Operand) -> ir.Operand:
        if isinstance(one, ir.PropertyOf | ir.NodeId) and one.var == old:
            return replace(one, var=new)
        return one

    if isinstance(predicate, ir.Compare):
        return replace(predicate, left=operand(predicate.left), right=operand(predicate.right))
    if predicate.field.var != old:
        return predicate
    return replace(predicate, field=replace(predicate.field, var=new))


def variables_of(predicate: ir.Predicate) -> set[str]:
    """The variables a predicate looks at."""
    operands = (
        (predicate.left, predicate.right)
        if isinstance(predicate, ir.Compare)
        else (predicate.field, predicate.query)
    )
    return {name for operand in operands for name in operand_variables(operand)}


def operand_variables(operand: ir.Output) -> Iterator[str]:
    """The variables an output or operand looks at; a score belongs to no variable."""
    match operand:
        case ir.PropertyOf() | ir.NodeId():
            yield operand.var
        case ir.Aggregate():
            yield from operand_variables(operand.arg)


def key_of(node: NodeType, test: ir.Predicate, params: Mapping[str, Any]) -> str | None:
    """The id a test asks for: equality of the whole key with a value of the key's own type."""
    equality = ir.equality_of(test)
    if equality is None or (equality[0].property,) != node.key:
        return None
    kind, value = equality[0].type, ir.value_of(equality[1], params)
    if not kind.scalar.is_found_by_id or value is None or isinstance(value, float | bool):
        return None
    return key_text(kind, value)
