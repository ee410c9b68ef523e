"""The types of properties, parameters and expressions: a scalar, perhaps in a list or a vector.

``scalar`` describes the scalars themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.types.arrow import arrow_scalar
from omnigraph.types.scalar import VECTOR_ITEM, Scalar
from omnigraph.types.unfit import Unfit, shown

if TYPE_CHECKING:
    import pyarrow as pa

MAX_VECTOR_DIM = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PropType:
    """A property, parameter or expression type. Equality is the language's type equality.

    ``Vector(n)`` is a type of F32 with ``dim``; an enum is a String with ``enum_values``,
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

    @classmethod
    def vector(cls, dim: int) -> PropType:
        """``Vector(dim)``."""
        return cls(VECTOR_ITEM, dim=dim)

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
        return self.scalar.is_blob

    @property
    def is_text(self) -> bool:
        """Whether this is a single text, an enum included."""
        return self.scalar.is_text and not self.is_list

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
    def is_temporal(self) -> bool:
        """Whether this is a single date or date-time."""
        return self.scalar.is_temporal and not self.is_list

    @property
    def element(self) -> PropType:
        """The type of one element of a list; of any other type, that type without `?`."""
        if not (self.nullable or self.is_list):
            return self
        return replace(self, nullable=False, is_list=False)

    @property
    def item(self) -> PropType:
        """The type of one item of a list or of one component of a vector."""
        return self.element if self.dim is None else PropType(self.scalar)

    def as_nullable(self, nullable: bool = True) -> PropType:
        """Return this type with or without `?`."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    def allows(self, value: object) -> bool:
        """Tell whether an enum has a stored value; null and values of other types always pass."""
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
        """Read a type as ``display`` writes it. Schema sources go through the schema parser instead."""
        match = _DISPLAY.fullmatch(text.strip())
        if match is None:
            raise Unfit(f"{shown(text)} is not the spelling of a type")
        nullable = match["nullable"] is not None
        if match["dim"] is not None:
            return cls.vector(_checked_dim(int(match["dim"]))).as_nullable(nullable)
        if match["enum"] is not None:
            values = tuple(word.strip() for word in match["enum"].split(","))
            return cls(Scalar.STRING, nullable, enum_values=values)
        scalar = _scalar_named(match["item"] or match["scalar"])
        if match["item"] is not None and scalar.is_blob:
            raise Unfit("a list cannot hold Blob")
        return cls(scalar, nullable, is_list=match["item"] is not None)

    def to_ir(self) -> dict[str, Any]:
        """Write the type as a small JSON object; members that do not apply are left out."""
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
        """Read a type that ``to_ir`` wrote; raise ``Unfit`` for anything it cannot have written."""
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
            return self.scalar is VECTOR_ITEM and not self.is_list and not self.is_enum
        if self.is_enum:
            return self.is_text
        return not (self.is_list and self.is_blob)

    def arrow_type(self) -> pa.DataType:
        """Return the Arrow storage type; for Blob a placeholder, ``large_binary``."""
        import pyarrow as pa

        item = arrow_scalar(self.scalar)
        if self.dim is not None:
            return pa.list_(pa.field("item", item), self.dim)
        return pa.list_(pa.field("item", item)) if self.is_list else item

    def arrow_field(self, name: str) -> pa.Field:
        """Return the Arrow field of a column of this type."""
        import pyarrow as pa

        return pa.field(name, self.arrow_type(), nullable=self.nullable)


TEXT = PropType(Scalar.STRING)
"""The type of ids, names and every other text that has no property of its own."""


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
