"""Checks traversals: edge words, ends, bounds, edge and path variables, conditions on edges (T4, T5, T15, T23, T33, T34)."""

from __future__ import annotations

from typing import NoReturn

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.blocks.edge_conditions import EdgeConditions
from omnigraph.lang.query.check.blocks.lower import ResolvedHop
from omnigraph.lang.query.check.blocks.moments import holds, when_of
from omnigraph.lang.query.check.blocks.naming import (
    introduce,
    new_node,
    refuse_optional,
    refuse_parameter,
    refuse_used_inside,
)
from omnigraph.lang.query.check.scope import ANONYMOUS, BoundVariable, Context, Scope
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.spelling import did_you_mean


def traversal(context: Context, scope: Scope, clause: ast.Traversal) -> ResolvedHop:
    """Resolve a traversal; `scope` gains what it introduces."""
    when = when_of(context, scope, clause.when)
    edges = _edges(context, clause)
    low, high = _hops(context, clause)
    ends = _end(context, scope, clause.src), _end(context, scope, clause.dst)
    direction, src_type, dst_type = _orient(context, clause, edges, ends)
    if len(edges) > 1:
        _same_ends(context, clause, edges)
    _refuse_mixed_start(context, clause, edges[0], low, high)
    is_path = clause.by is not None or (low, high) != (1, 1)
    var = _variable(context, scope, clause)
    weight = None if clause.by is None else _weight(context, clause, edges)
    src = _endpoint(context, scope, clause.src, src_type, ends[0])
    dst = _endpoint(context, scope, clause.dst, dst_type, ends[1])
    names = tuple(edge.name for edge in edges)
    if var is not None:
        scope.variables[var] = BoundVariable(
            var,
            "path" if is_path else "edge",
            names[0],
            names[1:],
            ends=tuple(dict.fromkeys((src_type, dst_type))),
            between=(src, dst),
            weight=weight,
            moments=_moments(context, edges, src_type, when),
        )
    variables = _judged(scope, clause, (src, dst), when)
    context.has_periods |= any(edge.period is not None for edge in edges)
    return ResolvedHop(
        src,
        dst,
        names,
        direction,
        src_type,
        dst_type,
        min_hops=low,
        max_hops=high,
        edge_var=None if is_path else var,
        path_var=var if is_path else None,
        edge_filter=_edge_filter(context, scope, clause, names),
        weight=weight,
        when=when,
        holds=holds(ir.EDGE, edges, when),
        between=_between(context, src_type, dst_type, when) if is_path else None,
        variables=variables,
    )


def _judged(
    scope: Scope, clause: ast.Traversal, names: tuple[str, str], when: ir.When | None
) -> tuple[BoundVariable, ...]:
    """The variables of both ends, which are judged as the traversal is if they have no binding."""
    place = clause.span if clause.when is None else clause.when.span
    found = []
    for name in names:
        variable = scope.get(name)
        assert variable is not None
        if variable.judged is not None:
            variable.judged.traversals.append((when, place))
        found.append(variable)
    return tuple(found)


def _between(
    context: Context, src_type: str, dst_type: str, when: ir.When | None
) -> ir.Holds | None:
    """What the nodes between the ends must satisfy; between different types there are none."""
    if src_type != dst_type:
        return None
    return holds(ir.BETWEEN, [context.catalog.nodes[src_type]], when)


def _moments(
    context: Context, edges: list[EdgeType], src_type: str, when: ir.When | None
) -> tuple[str, ...]:
    """The variables that say when the edges, and the nodes between, must hold."""
    entities = (*edges, context.catalog.nodes[src_type])
    if when is None or all(entity.period is None for entity in entities):
        return ()
    return tuple(sorted({name for one in ir.moments_of(when) for name in ir.mentioned(one)}))


def _edges(context: Context, clause: ast.Traversal) -> list[EdgeType]:
    edges: list[EdgeType] = []
    for word, span in zip(clause.words, clause.word_spans, strict=True):
        edge = context.catalog.edge(word)
        if edge is None:
            words = [name[0].lower() + name[1:] for name in context.catalog.edges]
            context.fail("T4", f"there is no edge `{word}`", span, did_you_mean(word, words))
        if edge not in edges:
            edges.append(edge)
    return edges


def _hops(context: Context, clause: ast.Traversal) -> tuple[int, int | None]:
    hops = clause.hops
    if clause.by is not None:
        return 1, None
    if hops is None:
        return 1, 1
    if hops.max is not None and hops.max < hops.min:
        context.fail(
            "T15", f"the hop bounds {hops.min} to {hops.max} are the wrong way round", hops.span
        )
    return hops.min, hops.max


# ------------------------------------------------------------------ ends

_Ends = tuple[BoundVariable | None, BoundVariable | None]
"""The variables of both ends, where they are bound already."""


def _orient(
    context: Context, clause: ast.Traversal, edges: list[EdgeType], ends: _Ends
) -> tuple[ir.Direction, str, str]:
    """Direction, type of the left variable, type of the right one (T5, T33)."""
    edge = edges[0]
    forward = _is_forward(ends, edge)
    for other, span in zip(edges[1:], clause.word_spans[1:], strict=False):
        if _is_forward(ends, other) != forward:
            context.fail(
                "T33",
                f"edge {other.name} leads from {other.from_type} to {other.to_type}, the other way "
                f"than {edge.name}: alternatives must run the same way",
                span,
            )
    src_type, dst_type = edge.from_type, edge.to_type
    if not forward:
        src_type, dst_type = dst_type, src_type
    for var, known, required in (
        (clause.src, ends[0], src_type),
        (clause.dst, ends[1], dst_type),
    ):
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
    if clause.undirected and edge.from_type == edge.to_type:
        return ir.Direction.BOTH, src_type, dst_type
    if clause.undirected and ends == (None, None):
        _refuse_unknown_ends(context, clause, edge)
    return (ir.Direction.OUT if forward else ir.Direction.IN), src_type, dst_type


def _refuse_unknown_ends(context: Context, clause: ast.Traversal, edge: EdgeType) -> NoReturn:
    """Undirected between different types, one hop: the type of one end decides that of the other."""
    context.fail(
        "T5",
        f"edge {edge.name} leads from {edge.from_type} to {edge.to_type}, so either end of "
        f"`<{clause.word}>` may be either of them",
        clause.word_span,
        f"bind one end before: `${clause.src.name}: {edge.from_type}`",
    )


def _refuse_mixed_start(
    context: Context, clause: ast.Traversal, edge: EdgeType, low: int, high: int | None
) -> None:
    """Refuse what would make an end of several types: back and forth between two, or the start among the ends."""
    if edge.from_type == edge.to_type:
        return
    several = clause.undirected and (high is None or high > 1)
    if several or low == 0:
        why = "goes back and forth between them" if several else "includes its start"
        context.fail(
            "T5",
            f"edge {edge.name} leads from {edge.from_type} to {edge.to_type}; a traversal that {why} "
            f"would end at either, and a variable has one type",
            clause.word_span,
        )


def _same_ends(context: Context, clause: ast.Traversal, edges: list[EdgeType]) -> None:
    first = edges[0]
    for other in edges[1:]:
        if (other.from_type, other.to_type) != (first.from_type, first.to_type):
            at = next(
                at for at, word in enumerate(clause.words) if context.catalog.edge(word) is other
            )
            context.fail(
                "T5",
                f"edge {other.name} (`{clause.words[at]}`) leads from {other.from_type} to "
                f"{other.to_type} and {first.name} from {first.from_type} to {first.to_type}: "
                "alternatives must join the same types",
                clause.word_spans[at],
            )


def _end(context: Context, scope: Scope, var: ast.Var) -> BoundVariable | None:
    """What is bound at an end; refused if it is no node, or if an optional block introduced it (T23, T26, T30, T34)."""
    known = scope.get(var.name)
    if known is not None:
        if known.kind != "node":
            _refuse_end(context, known, var)
        refuse_optional(context, scope, known, var.span)
    if var.name != ANONYMOUS:
        refuse_parameter(context, var.name, var.span)
    return known


def _refuse_end(context: Context, known: BoundVariable, var: ast.Var) -> NoReturn:
    if known.kind == "edge":
        context.fail("T23", f"edge variable `${var.name}` cannot be an endpoint", var.span)
    if known.kind == "path":
        context.fail("T34", f"`${var.name}` is a path and cannot be an endpoint", var.span)
    context.fail(
        "T26",
        f"`${var.name}` is a row and cannot be an endpoint",
        var.span,
        f"bind a node and compare it: `$n: Type  $n = ${var.name}.<column>`",
    )


def _is_forward(ends: _Ends, edge: EdgeType) -> bool:
    src, dst = ends
    if src is not None:
        return src.type_name == edge.from_type or src.type_name != edge.to_type
    if dst is not None:
        return dst.type_name == edge.to_type or dst.type_name != edge.from_type
    return True


def _endpoint(
    context: Context, scope: Scope, var: ast.Var, type_name: str, known: BoundVariable | None
) -> str:
    if known is not None:
        return var.name
    if var.name == ANONYMOUS:
        hidden = context.hidden()
        scope.variables[hidden] = new_node(context, hidden, type_name)
        return hidden
    introduce(context, scope, var.name, type_name, var.span)
    return var.name


def _variable(context: Context, scope: Scope, clause: ast.Traversal) -> str | None:
    """The edge or path variable (T23, T34)."""
    var = clause.edge_var
    if var is None or var.name == ANONYMOUS:
        if clause.by is not None:
            context.fail(
                "T34",
                f"`by {clause.by}` finds cheapest paths and needs a variable for them",
                clause.by_span,
                f"write `${clause.src.name} $path:{clause.word} by {clause.by} ${clause.dst.name}`",
            )
        return None
    refuse_parameter(context, var.name, var.span)
    if var.name in (clause.src.name, clause.dst.name) or scope.get(var.name) is not None:
        context.fail(
            "T23", f"edge variable `${var.name}` takes a name that is already used", var.span
        )
    refuse_used_inside(context, scope, var.name, var.span)
    return var.name


def _weight(context: Context, clause: ast.Traversal, edges: list[EdgeType]) -> str:
    name = clause.by or ""
    for edge in edges:
        prop = edge.properties.get(name)
        if prop is None or not prop.type.is_numeric:
            got = "it has none" if prop is None else f"it is {prop.type.display}"
            context.fail(
                "T34",
                f"`by {name}` needs a numeric property of every edge; of {edge.name}, {got}",
                clause.by_span,
                did_you_mean(name, edge.properties) if prop is None else None,
            )
    return name


# ------------------------------------------------------------------ conditions on edges


def _edge_filter(
    context: Context, scope: Scope, clause: ast.Traversal, names: tuple[str, ...]
) -> ir.Condition | None:
    if clause.only is None:
        return None
    edge = BoundVariable(ir.EDGE, "edge", names[0], names[1:])
    return EdgeConditions(context, scope, edge).condition(clause.only)
