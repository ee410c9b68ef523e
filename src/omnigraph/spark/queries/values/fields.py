"""The columns of a frame of a match, and expressions that read nothing else.

Every value of a row is a *field*: a variable and what is asked of it. The id of a node or edge, the position of a
row of a source and the length of a path are fields like properties, so an expression over fields is all that
columns of Spark and tasks need to know.

    id($a)        PropertyOf(a, "#id")            length($p)     PropertyOf(p, "#length")
    exists { … }  IsTrue(PropertyOf("#marks", …)): a column that was joined before
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields as parts
from dataclasses import replace
from typing import Any, NamedTuple, cast, get_args

from omnigraph.lang.query import ir
from omnigraph.read.values.expressions import type_of
from omnigraph.types import TEXT, PropType, Scalar

ID = "#id"
"""The id of a node or an edge, or the position of a row: what a variable is identified by."""
TYPE = "#type"
"""The name of the type of a node or an edge."""
LENGTH = "#length"
"""The number of edges of a path; null where there is no path."""
MARKS = "#marks"
"""The variable of marks: columns that hold the verdict of a block or a search in a condition."""
OUTPUT = "#output"
"""The variable of output columns."""
SCORE = "#score"

BOOL = PropType(Scalar.BOOL)
I64 = PropType(Scalar.I64).as_nullable()
F64 = PropType(Scalar.F64).as_nullable()
ID_TYPE = TEXT.as_nullable()

_TREES = get_args(ir.Output) + get_args(ir.Condition)

Tree = ir.Output | ir.Condition
Replace = Callable[[Tree], Tree | None]


class Field(NamedTuple):
    """A value of a row: what is asked of a variable."""

    var: str
    what: str


class ColumnNames:
    """The names of columns: short, unique in one job, and free of what Spark might read into them."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._known: dict[Field, str] = {}
        self._made = 0

    def of(self, field: Field) -> str:
        """The name of the column of a field."""
        if field not in self._known:
            self._known[field] = self.fresh()
        return self._known[field]

    def fresh(self) -> str:
        """A name that no other column has."""
        self._made += 1
        return f"{self._prefix}{self._made}"


def plain(tree: Tree, special: Replace = lambda _: None) -> Any:
    """An expression or condition that reads only fields. ``special`` gives what replaces other parts of it."""
    found = special(tree)
    if found is not None:
        return found
    match tree:
        case ir.NodeId() | ir.EdgeId():
            return ir.PropertyOf(tree.var, ID, ID_TYPE)
        case ir.RowNumber():
            return ir.PropertyOf(tree.var, ID, I64)
        case ir.TypeName():
            return ir.PropertyOf(tree.var, TYPE, ID_TYPE)
        case ir.RowNode():
            return ir.PropertyOf(tree.var, tree.column, ID_TYPE)
        case ir.PathValue():
            return ir.PropertyOf(tree.var, LENGTH, I64)
        case ir.ColumnValue():
            kind = tree.type if isinstance(tree.type, PropType) else TEXT
            return ir.PropertyOf(OUTPUT, str(tree.column), kind)
        case ir.Score():
            return ir.PropertyOf(OUTPUT, SCORE, F64)
    changed: dict[str, Any] = {}
    for one in parts(tree):
        value = getattr(tree, one.name)
        if isinstance(value, tuple):
            changed[one.name] = tuple(
                plain(part, special) if isinstance(part, _TREES) else part for part in value
            )
        elif isinstance(value, _TREES):
            changed[one.name] = plain(value, special)
    return replace(tree, **changed) if changed else tree


def fields_of(trees: Iterable[Tree]) -> dict[Field, PropType]:
    """The fields that plain expressions read, with their types."""
    found: dict[Field, PropType] = {}
    waiting = list(trees)
    while waiting:
        one = waiting.pop()
        if isinstance(one, ir.PropertyOf):
            found[Field(one.var, one.property)] = one.type
        waiting += ir.parts_of(one)
    return found


def searches_in(tree: Tree) -> Iterator[ir.TextMatch]:
    """The text predicates that stand in an expression or a condition."""
    if isinstance(tree, ir.TextMatch):
        yield tree
        return
    for part in ir.parts_of(tree):
        yield from searches_in(part)


def needed_by(tree: Tree) -> dict[Field, PropType]:
    """The fields that an expression of a plan reads; those of marks and blocks inside it aside."""
    if isinstance(tree, ir.Shape):
        if tree.kind == "row":
            # Its type is never asked for: it is handed through.
            return {Field(tree.var, ID): ID_TYPE, Field(tree.var, tree.column): ID_TYPE}
        assert isinstance(tree.type, ir.ObjectType)
        kinds = {name: kind for name, kind in tree.type.fields if isinstance(kind, PropType)}
        read = {Field(tree.var, name): kind for name, kind in kinds.items()}
        return {Field(tree.var, ID): ID_TYPE, **read}
    return fields_of([plain(tree, _without_marks)])


def _without_marks(tree: Tree) -> Tree | None:
    if isinstance(tree, ir.Exists | ir.TextMatch):
        return ir.Or(())
    return None


def kind_of(expr: ir.Output) -> ir.ValueType:
    """The type of the values of an expression, an object included."""
    if isinstance(expr, ir.Score):
        return F64
    if isinstance(expr, ir.Shape):
        return expr.type
    if isinstance(expr, ir.Aggregate | ir.ColumnValue | ir.PathValue):
        return expr.type
    return type_of(cast("ir.Expr", expr))
