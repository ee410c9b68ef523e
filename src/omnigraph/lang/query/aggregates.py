"""The aggregate functions of the query language: what each one takes and what it gives.

The grammar, the checker and the advice after a mistake read this table, so a new function is one entry.
How a function is computed is the engine's business (``read/output/aggregate_functions.py``).

    sum($a.age), an I32   ->   accepted ("a number"), the result is an I64, null for no values
    min($a)               ->   refused: "min() takes a number, a String, a Date or a DateTime, not a node"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.types import PropType, Scalar

_I64 = PropType(Scalar.I64)
_F64 = PropType(Scalar.F64)


@dataclass(frozen=True, slots=True)
class Argument:
    """What a function takes, in the words of an error message and as a test of the type."""

    words: str
    allows: Callable[[PropType], bool]
    allows_nodes: bool = False


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """One function: its name, its argument, and the type of its result by that of the argument.

    Null arguments are left out by every function. A function that is null for a group without any value
    says so with a nullable result.
    """

    name: str
    takes: Argument
    result: Callable[[PropType], PropType]


def _total(kind: PropType) -> PropType:
    return (_I64 if kind.is_integer else _F64).as_nullable()


_ANYTHING = Argument("anything", lambda _: True, allows_nodes=True)
_NUMBER = Argument("a number", lambda kind: kind.is_numeric)
_ORDERED = Argument(
    "a number, a String, a Date or a DateTime",
    lambda kind: kind.is_numeric or kind.is_text or kind.is_temporal,
)

AGGREGATES = {
    function.name: function
    for function in (
        AggregateFunction("count", _ANYTHING, lambda _: _I64),
        AggregateFunction("sum", _NUMBER, _total),
        AggregateFunction("avg", _NUMBER, lambda _: _F64.as_nullable()),
        AggregateFunction("min", _ORDERED, PropType.as_nullable),
        AggregateFunction("max", _ORDERED, PropType.as_nullable),
    )
}
"""The functions by name, in the order in which they are listed to users."""
