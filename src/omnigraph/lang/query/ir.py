"""The intermediate representation: what the engine (and the test oracle) executes.

A read plan is a flat list of steps over named variables. Each step extends or narrows a bag of
rows; parameters stay symbolic, so a plan is reusable. Variables that start with ``#`` are hidden:
they come from `$_`, from closed cycles and from plain traversals inside them, and break no ties.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

from omnigraph.types import PropType

NOW_PARAM = "__now"


class Direction(enum.StrEnum):
    """Along the stored edge, against it, or both."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


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
class PropertyOf:
    """A property of a node or edge variable."""

    var: str
    property: str
    type: PropType


@dataclass(frozen=True, slots=True)
class NodeId:
    """The id of a node variable."""

    var: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`count(expr)` and the other aggregates. `type` is the type of the result."""

    function: str
    """A name in ``aggregates.AGGREGATES``."""
    arg: Operand
    type: PropType


@dataclass(frozen=True, slots=True)
class Score:
    """The score (or distance) of the query's ranking."""


Value = Const | ParamRef
Operand = Value | PropertyOf | NodeId
Output = Operand | Aggregate | Score

CompareOp = OneOf["=", "!=", "<", "<=", ">", ">=", "member", "substring", "prefix"]


def value_of(operand: Operand, params: Mapping[str, Any]) -> Any:
    """The value of a constant, or of a parameter among the bound ones; never call it for others."""
    if isinstance(operand, ParamRef):
        return params[operand.name]
    assert isinstance(operand, Const)
    return operand.value


# ------------------------------------------------------------------ predicates


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right`. `member`: the left list holds the right scalar; `substring`: the left text
    holds the right one; `prefix`: the left text starts with the right one. Null never satisfies."""

    left: Operand
    op: CompareOp
    right: Operand


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A text predicate (`search`, `match_text`, `fuzzy`) on a String property of a node variable."""

    function: str
    field: PropertyOf
    query: Operand
    max_edits: Operand | None = None


Predicate = Compare | TextMatch


def equality_of(predicate: Predicate) -> tuple[PropertyOf, Value] | None:
    """The two sides of an equality between a property and a value, whichever stands left."""
    if not isinstance(predicate, Compare) or predicate.op != "=":
        return None
    for one, other in ((predicate.left, predicate.right), (predicate.right, predicate.left)):
        if isinstance(one, PropertyOf) and isinstance(other, Value):
            return one, other
    return None


# ------------------------------------------------------------------ steps


@dataclass(frozen=True, slots=True)
class NodeScan:
    """Bind `var` to every node of `type_name` that satisfies the filters (conjunctive)."""

    var: str
    type_name: str
    filters: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class Expand:
    """From the bound `src` reach `dst`, which is new. With `edge_var`, one row per stored edge.

    A traversal of several hops is a relation between the two written variables: the search starts
    from the left one. `inverse` says that `src` here is the right one, so `dst` ranges over the
    nodes whose search (against `direction`) reaches `src`. The two differ only through self-loops:
    a self-loop on the *reached* node lets it be emitted one hop after its distance.
    """

    src: str
    dst: str
    edge_type: str
    direction: Direction
    src_type: str
    dst_type: str
    min_hops: int = 1
    max_hops: int = 1
    dst_filters: tuple[Predicate, ...] = ()
    edge_var: str | None = None
    inverse: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep the rows that satisfy the predicate."""

    predicate: Predicate


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """Drop each row for which the inner steps, started from that row, yield at least one row."""

    outer: tuple[str, ...]
    inner: tuple[Step, ...]


Step = NodeScan | Expand | Filter | AntiJoin


# ------------------------------------------------------------------ rankings


@dataclass(frozen=True, slots=True)
class Nearest:
    """Ascending L2 distance. `query` is a vector operand, or text to embed at run time."""

    field: PropertyOf
    query: Operand
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Bm25:
    """Descending BM25 relevance; entities that do not match are left out."""

    field: PropertyOf
    query: Operand


@dataclass(frozen=True, slots=True)
class Rrf:
    """Reciprocal rank fusion of two rankings of one variable."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: Operand


Ranking = Nearest | Bm25 | Rrf


# ------------------------------------------------------------------ plans


@dataclass(frozen=True, slots=True)
class Column:
    """One output column, in projection order. `type` carries nullability."""

    name: str
    expr: Output
    type: PropType


@dataclass(frozen=True, slots=True)
class SortKey:
    """A key over the row (`expr`) or, when `column` is set, over that output column."""

    expr: PropertyOf | None
    column: int | None
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """A named variable of the outer match; these break ties, in alphabetical order."""

    name: str
    kind: OneOf["node", "edge"]
    type_name: str


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """A declared parameter."""

    name: str
    type: PropType


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A checked and lowered read query. `ranking`, when set, is the first sort key."""

    name: str
    params: tuple[ParamSpec, ...]
    steps: tuple[Step, ...]
    columns: tuple[Column, ...]
    variables: tuple[Variable, ...]
    ranking: Ranking | None = None
    order: tuple[SortKey, ...] = ()
    limit: int | None = None

    @property
    def is_aggregate(self) -> bool:
        """True when the output is grouped."""
        return any(isinstance(column.expr, Aggregate) for column in self.columns)

    @property
    def node_types(self) -> dict[str, str]:
        """The type of each column that is a node, by the name of the column."""
        types = {variable.name: variable.type_name for variable in self.variables}
        return {
            column.name: types[column.expr.var]
            for column in self.columns
            if isinstance(column.expr, NodeId)
        }


@dataclass(frozen=True, slots=True)
class Assignment:
    """A property (or `from`/`to`) and the value it gets."""

    property: str
    value: Const | ParamRef


@dataclass(frozen=True, slots=True)
class Condition:
    """The `where` of an update or delete; `property` may be `from`/`to` on an edge."""

    property: str
    op: CompareOp
    value: Const | ParamRef


@dataclass(frozen=True, slots=True)
class Insert:
    """Insert one node (upsert when keyed) or one edge."""

    kind: OneOf["node", "edge"]
    type_name: str
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """Change the matching nodes."""

    type_name: str
    assignments: tuple[Assignment, ...]
    where: Condition


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the matching nodes (with their edges) or edges."""

    kind: OneOf["node", "edge"]
    type_name: str
    where: Condition


Mutation = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class MutationPlan:
    """A checked and lowered mutation: all constructive, or all deletes."""

    name: str
    params: tuple[ParamSpec, ...]
    statements: tuple[Mutation, ...]


Plan = ReadPlan | MutationPlan
