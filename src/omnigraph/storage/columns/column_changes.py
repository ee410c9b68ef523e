"""What a schema apply wants of the columns of one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """Columns to add, to rename, to make nullable and to drop, all at once.

    ``renamed`` maps old names to new ones, and may cross (a swap). ``relaxed`` and ``dropped`` hold
    old names. An added column may take a name that is renamed away or dropped in the same change:
    it is a new column and reads null. Added fields are nullable and carry their own metadata.
    """

    added: tuple[pa.Field, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    relaxed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the table stays as it is."""
        return not (self.added or self.renamed or self.relaxed or self.dropped)
