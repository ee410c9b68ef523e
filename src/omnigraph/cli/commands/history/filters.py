"""The flags that choose which changes a command shows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from omnigraph.service.changes import FilterValues

NoImagesOption = Annotated[
    bool, typer.Option("--no-images", help="Leave out the values of properties.")
]


class KindWord(StrEnum):
    """A value of `--kind`."""

    node = "node"
    edge = "edge"


class OpWord(StrEnum):
    """A value of `--op`."""

    insert = "insert"
    update = "update"
    delete = "delete"


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Flags of a command that shows changes; each may be repeated, and without it all are shown."""

    kind: Annotated[
        list[KindWord] | None, typer.Option("--kind", help="Only nodes, or only edges.")
    ] = None
    type_: Annotated[
        list[str] | None, typer.Option("--type", metavar="T", help="Only this type.")
    ] = None
    op: Annotated[
        list[OpWord] | None, typer.Option("--op", help="Only what was inserted, say.")
    ] = None

    def read(self) -> FilterValues:
        """Return the filter as a request takes it."""
        return {
            "kinds": tuple(map(str, self.kind or ())),
            "types": tuple(self.type_ or ()),
            "ops": tuple(map(str, self.op or ())),
        }
