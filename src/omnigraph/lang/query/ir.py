"""The intermediate representation: what the engine (and the test oracle) executes.

A read plan is a list of steps over named variables. Each step extends or narrows a bag of
rows; parameters stay symbolic, so a plan is reusable. Variables that start with ``#`` are hidden:
they come from `$_`, from closed cycles and from plain traversals inside them, and break no ties.

The order of the steps of a block is its meaning: sources, scans, expansions and the conditions that
mention no optional variable; then the left joins in the order they are written; then the other conditions.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

from omnigraph.lang.query import record_type
from omnigraph.lang.schema.shape import DEFAULT_METRIC, Metric
from omnigraph.types import PropType, Scalar, objects

NOW_PARAM = "__now"
AS_OF_PARAM = "__as_of"
"""The parameter for the default moment, a DateTime or `EVER`; `now()` if the caller gives none."""
EVER = "ever"
"""A default moment that stands for all that is stored, whenever it holds."""

EDGE = "#edge"
"""The variable of the edge in a condition on the edges of an expansion."""
BETWEEN = "#between"
"""The variable of the node in a condition on the nodes between the ends of an expansion."""
TARGET = "#target"
"""The variable of the entity that a mutation changes, in its `where` and in assigned values."""
ELEMENT = ""
"""The property under which the element of a list of plain values is found: `$x` of `for $x in $list`."""


class Direction(enum.StrEnum):
    """Along the stored edge, against it, or both."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


# ------------------------------------------------------------------ types beyond those of properties


ObjectType = objects.ObjectType
ObjectList = objects.ObjectList
ValueType = objects.ValueType
RecordList = record_type.RecordList

# ------------------------------------------------------------------ expressions


@dataclass(frozen=True, slots=True)
class Const:
    """A literal, as a stored value of its type (``omnigraph.types``)."""

    value: object
    type: PropType


@dataclass(frozen=True, slots=True)
class ParamRef:
    """A declared parameter, or `now()` as the reserved one."""

    name: str
    type: PropType


@dataclass(frozen=True, slots=True)
class RecordsRef:
    """A declared parameter that is a list of records."""

    name: str
    type: RecordList


@dataclass(frozen=True, slots=True)
class PropertyOf:
    """A property of a node or edge variable, or a column or field of a row variable."""

    var: str
    property: str
    type: PropType


@dataclass(frozen=True, slots=True)
class NodeId:
    """The id of a node variable."""

    var: str


@dataclass(frozen=True, slots=True)
class EdgeId:
    """The id of an edge variable: `id($e)`, and `$e = $f`."""

    var: str


@dataclass(frozen=True, slots=True)
class TypeName:
    """The name of the type of a node or edge variable: `type($x)`."""

    var: str


@dataclass(frozen=True, slots=True)
class RowNode:
    """A column of a row variable that hands over a node; as a value it is the node's id."""

    var: str
    column: str
    type_name: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class RowNumber:
    """The position of a row variable. Never null, unless the variable is: `count($r)`, `$r is null`."""

    var: str


@dataclass(frozen=True, slots=True)
class PathValue:
    """What is asked of a path: its length or cost, its nodes or edges (or one property of each), or all of it."""

    var: str
    what: OneOf["length", "cost", "nodes", "edges", "path"]
    type: ValueType
    property: str | None = None
    ends: tuple[str, str] = ("", "")
    """The variables at both ends of the traversal as written: they determine the path."""
    moments: tuple[str, ...] = ()
    """The variables that say when its edges must hold: they determine the path, too."""
    guard: str | None = None
    """A variable that is nothing where the path is, though its ends are there; set by the engine."""


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator or function of ``functions.FUNCTIONS`` applied to its arguments.

    `if` is the only one whose first argument is a condition (as a `Truth`).
    """

    function: str
    args: tuple[Expr, ...]
    type: PropType


@dataclass(frozen=True, slots=True)
class Truth:
    """A condition as a value: true or false, never null."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Shape:
    """`$x { a, b }`: an object of these properties. It groups and collects by the identity of the variable.

    Of a row variable it is the object, or list of objects, in one `column` of its source.
    """

    var: str
    kind: OneOf["node", "edge", "row"]
    type: ObjectType | ObjectList
    column: str = ""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`count(expr)` and the other aggregates. `type` is the type of the result; no `arg` is `count(*)`."""

    function: str
    """A name in ``aggregates.AGGREGATES``."""
    arg: Expr | Shape | None
    type: ValueType
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """The value of another output column: in `having`, and of a group key beside aggregates."""

    column: int
    type: ValueType


@dataclass(frozen=True, slots=True)
class Score:
    """The score (or distance) of the query's ranking."""


Value = Const | ParamRef
Operand = Value | PropertyOf | NodeId
Expr = (
    Operand
    | EdgeId
    | TypeName
    | RowNode
    | RowNumber
    | PathValue
    | Apply
    | Truth
    | ColumnValue
    | Aggregate
)
"""An expression. Aggregates and columns occur only in the output of a plan."""
Output = Expr | Shape | Score

CompareOp = OneOf["=", "!=", "<", "<=", ">", ">=", "member", "substring", "prefix", "suffix"]


def value_of(operand: Operand, params: Mapping[str, Any]) -> Any:
    """The value of a constant, or of a parameter among the bound ones; never call it for others."""
    if isinstance(operand, ParamRef):
        return params[operand.name]
    assert isinstance(operand, Const)
    return operand.value


# ------------------------------------------------------------------ predicates


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right`. `member`: the left list holds the right scalar (`$x in $list` is this, turned
    round); `substring`: the left text holds the right one; `prefix`, `suffix`: the left text starts or
    ends with the right one. Null never satisfies."""

    left: Expr
    op: CompareOp
    right: Expr


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A text predicate (`search`, `match_text`, `fuzzy`) on a String property of a node variable."""

    function: str
    field: PropertyOf
    query: Operand
    max_edits: Operand | None = None


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether an expression has no value; of a variable (`NodeId`, `EdgeId`, `RowNumber`, a path), whether it is bound to nothing."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class IsTrue:
    """A Bool expression alone: satisfied when it is true, not when it is null."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class And:
    """Satisfied when every part is."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Satisfied when some part is."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Satisfied exactly when its inside is not: conditions are two-valued."""

    part: Condition


@dataclass(frozen=True, slots=True)
class Exists:
    """Satisfied when the inner steps, started from the row, yield at least one row."""

    outer: tuple[str, ...]
    inner: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Period:
    """The properties of a variable that say since when and until when it holds, if it is of that type."""

    type_name: str
    since: PropertyOf
    until: PropertyOf


@dataclass(frozen=True, slots=True)
class When:
    """The moment `start`, or, with an `end`, the moments from `start` to before `end`."""

    start: Expr
    end: Expr | None = None


AT_THE_MOMENT = When(ParamRef(AS_OF_PARAM, PropType(Scalar.DATETIME)))
"""Where the text does not say when."""


@dataclass(frozen=True, slots=True)
class Holds:
    """Whether a node or an edge holds at the moment, or at some moment of the window.

    It holds from `since` to before `until`; null is open, and a Date is its midnight UTC. At null, and in a window
    without moments, nothing holds. What is of another type than the `periods` name always holds: alternatives of
    an edge go each by its own period.
    """

    var: str
    periods: tuple[Period, ...]
    when: When
    by_type: bool = False
    """Whether it depends on the type of the edge which of the periods, if any, is meant; otherwise there is one."""

    def __hash__(self) -> int:
        """Of little of it: adjacency is looked up by it for every traversal."""
        return hash((self.var, self.by_type))


Predicate = Compare | TextMatch
Condition = Predicate | IsNull | IsTrue | And | Or | Not | Exists | Holds


# ------------------------------------------------------------------ steps


@dataclass(frozen=True, slots=True)
class NodeScan:
    """Bind `var` to every node of `type_name` that satisfies the filters (conjunctive)."""

    var: str
    type_name: str
    filters: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Expand:
    """From the bound `src` reach `dst`, which is new. With `edge_var`, one row per stored edge.

    Alternatives (`other_types`) reach what an edge of any of the types reaches, each pair once. Only edges
    that satisfy `edge_filter` (over `EDGE`) are there; when they must hold may depend on the row. `max_hops` None is an open bound, `min_hops` 0 emits the
    start too. `path_var` is the path by which a pair was emitted; with `weight` it is the cheapest by that
    property of the edges, and the bounds mean nothing.

    A traversal of several hops is a relation between the two written variables: the search starts
    from the left one. `inverse` says that `src` here is the right one, so `dst` ranges over the
    nodes whose search (against `direction`) reaches `src`. The two differ only through self-loops:
    a self-loop on the *reached* node lets it be emitted one hop after its distance.

    A way leads only through nodes that satisfy `between` (over `BETWEEN`); its ends need not. `ends_hold` says
    that they do, because they are judged in the same way.
    """

    src: str
    dst: str
    edge_type: str
    direction: Direction
    src_type: str
    dst_type: str
    min_hops: int = 1
    max_hops: int | None = 1
    dst_filters: tuple[Condition, ...] = ()
    edge_var: str | None = None
    inverse: bool = False
    other_types: tuple[str, ...] = ()
    edge_filter: Condition | None = None
    path_var: str | None = None
    weight: str | None = None
    between: Holds | None = None
    ends_hold: bool = False

    @property
    def edge_types(self) -> tuple[str, ...]:
        """All alternatives, in the order they are written."""
        return (self.edge_type, *self.other_types)


@dataclass(frozen=True, slots=True)
class Rows:
    """Bind `var` to each row of another query's answer, in its order. `args` are values for its parameters."""

    var: str
    plan: ReadPlan
    args: tuple[Expr | RecordsRef, ...]


@dataclass(frozen=True, slots=True)
class Elements:
    """Bind `var` to each element of a list parameter, in order, duplicates included: `for $x in $list`."""

    var: str
    param: ParamRef | RecordsRef


@dataclass(frozen=True, slots=True)
class Unroll:
    """Bind `var` to each element of a list property of an earlier variable: `for $g in $film.genres`."""

    var: str
    list: PropertyOf


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep the rows that satisfy the condition."""

    predicate: Condition


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """Keep each row for which the inner steps, started from that row, yield at least one row."""

    outer: tuple[str, ...]
    inner: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """Drop each row for which the inner steps, started from that row, yield at least one row."""

    outer: tuple[str, ...]
    inner: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class LeftJoin:
    """Extend each row by what the inner steps yield from it, or once by nothing: `introduced` are then null."""

    outer: tuple[str, ...]
    inner: tuple[Step, ...]
    introduced: tuple[str, ...]


Step = NodeScan | Expand | Rows | Elements | Unroll | Filter | SemiJoin | AntiJoin | LeftJoin


# ------------------------------------------------------------------ rankings


@dataclass(frozen=True, slots=True)
class Nearest:
    """Ascending distance by a metric. `query` is a vector operand, or text to embed at run time."""

    field: PropertyOf
    query: Operand
    model: str | None = None
    metric: Metric = DEFAULT_METRIC


@dataclass(frozen=True, slots=True)
class Bm25:
    """Descending BM25 relevance; entities that do not match are left out."""

    field: PropertyOf
    query: Operand


@dataclass(frozen=True, slots=True)
class Rrf:
    """Reciprocal rank fusion of two or more rankings of one variable."""

    arms: tuple[Nearest | Bm25, ...]
    k: Operand


Ranking = Nearest | Bm25 | Rrf


# ------------------------------------------------------------------ plans


@dataclass(frozen=True, slots=True)
class Column:
    """One output column, in projection order. `type` carries nullability.

    In an aggregate query a column without any aggregate is a group key; one with some may also use
    the values of keys (`ColumnValue`).
    """

    name: str
    expr: Output
    type: ValueType


@dataclass(frozen=True, slots=True)
class SortKey:
    """A key over the row (`expr`) or, when `column` is set, over that output column."""

    expr: Expr | None
    column: int | None
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """A named variable of the outer match; these break ties, in alphabetical order.

    Nodes and edges break them by id, rows by their position, paths not at all. `nullable` says that an
    optional block introduced it.
    """

    name: str
    kind: OneOf["node", "edge", "row", "path"]
    type_name: str
    nullable: bool = False
    other_types: tuple[str, ...] = ()
    """The other alternatives of an edge, or of the edges of a path."""


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """A declared parameter."""

    name: str
    type: PropType | RecordList


Count = int | ParamRef
"""What `limit` and `offset` take."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ReadPlan:
    """A checked and lowered read query. `ranking`, when set, is the first sort key.

    A query without a name is called None. `having` keeps output rows, after grouping or `distinct` and
    before order and limit; its operands are columns, values and expressions of these.
    """

    name: str | None
    params: tuple[ParamSpec, ...]
    steps: tuple[Step, ...]
    columns: tuple[Column, ...]
    variables: tuple[Variable, ...]
    ranking: Ranking | None = None
    order: tuple[SortKey, ...] = ()
    limit: Count | None = None
    offset: Count | None = None
    distinct: bool = False
    having: tuple[Condition, ...] = ()
    has_periods: bool = False
    """Whether a type that it reads has a period, so that the moment nobody names may matter."""

    @property
    def is_aggregate(self) -> bool:
        """True when some column holds an aggregate, so that the output is grouped."""
        return any(has_aggregate(column.expr) for column in self.columns)

    @property
    def node_types(self) -> dict[str, str]:
        """The type of each column that is a node, by the name of the column."""
        types = {variable.name: variable.type_name for variable in self.variables}
        return {
            column.name: types[column.expr.var]
            for column in self.columns
            if isinstance(column.expr, NodeId)
        }


def has_aggregate(expr: Output | Condition) -> bool:
    """Whether an aggregate stands somewhere in an expression."""
    if isinstance(expr, Aggregate):
        return True
    return any(has_aggregate(part) for part in parts_of(expr))


def parts_of(expr: Output | Condition) -> tuple[Expr | Shape | Condition, ...]:
    """The expressions and conditions directly inside an expression or a condition; the steps of `Exists` aside."""
    match expr:
        case Apply():
            return expr.args
        case Truth():
            return (expr.condition,)
        case Aggregate():
            return () if expr.arg is None else (expr.arg,)
        case Compare():
            return expr.left, expr.right
        case TextMatch():
            edits = () if expr.max_edits is None else (expr.max_edits,)
            return expr.field, expr.query, *edits
        case IsNull() | IsTrue():
            return (expr.operand,)
        case And() | Or():
            return expr.parts
        case Not():
            return (expr.part,)
        case Holds():
            bounds = tuple(one for it in expr.periods for one in (it.since, it.until))
            return (*bounds, *moments_of(expr.when))
        case _:
            return ()


def moments_of(when: When) -> tuple[Expr, ...]:
    """The expressions that say when."""
    return (when.start,) if when.end is None else (when.start, when.end)


def is_per_row(when: When) -> bool:
    """Whether the moments differ from row to row."""
    return when is not AT_THE_MOMENT and any(
        True for one in moments_of(when) for _ in mentioned(one)
    )


def mentioned(part: Output | Condition, *, aggregated: bool = True) -> Iterator[str]:
    """The variables that an expression or a condition mentions, some of them repeatedly.

    Without `aggregated`, those that it mentions outside aggregates.
    """
    if isinstance(part, _OfVariable):
        yield part.var
        if isinstance(part, PathValue):
            yield from part.moments
    elif isinstance(part, Exists):
        yield from part.outer
    elif not isinstance(part, Value) and (aggregated or not isinstance(part, Aggregate)):
        for inner in parts_of(part):
            yield from mentioned(inner, aggregated=aggregated)


_OfVariable = PropertyOf | NodeId | EdgeId | TypeName | RowNode | RowNumber | PathValue | Shape


# ------------------------------------------------------------------ mutations


@dataclass(frozen=True, slots=True)
class Assignment:
    """A property (or `from`/`to`) and the value it gets; None clears it.

    In the value `TARGET` is the entity before the statement, and a variable of the rows has its current
    values. A node variable as `from` or `to` is a `NodeId`.
    """

    property: str
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Insert:
    """Insert one node or edge for each row. `var` names it for later statements and `return`.

    A keyed node replaces the one with its key; with `is_upsert` it keeps what is not assigned, and an edge
    is the one between its ends, or the one with the tuple of `unique`.
    """

    kind: OneOf["node", "edge"]
    type_name: str
    assignments: tuple[Assignment, ...]
    var: str | None = None
    is_upsert: bool = False
    unique: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Update:
    """Change the nodes or edges that satisfy `where` (over `TARGET`), or those that `var` stands for."""

    kind: OneOf["node", "edge"]
    type_name: str
    assignments: tuple[Assignment, ...]
    where: Condition | None = None
    var: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the nodes (with their edges) or edges that satisfy `where`, or those that `var` stands for."""

    kind: OneOf["node", "edge"]
    type_name: str
    where: Condition | None = None
    var: str | None = None


@dataclass(frozen=True, slots=True)
class End:
    """Give those that hold at a moment that moment as their end; chosen by `where`, or by what `var` stands for."""

    kind: OneOf["node", "edge"]
    type_name: str
    moment: Expr
    where: Condition | None = None
    var: str | None = None


@dataclass(frozen=True, slots=True)
class Assert:
    """Begin one fact for each row at a moment, in place of those that may not hold beside it.

    `var` names the new entity, or the one that says the same already.
    """

    kind: OneOf["node", "edge"]
    type_name: str
    assignments: tuple[Assignment, ...]
    moment: Expr
    var: str | None = None


Mutation = Insert | Update | Delete | End | Assert


@dataclass(frozen=True, slots=True)
class Returned:
    """The `return` of a mutation: one row per source row after all statements, grouped as in reads."""

    columns: tuple[Column, ...]
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class MutationPlan:
    """A checked and lowered mutation. `steps` make the rows for which every statement runs; none: one row.

    `variables` are those of the steps and of the statements. `each` is the variable of the `for` before the match:
    its elements run one after the other.
    """

    name: str | None
    params: tuple[ParamSpec, ...]
    statements: tuple[Mutation, ...]
    steps: tuple[Step, ...] = ()
    variables: tuple[Variable, ...] = ()
    returned: Returned | None = None
    each: str | None = None


Plan = ReadPlan | MutationPlan
