"""Builds the syntax tree, bottom-up, while a text is parsed.

Every rule of `grammar.lark` has a method of its name here. Some mistakes (empty blocks, a direction
after `nearest`) pass the grammar on purpose and are refused here, with a clearer message.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, NoReturn, cast

from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.parse_state import Token, cover, fail, text_of, whole
from omnigraph.spans import Span
from omnigraph.spelling import did_you_mean
from omnigraph.types import PropType, Scalar

_ARGUMENTS = {
    **dict.fromkeys(ast.AGGREGATES, (1, 1)),
    "search": (2, 2),
    "match_text": (2, 2),
    "fuzzy": (2, 3),
    "nearest": (2, 2),
    "bm25": (2, 2),
    "rrf": (2, 3),
}
*_FIRST, _LAST = (f"`{name}`" for name in ast.TEXT_CALLS)
_TEXT_CALLS = f"{', '.join(_FIRST)} and {_LAST}"
_ANNOTATIONS = ("description", "instruction")
_WORD_OPERATORS = ("contains", "starts_with")


class _Edge(NamedTuple):
    word: Token
    undirected: bool


class _Entries(NamedTuple):
    entries: tuple[ast.Entry, ...]
    close: Token


class _Annotation(NamedTuple):
    name: str
    text: str
    span: Span


class _Type(NamedTuple):
    type: PropType
    last: Token


def _entries(parts: tuple[Any, ...]) -> _Entries:
    return _Entries(parts[:-1], parts[-1])


def _variable(token: Token) -> ast.Var:
    return ast.Var(token[1:], cover(token))


def _filled(block: str, parts: tuple[Any, ...], first: Token, last: Token, holds: str) -> None:
    if not parts:
        fail(f"the `{block}` block is empty", cover(first, last), f"it holds {holds}")


class Builder:
    """Builds an `ast.QueryFile` from tokens."""

    def start(self, *queries: ast.Query) -> ast.QueryFile:
        """The file; query names are unique in it."""
        seen: set[str] = set()
        for query in queries:
            if query.name in seen:
                fail(
                    f"two queries are called `{query.name}`",
                    query.name_span,
                    "rename or remove one of them",
                )
            seen.add(query.name)
        return ast.QueryFile(queries)

    def query(
        self,
        keyword: Token,
        name: Token,
        params: tuple[ast.Param, ...],
        annotations: dict[str, str],
        body: ast.ReadBody | ast.WriteBody,
        close: Token,
    ) -> ast.Query:
        """One declaration."""
        return ast.Query(
            str(name),
            params,
            body,
            annotations.get("description"),
            annotations.get("instruction"),
            cover(keyword, close),
            cover(name),
        )

    # Parameters and annotations

    def params(self, *params: ast.Param) -> tuple[ast.Param, ...]:
        """The parameter list."""
        return params

    def param(self, var: Token, declared: _Type, optional: Token | None) -> ast.Param:
        """`$name: Type?`."""
        of_type = declared.type.as_nullable(optional is not None)
        return ast.Param(var[1:], of_type, cover(var, optional or declared.last))

    def scalar(self, name: Token) -> _Type:
        """A scalar parameter type."""
        if name == "Vector":
            fail(
                "`Vector` needs its number of dimensions",
                cover(name),
                "write it as in `Vector(384)`",
            )
        return _Type(PropType(_scalar(name)), name)

    def list_type(self, name: Token, close: Token) -> _Type:
        """`[T]`."""
        if name == "Vector":
            fail("a list holds scalars, not `Vector`", cover(name))
        return _Type(PropType(_scalar(name), is_list=True), close)

    def sized(self, name: Token, size: int, close: Token) -> _Type:
        """`Vector(n)`."""
        if name != "Vector":
            fail(f"only `Vector` takes a size, not `{name}`", cover(name, close))
        return _Type(PropType.vector(size), close)

    def annotations(self, *annotations: _Annotation) -> dict[str, str]:
        """The annotations of a declaration, each at most once."""
        texts: dict[str, str] = {}
        for name, text, span in annotations:
            if name in texts:
                fail(f"`@{name}` is given twice", span, "keep one of them")
            texts[name] = text
        return texts

    def annotation(self, at: Token, name: Token, text: Token, close: Token) -> _Annotation:
        """`@description("…")` or `@instruction("…")`."""
        if name not in _ANNOTATIONS:
            fail(
                f"unknown annotation `@{name}`",
                cover(at, name),
                did_you_mean(f"@{name}", [f"@{known}" for known in _ANNOTATIONS])
                or "a query takes `@description` and `@instruction`",
            )
        return _Annotation(str(name), text_of(text), cover(at, close))

    # Read bodies

    def read(
        self,
        match: tuple[ast.Clause, ...],
        items: tuple[ast.Item, ...],
        order: tuple[ast.SortKey, ...] | None,
        limit: int | None,
    ) -> ast.ReadBody:
        """`match … return … order … limit …`."""
        return ast.ReadBody(match, items, order or (), limit)

    def match_block(self, keyword: Token, *parts: ast.Clause | Token) -> tuple[ast.Clause, ...]:
        """The clauses to match."""
        clauses = cast("tuple[ast.Clause, ...]", parts[:-1])
        _filled("match", clauses, keyword, cast("Token", parts[-1]), "at least one clause")
        return clauses

    def return_block(self, keyword: Token, *parts: ast.Item | Token) -> tuple[ast.Item, ...]:
        """The output columns."""
        items = cast("tuple[ast.Item, ...]", parts[:-1])
        _filled("return", items, keyword, cast("Token", parts[-1]), "at least one expression")
        return items

    def item(self, expr: ast.Expr, alias: Token | None) -> ast.Item:
        """One output column."""
        return ast.Item(expr, None if alias is None else str(alias), cover(expr, alias or expr))

    def order(self, *keys: ast.SortKey) -> tuple[ast.SortKey, ...]:
        """The sort keys."""
        return keys

    def sortkey(self, expr: ast.Expr, direction: Token | None) -> ast.SortKey:
        """One sort key."""
        if direction is None:
            return ast.SortKey(expr, None, expr.span)
        if isinstance(expr, ast.Call) and expr.function == "nearest":
            fail(
                f"`nearest` is always closest first and takes no `{direction}`",
                cover(direction),
                f"leave out `{direction}`",
            )
        return ast.SortKey(expr, "asc" if direction == "asc" else "desc", cover(expr, direction))

    def limit(self, count: int) -> int:
        """How many rows to keep."""
        return count

    # Clauses

    def negation(self, keyword: Token, *parts: ast.Clause | Token) -> ast.Not:
        """`not { … }`."""
        clauses, close = cast("tuple[ast.Clause, ...]", parts[:-1]), cast("Token", parts[-1])
        _filled("not", clauses, keyword, close, "at least one clause")
        return ast.Not(clauses, cover(keyword, close))

    def binding(self, var: Token, name: Token, block: _Entries | None) -> ast.Binding:
        """`$x: Type { … }`."""
        entries, close = ((), name) if block is None else block
        return ast.Binding(var[1:], str(name), entries, cover(var, close), cover(name))

    def entries(self, *parts: ast.Entry | Token) -> _Entries:
        """`{ p: v, … }`."""
        return _entries(parts)

    def entry(self, name: Token, value: ast.Value) -> ast.Entry:
        """`name: value`."""
        return ast.Entry(str(name), value, cover(name, value))

    def traversal(
        self, src: Token, edge: _Edge, hops: ast.Hops | None, dst: Token
    ) -> ast.Traversal:
        """`$a edge $b`."""
        return self.traversal_with_edge(src, None, edge, hops, dst)

    def traversal_with_edge(
        self, src: Token, var: Token | None, edge: _Edge, hops: ast.Hops | None, dst: Token
    ) -> ast.Traversal:
        """`$a $e: edge $b`."""
        return ast.Traversal(
            _variable(src),
            str(edge.word),
            _variable(dst),
            edge.undirected,
            None if var is None else _variable(var),
            hops,
            span=cover(src, dst),
            word_span=cover(edge.word),
        )

    def property_destination(self, src: Token, edge: _Edge, dst: Token, name: Token) -> NoReturn:
        """`$a word $b.name`: refuse what begins like a traversal and ends in a property."""
        hint = f"end the traversal with `{dst}` and compare `{dst}.{name}` in a clause of its own"
        if edge.word in _WORD_OPERATORS and not edge.undirected:
            hint = f"for the predicate, put a property or a literal left of `{edge.word}`"
        fail(
            f"`{src} {edge.word} {dst}` is a traversal and cannot go on with `.{name}`",
            cover(src, name),
            hint,
        )

    def edge(self, word: Token) -> _Edge:
        """An edge word, followed in its own direction."""
        return _Edge(_edge_word(word), undirected=False)

    def undirected(self, word: Token) -> _Edge:
        """`<word>`."""
        return _Edge(_edge_word(word), undirected=True)

    def hops(self, open_: Token, low: int, high: int | None, close: Token) -> ast.Hops:
        """`{min,max}`."""
        return ast.Hops(low, high, cover(open_, close))

    def text_clause(self, call: ast.Call) -> ast.TextClause:
        """A text predicate standing alone."""
        if call.function not in ast.TEXT_CALLS:
            place = "order" if call.function in ast.RANKINGS else "return"
            fail(
                f"`{call.function}(…)` is not a clause",
                call.span,
                f"`{call.function}` stands in `{place}`; the text predicates are {_TEXT_CALLS}",
            )
        return ast.TextClause(call, call.span)

    def comparison(self, left: ast.Expr | Token, op: Token, right: ast.Expr) -> ast.Comparison:
        """`left op right`."""
        first = _variable(left) if isinstance(left, str) else left
        return ast.Comparison(first, cast("ast.Operator", str(op)), right, cover(first, right))

    # Expressions

    def variable(self, token: Token) -> ast.Var:
        """`$name`."""
        return _variable(token)

    def prop_ref(self, var: Token, name: Token) -> ast.PropRef:
        """`$var.name`."""
        return ast.PropRef(var[1:], str(name), cover(var, name))

    def bare_name(self, token: Token) -> ast.Name:
        """A bare word."""
        return ast.Name(str(token), cover(token))

    def now(self, word: Token, close: Token) -> ast.Now:
        """`now()`."""
        return ast.Now(cover(word, close))

    def call(self, word: Token, *parts: ast.Expr | Token) -> ast.Call:
        """An aggregate, a text predicate or a ranking, with as many arguments as it takes."""
        args = cast("tuple[ast.Expr, ...]", parts[:-1])
        call = ast.Call(str(word), args, cover(word, cast("Token", parts[-1])))
        least, most = _ARGUMENTS[call.function]
        if not least <= len(args) <= most:
            wanted = f"{least}" if least == most else f"{least} or {most}"
            plural = "" if wanted == "1" else "s"
            fail(f"`{word}` takes {wanted} argument{plural}, found {len(args)}", call.span)
        _check_ranking(call)
        return call

    # Mutations

    def write(self, *statements: ast.Statement) -> ast.WriteBody:
        """The statements of a mutation."""
        return ast.WriteBody(statements)

    def insert(self, keyword: Token, name: Token, *parts: ast.Entry | Token) -> ast.Insert:
        """`insert Type { … }`."""
        entries, close = _entries(parts)
        _filled("insert", entries, keyword, close, "at least one `property: value`")
        return ast.Insert(str(name), entries, cover(keyword, close), cover(name))

    def update(
        self, keyword: Token, name: Token, set_: Token, *parts: ast.Entry | Token | ast.Condition
    ) -> ast.Update:
        """`update Type set { … } where …`."""
        entries, close = _entries(parts[:-1])
        where = cast("ast.Condition", parts[-1])
        _filled("set", entries, set_, close, "at least one `property: value`")
        return ast.Update(str(name), entries, where, cover(keyword, where), cover(name))

    def delete(self, keyword: Token, name: Token, where: ast.Condition) -> ast.Delete:
        """`delete Type where …`."""
        return ast.Delete(str(name), where, cover(keyword, where), cover(name))

    def condition(self, name: Token, op: Token, value: ast.Value) -> ast.Condition:
        """The comparison of a `where`."""
        if op in _WORD_OPERATORS:
            fail(
                f"`{op}` cannot stand in a `where`",
                cover(op),
                "a `where` compares with `=`, `!=`, `<`, `<=`, `>` or `>=`",
            )
        return ast.Condition(str(name), cast("ast.Comparator", str(op)), value, cover(name, value))

    # Literals

    def string(self, token: Token) -> ast.Literal:
        """A text."""
        return ast.Literal("string", text_of(token), cover(token))

    def integer(self, token: Token) -> ast.Literal:
        """A whole number within signed 64 bit."""
        return ast.Literal("int", whole(token), cover(token))

    def fraction(self, token: Token) -> ast.Literal:
        """A number with a fraction."""
        value = float(token)
        if math.isinf(value):
            fail("the number is too large for a 64-bit float", cover(token))
        return ast.Literal("float", value, cover(token))

    def boolean(self, token: Token) -> ast.Literal:
        """`true` or `false`."""
        return ast.Literal("bool", token.type == "TRUE", cover(token))

    def dated(self, word: Token, text: Token, close: Token) -> ast.Literal:
        """`date("…")` or `datetime("…")`; the checker decides whether the text is one."""
        kind: ast.LiteralKind = "date" if word == "date" else "datetime"
        return ast.Literal(kind, text_of(text), cover(word, close))

    def list_literal(self, open_: Token, *parts: ast.Literal | Token) -> ast.Literal:
        """`[ … ]`."""
        items = cast("tuple[ast.Literal, ...]", parts[:-1])
        return ast.Literal("list", items, cover(open_, cast("Token", parts[-1])))

    def number(self, token: Token) -> int:
        """A count: digits only."""
        if token.type == "FLOAT" or token.startswith("-"):
            fail(f"expected an unsigned integer, found `{token}`", cover(token))
        return whole(token)


def _scalar(name: Token) -> Scalar:
    if name not in set(map(str, Scalar)):
        hint = did_you_mean(name, [*Scalar, "Vector"])
        if name == "enum":
            hint = "the parameter for an enum property is a `String`"
        types = f"the types are {', '.join(Scalar)}, Vector(n) and [T]"
        fail(f"unknown parameter type `{name}`", cover(name), hint or types)
    return Scalar(str(name))


def _edge_word(word: Token) -> Token:
    if word == "not":
        fail(
            "`not` cannot be an edge word",
            cover(word),
            "a negation is a clause of its own: `not { … }`",
        )
    return word


def _check_ranking(call: ast.Call) -> None:
    if call.function == "nearest" and not isinstance(call.args[0], ast.PropRef):
        fail(
            "the first argument of `nearest` must be a property",
            call.args[0].span,
            "write it as in `nearest($x.embedding, $query)`",
        )
    if call.function == "rrf":
        for arm in call.args[:2]:
            if not isinstance(arm, ast.Call) or arm.function not in {"nearest", "bm25"}:
                fail("the first two arguments of `rrf` must be `nearest` or `bm25`", arm.span)
