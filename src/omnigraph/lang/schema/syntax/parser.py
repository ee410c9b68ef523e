"""Parses schema text. Reports grammar faults, and those visible in a single token or type."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib import resources
from typing import Any, Final, NoReturn, cast

from lark import Lark, Token, Transformer, v_args

from omnigraph.errors import ParseError
from omnigraph.lang import parse_failures
from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.schema.syntax.advice import NAMES, advise
from omnigraph.lang.source import Source, unescape
from omnigraph.spans import Span
from omnigraph.types import MAX_VECTOR_DIM, PropType, Scalar

MAX_U32: Final = 2**32 - 1

_LITERAL_KINDS: dict[str, ast.LiteralKind] = {
    "STRING": "string",
    "FLOAT": "float",
    "INT": "int",
    "BOOL": "bool",
    "WORD": "word",
    "DEFAULT_WORD": "word",
}


def parse(text: str, filename: str | None = None) -> ast.Schema:
    """The syntax tree of a schema source; any fault is a ParseError with its place."""
    source = Source(text, filename)
    try:
        return cast("ast.Schema", parse_failures.run(_parser(), source, NAMES, advise))
    except _Fault as fault:
        raise source.error(ParseError, fault.message, fault.span, fault.hint) from None


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = resources.files(__package__).joinpath("grammar.lark").read_text("utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        maybe_placeholders=False,
        transformer=_Builder(),
    )


class _Fault(Exception):
    """A fault found while the tree is built; ``parse`` adds the source, which the builder lacks."""

    def __init__(self, message: str, span: Span, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint


def _fail(message: str, span: Span, hint: str | None = None) -> NoReturn:
    raise _Fault(message, span, hint)


def _span(first: Token, last: Token | None = None) -> Span:
    end = last if last is not None else first
    return Span(
        cast("int", first.start_pos),
        cast("int", end.end_pos),
        cast("int", first.line),
        cast("int", first.column),
    )


def _name(token: Token) -> ast.Name:
    return ast.Name(str(token), _span(token))


def _number(token: Token, low: int, high: int) -> int | None:
    """The value of a token of digits when it lies within the bounds. Digits are counted first
    because Python refuses to convert very long ones."""
    digits = token.lstrip("0") or "0"
    if len(digits) > len(str(high)):
        return None
    value = int(digits)
    return value if low <= value <= high else None


_Body = tuple[tuple[ast.Property, ...], tuple[ast.Constraint, ...]]
_Arguments = tuple[ast.Literal, tuple[tuple[ast.Name, ast.Literal], ...]]
_Bounds = tuple[ast.Bound | None, ast.Bound | None]
_NO_BODY: _Body = ((), ())


def _text(token: Token) -> str:
    """The value of a string token, which the lexer only accepts with known escapes."""
    return unescape(_NO_SOURCE, str(token), 0)


_NO_SOURCE = Source("")


def _close(properties: list[ast.Property], annotations: list[ast.Annotation] | None) -> None:
    """Give the last property the annotations that followed it."""
    if annotations:
        properties[-1] = replace(properties[-1], annotations=tuple(annotations))


@v_args(inline=True)
class _Builder(Transformer[Token, ast.Schema]):
    """Builds the tree while the parser reduces, innermost rules first."""

    def start(self, *declarations: ast.Declaration) -> ast.Schema:
        return ast.Schema(declarations)

    # Declarations

    def interface(self, name: Token, body: _Body) -> ast.Interface:
        properties, constraints = body
        if constraints:
            first = constraints[0]
            if isinstance(first, ast.Valid):
                _fail(
                    f"`@valid` cannot stand on `{name}.{first.members[0].text}`: an interface has no period",
                    first.span,
                    "put it on the node types",
                )
            _fail(
                f"interface `{name}` cannot hold a constraint in its body",
                first.span,
                "write `@key`, `@unique` or `@index` on the property, or put it on the nodes",
            )
        return ast.Interface(_name(name), properties)

    def node(self, name: Token, annotations: tuple[ast.Annotation, ...], *rest: Any) -> ast.Node:
        *implements, (properties, constraints) = rest
        return ast.Node(
            _name(name),
            annotations,
            implements[0] if implements else (),
            properties,
            constraints,
        )

    def implements(self, *names: Token) -> tuple[ast.Name, ...]:
        return tuple(_name(name) for name in names)

    def edge(self, name: Token, from_type: Token, to_type: Token, *rest: Any) -> ast.Edge:
        parts = list(rest)
        cardinality = parts.pop(0) if isinstance(parts[0], ast.Cardinality) else None
        annotations = parts.pop(0)
        properties, constraints = parts.pop(0) if parts else _NO_BODY
        return ast.Edge(
            _name(name),
            _name(from_type),
            _name(to_type),
            cardinality,
            annotations,
            properties,
            constraints,
        )

    def cardinality(self, at: Token, lower: Token, upper: Token | None = None) -> ast.Cardinality:
        bounds = [lower] if upper is None else [lower, upper]
        values = []
        for bound in bounds:
            value = _number(bound, 0, MAX_U32)
            if value is None:
                _fail(f"a cardinality bound lies between 0 and {MAX_U32}", _span(bound))
            values.append(value)
        span = _span(at, bounds[-1])
        low, high = values[0], values[1] if upper is not None else None
        if high is not None and low > high:
            _fail(f"the lower cardinality bound {low} is above the upper bound {high}", span)
        return ast.Cardinality(low, high, span)

    # Members

    def body(self, *members: ast.Property | ast.Annotation | ast.Constraint) -> _Body:
        properties: list[ast.Property] = []
        constraints: list[ast.Constraint] = []
        annotations: list[ast.Annotation] | None = None
        for member in members:
            if isinstance(member, ast.Property):
                _close(properties, annotations)
                properties.append(member)
                annotations = []
            elif isinstance(member, ast.Annotation):
                if annotations is None:
                    _fail(
                        f"annotation `@{member.name}` does not follow a property",
                        member.span,
                        "annotations stand after their property and before any constraint",
                    )
                annotations.append(member)
            else:
                _close(properties, annotations)
                annotations = None
                constraints.append(member)
        _close(properties, annotations)
        return tuple(properties), tuple(constraints)

    def property(self, name: Token, type_: tuple[PropType, Span]) -> ast.Property:
        return ast.Property(_name(name), type_[0], type_span=type_[1])

    def annotation(
        self, at: Token, name: Token, arguments: _Arguments | None = None
    ) -> ast.Annotation:
        value, keywords = arguments if arguments is not None else (None, ())
        return ast.Annotation(str(name), value, keywords, _span(at, name))

    type_annotation = annotation

    def type_annotations(self, *annotations: ast.Annotation) -> tuple[ast.Annotation, ...]:
        return annotations

    def arguments(self, value: ast.Literal, *keywords: tuple[ast.Name, ast.Literal]) -> _Arguments:
        return value, keywords

    type_arguments = arguments

    def default_arguments(self, value: ast.Literal) -> _Arguments:
        return value, ()

    def default_number(self, number: ast.Bound) -> ast.Literal:
        kind: ast.LiteralKind = "float" if "." in number.text else "int"
        return ast.Literal(kind, number.text, number.span)

    def default_list(self, *parts: Token | ast.Literal) -> ast.Literal:
        opening, *items, closing = parts
        span = _span(cast("Token", opening), cast("Token", closing))
        return ast.Literal("list", "", span, tuple(cast("list[ast.Literal]", items)))

    def keyword(self, name: Token, value: ast.Literal) -> tuple[ast.Name, ast.Literal]:
        return _name(name), value

    def literal(self, token: Token) -> ast.Literal:
        kind = _LITERAL_KINDS[token.type]
        text = _text(token) if kind == "string" else str(token)
        return ast.Literal(kind, text, _span(token))

    # Types

    def type(self, base: tuple[PropType, Span], mark: Token | None = None) -> tuple[PropType, Span]:
        return (base[0].as_nullable(), base[1]) if mark is not None else base

    def scalar(self, word: Token) -> tuple[PropType, Span]:
        return PropType(Scalar(word)), _span(word)

    def list(self, word: Token) -> tuple[PropType, Span]:
        if Scalar(word).is_blob:
            _fail("a list cannot hold Blob", _span(word), "give each Blob its own node")
        return PropType(Scalar(word), is_list=True), _span(word)

    def enumeration(self, *words: Token) -> tuple[PropType, Span]:
        seen: set[str] = set()
        for word in words:
            if word in seen:
                _fail(f"duplicate enum value `{word}`", _span(word))
            seen.add(word)
        type_ = PropType(Scalar.STRING, enum_values=tuple(str(word) for word in words))
        return type_, _span(words[0], words[-1])

    def vector(self, dimension: Token) -> tuple[PropType, Span]:
        value = _number(dimension, 1, MAX_VECTOR_DIM)
        if value is None:
            _fail(f"a Vector dimension lies between 1 and {MAX_VECTOR_DIM}", _span(dimension))
        return PropType.vector(value), _span(dimension)

    # Constraints

    def group(self, at: Token, kind: Token, *members: Token) -> ast.Group:
        word = cast("ast.GroupKind", str(kind))
        return ast.Group(word, tuple(_name(member) for member in members), _span(at, members[-1]))

    def range(self, at: Token, _word: Token, property_: Token, bounds: _Bounds) -> ast.Range:
        return ast.Range(_name(property_), *bounds, span=_span(at, property_))

    def bounds(self, *parts: Token | ast.Bound) -> _Bounds:
        low = parts[0] if isinstance(parts[0], ast.Bound) else None
        high = parts[-1] if isinstance(parts[-1], ast.Bound) else None
        return low, high

    def number(self, *tokens: Token) -> ast.Bound:
        return ast.Bound("".join(tokens), _span(tokens[0], tokens[-1]))

    def check(self, at: Token, _word: Token, property_: Token, pattern: Token) -> ast.Check:
        return ast.Check(_name(property_), _text(pattern), _span(at, property_), _span(pattern))

    def valid(self, at: Token, _word: Token, *members: Token) -> ast.Valid:
        return ast.Valid(tuple(_name(member) for member in members), _span(at, members[-1]))
