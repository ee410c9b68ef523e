"""The type of a parameter that is a list of records, which no property can have."""

from __future__ import annotations

from dataclasses import dataclass, replace

from omnigraph.types import PropType


@dataclass(frozen=True, slots=True)
class RecordList:
    """The type of a parameter `[{ h: String, n: I32? }]`."""

    fields: tuple[tuple[str, PropType], ...]
    nullable: bool = False

    @property
    def display(self) -> str:
        """The type as it is written in a query."""
        fields = ", ".join(f"{name}: {kind.display}" for name, kind in self.fields)
        return f"[{{ {fields} }}]{'?' if self.nullable else ''}"

    def as_nullable(self, nullable: bool) -> RecordList:
        """The same type, optional or not."""
        return replace(self, nullable=nullable)
