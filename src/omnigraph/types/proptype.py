"""The types of the schema and query languages: identity, spelling, stored form, Arrow storage."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.types.unfit import Unfit, shown

if TYPE_CHECKING:
    import pyarrow as pa

MAX_VECTOR_DIM = 2**31 - 1


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

    @property
    def is_integer(self) -> bool:
        """Whether this is one of the four integer types."""
        return self in INTEGER_RANGES

    @property
    def is_float(self) -> bool:
        """Whether this is F32 or F64."""
        return self in (Scalar.F32, Scalar.F64)


INTEGER_RANGES: dict[Scalar, tuple[int, int]] = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}


@dataclass(frozen=True, slots=True)
class PropType:
    """A property, parameter or expression type. Equality is the language's type equality.

    ``Vector(n)`` is ``PropType(Scalar.F32, dim=n)``; an enum is a String with ``enum_values``,
    which are kept sorted because their order has no meaning.
    """

    scalar: Scalar
    nullable: bool = False
    is_list: bool = False
    enum_values: tuple[str, ...] | None = None
    dim: int | None = None

    def __post_init__(self) -> None:
        if self.enum_values is not None:
            object.__setattr__(self, "enum_values", tuple(sorted(set(self.enum_values))))

    @property
    def is_vector(self) -> bool:
        """Whether this is ``Vector(n)``."""
        return self.dim is not None

    @property
    def is_enum(self) -> bool:
        """Whether this is a String with a closed set of values."""
        return self.enum_values is not None

    @property
    def is_blob(self) -> bool:
        """Whether this is ``Blob``."""
        return self.scalar is Scalar.BLOB

    @property
    def is_integer(self) -> bool:
        """Whether this is a single integer."""
        return self.scalar.is_integer and not self.is_list

    @property
    def is_float(self) -> bool:
        """Whether this is a single float."""
        return self.scalar.is_float and not self.is_list and not self.is_vector

    @property
    def is_numeric(self) -> bool:
        """Whether this is a single number."""
        return self.is_integer or self.is_float

    @property
    def element(self) -> PropType:
        """The type of one element of a list; of any other type, that type without `?`."""
        if not (self.nullable or self.is_list):
            return self
        return replace(self, nullable=False, is_list=False)

    def as_nullable(self, nullable: bool = True) -> PropType:
        """This type with or without `?`."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    def allows(self, value: object) -> bool:
        """Whether a stored value lies in the enum's value set; null and other types always pass."""
        return self.enum_values is None or value is None or value in self.enum_values

    @property
    def display(self) -> str:
        """The type as written in a schema, enum values sorted."""
        if self.dim is not None:
            text = f"Vector({self.dim})"
        elif self.enum_values is not None:
            text = f"enum({', '.join(self.enum_values)})"
        else:
            text = self.scalar.value
        if self.is_list:
            text = f"[{text}]"
        return f"{text}?" if self.nullable else text

    def __str__(self) -> str:
        return self.display

    @classmethod
    def parse(cls, text: str) -> PropType:
        """Read back what ``display`` shows. Schema sources go through the schema parser instead."""
        match = _DISPLAY.fullmatch(text.strip())
        if match is None:
            raise Unfit(f"{shown(text)} is not the spelling of a type")
        nullable = match["nullable"] is not None
        if match["dim"] is not None:
            return cls(Scalar.F32, nullable, dim=_checked_dim(int(match["dim"])))
        if match["enum"] is not None:
            values = tuple(word.strip() for word in match["enum"].split(","))
            return cls(Scalar.STRING, nullable, enum_values=values)
        scalar = _scalar_named(match["item"] or match["scalar"])
        if match["item"] is not None and scalar is Scalar.BLOB:
            raise Unfit("a list cannot hold Blob")
        return cls(scalar, nullable, is_list=match["item"] is not None)

    def to_ir(self) -> dict[str, Any]:
        """The type as a small JSON object; absent members mean "no"."""
        ir: dict[str, Any] = {"scalar": self.scalar.value}
        if self.nullable:
            ir["nullable"] = True
        if self.is_list:
            ir["list"] = True
        if self.enum_values is not None:
            ir["enum"] = list(self.enum_values)
        if self.dim is not None:
            ir["dim"] = self.dim
        return ir

    @classmethod
    def from_ir(cls, ir: object) -> PropType:
        """Read what ``to_ir`` wrote; anything it could not have written is ``Unfit``."""
        if not isinstance(ir, dict):
            raise Unfit(f"a type is a JSON object, got {shown(ir)}")
        values, dim = ir.get("enum"), ir.get("dim")
        if values is not None and not _is_word_list(values):
            raise Unfit(f"enum values are a list of words, got {shown(values)}")
        read = cls(
            _scalar_named(ir.get("scalar")),
            nullable=ir.get("nullable") is True,
            is_list=ir.get("list") is True,
            enum_values=None if values is None else tuple(values),
            dim=None if dim is None else _checked_dim(dim),
        )
        if read.to_ir() != ir or not read._is_sound():
            raise Unfit(f"the members of the stored type {read} do not fit together")
        return read

    def _is_sound(self) -> bool:
        if self.is_vector:
            return self.scalar is Scalar.F32 and not self.is_list and not self.is_enum
        if self.is_enum:
            return self.scalar is Scalar.STRING and not self.is_list
        return not (self.is_list and self.is_blob)

    def arrow_type(self) -> pa.DataType:
        """The Arrow storage type. Blob gives its placeholder, ``large_binary``."""
        import pyarrow as pa

        item = _arrow_scalar(self.scalar)
        if self.dim is not None:
            return pa.list_(pa.field("item", item), self.dim)
        return pa.list_(pa.field("item", item)) if self.is_list else item

    def arrow_field(self, name: str) -> pa.Field:
        """The Arrow field of a column of this type."""
        import pyarrow as pa

        return pa.field(name, self.arrow_type(), nullable=self.nullable)


_DISPLAY = re.compile(
    r"(?:Vector\((?P<dim>\d{1,10})\)"
    r"|enum\((?P<enum>\s*[\w-]+\s*(?:,\s*[\w-]+\s*)*)\)"
    r"|\[(?P<item>\w+)\]"
    r"|(?P<scalar>\w+))(?P<nullable>\?)?",
    re.ASCII,
)


def _scalar_named(word: object) -> Scalar:
    for scalar in Scalar:
        if scalar.value == word:
            return scalar
    raise Unfit(f"{shown(word)} is not a scalar type")


def _checked_dim(dim: object) -> int:
    if type(dim) is not int or not 1 <= dim <= MAX_VECTOR_DIM:
        raise Unfit(f"a Vector dimension lies between 1 and {MAX_VECTOR_DIM}, got {shown(dim)}")
    return dim


_ENUM_WORD = re.compile(r"[A-Za-z0-9_-]+")


def _is_word_list(values: object) -> bool:
    return isinstance(values, list) and bool(values) and all(map(_is_enum_word, values))


def _is_enum_word(value: object) -> bool:
    return isinstance(value, str) and _ENUM_WORD.fullmatch(value) is not None


def _arrow_scalar(scalar: Scalar) -> pa.DataType:
    import pyarrow as pa

    match scalar:
        case Scalar.STRING:
            return pa.utf8()
        case Scalar.BOOL:
            return pa.bool_()
        case Scalar.I32:
            return pa.int32()
        case Scalar.I64:
            return pa.int64()
        case Scalar.U32:
            return pa.uint32()
        case Scalar.U64:
            return pa.uint64()
        case Scalar.F32:
            return pa.float32()
        case Scalar.F64:
            return pa.float64()
        case Scalar.DATE:
            return pa.date32()
        case Scalar.DATETIME:
            return pa.timestamp("ms", tz="UTC")
        case Scalar.BLOB:
            return pa.large_binary()
