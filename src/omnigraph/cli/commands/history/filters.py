"""The flags that choose which changes a command shows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TypedDict

import typer


class KindWord(StrEnum):
    """A value of `--kind`."""

    node = "node"
    edge = "edge"


class OpWord(StrEnum):
    """A value of `--op`."""

    insert = "insert"
    update = "update"
    delete = "delete"


class Filter(TypedDict):
    """The arguments of a call that choose among changes."""

    kinds: list[str] | None
    types: list[str] | None
    ops: list[str] | None


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

    def read(self) -> Filter:
        """Return the filter as the methods of a graph take it."""
        return Filter(
            kinds=[str(word) for word in self.kind or ()],
            types=self.type_ or [],
            ops=[str(word) for word in self.op or ()],
        )
