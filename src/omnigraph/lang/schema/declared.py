"""The small records that declarations consist of; shape, IR and catalog share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["interface", "node", "edge"]

KINDS: tuple[Kind, ...] = get_args(Kind)
ENDPOINT_ROLES = ("src", "dst")

IMPLICIT_COLUMNS: dict[Kind, tuple[str, ...]] = {
    "interface": (),
    "node": ("id",),
    "edge": ("id", *ENDPOINT_ROLES),
}
"""The columns every table of a kind has before its properties; no property may take their names."""

ROW_COLUMNS = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
"""The columns Lance adds to every table; no property may take their names."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A stored annotation: its positional value and keywords, all as text."""

    name: str
    value: str | None = None
    keywords: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Embed:
    """The `@embed` binding of a vector property."""

    source: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """`@range`: inclusive bounds, either may be open."""

    property: str
    min: int | float | None
    max: int | float | None


@dataclass(frozen=True, slots=True)
class Check:
    """`@check`: an RE2 pattern that must be found in the value."""

    property: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Cardinality:
    """`@card`: how many edges of the type one source node may have."""

    min: int = 0
    max: int | None = None
