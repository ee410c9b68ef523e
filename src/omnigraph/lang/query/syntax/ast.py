"""The syntax tree of a `.gq` source. Spans take no part in equality."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from omnigraph.lang.query import aggregates
from omnigraph.spans import Span
from omnigraph.types import PropType

QueryKind = OneOf["read", "mutation"]
LiteralKind = OneOf["string", "int", "float", "bool", "date", "datetime", "list"]
Comparator = OneOf["=", "!=", "<", "<=", ">", ">="]
Operator = Comparator | OneOf["contains", "starts_with"]

AGGREGATES = tuple(aggregates.AGGREGATES)
TEXT_CALLS = ("search", "match_text", "fuzzy")
RANKINGS = ("nearest", "bm25", "rrf")
FUNCTIONS = (*AGGREGATES, *TEXT_CALLS, *RANKINGS)


def _span() -> Span:
    return field(compare=False, repr=False, default=Span(0, 1, 1, 1))


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal as written: dates keep their text, a list holds literals."""

    kind: LiteralKind
    value: str | int | float | bool | tuple[Literal, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Var:
    """`$name`: a match variable or a parameter."""

    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class PropRef:
    """`$var.name`."""

    var: str
    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Now:
    """`now()`."""

    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Name:
    """A bare word: an output alias."""

    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate, a text predicate or a ranking."""

    function: str
    args: tuple[Expr, ...]
    span: Span = _span()


Expr = Literal | Var | PropRef | Now | Name | Call
Value = Literal | Var | Now


@dataclass(frozen=True, slots=True)
class Entry:
    """`name: value` in a binding, an insert or a set block."""

    name: str
    value: Value
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Binding:
    """`$x: Type { p: v, … }`."""

    var: str
    type_name: str
    entries: tuple[Entry, ...] = ()
    span: Span = _span()
    type_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Hops:
    """`{min,max}`; `max` is None when left open."""

    min: int
    max: int | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Traversal:
    """`$src [$e:] edge [{min,max}] $dst`; `_` is the anonymous variable."""

    src: Var
    word: str
    dst: Var
    undirected: bool = False
    edge_var: Var | None = None
    hops: Hops | None = None
    span: Span = _span()
    word_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right`."""

    left: Expr
    op: Operator
    right: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TextClause:
    """A text predicate standing alone."""

    call: Call
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Not:
    """`not { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = _span()


Clause = Binding | Traversal | Comparison | TextClause | Not


@dataclass(frozen=True, slots=True)
class Item:
    """One output column."""

    expr: Expr
    alias: str | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class SortKey:
    """One sort key; `direction` is None when not written."""

    expr: Expr
    direction: OneOf["asc", "desc"] | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ReadBody:
    """`match … return … order … limit …`."""

    match: tuple[Clause, ...]
    items: tuple[Item, ...]
    order: tuple[SortKey, ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """The `where` of an update or delete."""

    property: str
    op: Comparator
    value: Value
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Insert:
    """`insert Type { … }`."""

    type_name: str
    entries: tuple[Entry, ...]
    span: Span = _span()
    type_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Update:
    """`update Type set { … } where …`."""

    type_name: str
    entries: tuple[Entry, ...]
    where: Condition
    span: Span = _span()
    type_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Delete:
    """`delete Type where …`."""

    type_name: str
    where: Condition
    span: Span = _span()
    type_span: Span = _span()


Statement = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class WriteBody:
    """One or more mutation statements."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Param:
    """`$name: Type`, optional when the type is nullable."""

    name: str
    type: PropType
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Query:
    """One declaration."""

    name: str
    params: tuple[Param, ...]
    body: ReadBody | WriteBody
    description: str | None = None
    instruction: str | None = None
    span: Span = _span()
    name_span: Span = _span()

    @property
    def is_mutation(self) -> bool:
        """True for insert, update and delete queries."""
        return isinstance(self.body, WriteBody)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """A `.gq` source."""

    queries: tuple[Query, ...]
