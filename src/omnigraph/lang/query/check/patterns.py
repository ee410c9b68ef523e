"""Checks the match block: bindings, traversals and negations, in source order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.predicates import comparison, inline_entry, text_match
from omnigraph.lang.query.check.scope import ANONYMOUS, BoundVariable, Context, Scope
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.spans import Span
from omnigraph.spelling import did_you_mean


@dataclass(frozen=True, slots=True)
class BoundNode:
    """A binding: the variable's type and its inline filters."""

    var: str
    type_name: str
    filters: tuple[ir.Compare, ...]


@dataclass(frozen=True, slots=True)
class ResolvedHop:
    """A resolved traversal; `direction` leads from `src` to `dst` as written."""

    src: str
    dst: str
    edge_type: str
    direction: ir.Direction
    src_type: str
    dst_type: str
    min_hops: int
    max_hops: int
    edge_var: str | None


@dataclass(frozen=True, slots=True)
class Test:
    """A predicate."""

    predicate: ir.Predicate


@dataclass(frozen=True, slots=True)
class ResolvedNegation:
    """A `not` block and the outer variables it mentions."""

    clauses: tuple[Resolved, ...]
    outer: tuple[str, ...]


Resolved = BoundNode | ResolvedHop | Test | ResolvedNegation


def match_block(
    context: Context, scope: Scope, clauses: Iterable[ast.Clause]
) -> tuple[Resolved, ...]:
    """Resolve the clauses of one block; `scope` gains the variables they introduce."""
    return tuple(_clause(context, scope, clause) for clause in clauses)


def _clause(context: Context, scope: Scope, clause: ast.Clause) -> Resolved:
    if isinstance(clause, ast.Binding):
        return _binding(context, scope, clause)
    if isinstance(clause, ast.Traversal):
        return _traversal(context, scope, clause)
    if isinstance(clause, ast.Comparison):
        return Test(comparison(context, scope, clause))
    if isinstance(clause, ast.TextClause):
        return Test(text_match(context, scope, clause.call))
    return _negation(context, scope, clause)


# ------------------------------------------------------------------ bindings


def _binding(context: Context, scope: Scope, clause: ast.Binding) -> BoundNode:
    node = context.catalog.nodes.get(clause.type_name)
    if node is None:
        hint = did_you_mean(clause.type_name, context.catalog.nodes)
        if clause.type_name in context.catalog.interfaces:
            hint = "it is an interface; bind one of the node types that implement it"
        elif clause.type_name in context.catalog.edges:
            word = clause.type_name[0].lower() + clause.type_name[1:]
            hint = f"it is an edge type; follow it as in `$a {word} $b`"
        context.fail("T1", f"there is no node type {clause.type_name}", clause.type_span, hint)
    var = context.hidden() if clause.var == ANONYMOUS else clause.var
    _introduce(context, scope, var, node.name, clause.span)
    filters = tuple(inline_entry(context, scope, var, node, entry) for entry in clause.entries)
    return BoundNode(var, node.name, filters)


def _introduce(context: Context, scope: Scope, var: str, type_name: str, span: Span) -> None:
    """Bind a node variable, or confirm the type it already has (T23, T26)."""
    _refuse_parameter(context, var, span)
    known = scope.get(var)
    if known is None:
        _refuse_used_in_not(context, scope, var, span)
        scope.variables[var] = BoundVariable(var, "node", type_name)
    elif known.kind == "edge":
        context.fail("T23", f"`${var}` is an edge variable and cannot be bound as a node", span)
    elif known.type_name != type_name:
        context.fail(
            "T26", f"`${var}` is a {known.type_name} and cannot be a {type_name} as well", span
        )


def _refuse_parameter(context: Context, var: str, span: Span) -> None:
    if var in context.params:
        context.fail(
            "T26",
            f"`${var}` is a parameter and cannot be a match variable as well",
            span,
            "rename one of the two",
        )


def _refuse_used_in_not(context: Context, scope: Scope, var: str, span: Span) -> None:
    """A name local to an earlier `not` block must not turn into an outer variable afterwards:
    which of the two the block means would depend on clause order."""
    if var in scope.inner_only:
        context.fail(
            "T26",
            f"`${var}` is introduced after a `not` block that already uses the name for itself",
            span,
            f"put the `not` block after this clause, or rename `${var}` inside it",
        )


# ------------------------------------------------------------------ traversals


def _traversal(context: Context, scope: Scope, clause: ast.Traversal) -> ResolvedHop:
    edge = context.catalog.edge(clause.word)
    if edge is None:
        words = [name[0].lower() + name[1:] for name in context.catalog.edges]
        context.fail(
            "T4",
            f"there is no edge `{clause.word}`",
            clause.word_span,
            did_you_mean(clause.word, words),
        )
    low, high = _hops(context, clause)
    direction, src_type, dst_type = _orient(context, scope, clause, edge)
    edge_var = _edge_variable(context, scope, clause, (low, high))
    src = _endpoint(context, scope, clause.src, src_type)
    dst = _endpoint(context, scope, clause.dst, dst_type)
    if edge_var is not None:
        scope.variables[edge_var] = BoundVariable(edge_var, "edge", edge.name)
    return ResolvedHop(
        src,
        dst,
        edge.name,
        direction,
        src_type,
        dst_type,
        min_hops=low,
        max_hops=high,
        edge_var=edge_var,
    )


def _hops(context: Context, clause: ast.Traversal) -> tuple[int, int]:
    hops = clause.hops
    if hops is None:
        return 1, 1
    if hops.max is None:
        context.fail(
            "T15",
            "unbounded hops are not supported: give an upper bound",
            hops.span,
            f"for example {{{max(1, hops.min)},{max(1, hops.min) + 4}}}",
        )
    if hops.min == 0:
        context.fail("T15", "the lower hop bound must be at least 1", hops.span)
    if hops.max < hops.min:
        context.fail(
            "T15", f"the hop bounds {hops.min} to {hops.max} are the wrong way round", hops.span
        )
    return hops.min, hops.max


def _orient(
    context: Context, scope: Scope, clause: ast.Traversal, edge: EdgeType
) -> tuple[ir.Direction, str, str]:
    """Direction, type of the left variable, type of the right one (T5, T22, T23)."""
    for var in (clause.src, clause.dst):
        known = scope.get(var.name)
        if known is not None and known.kind == "edge":
            context.fail("T23", f"edge variable `${var.name}` cannot be an endpoint", var.span)
        if var.name != ANONYMOUS:
            _refuse_parameter(context, var.name, var.span)
    if clause.undirected:
        if edge.from_type != edge.to_type:
            context.fail(
                "T22",
                f"edge {edge.name} leads from {edge.from_type} to {edge.to_type}; only an edge "
                "between equal types can be followed undirected",
                clause.word_span,
            )
        forward = True
    else:
        forward = _is_forward(scope, clause, edge)
    src_type, dst_type = edge.from_type, edge.to_type
    if not forward:
        src_type, dst_type = dst_type, src_type
    for var, required in ((clause.src, src_type), (clause.dst, dst_type)):
        known = scope.get(var.name)
        if known is not None and known.type_name != required:
            context.fail(
                "T5",
                f"`${var.name}` is a {known.type_name}, but edge {edge.name} leads from "
                f"{edge.from_type} to {edge.to_type}",
                var.span,
            )
    if clause.src.name == clause.dst.name != ANONYMOUS and src_type != dst_type:
        context.fail(
            "T5",
            f"`${clause.dst.name}` cannot be both ends of edge {edge.name}, which leads from "
            f"{edge.from_type} to {edge.to_type}",
            clause.dst.span,
        )
    if clause.undirected:
        return ir.Direction.BOTH, src_type, dst_type
    return (ir.Direction.OUT if forward else ir.Direction.IN), src_type, dst_type


def _is_forward(scope: Scope, clause: ast.Traversal, edge: EdgeType) -> bool:
    src, dst = scope.get(clause.src.name), scope.get(clause.dst.name)
    if src is not None:
        return src.type_name == edge.from_type or src.type_name != edge.to_type
    if dst is not None:
        return dst.type_name == edge.to_type or dst.type_name != edge.from_type
    return True


def _endpoint(context: Context, scope: Scope, var: ast.Var, type_name: str) -> str:
    if var.name == ANONYMOUS:
        hidden = context.hidden()
        scope.variables[hidden] = BoundVariable(hidden, "node", type_name)
        return hidden
    _introduce(context, scope, var.name, type_name, var.span)
    return var.name


def _edge_variable(
    context: Context, scope: Scope, clause: ast.Traversal, hops: tuple[int, int]
) -> str | None:
    var = clause.edge_var
    if var is None or var.name == ANONYMOUS:
        return None
    _refuse_parameter(context, var.name, var.span)
    if hops != (1, 1):
        context.fail(
            "T23",
            f"edge variable `${var.name}` needs a single hop, not {hops[0]} to {hops[1]}",
            var.span,
        )
    if var.name in (clause.src.name, clause.dst.name) or scope.get(var.name) is not None:
        context.fail(
            "T23", f"edge variable `${var.name}` takes a name that is already used", var.span
        )
    _refuse_used_in_not(context, scope, var.name, var.span)
    return var.name


# ------------------------------------------------------------------ negation


def _negation(context: Context, scope: Scope, clause: ast.Not) -> ResolvedNegation:
    inner = Scope(scope)
    clauses = match_block(context, inner, clause.clauses)
    if not inner.mentioned:
        context.fail(
            "T9",
            "a `not` block must mention a variable of the outer match",
            clause.span,
            "connect it to a variable bound outside",
        )
    for name in (*inner.variables, *inner.inner_only):
        if not name.startswith("#"):
            scope.inner_only.setdefault(name, clause.span)
    return ResolvedNegation(clauses, tuple(sorted(inner.mentioned)))
