"""The types of values that only answers have: objects and lists of objects.

    $p { name, age }            {name: String, age: I32?}
    collect($p { name, age })   [{name: String, age: I32?}]

An object is an Arrow struct and a JSON object. A list of plain values is a ``PropType``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.types.proptype import PropType

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ObjectType:
    """The type of a shape, of a path, or of one edge of a path."""

    fields: tuple[tuple[str, ValueType], ...]
    nullable: bool = False

    @property
    def is_numeric(self) -> bool:
        """Whether this is a single number."""
        return False

    @property
    def is_blob(self) -> bool:
        """Whether this is ``Blob``."""
        return False

    @property
    def display(self) -> str:
        """The type in words, as parameters of this kind are declared."""
        text = f"{{{', '.join(f'{name}: {kind.display}' for name, kind in self.fields)}}}"
        return f"{text}?" if self.nullable else text

    def __str__(self) -> str:
        return self.display

    def as_nullable(self, nullable: bool = True) -> ObjectType:
        """Return this type with or without `?`."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    def arrow_type(self) -> pa.DataType:
        """Return the Arrow struct."""
        import pyarrow as pa

        return pa.struct([pa.field(name, kind.arrow_type()) for name, kind in self.fields])


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A list of objects, such as `collect($x { a, b })` gives."""

    item: ObjectType
    nullable: bool = False

    @property
    def is_numeric(self) -> bool:
        """Whether this is a single number."""
        return False

    @property
    def is_blob(self) -> bool:
        """Whether this is ``Blob``."""
        return False

    @property
    def display(self) -> str:
        """The type in words, as parameters of this kind are declared."""
        return f"[{self.item.display}]{'?' if self.nullable else ''}"

    def __str__(self) -> str:
        return self.display

    def as_nullable(self, nullable: bool = True) -> ObjectList:
        """Return this type with or without `?`."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    def arrow_type(self) -> pa.DataType:
        """Return the Arrow list of structs."""
        import pyarrow as pa

        return pa.list_(pa.field("item", self.item.arrow_type()))


ValueType = PropType | ObjectType | ObjectList
"""The type of a column of an answer."""
