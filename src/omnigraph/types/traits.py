"""The facts about a scalar type that the rest of the product needs; the table is in ``scalar``.

Types of Arrow and Spark are named, not built: importing this module loads neither library.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

Factory = tuple[str | int, ...]
"""A type of another library: the name of what makes it, and its arguments."""


class Family(enum.Enum):
    """What the values of a type are. Types of one family are read, written and compared alike."""

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
    format: Callable[[int], str]
    check: Callable[[int], int]
    """Gives the stored integer back, or raises ``Unfit`` when it leaves the range."""
    texts: Callable[[pa.Array], Iterator[pa.Array]]
    """A column as text: first as ``format`` writes it, then in other spellings people use."""
    expected: str
    """What data may give, for messages."""
    expected_text: str
    """What a query parameter may give, for messages."""
    literal: str
    """How a query writes a literal of this type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeTraits:
    """What the rest of the product needs to know of one scalar type."""

    family: Family
    arrow: Factory
    """The storage type, a factory of ``pyarrow``."""
    kind: str
    """The type in descriptions of columns and parameters."""
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
    """The nearest float of this type to a double; None for doubles and what is no float."""
    time: TimeTraits | None = None
    """Set for exactly the temporal types."""
