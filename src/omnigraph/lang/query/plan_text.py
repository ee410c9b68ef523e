"""Plans as text, one step a line, without leaving anything out: what `explain` and `lint` show."""

from __future__ import annotations

import json
from collections.abc import Iterator

from omnigraph.lang.query import ir
from omnigraph.types import to_json

ARROWS = {
    ir.Direction.OUT: ("-", "->"),
    ir.Direction.IN: ("<-", "-"),
    ir.Direction.BOTH: ("<-", "->"),
}
_SIGNS = {"+": 1, "-": 1, "concat": 1, "*": 2, "/": 2, "%": 2}
"""The operators that stand between their operands, and how tightly they bind."""
_UNARY = 3


def show(plan: ir.Plan) -> str:
    """Render the plan as text."""
    lines = _read(plan) if isinstance(plan, ir.ReadPlan) else _mutation(plan)
    return "\n".join(lines)


def _read(plan: ir.ReadPlan, indent: str = "") -> Iterator[str]:
    yield from _steps(plan.steps, indent)
    yield from _columns(plan.columns, plan.distinct, indent)
    if plan.having:
        names = tuple(column.name for column in plan.columns)
        conditions = " and ".join(_inside(one, _AND, names) for one in plan.having)
        yield f"{indent}having {conditions}"
    keys = [_ranking(plan.ranking)] if plan.ranking is not None else []
    for key in plan.order:
        what = expr_text(key.expr) if key.expr is not None else plan.columns[key.column or 0].name
        keys.append(f"{what} {'desc' if key.descending else 'asc'}")
    if keys:
        yield f"{indent}order {', '.join(keys)}"
    for word, count in (("limit", plan.limit), ("offset", plan.offset)):
        if count is not None:
            yield f"{indent}{word} {count if isinstance(count, int) else expr_text(count)}"


def _columns(columns: tuple[ir.Column, ...], distinct: bool, indent: str = "") -> Iterator[str]:
    names = tuple(column.name for column in columns)
    word = "return distinct" if distinct else "return"
    for column in columns:
        what = "score" if isinstance(column.expr, ir.Score) else expr_text(column.expr, names)
        yield f"{indent}{word} {column.name}: {column.type.display} = {what}"


# ------------------------------------------------------------------ steps


def _steps(steps: tuple[ir.Step, ...], indent: str) -> Iterator[str]:
    for step in steps:
        match step:
            case ir.NodeScan():
                yield f"{indent}scan ${step.var}: {step.type_name}{_filters(step.filters)}"
            case ir.Expand():
                yield indent + _expand(step)
            case ir.Filter():
                yield f"{indent}filter {predicate_text(step.predicate)}"
            case ir.Elements():
                yield f"{indent}rows ${step.var} of list ${step.param.name}"
            case ir.Unroll():
                yield f"{indent}rows ${step.var} of list {expr_text(step.list)}"
            case ir.Rows():
                args = ", ".join(
                    f"${arg.name}" if isinstance(arg, ir.RecordsRef) else expr_text(arg)
                    for arg in step.args
                )
                yield f"{indent}rows ${step.var} of query {step.plan.name}({args})"
                yield from _read(step.plan, indent + "  ")
            case ir.LeftJoin():
                yield f"{indent}left join on {_names(step.outer)} introducing {_names(step.introduced)}"
                yield from _steps(step.inner, indent + "  ")
            case ir.SemiJoin() | ir.AntiJoin():
                word = "semi" if isinstance(step, ir.SemiJoin) else "anti"
                yield f"{indent}{word} join on {_names(step.outer)}"
                yield from _steps(step.inner, indent + "  ")


def _names(variables: tuple[str, ...]) -> str:
    return ", ".join("$" + name for name in variables)


def _expand(step: ir.Expand) -> str:
    left, right = ARROWS[step.direction]
    var = step.edge_var or step.path_var
    edge = (f"${var}:" if var else "") + "|".join(step.edge_types)
    if step.edge_filter is not None:
        edge += f"[{predicate_text(step.edge_filter)}]"
    if step.weight is not None:
        edge += f" by {step.weight}"
    elif (step.min_hops, step.max_hops) != (1, 1):
        edge += f"{{{step.min_hops},{'' if step.max_hops is None else step.max_hops}}}"
    if step.between is not None:
        edge += f" through {step.src_type} [{predicate_text(step.between)}]"
    inverse = " inverse" if step.inverse else ""
    word = "expand" if step.path_var is None else "path"
    return (
        f"{word} ${step.src} {left}{edge}{right} ${step.dst}: {step.dst_type}"
        f"{_filters(step.dst_filters)}{inverse}"
    )


def _filters(filters: tuple[ir.Condition, ...]) -> str:
    return f" [{' and '.join(_inside(item, _AND) for item in filters)}]" if filters else ""


def _ranking(ranking: ir.Ranking) -> str:
    if isinstance(ranking, ir.Rrf):
        arms = ", ".join(map(_ranking, ranking.arms))
        return f"rrf({arms}, {expr_text(ranking.k)})"
    name = "nearest" if isinstance(ranking, ir.Nearest) else "bm25"
    return f"{name}({expr_text(ranking.field)}, {expr_text(ranking.query)})"


# ------------------------------------------------------------------ conditions

_OR, _AND, _NOT = 1, 2, 3
"""How tightly a condition is bound by what stands around it."""


_PARAMS = {ir.NOW_PARAM: "now()", ir.AS_OF_PARAM: "$as_of"}


def predicate_text(predicate: ir.Condition, columns: tuple[str, ...] = ()) -> str:
    """One condition as text; the columns are those of an output that it may name."""
    match predicate:
        case ir.Compare():
            left, right = expr_text(predicate.left, columns), expr_text(predicate.right, columns)
            return f"{left} {predicate.op} {right}"
        case ir.TextMatch():
            args = [expr_text(predicate.field), expr_text(predicate.query)]
            if predicate.max_edits is not None:
                args.append(expr_text(predicate.max_edits))
            return f"{predicate.function}({', '.join(args)})"
        case ir.IsNull():
            return f"{expr_text(predicate.operand, columns)} is null"
        case ir.IsTrue():
            return expr_text(predicate.operand, columns)
        case ir.And():
            return " and ".join(_inside(part, _AND, columns) for part in predicate.parts)
        case ir.Or():
            return " or ".join(_inside(part, _OR, columns) for part in predicate.parts)
        case ir.Not():
            return f"not {_inside(predicate.part, _NOT, columns)}"
        case ir.Exists():
            inner = "; ".join(line.strip() for line in _steps(predicate.inner, ""))
            return f"exists on {_names(predicate.outer)} {{ {inner} }}"
        case ir.Holds():
            return _holds(predicate)


def _holds(condition: ir.Holds) -> str:
    """`$r holds as of …`; of an edge or a node that has no name, `holds as of …`."""
    named = "" if condition.var in (ir.EDGE, ir.BETWEEN) else f"${condition.var} "
    start, *end = map(expr_text, ir.moments_of(condition.when))
    return f"{named}holds during {start} to {end[0]}" if end else f"{named}holds as of {start}"


def _inside(condition: ir.Condition, bound: int, columns: tuple[str, ...] = ()) -> str:
    text = predicate_text(condition, columns)
    loose = isinstance(condition, ir.Or) or (isinstance(condition, ir.And) and bound > _AND)
    return f"({text})" if loose and bound > _OR else text


# ------------------------------------------------------------------ expressions


def expr_text(expr: ir.Expr | ir.Shape, columns: tuple[str, ...] = ()) -> str:
    """One expression as text; the columns are those of an output that it may name."""
    match expr:
        case ir.Const():
            return json.dumps(to_json(expr.type, expr.value), ensure_ascii=False)
        case ir.ParamRef():
            return _PARAMS.get(expr.name) or f"${expr.name}"
        case ir.PropertyOf():
            return _property(expr)
        case ir.NodeId() | ir.EdgeId():
            return f"id(${expr.var})"
        case ir.TypeName():
            return f"type(${expr.var})"
        case ir.RowNode():
            return f"${expr.var}.{expr.column}"
        case ir.RowNumber():
            return f"${expr.var}"
        case ir.PathValue():
            return _path_value(expr)
        case ir.Apply():
            return _apply(expr, columns)
        case ir.Truth():
            return f"({predicate_text(expr.condition, columns)})"
        case ir.Shape(kind="row"):
            return f"${expr.var}.{expr.column}"
        case ir.Shape():
            assert isinstance(expr.type, ir.ObjectType)
            return f"${expr.var} {{ {', '.join(name for name, _ in expr.type.fields)} }}"
        case ir.ColumnValue():
            return columns[expr.column] if columns else f"column {expr.column + 1}"
        case ir.Aggregate():
            what = "*" if expr.arg is None else expr_text(expr.arg, columns)
            return f"{expr.function}({'distinct ' if expr.distinct else ''}{what})"


def _property(expr: ir.PropertyOf) -> str:
    if expr.var in (ir.TARGET, ir.EDGE):
        return expr.property
    return f"${expr.var}.{expr.property}" if expr.property != ir.ELEMENT else f"${expr.var}"


def _path_value(expr: ir.PathValue) -> str:
    if expr.what == "path":
        return f"${expr.var}"
    name = f".{expr.property}" if expr.property is not None else ""
    return f"{expr.what}(${expr.var}{name})"


def _apply(expr: ir.Apply, columns: tuple[str, ...]) -> str:
    bound = _SIGNS.get(expr.function)
    if bound is not None and len(expr.args) == 2:
        left = _operand(expr.args[0], bound, columns)
        right = _operand(expr.args[1], bound + 1, columns)
        return f"{left} {'+' if expr.function == 'concat' else expr.function} {right}"
    if expr.function == "neg":
        return f"-{_operand(expr.args[0], _UNARY, columns)}"
    return f"{expr.function}({', '.join(expr_text(arg, columns) for arg in expr.args)})"


def _operand(expr: ir.Expr, bound: int, columns: tuple[str, ...]) -> str:
    text = expr_text(expr, columns)
    if isinstance(expr, ir.Apply):
        own = _UNARY if expr.function == "neg" else _SIGNS.get(expr.function, _UNARY + 1)
        return text if own >= bound else f"({text})"
    return text


# ------------------------------------------------------------------ mutations


def _mutation(plan: ir.MutationPlan) -> Iterator[str]:
    yield from _steps(plan.steps, "")
    yield from map(_statement, plan.statements)
    if plan.returned is not None:
        yield from _columns(plan.returned.columns, plan.returned.distinct)


def _statement(statement: ir.Mutation) -> str:
    match statement:
        case ir.Insert():
            word = "upsert" if statement.is_upsert else "insert"
            var = f"${statement.var}: " if statement.var is not None else ""
            by = f" by ({', '.join(statement.unique)})" if statement.unique else ""
            values = _values(statement.assignments)
            return f"{word} {statement.kind} {var}{statement.type_name} {values}{by}"
        case ir.Update():
            values = _values(statement.assignments)
            return f"update {_target(statement)} {values}{_where(statement.where)}"
        case ir.Delete():
            return f"delete {_target(statement)}{_where(statement.where)}"
        case ir.End():
            where = _where(statement.where)
            return f"end {_target(statement)}{where} at {expr_text(statement.moment)}"
        case ir.Assert():
            values = _values(statement.assignments)
            return f"assert {_target(statement)} {values} at {expr_text(statement.moment)}"


def _target(statement: ir.Update | ir.Delete | ir.End | ir.Assert) -> str:
    var = f"${statement.var}: " if statement.var is not None else ""
    return f"{statement.kind} {var}{statement.type_name}"


def _values(assignments: tuple[ir.Assignment, ...]) -> str:
    values = (
        f"{one.property}: {'null' if one.value is None else expr_text(one.value)}"
        for one in assignments
    )
    return f"{{{', '.join(values)}}}"


def _where(condition: ir.Condition | None) -> str:
    return "" if condition is None else f" where {predicate_text(condition)}"
