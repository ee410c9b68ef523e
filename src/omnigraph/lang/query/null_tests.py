"""Whether a condition can be satisfied by a row in which some variables are bound to nothing."""

from __future__ import annotations

from omnigraph.lang.query import ir


def can_hold_for_nothing(condition: ir.Condition, missing: frozenset[str]) -> bool:
    """Whether the condition may be satisfied although the `missing` variables are null."""
    return True in _outcomes(condition, missing)


def can_match_for_nothing(steps: tuple[ir.Step, ...], missing: frozenset[str]) -> bool:
    """Whether a block may have a match although the `missing` variables around it are null."""
    for step in steps:
        match step:
            case ir.NodeScan() if step.var in missing:
                return False
            case ir.Expand() if step.src in missing or step.dst in missing:
                return False
            case ir.Filter() if not can_hold_for_nothing(step.predicate, missing):
                return False
            case ir.SemiJoin() if not can_match_for_nothing(step.inner, missing):
                return False
    return True


def _outcomes(condition: ir.Condition, missing: frozenset[str]) -> set[bool]:
    match condition:
        case ir.Compare():
            null = _is_null(condition.left, missing) or _is_null(condition.right, missing)
            return {False} if null else {True, False}
        case ir.TextMatch():
            return {False} if condition.field.var in missing else {True, False}
        case ir.IsNull():
            return {True} if _is_null(condition.operand, missing) else {True, False}
        case ir.IsTrue():
            return {False} if _is_null(condition.operand, missing) else {True, False}
        case ir.Not():
            return {not one for one in _outcomes(condition.part, missing)}
        case ir.And():
            parts = [_outcomes(part, missing) for part in condition.parts]
            found = {False} if any(False in part for part in parts) else set[bool]()
            return found | ({True} if all(True in part for part in parts) else set())
        case ir.Or():
            parts = [_outcomes(part, missing) for part in condition.parts]
            found = {True} if any(True in part for part in parts) else set[bool]()
            return found | ({False} if all(False in part for part in parts) else set())
        case ir.Exists():
            return {True, False} if can_match_for_nothing(condition.inner, missing) else {False}
        case ir.Holds():
            null = condition.var in missing or _is_null(condition.when.start, missing)
            return {False} if null else {True, False}


def _is_null(expr: ir.Expr | ir.Shape, missing: frozenset[str]) -> bool:
    """Whether an expression is null for certain."""
    match expr:
        case ir.Apply():
            if expr.function == "coalesce":
                return all(_is_null(arg, missing) for arg in expr.args)
            if expr.function == "if":
                return len(expr.args) == 3 and all(_is_null(arg, missing) for arg in expr.args[1:])
            return any(_is_null(arg, missing) for arg in expr.args)
        case ir.PropertyOf() | ir.NodeId() | ir.EdgeId() | ir.TypeName() | ir.RowNode():
            return expr.var in missing
        case ir.RowNumber() | ir.PathValue() | ir.Shape():
            return expr.var in missing
        case _:
            return False
