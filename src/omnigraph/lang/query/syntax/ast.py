"""The syntax tree of a `.gq` source. Spans take no part in equality."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from omnigraph.lang.query import aggregates, functions
from omnigraph.lang.query.record_type import RecordList
from omnigraph.spans import Span
from omnigraph.types import PropType

QueryKind = OneOf["read", "mutation"]
LiteralKind = OneOf["string", "int", "float", "bool", "date", "datetime", "list"]
Comparator = OneOf["=", "!=", "<", "<=", ">", ">="]
WordOperator = OneOf["contains", "starts_with", "ends_with", "in"]
Operator = Comparator | WordOperator
Sign = OneOf["+", "-", "*", "/", "%"]

WORD_OPERATORS = ("contains", "starts_with", "ends_with", "in")
AGGREGATES = tuple(dict.fromkeys((*aggregates.AGGREGATES, "collect")))
COUNTING = ("count", "collect")
"""The aggregates that take `distinct` and shapes."""
DATED = ("date", "datetime")
"""The functions that make a literal of a text."""
TEXT_CALLS = ("search", "match_text", "fuzzy")
RANKINGS = ("nearest", "bm25", "rrf")
FUNCTIONS = (*AGGREGATES, *TEXT_CALLS, *RANKINGS, *functions.WORDS)


def _span() -> Span:
    return field(compare=False, repr=False, default=Span(0, 1, 1, 1))


# ------------------------------------------------------------------ expressions


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
    """A bare word: an output alias, or a property of the target of a mutation or of an edge."""

    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class AllRows:
    """`*`, the argument of `count(*)` only."""

    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Shape:
    """`$x { a, b }`, in an item or an aggregate; without `names` it is `$x { * }`."""

    var: str
    names: tuple[str, ...] | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Star:
    """`$x.*`, an item only: a column for each property."""

    var: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Null:
    """`null`, an assigned value only."""

    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Call:
    """A function, an aggregate, a text predicate or a ranking, such as `count(distinct $x)`."""

    function: str
    args: tuple[Expr, ...]
    distinct: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left op right`."""

    op: Sign
    left: Expr
    right: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Minus:
    """`-operand`; the sign of a number belongs to its literal."""

    operand: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Truth:
    """A condition as a value: `( condition )`, where it is more than an expression."""

    condition: Condition
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Exists:
    """`exists { … }`: an expression, and a condition."""

    clauses: tuple[Clause, ...]
    span: Span = _span()


Expr = (
    Literal
    | Var
    | PropRef
    | Now
    | Name
    | Call
    | Arithmetic
    | Minus
    | Truth
    | Exists
    | AllRows
    | Shape
    | Star
    | Null
)
"""An expression. The last four stand only where their descriptions say."""

# ------------------------------------------------------------------ conditions


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right`."""

    left: Expr
    op: Operator
    right: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Nullness:
    """`operand is null`, or `is not null` when negated."""

    operand: Expr
    negated: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TextClause:
    """A text predicate standing alone."""

    call: Call
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Bare:
    """An expression standing alone, satisfied when it is true."""

    expr: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class And:
    """Two or more conditions joined by `and`."""

    parts: tuple[Condition, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Or:
    """Two or more conditions joined by `or`."""

    parts: tuple[Condition, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Negated:
    """`not` before a condition."""

    part: Condition
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Not:
    """`not { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = _span()


Condition = Comparison | Nullness | TextClause | Bare | And | Or | Negated | Not | Exists

# ------------------------------------------------------------------ clauses


@dataclass(frozen=True, slots=True)
class AsOf:
    """`as of e`: what holds at a moment."""

    moment: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class During:
    """`during a to b`: what holds at some moment of a window, its end excluded."""

    start: Expr
    end: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Ever:
    """`ever`: all that is stored."""

    span: Span = _span()


When = AsOf | During | Ever


@dataclass(frozen=True, slots=True)
class Entry:
    """`name: value` in a binding, an insert or a set block; only the last two take `null`."""

    name: str
    value: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Binding:
    """`$x: Type { p: v, … }`, with the moments at which the node must hold."""

    var: str
    type_name: str
    entries: tuple[Entry, ...] = ()
    when: When | None = None
    span: Span = _span()
    type_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Rows:
    """`$r: name(a, b)`: the rows of another query of the file."""

    var: str
    name: str
    args: tuple[Expr, ...] = ()
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class ForIn:
    """`for $x in $list`, or `for $x in $y.property`."""

    var: str
    list: str
    property: str | None = None
    span: Span = _span()
    list_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Hops:
    """`{min,max}`; `max` is None when left open."""

    min: int
    max: int | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Traversal:
    """`$src $e:a|b[condition]{min,max} $dst`, or `by weight` instead of bounds.

    The variable `_` is anonymous. In the condition bare words are properties of the edge.
    """

    src: Var
    words: tuple[str, ...]
    dst: Var
    undirected: bool = False
    edge_var: Var | None = None
    hops: Hops | None = None
    only: Condition | None = None
    by: str | None = None
    when: When | None = None
    span: Span = _span()
    word_spans: tuple[Span, ...] = field(compare=False, repr=False, default=())
    by_span: Span = _span()

    @property
    def word(self) -> str:
        """The first of the alternatives."""
        return self.words[0]

    @property
    def word_span(self) -> Span:
        """The place of the first of the alternatives."""
        return self.word_spans[0]


@dataclass(frozen=True, slots=True)
class Optional:
    """`optional { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = _span()


Clause = Binding | Rows | Traversal | Optional | ForIn | Condition

# ------------------------------------------------------------------ bodies


@dataclass(frozen=True, slots=True)
class Item:
    """One output column, or the columns of `$x.*`."""

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
    """`for … match … return … having … order … limit … offset …`."""

    match: tuple[Clause, ...]
    items: tuple[Item, ...]
    order: tuple[SortKey, ...] = ()
    limit: int | Var | None = None
    offset: int | Var | None = None
    distinct: bool = False
    having: tuple[Condition, ...] = ()
    each: ForIn | None = None
    when: When | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """`insert [$v:] Type { … }`, or `upsert`."""

    type_name: str
    entries: tuple[Entry, ...]
    var: Var | None = None
    is_upsert: bool = False
    span: Span = _span()
    type_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Update:
    """`update Type set { … } where …`, or `update $v set { … }`.

    In the condition, and in the values of entries, bare words are properties of the entity.
    """

    type_name: str | None
    entries: tuple[Entry, ...]
    where: Condition | None = None
    var: Var | None = None
    span: Span = _span()
    type_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Delete:
    """`delete Type where …`, or `delete $v`."""

    type_name: str | None
    where: Condition | None = None
    var: Var | None = None
    span: Span = _span()
    type_span: Span = _span()


@dataclass(frozen=True, slots=True)
class End:
    """`end Type where … at …`, or `end $v at …`; without `at` it is now."""

    type_name: str | None
    where: Condition | None = None
    var: Var | None = None
    moment: Expr | None = None
    span: Span = _span()
    type_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Assert:
    """`assert [$v:] Type { … } at …`; without `at` it is now."""

    type_name: str
    entries: tuple[Entry, ...]
    var: Var | None = None
    moment: Expr | None = None
    span: Span = _span()
    type_span: Span = _span()


Statement = Insert | Update | Delete | End | Assert


@dataclass(frozen=True, slots=True)
class WriteBody:
    """`for … match …`, one or more mutation statements, `return …`."""

    statements: tuple[Statement, ...]
    match: tuple[Clause, ...] | None = None
    items: tuple[Item, ...] | None = None
    distinct: bool = False
    each: ForIn | None = None
    when: When | None = None


# ------------------------------------------------------------------ files


@dataclass(frozen=True, slots=True)
class Param:
    """`$name: Type`, optional when the type is nullable."""

    name: str
    type: PropType | RecordList
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Query:
    """One declaration; a query without a name is the last of its file."""

    name: str | None
    params: tuple[Param, ...]
    body: ReadBody | WriteBody
    description: str | None = None
    instruction: str | None = None
    span: Span = _span()
    name_span: Span = _span()

    @property
    def is_mutation(self) -> bool:
        """True for queries that change something."""
        return isinstance(self.body, WriteBody)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """A `.gq` source."""

    queries: tuple[Query, ...]
