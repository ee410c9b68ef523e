"""A match as a graph of variables: what the steps of a plan say, without their order.

    $a: Person  $a knows $b  $b.age > 30
    nodes {a: Person, b: Person}, traversals (a -knows-> b), tests {b: (age > 30)}

A closed cycle, which the plan writes as an expansion to a hidden variable that must equal another one,
becomes a traversal between the two. Each traversal runs from the variable its search starts from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from omnigraph.lang.query import ir
from omnigraph.lang.query.plan_text import ARROWS, predicate_text
from omnigraph.read.match.trees import blocks_in, conjuncts, nulled, renamed
from omnigraph.read.values.expressions import has_path, variables_of
from omnigraph.read.view.topology import OR

AT_MOMENTS = "#at:"
"""Before the name of the end of a traversal whose edges hold at a moment of the row, as a block tests it."""
ROWS = "#rows:"
"""Before the name of a variable that ranges over rows, in place of a node type."""
ELEMENTS = "#elements:"
"""Before the name of a variable that ranges over the elements of a list, in place of a node type or an edge type."""

FLIPPED = {
    ir.Direction.OUT: ir.Direction.IN,
    ir.Direction.IN: ir.Direction.OUT,
    ir.Direction.BOTH: ir.Direction.BOTH,
}


@dataclass(frozen=True, slots=True)
class Traversal:
    """`left` reaches `right` over edges of some types; both may be one variable.

    Only edges that satisfy ``edge_filter`` are there. With a ``weight`` everything is reached but the start itself, over
    edges that have that property.
    """

    left: str
    right: str
    left_type: str
    right_type: str
    edge_types: tuple[str, ...]
    direction: ir.Direction
    min_hops: int = 1
    max_hops: int | None = 1
    edge_var: str | None = None
    edge_filter: ir.Condition | None = None
    weight: str | None = None
    between: ir.Holds | None = None
    """What nodes between the ends satisfy; the ends as well if ``ends_hold``."""
    ends_hold: bool = False

    @property
    def row_moments(self) -> tuple[ir.Holds, ...]:
        """What edges, and nodes between, satisfy at moments that differ from row to row."""
        edges = () if self.edge_filter is None else conjuncts(self.edge_filter)
        tests = (*edges, *(() if self.between is None else (self.between,)))
        return tuple(one for one in tests if isinstance(one, ir.Holds) and ir.is_per_row(one.when))

    @property
    def at_any_moment(self) -> Traversal:
        """The same along edges that may hold at any moment of any row."""
        if not self.row_moments:
            return self
        edges = conjuncts(self.edge_filter or TRUE)
        others = tuple(one for one in edges if one not in self.row_moments)
        return replace(
            self, edge_filter=ir.And(others) if others else None, between=None, ends_hold=False
        )

    @property
    def is_single_hop(self) -> bool:
        """Whether it is one step along an edge."""
        return self.min_hops == self.max_hops == 1 and self.weight is None

    @property
    def edge_name(self) -> str:
        """The edge types as one name."""
        return OR.join(self.edge_types)

    @property
    def ends(self) -> frozenset[str]:
        """The variables it connects."""
        return frozenset((self.left, self.right))

    @property
    def text(self) -> str:
        """In the words of a plan."""
        before, after = ARROWS[self.direction]
        edge = f"${self.edge_var}:{self.edge_name}" if self.edge_var else self.edge_name
        if self.edge_filter is not None:
            edge += f"[{predicate_text(self.edge_filter)}]"
        if self.between is not None:
            edge += f" through [{predicate_text(self.between)}] "
        most = "" if self.max_hops is None else self.max_hops
        hops = "" if self.is_single_hop else f"{{{self.min_hops},{most}}}"
        if self.weight is not None:
            hops = f" by {self.weight} "
        return f"${self.left} {before}{edge}{hops}{after} ${self.right}"


@dataclass(frozen=True, slots=True)
class Negation:
    """A block that must have no match. `outer` are the variables of the row it is judged for."""

    outer: frozenset[str]
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class OptionalBlock:
    """A block whose variables are nothing where it has no match; ``required``: rows without a match are dropped.

    The elements of a list of an edge are such a required block, since an edge is bound with the rows.
    """

    outer: frozenset[str]
    pattern: Pattern
    introduced: frozenset[str]
    required: bool = False


@dataclass(frozen=True, slots=True)
class Pattern:
    """A conjunctive query. `given` variables are bound from outside (inside a negation).

    Optional blocks come after all that is said here about the other variables, in their order, and then the ``late``
    conditions, which mention variables of optional blocks.
    """

    nodes: Mapping[str, str]
    """The node type of every variable, the given ones included."""
    edges: Mapping[str, str]
    """The edge type of every edge variable, the given ones included."""
    given: frozenset[str]
    tests: Mapping[str, tuple[ir.Condition, ...]]
    """Conditions on exactly one variable."""
    traversals: tuple[Traversal, ...] = ()
    joins: tuple[ir.Condition, ...] = ()
    """Conditions on several variables."""
    conditions: tuple[ir.Condition, ...] = ()
    """Conditions on no variable at all."""
    negations: tuple[Negation, ...] = ()
    optionals: tuple[OptionalBlock, ...] = ()
    late: tuple[ir.Condition, ...] = ()
    multiplied: tuple[OptionalBlock, ...] = ()
    """Optional blocks about one variable that only count: each of its codes stands for as many rows as they match."""
    sources: Mapping[str, ir.Rows | ir.Elements] = field(default_factory=dict)
    """Where the rows of a row variable come from."""
    lists: Mapping[str, ir.PropertyOf] = field(default_factory=dict)
    """The list whose elements a variable ranges over."""
    paths: Mapping[str, Traversal] = field(default_factory=dict)
    """The traversal whose path a variable stands for, here and further out."""

    @property
    def optional_nodes(self) -> dict[str, str]:
        """The node types of the variables of optional blocks."""
        found: dict[str, str] = {}
        for block in self.optionals:
            nodes = {**block.pattern.nodes, **block.pattern.optional_nodes}
            found |= {name: nodes[name] for name in block.introduced & nodes.keys()}
        return found

    @property
    def optional_edges(self) -> dict[str, str]:
        """The edge types of the variables of optional blocks."""
        found: dict[str, str] = {}
        for block in self.optionals:
            edges = {**block.pattern.edges, **block.pattern.optional_edges}
            found |= {name: edges[name] for name in block.introduced & edges.keys()}
        return found

    @property
    def optional_sources(self) -> dict[str, ir.Rows | ir.Elements]:
        """Where the rows of row variables of optional blocks come from."""
        return {
            name: one
            for block in self.optionals
            for name, one in (
                *block.pattern.sources.items(),
                *block.pattern.optional_sources.items(),
            )
        }

    @property
    def optional_lists(self) -> dict[str, ir.PropertyOf]:
        """The lists whose elements variables of optional blocks range over."""
        return {
            name: one
            for block in self.optionals
            for name, one in (*block.pattern.lists.items(), *block.pattern.optional_lists.items())
        }

    @property
    def optional_names(self) -> frozenset[str]:
        """The variables of optional blocks, that may be nothing."""
        return frozenset().union(*(block.introduced for block in self.optionals))


@dataclass(slots=True)
class _Draft:
    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)
    equal: dict[str, str] = field(default_factory=dict)
    expansions: list[ir.Expand] = field(default_factory=list)
    predicates: list[ir.Condition] = field(default_factory=list)
    negations: list[ir.AntiJoin] = field(default_factory=list)
    optionals: list[ir.LeftJoin] = field(default_factory=list)
    required: set[str] = field(default_factory=set)
    """What is introduced by blocks that must have a match."""
    per_row: list[ir.Expand] = field(default_factory=list)
    """Expansions along edges that hold at a moment of the row."""
    late: list[ir.Condition] = field(default_factory=list)
    sources: dict[str, ir.Rows | ir.Elements] = field(default_factory=dict)
    lists: dict[str, ir.PropertyOf] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Known:
    """What a block knows of the variables around it."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    edges: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, Traversal] = field(default_factory=dict)
    sources: Mapping[str, ir.Rows | ir.Elements] = field(default_factory=dict)
    lists: Mapping[str, ir.PropertyOf] = field(default_factory=dict)

    def beside(self, inner: Pattern) -> _Known:
        """Also the variables of a pattern, those of its optional blocks included."""
        return _Known(
            {**self.nodes, **inner.nodes, **inner.optional_nodes},
            {**self.edges, **inner.edges, **inner.optional_edges},
            {**self.paths, **inner.paths},
            {**self.sources, **inner.sources, **inner.optional_sources},
            {**self.lists, **inner.lists, **inner.optional_lists},
        )


def pattern_of(steps: Iterable[ir.Step]) -> Pattern:
    """The pattern of a plan's steps."""
    return _pattern(steps, _Known())


def _pattern(steps: Iterable[ir.Step], outer: _Known) -> Pattern:
    draft = _Draft()
    for step in steps:
        _add(draft, step)
    nodes = {**outer.nodes, **draft.nodes}
    edges = {**outer.edges, **draft.edges}
    for hidden in draft.equal:
        del nodes[hidden]
    hops = [_traversal(step, draft.equal) for step in draft.expansions]
    own_paths = {
        step.path_var: hop
        for step, hop in zip(draft.expansions, hops, strict=True)
        if step.path_var is not None
    }
    for step in draft.per_row:
        draft.predicates.append(_per_row(step, draft.equal))
        if step.path_var is not None:
            own_paths[step.path_var] = _traversal(step, draft.equal)
    paths = {**outer.paths, **own_paths}
    sources = {**outer.sources, **draft.sources}
    lists = {**outer.lists, **draft.lists}
    known = _Known(nodes, edges, paths, sources, lists)
    tests: dict[str, tuple[ir.Condition, ...]] = {}
    joins: list[ir.Condition] = []
    conditions: list[ir.Condition] = []
    for whole in draft.predicates:
        for predicate in conjuncts(whole):
            names = sorted(variables_of(predicate))
            if len(names) == 1 and not has_path(predicate):
                tests[names[0]] = (*tests.get(names[0], ()), predicate)
            else:
                (joins if names else conditions).append(predicate)
    traversals = tuple(hops)
    negations = tuple(
        Negation(inner.given, inner)
        for inner in (_pattern(step.inner, known) for step in draft.negations)
    )
    optionals = tuple(_optionals(draft, known))
    own = draft.nodes.keys() | draft.edges.keys()
    optional = frozenset().union(*(block.introduced for block in optionals))
    used = set(tests)
    used |= {name for traversal in traversals for name in traversal.ends}
    used |= {name for one in traversals for name in _moments(one.row_moments)}
    used |= {name for join in joins for name in variables_of(join)}
    used |= {name for negation in negations for name in negation.outer}
    used |= {name for block in optionals for name in block.outer}
    used |= {name for late in draft.late for name in variables_of(late)}
    used |= {one.var for one in draft.lists.values()}
    given = frozenset(used - own - optional)
    return Pattern(
        {name: kind for name, kind in nodes.items() if name in own or name in given},
        {name: kind for name, kind in edges.items() if name in own or name in given},
        given,
        tests,
        traversals,
        joins=tuple(joins),
        conditions=tuple(conditions),
        negations=negations,
        optionals=optionals,
        late=tuple(draft.late),
        sources={name: one for name, one in sources.items() if name in own or name in given},
        lists={name: one for name, one in lists.items() if name in own or name in given},
        paths=paths,
    )


def _optionals(draft: _Draft, known: _Known) -> Iterator[OptionalBlock]:
    """The optional blocks of a draft; a later one may go on from an earlier one."""
    for step in draft.optionals:
        inner = _pattern(step.inner, known)
        own = inner.nodes.keys() | inner.edges.keys()
        introduced = (own - inner.given) | inner.optional_names
        required = not draft.required.isdisjoint(introduced)
        yield OptionalBlock(inner.given, inner, frozenset(introduced), required)
        known = known.beside(inner)


def _add(draft: _Draft, step: ir.Step) -> None:
    match step:
        case ir.NodeScan():
            draft.nodes[step.var] = step.type_name
            draft.predicates += step.filters
        case ir.Expand():
            draft.nodes[step.dst] = step.dst_type
            if step.edge_var is not None:
                draft.edges[step.edge_var] = OR.join(step.edge_types)
                if step.edge_filter is not None:
                    draft.predicates.append(renamed(step.edge_filter, ir.EDGE, step.edge_var))
                    step = replace(step, edge_filter=None)
            elif not step.dst.startswith(AT_MOMENTS) and _is_per_row(step):
                draft.per_row.append(step)
                draft.predicates += step.dst_filters
                step = replace(_connecting(step), dst_filters=())
            draft.expansions.append(step)
            draft.predicates += step.dst_filters
        case ir.Rows() | ir.Elements():
            draft.nodes[step.var] = f"{ROWS}{step.var}"
            draft.sources[step.var] = step
        case ir.Unroll() if step.list.var in draft.edges:
            draft.optionals.append(ir.LeftJoin((step.list.var,), (step,), (step.var,)))
            draft.required.add(step.var)
        case ir.Unroll():
            draft.nodes[step.var] = f"{ELEMENTS}{step.var}"
            draft.lists[step.var] = step.list
        case ir.Filter(ir.Compare(ir.NodeId(hidden), "=", ir.NodeId(end))) if _is_hidden(hidden):
            draft.equal[hidden] = end
        case ir.Filter():
            (draft.late if _is_late(draft, step.predicate) else draft.predicates).append(
                step.predicate
            )
        case ir.SemiJoin():
            _add(draft, ir.Filter(ir.Exists(step.outer, step.inner)))
        case ir.AntiJoin():
            if _is_late(draft, exists := ir.Exists(step.outer, step.inner)):
                draft.late.append(ir.Not(exists))
            else:
                draft.negations.append(step)
        case ir.LeftJoin():
            draft.optionals.append(step)


def _is_per_row(step: ir.Expand) -> bool:
    return bool(_traversal(step, {}).row_moments)


def _moments(tests: Iterable[ir.Holds]) -> set[str]:
    """The variables that say when."""
    moments = (moment for one in tests for moment in ir.moments_of(one.when))
    return {name for moment in moments for name in variables_of(moment)}


def _connecting(step: ir.Expand) -> ir.Expand:
    """An expansion along edges whatever their moments: it joins the pairs of an expansion at moments of the row, and more."""
    return replace(
        step,
        edge_filter=_traversal(step, {}).at_any_moment.edge_filter,
        between=None,
        ends_hold=False,
        min_hops=min(step.min_hops, 1),
        path_var=None,
        weight=None,
        max_hops=None if step.weight is not None else step.max_hops,
    )


def _per_row(step: ir.Expand, equal: Mapping[str, str]) -> ir.Exists:
    """Whether edges that hold at the moment of the row join the ends.

    Of one edge that is a join with it; several are searched for all rows of a moment (``moments``).
    """
    end = equal.get(step.dst, step.dst)
    inner_end = f"{AT_MOMENTS}{end}"
    is_one = (step.min_hops, step.max_hops) == (1, 1) and step.weight is None
    inner = replace(
        step,
        dst=inner_end,
        dst_filters=(),
        edge_var=f"{AT_MOMENTS}edge:{end}" if is_one else None,
        path_var=None,
    )
    outer = {step.src, end, *_moments(_traversal(step, {}).row_moments)}
    same = ir.Filter(ir.Compare(ir.NodeId(inner_end), "=", ir.NodeId(end)))
    return ir.Exists(tuple(sorted(outer)), (inner, same))


def _is_late(draft: _Draft, condition: ir.Condition) -> bool:
    """Whether a condition mentions a variable of an optional block."""
    introduced = {name for step in draft.optionals for name in step.introduced}
    return not introduced.isdisjoint(variables_of(condition))


def _is_hidden(name: str) -> bool:
    return name.startswith("#")


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
        step.edge_types,
        direction,
        min_hops=step.min_hops,
        max_hops=step.max_hops if step.weight is None else None,
        edge_var=step.edge_var,
        edge_filter=step.edge_filter,
        weight=step.weight,
        between=step.between,
        ends_hold=step.ends_hold,
    )


def merged(pattern: Pattern, old: str, new: str) -> Pattern:
    """The pattern with one variable standing for two of one type."""

    def name(one: str) -> str:
        return new if one == old else one

    tests: dict[str, tuple[ir.Condition, ...]] = {}
    for var, predicates in pattern.tests.items():
        moved = tuple(renamed(predicate, old, new) for predicate in predicates)
        tests[name(var)] = (*tests.get(name(var), ()), *moved)
    joins = []
    for join in pattern.joins:
        moved_join = renamed(join, old, new)
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
        optionals=tuple(_merged_block(one, old, new) for one in pattern.optionals),
        multiplied=tuple(_merged_block(one, old, new) for one in pattern.multiplied),
        late=tuple(renamed(one, old, new) for one in pattern.late),
        lists={var: renamed(one, old, new) for var, one in pattern.lists.items()},
        paths={
            var: replace(one, left=name(one.left), right=name(one.right))
            for var, one in pattern.paths.items()
        },
    )


def _merged_block(block: OptionalBlock, old: str, new: str) -> OptionalBlock:
    outer = frozenset(new if one == old else one for one in block.outer)
    return replace(block, outer=outer, pattern=merged(block.pattern, old, new))


TRUE = ir.And(())
"""A condition that everything satisfies."""
FALSE = ir.Or(())
"""A condition that nothing satisfies."""


def without(pattern: Pattern, missing: frozenset[str]) -> Pattern:
    """A block for rows in which these given variables are nothing.

    What it would traverse from there has no match, and their properties are null.
    """
    if not missing:
        return pattern
    conditions = [*pattern.conditions]
    if any(one.ends & missing for one in pattern.traversals):
        conditions.append(FALSE)
    if any(one.var in missing for one in pattern.lists.values()):
        conditions.append(FALSE)
    tests: dict[str, tuple[ir.Condition, ...]] = {}
    joins: list[ir.Condition] = []
    looked_at = [test for tests in pattern.tests.values() for test in tests]
    for condition in (*looked_at, *pattern.joins):
        known = nulled(condition, missing)
        names = sorted(variables_of(known))
        if len(names) == 1 and not has_path(known):
            tests[names[0]] = (*tests.get(names[0], ()), known)
        else:
            (joins if names else conditions).append(known)
    return replace(
        pattern,
        nodes={name: kind for name, kind in pattern.nodes.items() if name not in missing},
        edges={name: kind for name, kind in pattern.edges.items() if name not in missing},
        given=pattern.given - missing,
        tests=tests,
        traversals=tuple(
            _without_moments(one, missing) for one in pattern.traversals if not one.ends & missing
        ),
        joins=tuple(joins),
        conditions=tuple(conditions),
        negations=tuple(
            Negation(one.outer - missing, without(one.pattern, missing))
            for one in pattern.negations
        ),
        optionals=tuple(
            replace(one, outer=one.outer - missing, pattern=without(one.pattern, missing))
            for one in pattern.optionals
        ),
        late=tuple(nulled(one, missing) for one in pattern.late),
        sources={name: one for name, one in pattern.sources.items() if name not in missing},
        lists={name: one for name, one in pattern.lists.items() if name not in missing},
    )


def _without_moments(traversal: Traversal, missing: frozenset[str]) -> Traversal:
    """A traversal in which the moments of missing variables are null."""
    if not traversal.row_moments:
        return traversal
    edges, between = traversal.edge_filter, traversal.between
    return replace(
        traversal,
        edge_filter=None if edges is None else nulled(edges, missing),
        between=None if between is None else nulled(between, missing),
    )


def block_of(block: ir.Exists, pattern: Pattern) -> Negation:
    """A block that stands in a condition of the pattern; whether it has a match is asked, not that it has none."""
    inner = _pattern(block.inner, _Known().beside(pattern))
    return Negation(inner.given, inner)


def inner_blocks(pattern: Pattern) -> Iterator[Negation | OptionalBlock]:
    """The blocks directly inside a pattern, optional ones before the conditions that may mention their variables."""
    yield from pattern.negations
    tests = [test for tests in pattern.tests.values() for test in tests]
    for condition in (*tests, *pattern.joins, *pattern.conditions):
        yield from (block_of(block, pattern) for block in blocks_in(condition))
    yield from pattern.optionals
    for condition in pattern.late:
        yield from (block_of(block, pattern) for block in blocks_in(condition))
