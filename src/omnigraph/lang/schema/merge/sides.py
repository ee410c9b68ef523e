"""What a merge of schemas is given: three schemas with their texts, and who changed which data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from omnigraph.lang.schema.ir import Ir, TypeIr
from omnigraph.lang.schema.syntax.pieces import DeclarationTexts, cut

Side = Literal["source", "target"]
OTHER: dict[Side, Side] = {"source": "target", "target": "source"}

SHOWN_ROWS = 20
"""How many ids of changed rows a conflict names."""


@dataclass(frozen=True)
class SchemaSide:
    """One of the three schemas: its IR, the text it was accepted with, and how messages name it."""

    ir: Ir
    text: str
    name: str

    @cached_property
    def pieces(self) -> DeclarationTexts:
        """The declarations of the text."""
        return cut(self.text)


@dataclass(frozen=True, slots=True)
class DataChange:
    """How many rows one side changed since the base, and the first of their ids in order."""

    rows: int = 0
    row_ids: tuple[str, ...] = ()


DataChanged = Callable[[Side, TypeIr, str | None], DataChange]
"""What one side wrote since the base. The type, and the name of the property, are that side's.

Of a property: the rows whose value was written, is not null and differs from the base. Without a
property: the rows of the type that were inserted or updated. Deletes never count. It is asked only
about elements that the other side dropped.
"""


def no_data_changed(_side: Side, _type: TypeIr, _property: str | None) -> DataChange:
    """Answer that nothing was written since the base."""
    return DataChange()
