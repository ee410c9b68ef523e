"""The operators and functions of expressions: what each takes, what it gives, and when it has no value.

The grammar, the checker, the hints after a mistake and the documents read this table, so a new function is one
entry here and one kernel in the engine (``read/values``).

    $p.age + 1, an I32      ->   `+` of integers, an I64?: null outside I64
    $p.name + 1             ->   refused: "`+` takes two numbers or two Strings, not String and I64"
    part($p.born, "hour")   ->   refused: "part() of a Date has no unit "hour": it takes year, month, day, weekday"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.types import TEXT, PropType, Scalar

I64 = PropType(Scalar.I64)
F64 = PropType(Scalar.F64)
BOOL = PropType(Scalar.BOOL)

CLOCK_UNITS = ("hour", "minute", "second", "millisecond")
"""The units that a DateTime has and a Date has not."""


@dataclass(frozen=True, slots=True)
class Argument:
    """What a function takes, in the words of an error message and as a test of the type."""

    words: str
    allows: Callable[[PropType], bool]
    allows_nodes: bool = False


Kinds = tuple[PropType, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """One operator or function.

    A null operand makes the result null, unless `keeps_null` says otherwise. The type of the result is
    nullable for `null_when` too: what has no value although every operand has one.
    """

    name: str
    """As in ``ir.Apply``."""
    word: str
    """As in a query; two functions may share it and differ in what they take."""
    takes: tuple[Argument, ...]
    gives: Callable[[Kinds], PropType]
    """The type of the result by those of the operands, nullability aside."""
    doc: str
    null_when: str | None = None
    optional: int = 0
    """How many of the last arguments may be left out."""
    repeats: bool = False
    """Whether the last argument may be given any number of times."""
    units: tuple[str, ...] = ()
    """What the last argument may be, where it is the unit of a date."""
    keeps_null: Callable[[Kinds], bool] | None = None
    """Whether the result may be null, where this is more than "when an operand is"."""
    is_operator: bool = False

    @property
    def least(self) -> int:
        """The least number of arguments."""
        return len(self.takes) - self.optional

    @property
    def most(self) -> int | None:
        """The greatest number of arguments, if there is one."""
        return None if self.repeats else len(self.takes)

    def argument(self, at: int) -> Argument:
        """The argument that is declared for a place; the last one where it repeats."""
        return self.takes[min(at, len(self.takes) - 1)]

    def fits(self, kinds: Kinds) -> bool:
        """Whether the function takes arguments of these types, and this many."""
        if len(kinds) < self.least or (self.most is not None and len(kinds) > self.most):
            return False
        return all(self.argument(at).allows(kind) for at, kind in enumerate(kinds))

    def result(self, kinds: Kinds) -> PropType:
        """The type of the result."""
        if self.keeps_null is not None:
            nullable = self.keeps_null(kinds)
        else:
            nullable = self.null_when is not None or any(kind.nullable for kind in kinds)
        return self.gives(kinds).as_nullable(nullable)


def _is_scalar(kind: PropType) -> bool:
    return not (kind.is_list or kind.is_vector or kind.is_blob)


NUMBER = Argument("a number", lambda kind: kind.is_numeric)
INTEGER = Argument("an integer", lambda kind: kind.is_integer)
STRING = Argument("a String", lambda kind: kind.is_text)
DAY = Argument("a Date or a DateTime", lambda kind: kind.is_temporal)
SIZED = Argument("a String or a list", lambda kind: kind.is_text or kind.is_list)
SCALAR = Argument("a scalar", _is_scalar)
CONDITION = Argument("a condition", lambda kind: kind.scalar is Scalar.BOOL and not kind.is_list)
UNIT = Argument("a unit", lambda kind: kind.is_text)


def _number(kinds: Kinds) -> PropType:
    return F64 if any(kind.is_float for kind in kinds) else I64


def _of_first(kinds: Kinds) -> PropType:
    return kinds[0].as_nullable(False)


def _of_last(kinds: Kinds) -> PropType:
    return kinds[-1].as_nullable(False)


def _whole_may_overflow(kinds: Kinds) -> bool:
    """Whether arithmetic may have no value: of integers outside I64, of floats only from null operands."""
    return _number(kinds) == I64 or any(kind.nullable for kind in kinds)


def _calculation(sign: str, doc: str) -> Function:
    return Function(
        name=sign,
        word=sign,
        takes=(NUMBER, NUMBER),
        gives=_number,
        doc=doc,
        null_when="an integer is outside I64",
        keeps_null=_whole_may_overflow,
        is_operator=True,
    )


def _text_function(name: str, doc: str) -> Function:
    return Function(name, name, (STRING,), lambda _: TEXT, doc)


def _rounding(name: str, doc: str) -> Function:
    outside = "it is outside I64 or not finite"
    return Function(name, name, (NUMBER,), lambda _: I64, doc, null_when=outside)


FUNCTIONS: dict[str, Function] = {
    function.name: function
    for function in (
        _calculation("+", "the sum"),
        Function(
            name="concat",
            word="+",
            takes=(STRING, STRING),
            gives=lambda _: TEXT,
            doc="the two texts one after the other",
            is_operator=True,
        ),
        _calculation("-", "the difference"),
        _calculation("*", "the product"),
        Function(
            name="/",
            word="/",
            takes=(NUMBER, NUMBER),
            gives=lambda _: F64,
            doc="the quotient, always a fraction",
            null_when="the divisor is 0",
            is_operator=True,
        ),
        Function(
            name="%",
            word="%",
            takes=(INTEGER, INTEGER),
            gives=lambda _: I64,
            doc="the remainder, with the sign of the left side",
            null_when="the divisor is 0",
            is_operator=True,
        ),
        Function(
            name="neg",
            word="-",
            takes=(NUMBER,),
            gives=_number,
            doc="the number with the other sign",
            null_when="an integer is outside I64",
            keeps_null=_whole_may_overflow,
            is_operator=True,
        ),
        Function(
            name="abs",
            word="abs",
            takes=(NUMBER,),
            gives=_number,
            doc="the number without its sign",
            null_when="an integer is outside I64",
            keeps_null=_whole_may_overflow,
        ),
        _rounding("floor", "the greatest integer that is not greater"),
        Function(
            name="floor_date",
            word="floor",
            takes=(DAY, UNIT),
            gives=_of_first,
            doc="the start of the year, month, week, day, hour, minute or second",
            null_when="it is before the year 1",
            units=("year", "month", "week", "day", "hour", "minute", "second"),
        ),
        _rounding("ceil", "the least integer that is not less"),
        Function(
            name="round",
            word="round",
            takes=(NUMBER, INTEGER),
            gives=lambda kinds: I64 if len(kinds) == 1 else F64,
            doc="the nearest integer, halves away from zero; or so many digits behind the point, 0 to 15",
            null_when="it is outside I64 or not finite",
            optional=1,
        ),
        _text_function("lower", "the text in lower case"),
        _text_function("upper", "the text in upper case"),
        _text_function("trim", "the text without white space at both ends"),
        Function(
            name="length",
            word="length",
            takes=(SIZED,),
            gives=lambda _: I64,
            doc="the number of characters, of elements, or of edges of a path",
        ),
        Function(
            name="substring",
            word="substring",
            takes=(STRING, INTEGER, INTEGER),
            gives=lambda _: TEXT,
            doc="the text from a character on, the first being 0, and at most so many",
            null_when="the start or the number is negative",
            optional=1,
        ),
        Function(
            name="replace",
            word="replace",
            takes=(STRING, STRING, STRING),
            gives=lambda _: TEXT,
            doc="the text with every occurrence of the second text replaced by the third",
        ),
        Function(
            name="part",
            word="part",
            takes=(DAY, UNIT),
            gives=lambda _: I64,
            doc="the year, month, day, weekday (Monday is 1), hour, minute, second or millisecond",
            units=("year", "month", "day", "weekday", *CLOCK_UNITS),
        ),
        Function(
            name="shift",
            word="shift",
            takes=(DAY, INTEGER, UNIT),
            gives=_of_first,
            doc="the date moved by so many units; months and years end on the last day of a month",
            null_when="it leaves the years 1 to 9999",
            units=("year", "month", "week", "day", *CLOCK_UNITS),
        ),
        Function(
            name="elapsed",
            word="elapsed",
            takes=(DAY, DAY, UNIT),
            gives=lambda _: I64,
            doc="the whole units from the first date to the second, toward zero",
            null_when="it is outside I64",
            units=("year", "month", "week", "day", *CLOCK_UNITS),
        ),
        Function(
            name="date",
            word="date",
            takes=(DAY,),
            gives=lambda _: PropType(Scalar.DATE),
            doc="the day of a DateTime in UTC; a Date as it is",
        ),
        Function(
            name="datetime",
            word="datetime",
            takes=(DAY,),
            gives=lambda _: PropType(Scalar.DATETIME),
            doc="midnight of a Date in UTC; a DateTime as it is",
        ),
        Function(
            name="text",
            word="text",
            takes=(SCALAR,),
            gives=lambda _: TEXT,
            doc="the value as text, as in an answer",
        ),
        Function(
            name="coalesce",
            word="coalesce",
            takes=(SCALAR, SCALAR),
            gives=_of_last,
            doc="the first of the values that is not null",
            optional=1,
            repeats=True,
            keeps_null=lambda kinds: all(kind.nullable for kind in kinds),
        ),
        Function(
            name="if",
            word="if",
            takes=(CONDITION, SCALAR, SCALAR),
            gives=_of_last,
            doc="the second value when the condition is satisfied, else the third, or null",
            optional=1,
            keeps_null=lambda kinds: len(kinds) == 2 or any(kind.nullable for kind in kinds[1:]),
        ),
        Function(
            name="to_f64",
            word="",
            takes=(NUMBER,),
            gives=lambda _: F64,
            doc="the number as a float; written by the checker where integers meet floats",
        ),
    )
}
"""The functions by their name in a plan, in the order in which they are listed to users."""

VARIABLE_FUNCTIONS = {
    "id": "the id of a node or an edge",
    "type": "the name of the type of a node or an edge",
    "nodes": "the ids of the nodes of a path, or one of their properties",
    "edges": "the edges of a path, or one of their properties",
    "cost": "the total weight of a path that was found with `by`",
}
"""The functions of variables, which are no values of their own, and what they give."""

WORDS = (
    *dict.fromkeys(one.word for one in FUNCTIONS.values() if one.word and not one.is_operator),
    *VARIABLE_FUNCTIONS,
)
"""What a query may write before `(`, aggregates, text predicates and rankings aside."""


def written(word: str, count: int) -> list[Function]:
    """The functions behind a word or a sign; a sign with one operand is another than with two."""
    return [
        one
        for one in FUNCTIONS.values()
        if one.word == word and (not one.is_operator or len(one.takes) == count)
    ]
