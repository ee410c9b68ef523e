"""Property types and the one value codec.

A value has four faces: JSON (what people send and get), the *stored* Python value used inside the
product, its Arrow column, and its canonical key text. Stored values: ``str``, ``bool``, ``int``,
``float``, ``int`` days since the epoch for Date, ``int`` milliseconds for DateTime, ``bytes`` or
``ExternalBlob`` for Blob, and ``list`` of these for lists and vectors; null is ``None``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace


class Scalar(enum.StrEnum):
    """The scalar types of the schema language, by their spelling."""

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


@dataclass(frozen=True, slots=True)
class PropType:
    """A property, parameter or expression type. Equality is the language's type equality."""

    scalar: Scalar
    nullable: bool = False
    is_list: bool = False
    enum_values: tuple[str, ...] | None = None
    dim: int | None = None

    def as_nullable(self, nullable: bool = True) -> PropType:
        """This type with or without `?`."""
        return replace(self, nullable=nullable)
