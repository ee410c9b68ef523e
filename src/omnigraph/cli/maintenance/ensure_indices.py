"""`omnigraph ensure-indices`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.output import made_commit, note
from omnigraph.cli.register import BranchOption, UriArgument, add
from omnigraph.service.writes import maintenance as service

FAILED = 1
"""The exit code when an index could not be built."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "ensure-indices", ensure_indices)


def ensure_indices(
    call: Call,
    uri: UriArgument = None,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE[.PROPERTY]]...", help="With --rebuild: only these indexes."),
    ] = None,
    branch: BranchOption = None,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Build indexes anew although they are there."),
    ] = False,
) -> None:
    """Build the declared indexes that are missing or damaged, and complete those that do not cover all rows."""
    chosen = names or []
    if uri is not None and call.names_graph(None):
        # The graph is named by a flag, so the first word is a table.
        chosen, uri = [uri, *chosen], None
    if chosen and not rebuild:
        raise typer.BadParameter(
            f"{chosen[0]} names an index to build anew: pass --rebuild as well"
        )
    address = call.address(uri)
    with call.open(address) as graph:
        document, remarks = service.ensure_indices(
            graph, branch, address.uri, rebuild=tuple(chosen) or rebuild
        )
    for text in remarks.warnings:
        note(f"warning: {text}")
    lines = [f"built {key} {name}" for key, name in document["built"]]
    lines += remarks.lines
    lines += [
        f"failed {one['table_key']} {one['property']}: {one['error']}" for one in document["failed"]
    ]
    text = "\n".join(lines) or "every index is there and covers all rows"
    call.answer(document, text, made_commit(document))
    if document["failed"]:
        raise typer.Exit(FAILED)
