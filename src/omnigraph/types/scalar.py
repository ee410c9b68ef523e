"""The scalar types and the one table that describes them.

The table says for every ``Scalar`` how its values are stored in Arrow, what Spark and Lance's filter
SQL call the type, which integers it holds, how it is written as text. Other code does not compare
with ``Scalar.DATE`` or look for ``pa.timestamp``. It asks

- for the *family*, where types are treated alike (``scalar.is_temporal``, ``traits.family``),
- for a *trait*, where they differ in a detail (``traits.range``, ``scalar.time.unit_ms``),
- ``types.arrow``, where it has a column and no property type.

So a new scalar of an existing family needs an entry here and a word in the grammar of the schema
language (docs/dev/types.md has the recipe). Example: ``Scalar.DATE`` is temporal and stored as
``date32``, which can be viewed as ``int32`` days; ``time.parse`` reads ``"2024-02-29"`` as 19782 and
``time.format`` writes it back.

Types of Arrow and Spark are given by name: importing this module loads neither library.
"""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.types import temporal

if TYPE_CHECKING:
    import pyarrow as pa


Factory = tuple[str | int, ...]
"""How to build a type of another library: the name of its factory, then the arguments."""


class Family(enum.Enum):
    """What kind of values a type has. Types of one family are read, written and compared alike."""

    TEXT = "text"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    TEMPORAL = "temporal"
    BLOB = "blob"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeTraits:
    """How a temporal type, which is stored as integers, is counted and written."""

    unit_ms: int
    """The milliseconds that one unit of the stored integer lasts."""
    integers: Factory
    """The Arrow integer type as wide as the storage type: a column can be viewed as either."""
    parse: Callable[[str], int]
    """Reads the text form as the stored integer."""
    format: Callable[[int], str]
    """Writes the stored integer in its text form."""
    check: Callable[[int], int]
    """Returns the stored integer unchanged, or raises ``Unfit`` if it is out of range."""
    texts: Callable[[pa.Array], Iterator[pa.Array]]
    """Writes a column as text: first as ``format`` does, then in other common spellings."""
    expected: str
    """What data may contain, for messages."""
    expected_text: str
    """What a query parameter may contain, for messages."""
    literal: str
    """How a literal is written in a query, for messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeTraits:
    """What the rest of the product needs to know about one scalar type."""

    family: Family
    arrow: Factory
    """The storage type, a factory of ``pyarrow``."""
    kind: str
    """The name of the type in descriptions of columns and parameters."""
    spark: Factory
    """The type Spark users see, a class of ``pyspark.sql.types``."""
    portable: Factory | None = None
    """The Arrow type in which Spark takes a column without loss, where it refuses ``arrow``."""
    sql: str | None = None
    """The type's name for ``arrow_cast`` in filter SQL; None where a literal needs no cast."""
    in_substrait: bool = True
    """Whether Lance takes filters on such a column as an Arrow expression, not only as SQL."""
    range: tuple[int, int] | None = None
    """The least and the greatest stored integer; None where values are not stored as integers."""
    round: Callable[[float], float] | None = None
    """Rounds a double to the nearest float of this type; None for doubles and for other families."""
    time: TimeTraits | None = None
    """Set for temporal types only."""


TOO_LARGE = (OverflowError, struct.error)
"""The exceptions of packing a float32: the second for an int beyond the range of doubles."""


def round_f32(value: float) -> float:
    """Return the F32 nearest to a number, as a double; infinite when beyond the range of F32."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except TOO_LARGE:
        return math.inf if value > 0 else -math.inf
    return rounded


JS_SAFE = 2**53 - 1
"""JavaScript numbers hold every integer up to this one exactly."""


class Scalar(enum.StrEnum):
    """The scalar types of the schema language, by their spelling; ``traits`` describes each."""

    traits: TypeTraits

    STRING = "String"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"
    BLOB = "Blob"

    @property
    def time(self) -> TimeTraits:
        """How a temporal type is counted and written; an error for any other type."""
        time = self.traits.time
        assert time is not None, f"{self} is not temporal"
        return time

    def widens(self, other: Scalar) -> bool:
        """Whether this is a larger type of numbers that holds every value of another one exactly."""
        return self in _LARGER.get(other, ())

    @property
    def is_text(self) -> bool:
        """Whether values are text."""
        return self.traits.family is Family.TEXT

    @property
    def is_boolean(self) -> bool:
        """Whether values are true or false."""
        return self.traits.family is Family.BOOLEAN

    @property
    def is_integer(self) -> bool:
        """Whether values are integers; dates and instants, though stored as such, are not."""
        return self.traits.family is Family.INTEGER

    @property
    def is_float(self) -> bool:
        """Whether values are floats."""
        return self.traits.family is Family.FLOAT

    @property
    def is_temporal(self) -> bool:
        """Whether values are dates or instants."""
        return self.traits.family is Family.TEMPORAL

    @property
    def counts_days(self) -> bool:
        """Whether values are whole days, without a time of day."""
        return self.is_temporal and self.time.unit_ms == temporal.MS_PER_DAY

    @property
    def is_blob(self) -> bool:
        """Whether values are bytes or the address of bytes: neither key nor list item."""
        return self.traits.family is Family.BLOB

    @property
    def is_counted(self) -> bool:
        """Whether values are stored as integers: the integers themselves, and dates and instants."""
        return self.traits.range is not None

    @property
    def is_found_by_id(self) -> bool:
        """Whether the node with a key value is the one whose id is the key text of that value.

        Not so for floats, which may be compared with numbers of other types, nor for booleans.
        """
        return self.is_text or self.is_counted

    @property
    def exceeds_javascript(self) -> bool:
        """Whether some values are integers that a JavaScript number cannot hold."""
        return self.is_integer and max(map(abs, self.traits.range or (0,))) > JS_SAFE

    @property
    def fills_64_bits(self) -> bool:
        """Whether every 64-bit integer of its sign is a value, so that none is left to mean null."""
        low, high = self.traits.range or (0, 0)
        return high - low == 2**64 - 1


TRAITS: dict[Scalar, TypeTraits] = {
    Scalar.STRING: TypeTraits(
        family=Family.TEXT, arrow=("utf8",), kind="string", spark=("StringType",)
    ),
    Scalar.BOOL: TypeTraits(
        family=Family.BOOLEAN, arrow=("bool_",), kind="bool", spark=("BooleanType",)
    ),
    Scalar.I32: TypeTraits(
        family=Family.INTEGER,
        arrow=("int32",),
        kind="int",
        spark=("IntegerType",),
        sql="Int32",
        range=(-(2**31), 2**31 - 1),
    ),
    Scalar.I64: TypeTraits(
        family=Family.INTEGER,
        arrow=("int64",),
        kind="bigint",
        spark=("LongType",),
        sql="Int64",
        range=(-(2**63), 2**63 - 1),
    ),
    # Spark has no unsigned integers: the next type that holds every value.
    Scalar.U32: TypeTraits(
        family=Family.INTEGER,
        arrow=("uint32",),
        kind="int",
        spark=("LongType",),
        portable=("int64",),
        sql="UInt32",
        in_substrait=False,
        range=(0, 2**32 - 1),
    ),
    Scalar.U64: TypeTraits(
        family=Family.INTEGER,
        arrow=("uint64",),
        kind="bigint",
        spark=("DecimalType", 20, 0),
        portable=("decimal128", 20, 0),
        sql="UInt64",
        in_substrait=False,
        range=(0, 2**64 - 1),
    ),
    Scalar.F32: TypeTraits(
        family=Family.FLOAT,
        arrow=("float32",),
        kind="float",
        spark=("FloatType",),
        sql="Float32",
        round=round_f32,
    ),
    Scalar.F64: TypeTraits(
        family=Family.FLOAT,
        arrow=("float64",),
        kind="float",
        spark=("DoubleType",),
        sql="Float64",
    ),
    Scalar.DATE: TypeTraits(
        family=Family.TEMPORAL,
        arrow=("date32",),
        kind="date",
        spark=("DateType",),
        sql="Date32",
        range=(temporal.MIN_DAYS, temporal.MAX_DAYS),
        time=TimeTraits(
            unit_ms=temporal.MS_PER_DAY,
            integers=("int32",),
            parse=temporal.parse_date,
            format=temporal.format_date,
            check=temporal.checked_days,
            texts=temporal.date_texts,
            expected="a date written YYYY-MM-DD or as days",
            expected_text="a date as a string, YYYY-MM-DD",
            literal='date("YYYY-MM-DD")',
        ),
    ),
    Scalar.DATETIME: TypeTraits(
        family=Family.TEMPORAL,
        arrow=("timestamp", "ms", "UTC"),
        kind="datetime",
        spark=("TimestampType",),
        portable=("timestamp", "us", "UTC"),
        sql='Timestamp(Millisecond, Some("UTC"))',
        range=(temporal.MIN_MS, temporal.MAX_MS),
        time=TimeTraits(
            unit_ms=1,
            integers=("int64",),
            parse=temporal.parse_datetime,
            format=temporal.format_datetime,
            check=temporal.checked_ms,
            texts=temporal.datetime_texts,
            expected="an RFC 3339 date and time, or milliseconds",
            expected_text="a date and time as an RFC 3339 string",
            literal='datetime("YYYY-MM-DDTHH:MM:SSZ")',
        ),
    ),
    # The Arrow type is a placeholder: storage and typed batches have structs of their own.
    Scalar.BLOB: TypeTraits(
        family=Family.BLOB, arrow=("large_binary",), kind="blob", spark=("BinaryType",)
    ),
}

for _scalar in Scalar:
    # An attribute, because looking a member up in the table takes longer than most uses of it.
    _scalar.traits = TRAITS[_scalar]

VECTOR_ITEM = Scalar.F32
"""What the components of every vector are."""

INTEGER_RANGES: dict[Scalar, tuple[int, int]] = {
    scalar: scalar.traits.range for scalar in Scalar if scalar.is_integer and scalar.traits.range
}


_LARGER = {
    Scalar.I32: (Scalar.I64,),
    Scalar.U32: (Scalar.U64, Scalar.I64),
    Scalar.F32: (Scalar.F64,),
}
