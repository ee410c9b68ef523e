"""Builds the expressions and conditions of a syntax tree, bottom-up, while a text is parsed.

The grammar reads clauses and conditions alike, because `and` may stand between any two of either. What
a thing is meant as is known one level up: `condition_of` and `value_of` say it there, and refuse what
cannot be that.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any, Final, NamedTuple, NoReturn, cast

from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.foreign import for_bare_word, for_function, instead_of
from omnigraph.lang.query.syntax.parse_state import (
    READING,
    Token,
    cover,
    fail,
    note_operator,
    text_of,
    whole,
)
from omnigraph.spans import Span
from omnigraph.spelling import did_you_mean

_ARGUMENTS: Final[dict[str, tuple[int, int | None]]] = {
    **dict.fromkeys(ast.AGGREGATES, (1, 1)),
    "search": (2, 2),
    "match_text": (2, 2),
    "fuzzy": (2, 3),
    "nearest": (2, 2),
    "bm25": (2, 2),
    "rrf": (2, None),
}
*_FIRST, _LAST = (f"`{name}`" for name in ast.TEXT_CALLS)
_TEXT_CALLS = f"{', '.join(_FIRST)} and {_LAST}"
_CLAUSE_WORDS = (*ast.WORD_OPERATORS, "is", "and", "or", "not", "exists", "optional", "for")
_KNOWN_FUNCTIONS = ", ".join(ast.FUNCTIONS)

EXPRESSIONS: Final = frozenset(ast.Expr.__args__)
CONDITIONS: Final = frozenset(ast.Condition.__args__)
_BINDING: Final = {
    ast.Binding: "a binding",
    ast.Rows: "a binding",
    ast.Traversal: "a traversal",
    ast.Optional: "an `optional` block",
    ast.ForIn: "a `for`",
}
"""The clauses that are no conditions."""


_INDEXED: Final = re.compile(r"(?:\$\w+|\$\w+\.\w+|\))$")
_LONG: Final = 64


class Joined(NamedTuple):
    """Clauses or conditions with `and` between them; which of the two is known one level up."""

    parts: tuple[Any, ...]

    @property
    def span(self) -> Span:
        """The place."""
        return cover(self.parts[0], self.parts[-1])


def variable_of(token: Token) -> ast.Var:
    """`$name`."""
    return ast.Var(token[1:], cover(token))


def condition_of(made: Any, place: str) -> ast.Condition:
    """What was read, meant as a condition that stands in ``place``."""
    kind = type(made)
    if kind in CONDITIONS:
        return cast("ast.Condition", made)
    if kind is Joined:
        return ast.And(tuple(condition_of(part, place) for part in made.parts), made.span)
    if kind is ast.Truth:
        return cast("ast.Condition", made.condition)
    if kind is ast.Call and made.function in ast.TEXT_CALLS:
        return ast.TextClause(made, made.span)
    if kind is ast.Call and made.function in _ARGUMENTS:
        stands = "order" if made.function in ast.RANKINGS else "return"
        fail(
            f"`{made.function}(…)` is not a clause",
            made.span,
            f"`{made.function}` stands in `{stands}`; the text predicates are {_TEXT_CALLS}",
        )
    if kind in EXPRESSIONS:
        return ast.Bare(made, made.span)
    _refuse_clause(made, place)


def _refuse_clause(made: Any, place: str) -> NoReturn:
    what = _BINDING[type(made)]
    hint = "`and`, `or`, `not` and parentheses join conditions; as one, write it in `exists { … }`"
    if place == "`not`":
        hint = "what must not match stands in a block: `not { … }`"
    fail(f"{what} is not a condition and cannot stand in {place}", made.span, hint)


def value_of(made: Any, place: str) -> ast.Expr:
    """What was read, meant as a value that stands in ``place``."""
    if type(made) in EXPRESSIONS:
        return cast("ast.Expr", made)
    condition = condition_of(made, place)
    return ast.Truth(condition, condition.span)


def clauses_of(parts: tuple[Any, ...]) -> tuple[ast.Clause, ...]:
    """The clauses of a block, those with `and` between them taken apart."""
    clauses: list[ast.Clause] = []
    for part in parts:
        if type(part) in _BINDING or type(part) is ast.Comparison:
            if type(part) is ast.Comparison and clauses and _is_not(part.left):
                _refuse_late_not(clauses[-1], part)
            clauses.append(part)
        elif type(part) is Joined:
            clauses += clauses_of(part.parts)
        else:
            condition = condition_of(part, "a block")
            _refuse_bare_words(condition)
            clauses += conditions_of((condition,))
    return tuple(clauses)


def conditions_of(parts: tuple[Any, ...]) -> tuple[ast.Condition, ...]:
    """Conditions that must all be satisfied, those with `and` between them taken apart."""
    conditions: list[ast.Condition] = []
    for part in parts:
        condition = condition_of(part, "`having`")
        inner = condition.parts if isinstance(condition, ast.And) else None
        conditions += (condition,) if inner is None else conditions_of(inner)
    return tuple(conditions)


def _refuse_bare_words(condition: ast.Condition) -> None:
    """Refuse a word that stands alone where nothing has a bare name."""
    while isinstance(condition, ast.Negated):  # there may be more of them than calls on the stack
        condition = condition.part
    if isinstance(condition, ast.Bare) and isinstance(condition.expr, ast.Name):
        word = condition.expr.name
        if word in {"and", "or"}:
            message = f"`{word}` stands between two {'conditions' if word == 'or' else 'clauses'}"
            fail(message, condition.span, f"leave out this `{word}`")
        fail(
            f"the word `{word}` is not a clause", condition.span, _for_clause(word, condition.span)
        )
    if isinstance(condition, ast.Or | ast.And):
        for part in condition.parts:
            _refuse_bare_words(part)


def _is_not(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Name) and expr.name == "not"


def _refuse_late_not(before: ast.Clause, clause: ast.Comparison) -> None:
    """Refuse `$x.p not in $l`, which reads as two clauses."""
    if isinstance(before, ast.Bare):
        fail(
            "`not` stands before the whole test",
            clause.left.span,
            f"write `not $x.p {clause.op} …`",
        )


def _for_clause(word: str, span: Span) -> str:
    """What may be meant by a word that stands alone among clauses."""
    text = READING.get().source.text
    if text[span.start] == "(":
        return "a node is `$a: Type`, a traversal `$a edge $b`"
    if re.fullmatch(r"e[0-9]*", word) and text[span.start - 1].isdigit():
        return "numbers have no exponent"
    return instead_of(word) or did_you_mean(word, _CLAUSE_WORDS) or for_bare_word(word)


class TermBuilder:
    """Builds expressions and conditions from tokens."""

    # Conditions

    def condition(self, *parts: Any) -> ast.Or:
        """Conditions with `or` between them."""
        note_operator()
        return ast.Or(
            tuple(condition_of(part, "`or`") for part in parts), cover(parts[0], parts[-1])
        )

    def conjunct(self, *parts: Any) -> Joined:
        """Clauses or conditions with `and` between them."""
        note_operator()
        return Joined(parts)

    def comparison(self, left: ast.Expr | Token, op: Token, right: ast.Expr) -> ast.Comparison:
        """`left op right`."""
        first = variable_of(left) if isinstance(left, str) else left
        return ast.Comparison(first, cast("ast.Operator", str(op)), right, cover(first, right))

    def nullness(
        self, operand: ast.Expr | Token, _is: Token, negated: Token | None, null: Token
    ) -> ast.Nullness:
        """`operand is null`, `operand is not null`."""
        first = variable_of(operand) if isinstance(operand, str) else operand
        return ast.Nullness(first, negated is not None, cover(first, null))

    def negated(self, keyword: Token, part: Any) -> ast.Negated:
        """`not condition`."""
        note_operator()
        return ast.Negated(condition_of(part, "`not`"), cover(keyword, part))

    def negation(self, keyword: Token, *parts: Any) -> ast.Not:
        """`not { … }`."""
        return ast.Not(filled_block(keyword, parts), cover(keyword, parts[-1]))

    def exists(self, keyword: Token, *parts: Any) -> ast.Exists:
        """`exists { … }`."""
        return ast.Exists(filled_block(keyword, parts), cover(keyword, parts[-1]))

    # Expressions

    def expr(self, first: ast.Expr, *rest: ast.Expr | Token) -> ast.Expr:
        """Operands with signs between them; the leftmost are computed first."""
        made = first
        for sign, operand in zip(rest[::2], rest[1::2], strict=True):
            note_operator()
            op = cast("ast.Sign", str(sign))
            right = cast("ast.Expr", operand)
            made = ast.Arithmetic(op, made, right, cover(made, right))
        return made

    product = expr

    def minus(self, sign: Token, operand: ast.Expr) -> ast.Minus:
        """`-operand`."""
        note_operator()
        return ast.Minus(operand, cover(sign, operand))

    def group(self, open_: Token, made: Any, close: Token) -> ast.Expr:
        """`( … )`: an expression, or a condition as a value."""
        span = cover(open_, close)
        is_text_call = isinstance(made, ast.Call) and made.function in ast.TEXT_CALLS
        if type(made) in EXPRESSIONS and not is_text_call:
            return cast("ast.Expr", replace(made, span=span))
        note_operator()
        return ast.Truth(condition_of(made, "parentheses"), span)

    def variable(self, token: Token) -> ast.Var:
        """`$name`."""
        return variable_of(token)

    def prop_ref(self, var: Token, name: Token) -> ast.PropRef:
        """`$var.name`."""
        return ast.PropRef(var[1:], str(name), cover(var, name))

    def bare_name(self, token: Token) -> ast.Name:
        """A bare word, which is no function that is unknown."""
        if READING.get().is_called(token):
            fail(
                f"there is no function `{token}`",
                cover(token),
                for_function(token) or f"there are {_KNOWN_FUNCTIONS}",
            )
        return ast.Name(str(token), cover(token))

    def now(self, word: Token, close: Token) -> ast.Now:
        """`now()`."""
        return ast.Now(cover(word, close))

    def shape(self, var: Token, *parts: Token) -> ast.Shape:
        """`$x { a, b }`, `$x { * }`."""
        *names, close = parts
        listed = None if names[0].type == "STAR" else tuple(map(str, names))
        return ast.Shape(var[1:], listed, cover(var, close))

    def star(self, var: Token, star: Token) -> ast.Star:
        """`$x.*`."""
        return ast.Star(var[1:], cover(var, star))

    def call(self, word: Token, *parts: Any) -> ast.Expr:
        """A function with its arguments; the checker counts those of scalar functions."""
        made = parts[:-1]
        if word.type == "DATED" and len(made) == 1 and _is_text(made[0]):
            return ast.Literal(cast("Any", str(word)), made[0].value, cover(word, parts[-1]))
        return _call(word, made, parts[-1], distinct=False)

    def counting(self, word: Token, distinct: Token | None, *parts: Any) -> ast.Call:
        """`count(…)`, `collect(distinct …)`."""
        made = parts[:-1]
        if distinct is not None and not made:  # a name, not the word before what is counted
            made, distinct = (ast.Name(str(distinct), cover(distinct)),), None
        return _call(word, made, parts[-1], distinct=distinct is not None)

    def counting_rows(self, word: Token, star: Token, close: Token) -> ast.Call:
        """`count(*)`."""
        if word != "count":
            fail(
                f"only `count` takes `*`, not `{word}`", cover(star), f"name it: `{word}($x.name)`"
            )
        return ast.Call(str(word), (ast.AllRows(cover(star)),), span=cover(word, close))

    # Literals

    def string(self, token: Token) -> ast.Literal:
        """A text."""
        return ast.Literal("string", text_of(token), cover(token))

    def integer(self, token: Token) -> ast.Literal:
        """A whole number within signed 64 bit."""
        return ast.Literal("int", whole(token), cover(token))

    def fraction(self, token: Token) -> ast.Literal:
        """A number with a fraction."""
        return ast.Literal("float", _fraction(token), cover(token))

    def negative(self, sign: Token, token: Token) -> ast.Literal:
        """A number with its sign."""
        span = cover(sign, token)
        if token.type == "FLOAT":
            return ast.Literal("float", -_fraction(token), span)
        return ast.Literal("int", whole(token, sign), span)

    def boolean(self, token: Token) -> ast.Literal:
        """`true` or `false`."""
        return ast.Literal("bool", token.type == "TRUE", cover(token))

    def dated(self, word: Token, text: Token, close: Token) -> ast.Literal:
        """`date("…")` or `datetime("…")` in a list; the checker decides whether the text is one."""
        kind: ast.LiteralKind = "date" if word == "date" else "datetime"
        return ast.Literal(kind, text_of(text), cover(word, close))

    def list_literal(self, open_: Token, *parts: ast.Literal | Token) -> ast.Literal:
        """`[ … ]`, which is no index of what stands before it."""
        before = READING.get().source.text[max(0, open_.start_pos - _LONG) : open_.start_pos]
        if _INDEXED.search(before):
            fail(
                "a list has no index",
                cover(open_, cast("Token", parts[-1])),
                "`for $x in $y.p` gives its elements one by one; `min(…)` and `max(…)` the ends of a group",
            )
        items = cast("tuple[ast.Literal, ...]", parts[:-1])
        return ast.Literal("list", items, cover(open_, cast("Token", parts[-1])))

    def null(self, token: Token) -> ast.Null:
        """`null`."""
        return ast.Null(cover(token))

    def number(self, sign: Token | None, token: Token) -> int:
        """A count: digits only."""
        if token.type == "FLOAT" or sign is not None:
            fail(
                f"expected an unsigned integer, found `{sign or ''}{token}`",
                cover(sign or token, token),
            )
        return whole(token)


def filled_block(keyword: Token, parts: tuple[Any, ...]) -> tuple[ast.Clause, ...]:
    """The clauses of a block, of which there must be one; the last part closes it."""
    refuse_empty(keyword, parts, "at least one clause")
    return clauses_of(parts[:-1])


def refuse_empty(keyword: Token, parts: tuple[Any, ...], holds: str) -> None:
    """Refuse a block that holds nothing; the last part closes it."""
    if len(parts) == 1:
        fail(f"the `{keyword}` block is empty", cover(keyword, parts[0]), f"it holds {holds}")


def _is_text(made: Any) -> bool:
    return isinstance(made, ast.Literal) and made.kind == "string"


def _fraction(token: Token) -> float:
    value = float(token)
    if math.isinf(value):
        fail("the number is too large for a 64-bit float", cover(token))
    return value


def _call(word: Token, made: tuple[Any, ...], close: Token, distinct: bool) -> ast.Call:
    if word in ast.AGGREGATES:
        _refuse_conditions(word, made)
    args = tuple(value_of(arg, f"`{word}(…)`") for arg in made)
    if word not in _ARGUMENTS:
        args = tuple(_truth_of_text_call(arg) for arg in args)
    call = ast.Call(str(word), args, distinct, cover(word, close))
    least, most = _ARGUMENTS.get(call.function, (0, None))
    if len(args) < least or (most is not None and len(args) > most):
        wanted = f"{least}" if least == most else f"{least} or {'more' if most is None else most}"
        plural = "" if wanted == "1" else "s"
        fail(f"`{word}` takes {wanted} argument{plural}, found {len(args)}", call.span)
    _check_ranking(call)
    return call


def _refuse_conditions(word: Token, made: tuple[Any, ...]) -> None:
    """Refuse a condition that an aggregate takes: it is true or false, so `count` would count every row."""
    for one in made:
        if type(one) not in EXPRESSIONS and (type(one) in CONDITIONS or type(one) is Joined):
            fail(
                f"a condition as a value stands in parentheses, also in `{word}(…)`",
                one.span,
                "to count the rows that satisfy it, write `count(if($x.p > 1, 1))`",
            )


def _truth_of_text_call(arg: ast.Expr) -> ast.Expr:
    if isinstance(arg, ast.Call) and arg.function in ast.TEXT_CALLS:
        return ast.Truth(ast.TextClause(arg, arg.span), arg.span)
    return arg


def _check_ranking(call: ast.Call) -> None:
    if call.function == "nearest" and not isinstance(call.args[0], ast.PropRef):
        fail(
            "the first argument of `nearest` must be a property",
            call.args[0].span,
            "write it as in `nearest($x.embedding, $query)`",
        )
    if call.function == "rrf":
        arms = call.args if _is_ranking(call.args[-1]) else call.args[:-1]
        for arm in arms if len(arms) > 1 else call.args[:2]:
            if not _is_ranking(arm):
                fail(
                    "the arguments of `rrf` must be `nearest` or `bm25`, and a number last",
                    arm.span,
                )


def _is_ranking(arm: ast.Expr) -> bool:
    return isinstance(arm, ast.Call) and arm.function in {"nearest", "bm25"}
