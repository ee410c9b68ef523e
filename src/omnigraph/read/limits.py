"""How much a read may answer: rows that are shown, and ceilings above which it is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from omnigraph.errors import BadRequest, ResourceLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """Limits of one read. None: as much as there is."""

    max_rows: int | None = None
    """Show this number of rows at most, and count the others."""
    query_rows: int | None = None
    """Refuse an answer that shows more rows."""
    query_bytes: int | None = None
    """Refuse an answer that takes more bytes, as Arrow holds it."""

    def __post_init__(self) -> None:
        for name in ("max_rows", "query_rows", "query_bytes"):
            given = getattr(self, name)
            if given is not None and (type(given) is not int or given < 1):
                raise BadRequest(f"{name} is {given!r}; give a whole number above 0, or None")

    @property
    def counts_rows(self) -> bool:
        """Whether all rows are to be counted, not only those that are shown."""
        return self.max_rows is not None or self.query_rows is not None

    def shown(self, rows: int | None) -> int | None:
        """How many of these rows are shown; None stands for any number."""
        if self.max_rows is None or rows is None:
            return self.max_rows if rows is None else rows
        return min(rows, self.max_rows)

    def check_rows(self, rows: int) -> None:
        """Refuse an answer that has this number of rows, before it is cut."""
        shown = self.shown(rows)
        if self.query_rows is not None and shown is not None and shown > self.query_rows:
            raise _refused("query_rows", "rows", self.query_rows, shown)

    def check_bytes(self, count: int) -> None:
        """Refuse an answer that takes this number of bytes."""
        if self.query_bytes is not None and count > self.query_bytes:
            raise _refused("query_bytes", "bytes", self.query_bytes, count)


NO_LIMITS: Final = ReadLimits()


def _refused(resource: str, unit: str, limit: int, actual: int) -> ResourceLimit:
    return ResourceLimit(
        f"the answer has more than the {limit:,} {unit} that are allowed; narrow the match, aggregate, or "
        "set a limit",
        resource=resource,
        limit=limit,
        actual=actual,
    )
