"""Purges owed: what a hard drop still has to remove from disk.

The publish of a hard drop records them: in the `table` row or the tombstone of each table, and once
more in the head row of `main`, where every open sees them without a search. They are removed from
both when the files are gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Purge:
    """One table of which files must go.

    Versions below ``below`` must go; None means the whole table, because its type was dropped.
    """

    table_key: str
    incarnation: int
    location: str
    below: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the public form, as `status` shows it."""
        return {
            "table_key": self.table_key,
            "table_path": self.location,
            "below_version": self.below,
        }
