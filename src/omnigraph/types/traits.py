"""The facts about a scalar type that the rest of the product needs; the table is in ``scalar``.

Types of Arrow and Spark are given by name: importing this module loads neither library.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
