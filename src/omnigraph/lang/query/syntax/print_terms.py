"""Prints expressions and conditions on one line, with the parentheses that reading them back needs."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from omnigraph.lang.query.syntax import ast
from omnigraph.lang.source import escape

_KEYWORDS: Final = frozenset({"not", "null", "distinct"})
"""Names that are read as keywords in some places, and so stand in parentheses in all."""
_CONTINUES: Final = re.compile(
    r"-|(?:and|or|is|in|contains|starts_with|ends_with|asc?|desc|during|to|ever)\b"
)
"""How a clause begins that would be read as going on with the one before, or after `not`."""


def expression(expr: ast.Expr) -> str:
    """The text of an expression."""
    match expr:
        case ast.Literal():
            return _literal(expr)
        case ast.Var():
            return f"${expr.name}"
        case ast.PropRef():
            return f"${expr.var}.{expr.name}"
        case ast.Now():
            return "now()"
        case ast.Name():
            return f"({expr.name})" if expr.name in _KEYWORDS else expr.name
        case ast.Call():
            distinct = "distinct " if expr.distinct else ""
            shown = ", ".join(_argument(arg, expr.function) for arg in expr.args)
            return f"{expr.function}({distinct}{shown})"
        case ast.Arithmetic():
            return _arithmetic(expr)
        case ast.Minus():
            return f"-{_operand_of_minus(expr.operand)}"
        case ast.Truth():
            return f"({condition(expr.condition)})"
        case ast.Exists():
            return _block("exists", expr.clauses)
        case ast.AllRows():
            return "*"
        case ast.Shape():
            return f"${expr.var} {{ {'*' if expr.names is None else ', '.join(expr.names)} }}"
        case ast.Star():
            return f"${expr.var}.*"
        case ast.Null():
            return "null"


def _argument(arg: ast.Expr, function: str) -> str:
    """An argument; a condition needs no parentheses unless it is a text predicate or an aggregate takes it."""
    is_text = isinstance(arg, ast.Truth) and isinstance(arg.condition, ast.TextClause)
    if isinstance(arg, ast.Truth) and not is_text and function not in ast.AGGREGATES:
        return condition(arg.condition)
    if isinstance(arg, ast.Name) and arg.name == "distinct":
        return arg.name
    return expression(arg)


def _arithmetic(expr: ast.Arithmetic) -> str:
    is_sum = expr.op in ("+", "-")
    left, right = expression(expr.left), expression(expr.right)
    if isinstance(expr.left, ast.Arithmetic) and not is_sum and expr.left.op in ("+", "-"):
        left = f"({left})"
    if isinstance(expr.right, ast.Arithmetic) and (not is_sum or expr.right.op in ("+", "-")):
        right = f"({right})"
    return f"{left} {expr.op} {right}"


def _operand_of_minus(operand: ast.Expr) -> str:
    text = expression(operand)
    is_unsigned = isinstance(operand, ast.Literal) and text[0].isdigit()
    return f"({text})" if isinstance(operand, ast.Arithmetic) or is_unsigned else text


def condition(made: ast.Condition) -> str:
    """The text of a condition."""
    match made:
        case ast.Comparison():
            return _comparison(made)
        case ast.Nullness():
            return f"{expression(made.operand)} is {'not ' if made.negated else ''}null"
        case ast.TextClause():
            return expression(made.call)
        case ast.Bare():
            text = expression(made.expr)
            return f"({text})" if isinstance(made.expr, ast.Var | ast.Name) else text
        case ast.And():
            return " and ".join(_part(part, ast.And, ast.Or) for part in made.parts)
        case ast.Or():
            return " or ".join(_part(part, ast.Or) for part in made.parts)
        case ast.Negated():
            text = _part(made.part, ast.And, ast.Or)
            return f"not ({text})" if _CONTINUES.match(text) else f"not {text}"
        case ast.Not():
            return _block("not", made.clauses)
        case ast.Exists():
            return expression(made)


def _comparison(made: ast.Comparison) -> str:
    left, right = expression(made.left), expression(made.right)
    # `$a contains $b` is a traversal, and `true = 1` in a `where` a property.
    is_traversal = (
        isinstance(made.left, ast.Var) and made.op in ast.WORD_OPERATORS and right[0] == "$"
    )
    if is_traversal or (left in {"true", "false"} and isinstance(made.left, ast.Literal)):
        left = f"({left})"
    return f"{left} {made.op} {right}"


def _part(part: ast.Condition, *looser: type) -> str:
    text = condition(part)
    return f"({text})" if isinstance(part, looser) else text


def _block(word: str, clauses: tuple[ast.Clause, ...]) -> str:
    return f"{word} {{ {'  '.join(juxtaposed([clause_text(clause) for clause in clauses], clauses))} }}"


def clause_text(clause: ast.Clause) -> str:
    """The text of a clause."""
    match clause:
        case ast.Binding():
            entries = ", ".join(map(entry, clause.entries))
            head = f"${clause.var}: {clause.type_name}"
            return (f"{head} {{ {entries} }}" if entries else head) + when_text(clause.when)
        case ast.Rows():
            return f"${clause.var}: {clause.name}({', '.join(map(expression, clause.args))})"
        case ast.Traversal():
            return _traversal(clause)
        case ast.Optional():
            return _block("optional", clause.clauses)
        case ast.ForIn():
            values = clause.list if clause.property is None else f"{clause.list}.{clause.property}"
            return f"for ${clause.var} in ${values}"
        case _:
            return condition(clause)


def juxtaposed(texts: list[str], clauses: tuple[ast.Clause, ...]) -> list[str]:
    """The texts of clauses, none of which would be read as going on with the one before it."""
    made = list(texts)
    for at in range(len(made) - 1, -1, -1):
        if at and _CONTINUES.match(made[at]):
            made[at] = f"({made[at]})"
        follows = made[at + 1] if at + 1 < len(made) else ""
        if follows.startswith("(") and _ends_in_name(clauses[at]):
            made[at] = f"({made[at]})"
    return made


def _ends_in_name(made: ast.Clause | ast.Expr) -> bool:
    """Whether the last word is a bare name, so that a parenthesis after it would seem a call."""
    match made:
        case ast.Name():
            return True
        case ast.Comparison() | ast.Arithmetic():
            return _ends_in_name(made.right)
        case ast.Minus():
            return _ends_in_name(made.operand)
        case ast.Or() | ast.And():
            return _ends_in_name(made.parts[-1])
        case ast.Negated():
            return _ends_in_name(made.part)
        case _:
            return False


def entry(made: ast.Entry) -> str:
    """`name: value`."""
    return f"{made.name}: {expression(made.value)}"


def _traversal(clause: ast.Traversal) -> str:
    edge = "|".join(clause.words)
    if clause.undirected:
        edge = f"<{edge}>"
    if clause.edge_var is not None:
        edge = f"${clause.edge_var.name}:{edge}"
    if clause.only is not None:
        edge += f"[{condition(clause.only)}]"
    if clause.hops is not None:
        top = "" if clause.hops.max is None else clause.hops.max
        edge += f"{{{clause.hops.min},{top}}}"
    if clause.by is not None:
        edge += f" by {clause.by}"
    return f"${clause.src.name} {edge} ${clause.dst.name}{when_text(clause.when)}"


def when_text(when: ast.When | None) -> str:
    """When a clause or a match must hold, after a space; nothing where it does not say."""
    match when:
        case ast.AsOf():
            return f" as of {_moment(when.moment)}"
        case ast.During():
            return f" during {_moment(when.start)} to {_moment(when.end)}"
        case ast.Ever():
            return " ever"
        case None:
            return ""


def _moment(expr: ast.Expr) -> str:
    """A moment; before the next clause a bare name at its end would seem a call."""
    return f"({expression(expr)})" if _ends_in_name(expr) else expression(expr)


def _literal(literal: ast.Literal) -> str:
    value = literal.value
    if isinstance(value, tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, int):
        return str(value)
    return escape(value) if literal.kind == "string" else f"{literal.kind}({escape(value)})"


def _float(value: float) -> str:
    """Digits, a point and digits: the language has no exponents."""
    digits = format(Decimal(repr(value)), "f")
    return digits if "." in digits else f"{digits}.0"
