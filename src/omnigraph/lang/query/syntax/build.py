"""Builds the syntax tree, bottom-up, while a text is parsed.

Every rule of `grammar.lark` has a method of its name here or in `build_terms`. Some mistakes (empty
blocks, a direction after `nearest`) pass the grammar on purpose and are refused here, with a clearer
message.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, NoReturn, cast

from omnigraph.lang.query.record_type import RecordList
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.build_terms import (
    TermBuilder,
    condition_of,
    conditions_of,
    filled_block,
    refuse_empty,
    variable_of,
)
from omnigraph.lang.query.syntax.foreign import instead_of
from omnigraph.lang.query.syntax.parse_state import READING, Token, cover, fail, text_of
from omnigraph.lang.query.syntax.tree_walk import first_of
from omnigraph.spans import Span
from omnigraph.spelling import did_you_mean
from omnigraph.types import PropType, Scalar

_SCALARS = frozenset(map(str, Scalar))
_ANNOTATIONS = ("description", "instruction")
_ENTRIES = "at least one `property: value`"
_NAMED_FIRST = (
    "find what to change with `match { … }` and name it: `update $x set { … }`, `delete $x`"
)
_EDGES_NAMED = "with an edge variable, `$a $e:edge $b`, the block can be a clause of its own"
_OPERATORS = (*ast.WORD_OPERATORS, "is", "or", "and")


class _Edges(NamedTuple):
    words: tuple[Token, ...]
    undirected: bool
    spans: tuple[Span, ...]


class _Entries(NamedTuple):
    entries: tuple[ast.Entry, ...]
    close: Token


class _Annotation(NamedTuple):
    name: str
    text: str
    span: Span


class _Type(NamedTuple):
    type: PropType | RecordList
    last: Token


class _Match(NamedTuple):
    clauses: tuple[ast.Clause, ...]
    when: ast.When | None


class _Returned(NamedTuple):
    distinct: bool
    items: tuple[ast.Item, ...]


def _entries(parts: tuple[Any, ...]) -> _Entries:
    return _Entries(parts[:-1], parts[-1])


class Builder(TermBuilder):
    """Builds an `ast.QueryFile` from tokens."""

    def start(self, *parts: ast.Query | None) -> ast.QueryFile:
        """The file; query names are unique in it."""
        *queries, anonymous = cast("tuple[ast.Query, ...]", parts)
        seen: set[str | None] = set()
        for query in queries:
            if query.name in seen:
                fail(
                    f"two queries are called `{query.name}`",
                    query.name_span,
                    "rename or remove one of them",
                )
            seen.add(query.name)
        if anonymous is None:
            return ast.QueryFile(tuple(queries))
        span = READING.get().rest_after(queries[-1].span.end if queries else 0)
        return ast.QueryFile((*queries, replace(anonymous, span=span, name_span=span)))

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

    def anonymous(
        self, params: tuple[ast.Param, ...] | None, body: ast.ReadBody | ast.WriteBody
    ) -> ast.Query:
        """A query without a name; its place is known when the file is."""
        return ast.Query(None, params or (), body)

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

    def record_list(self, *parts: Any) -> _Type:
        """`[{ name: T, … }]`."""
        *fields, close = parts
        names: set[str] = set()
        for name, _, span in fields:
            if name in names:
                fail(f"the record has two fields `{name}`", span, "rename or remove one of them")
            names.add(name)
        return _Type(RecordList(tuple((name, kind) for name, kind, _ in fields)), close)

    def field(
        self, name: Token, declared: _Type, optional: Token | None
    ) -> tuple[str, PropType, Span]:
        """`name: Type?` in a record."""
        if isinstance(declared.type, RecordList):
            fail("records do not nest", cover(name, declared.last), "a field is a scalar or a list")
        kind = declared.type.as_nullable(optional is not None)
        return str(name), kind, cover(name, optional or declared.last)

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
        each: ast.ForIn | None,
        match: _Match,
        returned: _Returned,
        having: tuple[ast.Condition, ...] | None,
        order: tuple[ast.SortKey, ...] | None,
        limit: int | ast.Var | None,
        offset: int | ast.Var | None,
    ) -> ast.ReadBody:
        """`for … match … return … having … order … limit … offset …`."""
        return ast.ReadBody(
            match.clauses,
            returned.items,
            order or (),
            limit=limit,
            offset=offset,
            distinct=returned.distinct,
            having=having or (),
            each=each,
            when=match.when,
        )

    def each(
        self, keyword: Token, var: Token, _in: Token, of: Token, name: Token | None
    ) -> ast.ForIn:
        """`for $x in $list`, `for $x in $y.name`."""
        property_ = None if name is None else str(name)
        last = name or of
        return ast.ForIn(var[1:], of[1:], property_, cover(keyword, last), cover(of, last))

    def match_block(self, keyword: Token, *parts: Any) -> _Match:
        """The clauses to match, and when what they find must hold."""
        return _Match(filled_block(keyword, parts[:-1]), parts[-1])

    def as_of(self, keyword: Token, _of: Token, moment: ast.Expr) -> ast.AsOf:
        """`as of e`."""
        return ast.AsOf(moment, cover(keyword, moment))

    def during(self, keyword: Token, start: ast.Expr, _to: Token, end: ast.Expr) -> ast.During:
        """`during a to b`."""
        return ast.During(start, end, cover(keyword, end))

    def ever(self, keyword: Token) -> ast.Ever:
        """`ever`."""
        return ast.Ever(cover(keyword))

    def return_block(
        self, keyword: Token, distinct: Token | None, *parts: ast.Item | Token
    ) -> _Returned:
        """The output columns."""
        refuse_empty(keyword, parts, "at least one expression")
        return _Returned(distinct is not None, cast("tuple[ast.Item, ...]", parts[:-1]))

    def item(self, expr: ast.Expr, alias: Token | None) -> ast.Item:
        """One output column, or those of `$x.*`."""
        if alias is None and isinstance(expr, ast.Name):
            _refuse_word(expr)
        if alias is not None and isinstance(expr, ast.Star):
            fail(
                f"`${expr.var}.*` makes several columns and takes no alias",
                cover(expr, alias),
                f"name each property, `${expr.var}.name as {alias}`, or all of them as one object, "
                f"`${expr.var} {{ * }} as {alias}`",
            )
        return ast.Item(expr, None if alias is None else str(alias), cover(expr, alias or expr))

    def having(self, keyword: Token, *parts: Any) -> tuple[ast.Condition, ...]:
        """The conditions that output rows must satisfy."""
        refuse_empty(keyword, parts, "at least one condition")
        return conditions_of(parts[:-1])

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

    def limit(self, count: int | ast.Var) -> int | ast.Var:
        """How many rows to keep."""
        return count

    def offset(self, count: int | ast.Var) -> int | ast.Var:
        """How many rows to leave out first."""
        return count

    # Clauses

    def optional(self, keyword: Token, *parts: Any) -> ast.Optional:
        """`optional { … }`."""
        return ast.Optional(filled_block(keyword, parts), cover(keyword, parts[-1]))

    def binding(
        self, var: Token, name: Token, block: _Entries | None, when: ast.When | None
    ) -> ast.Binding:
        """`$x: Type { … }`."""
        entries, close = ((), name) if block is None else block
        return ast.Binding(var[1:], str(name), entries, when, cover(var, close), cover(name))

    def entries(self, *parts: ast.Entry | Token) -> _Entries:
        """`{ p: v, … }`."""
        return _entries(parts)

    def entry(self, name: Token, value: ast.Expr) -> ast.Entry:
        """`name: value`."""
        return ast.Entry(str(name), value, cover(name, value))

    assign = entry

    def rows(self, var: Token, name: Token, *parts: Any) -> ast.Rows:
        """`$r: name(a, b)`."""
        args = tuple(arg for arg in parts[:-1] if arg is not None)
        return ast.Rows(var[1:], str(name), args, cover(var, parts[-1]), cover(name))

    def traversal(self, src: Token, edges: _Edges, *parts: Any) -> ast.Traversal:
        """`$a edge $b`."""
        return self.traversal_with_edge(src, None, edges, *parts)

    def traversal_with_edge(
        self,
        src: Token,
        var: Token | None,
        edges: _Edges,
        only: ast.Condition | None,
        hops: ast.Hops | None,
        weight: Token | None,
        dst: Token,
        when: ast.When | None,
    ) -> ast.Traversal:
        """`$a $e:edge[condition]{1,3} $b`, `$a $p:edge by km $b`."""
        if hops is not None and weight is not None:
            fail(
                "a traversal has bounds or `by`, not both",
                cover(hops, weight),
                "the cheapest path has no bounds; a path with bounds is the shortest",
            )
        return ast.Traversal(
            variable_of(src),
            tuple(map(str, edges.words)),
            variable_of(dst),
            undirected=edges.undirected,
            edge_var=None if var is None else variable_of(var),
            hops=hops,
            only=only,
            by=None if weight is None else str(weight),
            when=when,
            span=cover(src, dst),
            word_spans=edges.spans,
            by_span=edges.spans[0] if weight is None else cover(weight),
        )

    def property_destination(self, src: Token, edges: _Edges, dst: Token, name: Token) -> NoReturn:
        """`$a word $b.name`: refuse what begins like a traversal and ends in a property."""
        word = "|".join(edges.words)
        hint = f"end the traversal with `{dst}` and compare `{dst}.{name}` in a clause of its own"
        if word in _OPERATORS and not edges.undirected:
            hint = (
                f"for the operator, put the variable in parentheses: `({src}) {word} {dst}.{name}`"
            )
        fail(
            f"`{src} {word} {dst}` is a traversal and cannot go on with `.{name}`",
            cover(src, name),
            hint,
        )

    def edges(self, *words: Token) -> _Edges:
        """Edge words, followed in their own direction."""
        return _edges(words, undirected=False)

    def undirected(self, *words: Token) -> _Edges:
        """`<word>`."""
        return _edges(words, undirected=True)

    def only(self, made: Any) -> ast.Condition:
        """`[condition]`, which the edges satisfy."""
        return _plain_condition(made, "the condition of an edge", _EDGES_NAMED)

    def hops(self, open_: Token, low: int, high: int | None, close: Token) -> ast.Hops:
        """`{min,max}`."""
        return ast.Hops(low, high, cover(open_, close))

    def weight(self, name: Token) -> Token:
        """`by name`."""
        return name

    # Mutations

    def write(
        self,
        each: ast.ForIn | None,
        match: _Match | None,
        *parts: ast.Statement | _Returned | None,
    ) -> ast.WriteBody:
        """`for … match …`, statements, `return …`."""
        statements = cast("tuple[ast.Statement, ...]", parts[:-1])
        returned = cast("_Returned | None", parts[-1])
        clauses, when = (None, None) if match is None else match
        if returned is None:
            return ast.WriteBody(statements, clauses, each=each, when=when)
        return ast.WriteBody(statements, clauses, returned.items, returned.distinct, each, when)

    def insert(
        self, keyword: Token, var: Token | None, name: Token, *parts: ast.Entry | Token
    ) -> ast.Insert:
        """`insert $v: Type { … }`, `upsert Type { … }`."""
        entries, close = _entries(parts)
        refuse_empty(keyword, parts, _ENTRIES)
        return ast.Insert(
            str(name),
            entries,
            None if var is None else variable_of(var),
            keyword.type == "UPSERT",
            cover(keyword, close),
            cover(name),
        )

    def update(self, keyword: Token, name: Token, set_: Token, *parts: Any) -> ast.Update:
        """`update Type set { … } where …`."""
        entries, _ = _entries(parts[:-1])
        refuse_empty(set_, parts[:-1], _ENTRIES)
        where = _where(parts[-1])
        return ast.Update(
            str(name), entries, where, span=cover(keyword, where), type_span=cover(name)
        )

    def update_variable(self, keyword: Token, var: Token, set_: Token, *parts: Any) -> ast.Update:
        """`update $v set { … }`."""
        entries, close = _entries(parts)
        refuse_empty(set_, parts, _ENTRIES)
        target = variable_of(var)
        return ast.Update(
            None, entries, var=target, span=cover(keyword, close), type_span=target.span
        )

    def delete(self, keyword: Token, name: Token, made: Any) -> ast.Delete:
        """`delete Type where …`."""
        where = _where(made)
        return ast.Delete(str(name), where, span=cover(keyword, where), type_span=cover(name))

    def delete_variable(self, keyword: Token, var: Token) -> ast.Delete:
        """`delete $v`."""
        target = variable_of(var)
        return ast.Delete(None, var=target, span=cover(keyword, var), type_span=target.span)

    def end(self, keyword: Token, name: Token, made: Any, moment: ast.Expr | None) -> ast.End:
        """`end Type where … at …`."""
        where = _where(made)
        span = cover(keyword, where if moment is None else moment)
        return ast.End(str(name), where, None, moment, span, cover(name))

    def end_variable(self, keyword: Token, var: Token, moment: ast.Expr | None) -> ast.End:
        """`end $v at …`."""
        target = variable_of(var)
        span = cover(keyword, var if moment is None else moment)
        return ast.End(None, None, target, moment, span, target.span)

    def assertion(self, keyword: Token, var: Token | None, name: Token, *parts: Any) -> ast.Assert:
        """`assert $v: Type { … } at …`."""
        *written, moment = parts
        entries, close = _entries(tuple(written))
        refuse_empty(keyword, tuple(written), _ENTRIES)
        return ast.Assert(
            str(name),
            entries,
            None if var is None else variable_of(var),
            moment,
            cover(keyword, close if moment is None else moment),
            cover(name),
        )

    def at(self, _word: Token, moment: ast.Expr) -> ast.Expr:
        """`at expr`."""
        return moment


def _refuse_word(item: ast.Name) -> None:
    """Refuse a word of a condition, or of another language, that was read as an item."""
    if item.name in (*_OPERATORS, "not"):
        fail(
            f"`{item.name}` stands in a condition",
            item.span,
            "a condition as a value stands in parentheses: `($x.p > 1) as name`",
        )
    hint = instead_of(item.name)
    if hint is not None and item.name in {"case", "when", "null", "none", "nil"}:
        fail(f"the word `{item.name}` is not an expression", item.span, hint)


def _where(made: Any) -> ast.Condition:
    """The condition of a mutation. `true` and `false` left of a value are properties there, as ever."""
    where = _plain_condition(made, "a `where`", _NAMED_FIRST)
    if isinstance(where, ast.Comparison) and isinstance(where.left, ast.Literal):
        written = READING.get().source.text[where.left.span.start : where.left.span.end]
        old = isinstance(where.right, ast.Literal | ast.Var | ast.Now)
        if old and written in {"true", "false"}:
            return replace(where, left=ast.Name(written, where.left.span))
    return where


def _plain_condition(made: Any, place: str, hint: str) -> ast.Condition:
    """A condition about one thing, so without blocks."""
    condition = condition_of(made, place)
    block = first_of(condition, ast.Not, ast.Exists)
    if block is not None:
        fail(f"a block cannot stand in {place}", block.span, hint)
    return condition


def _scalar(name: Token) -> Scalar:
    if name not in _SCALARS:
        hint = did_you_mean(name, [*Scalar, "Vector"])
        if name == "enum":
            hint = "the parameter for an enum property is a `String`"
        types = f"the types are {', '.join(Scalar)}, Vector(n) and [T]"
        fail(f"unknown parameter type `{name}`", cover(name), hint or types)
    return Scalar(str(name))


def _edges(words: tuple[Token, ...], undirected: bool) -> _Edges:
    spans = tuple(map(cover, words))
    if "not" in words:
        fail(
            "`not` cannot be an edge word",
            spans[words.index(cast("Token", "not"))],
            "a negation is a clause of its own: `not { … }`",
        )
    return _Edges(words, undirected, spans)
