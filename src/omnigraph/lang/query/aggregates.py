"""The aggregate functions of the query language: what each one takes and what it gives.

The grammar, the checker and the advice after a mistake read this table, so a new function is one entry.
How a function is computed is the engine's business (``read/output/aggregate_functions.py``).

    sum($a.age), an I32   ->   accepted ("a number"), the result is an I64, null for no values
    min($a)               ->   refused: "min() takes a number, a String, a Date or a DateTime, not a node"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.lang.query.functions import F64, I64, NUMBER, SCALAR, Argument
from omnigraph.types import PropType


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """One function: its name, its argument, and the type of its result by that of the argument.

    Null arguments are left out by every function, and `count(*)` has none. A function that is null for a group
    without any value says so with a nullable result; `takes_distinct` are those that may leave out equal values.
    """

    name: str
    takes: Argument
    result: Callable[[PropType], PropType]
    takes_distinct: bool = False


def _total(kind: PropType) -> PropType:
    return (I64 if kind.is_integer else F64).as_nullable()


_ANYTHING = Argument("anything", lambda _: True, allows_nodes=True)
_ORDERED = Argument(
    "a number, a String, a Date or a DateTime",
    lambda kind: kind.is_numeric or kind.is_text or kind.is_temporal,
)

_SCALAR = Argument("a scalar, a node or a shape", SCALAR.allows, allows_nodes=True)


def _listed(kind: PropType) -> PropType:
    return PropType(kind.scalar, is_list=True)


AGGREGATES = {
    function.name: function
    for function in (
        AggregateFunction("count", _ANYTHING, lambda _: I64, takes_distinct=True),
        AggregateFunction("sum", NUMBER, _total),
        AggregateFunction("avg", NUMBER, lambda _: F64.as_nullable()),
        AggregateFunction("min", _ORDERED, PropType.as_nullable),
        AggregateFunction("max", _ORDERED, PropType.as_nullable),
        AggregateFunction("collect", _SCALAR, _listed, takes_distinct=True),
    )
}
"""The functions by name, in the order in which they are listed to users."""
