"""Checks what operators and functions are applied to: number, kinds and units of their arguments (T29)."""

from __future__ import annotations

from typing import NoReturn

from omnigraph.lang.query import functions, ir
from omnigraph.lang.query.check.scope import Context
from omnigraph.lang.query.functions import CLOCK_UNITS, F64, I64, Function
from omnigraph.lang.query.syntax import ast
from omnigraph.spans import Span
from omnigraph.types import PropType, Scalar, Unfit, from_json

Typed = tuple[ir.Expr, PropType]
Exprs = tuple[ast.Expr, ...]
Kinds = tuple[PropType, ...]

_ZERO = ir.Const(0, I64)
_MOST_DIGITS = 15


def called(word: str) -> str:
    """A function or an operator as messages call it."""
    return f"{word}()" if word.isidentifier() else f"`{word}`"


def require_count(
    context: Context, word: str, known: list[Function], args: Exprs, span: Span
) -> None:
    """Refuse too few or too many arguments."""
    least = min(one.least for one in known)
    most = None if any(one.repeats for one in known) else max(len(one.takes) for one in known)
    if least <= len(args) and (most is None or len(args) <= most):
        return
    wanted = f"at least {least}" if most is None else f"{least} to {most}"
    wanted = str(least) if least == most else wanted
    many = "argument" if wanted in ("1", "at least 1") else "arguments"
    given = "is" if len(args) == 1 else "are"
    context.fail("T29", f"{word}() takes {wanted} {many}, and {len(args)} {given} given", span)


def applied(context: Context, word: str, args: Exprs, operands: list[Typed], span: Span) -> Typed:
    """An operator or a function of the table applied to operands that fit it."""
    known = functions.written(word, len(args))
    kinds = tuple(kind for _, kind in operands)
    for function in known:
        if function.fits(kinds):
            _check_literals(context, function, args, kinds)
            return _result(context, function, operands, span)
    refuse_kinds(context, word, known, args, kinds, span=span)


def _check_literals(context: Context, function: Function, args: Exprs, kinds: Kinds) -> None:
    """The unit of a date and the digits of `round` must be literals."""
    last = args[-1]
    if function.units:
        clock = kinds[0].scalar is Scalar.DATETIME
        units = [one for one in function.units if clock or one not in CLOCK_UNITS]
        if not isinstance(last, ast.Literal) or last.value not in units:
            listed = ", ".join(f'"{one}"' for one in units)
            found = (
                f'of a {kinds[0].element.display} has no unit "{last.value}"'
                if isinstance(last, ast.Literal)
                else "needs its unit as a literal"
            )
            context.fail(
                "T29",
                f"{function.word}() {found}",
                last.span,
                f"it takes one of {listed}",
            )
    if function.name == "round" and len(args) == 2:
        digits = last.value if isinstance(last, ast.Literal) else None
        if not isinstance(digits, int) or not 0 <= digits <= _MOST_DIGITS:
            context.fail(
                "T29",
                f"round() takes a literal number of digits from 0 to {_MOST_DIGITS}",
                last.span,
            )


def _result(context: Context, function: Function, operands: list[Typed], span: Span) -> Typed:
    kinds = tuple(kind for _, kind in operands)
    values = [value for value, _ in operands]
    if function.name == "elapsed" and kinds[0].scalar is not kinds[1].scalar:
        names = " and ".join(kind.element.display for kind in kinds[:2])
        context.fail("T29", f"elapsed() takes two Dates or two DateTimes, not {names}", span)
    if function.name == "coalesce":
        return one_kind(context, function, (), operands, span)
    meets_float = any(kind.is_float for kind in kinds)
    if function.name == "/" or (function.name in ("+", "-", "*") and meets_float):
        values = [_as_float(value, kind) for value, kind in operands]
    result = function.result(kinds)
    return ir.Apply(function.name, tuple(values), result), result


def one_kind(
    context: Context,
    function: Function,
    before: tuple[ir.Expr, ...],
    arms: list[Typed],
    span: Span,
) -> Typed:
    """`coalesce` and `if`: values of one kind, integers beside floats as floats."""
    kinds = [kind for _, kind in arms]
    values = [value for value, _ in arms]
    if all(kind.is_numeric for kind in kinds):
        values, result = _as_one_number(arms)
    elif len({kind.scalar for kind in kinds}) == 1:
        same = len({kind.as_nullable(False) for kind in kinds}) == 1
        result = kinds[0].as_nullable(False) if same else PropType(kinds[0].scalar)
    else:
        names = " and ".join(dict.fromkeys(kind.element.display for kind in kinds))
        context.fail("T29", f"{function.word}() takes values of one kind, not {names}", span)
    assert function.keeps_null is not None
    nullable = function.keeps_null((*(functions.BOOL for _ in before), *kinds))
    nullable = nullable or any(_widened(value) for value in values)
    result = result.as_nullable(nullable)
    return ir.Apply(function.name, (*before, *values), result), result


def refuse_kinds(
    context: Context, word: str, known: list[Function], args: Exprs, kinds: Kinds, *, span: Span
) -> NoReturn:
    """Raise T29 for operands that no function of that name takes."""
    got = " and ".join(kind.as_nullable(False).display for kind in kinds)
    if known[0].is_operator:
        sides = {"%": "two integers", "+": "two numbers or two Strings"}
        wanted = sides.get(word, "two numbers") if len(kinds) == 2 else "a number"
        context.fail("T29", f"`{word}` takes {wanted}, not {got}", span)
    for at, (arg, kind) in enumerate(zip(args, kinds, strict=True)):
        fitting = [one for one in known if at < len(one.takes) or one.repeats]
        if fitting and not any(one.argument(at).allows(kind) for one in fitting):
            words = " or ".join(dict.fromkeys(one.argument(at).words for one in fitting))
            shown = kind.as_nullable(False).display
            context.fail("T29", f"{word}() takes {words}, not {shown}", arg.span)
    context.fail("T29", f"{word}() does not take {got}", span)


# ------------------------------------------------------------------ one kind of number


def _as_float(value: ir.Expr, kind: PropType) -> ir.Expr:
    if kind.scalar is Scalar.F64:
        return value
    if isinstance(value, ir.Const):
        return ir.Const(from_json(F64, value.value), F64)
    return ir.Apply("to_f64", (value,), F64.as_nullable(kind.nullable))


def _as_one_number(arms: list[Typed]) -> tuple[list[ir.Expr], PropType]:
    """Numbers of one type: floats if one is a float; integer literals take the type of the others they fit."""
    scalars = {kind.scalar for value, kind in arms if not isinstance(value, ir.Const)}
    if any(kind.is_float for _, kind in arms):
        if scalars == {Scalar.F32} and all(kind.is_float for _, kind in arms):
            return [_literal_of(value, Scalar.F32) for value, _ in arms], PropType(Scalar.F32)
        return [_as_float(value, kind) for value, kind in arms], F64
    if len(scalars) == 1:
        (scalar,) = scalars
        try:
            return [_literal_of(value, scalar) for value, _ in arms], PropType(scalar)
        except Unfit:
            pass
    return [_as_i64(value, kind) for value, kind in arms], I64


def _as_i64(value: ir.Expr, kind: PropType) -> ir.Expr:
    """An integer of any width as an I64; beyond it there is no value."""
    if kind.scalar is Scalar.I64:
        return value
    return ir.Apply("+", (value, _ZERO), I64.as_nullable())


def _widened(value: ir.Expr) -> bool:
    return isinstance(value, ir.Apply) and value.function == "+" and value.args[-1] is _ZERO


def _literal_of(value: ir.Expr, scalar: Scalar) -> ir.Expr:
    if not isinstance(value, ir.Const):
        return value
    kind = PropType(scalar)
    return ir.Const(from_json(kind, value.value), kind)
