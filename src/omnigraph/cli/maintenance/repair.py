"""`omnigraph repair`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.output import note
from omnigraph.cli.register import UriArgument, add
from omnigraph.cli.tables import put_table
from omnigraph.errors import GraphMoved
from omnigraph.service.documents import Document
from omnigraph.service.writes import maintenance as service

REFUSED = 1
"""The exit code when a table was not repaired."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "repair", repair)


def repair(
    call: Call,
    uri: UriArgument = None,
    confirm: Annotated[
        bool,
        typer.Option("--confirm", help="Repair tables on which only maintenance happened."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="With --confirm: repair the others too, as they are now."),
    ] = False,
    undo: Annotated[
        bool,
        typer.Option(
            "--undo", help="With --confirm: put all of them back to what the graph knows."
        ),
    ] = False,
    moved: Annotated[
        bool,
        typer.Option(
            "--moved", help="The original of this graph is gone: it keeps its id, or gets it back."
        ),
    ] = False,
) -> None:
    """Look for tables that another program wrote to; with --confirm, take over what is there.

    A graph that was copied or moved is settled where it lies, as by every command that writes.
    """
    if force and undo:
        raise typer.BadParameter("--force takes over what is there, --undo undoes it: pass one")
    if force and not confirm:
        raise typer.BadParameter("--force repairs whatever is there: pass --confirm as well")
    if undo and not confirm:
        raise typer.BadParameter("--undo undoes whatever is there: pass --confirm as well")
    # What is only shown is read from a graph that is opened for reading.
    call = _writing(call, confirm or moved)
    address = call.address(uri)

    def run(call: Call) -> tuple[Document, service.Remarks]:
        with call.open(address, moved=moved) as graph:
            return service.repair(
                graph, confirm=confirm, force=force, undo=undo, uri=address.uri, moved=moved
            )

    try:
        document, remarks = run(call)
    except GraphMoved:
        document, remarks = run(_writing(call, True))
        note(f"the graph is settled at {address.uri} now")
    tables, count = document["tables"], remarks.commits
    done = f"{count} commit{'s' * (count != 1)} made" if count else None
    call.answer(document, lambda: _put(tables), done)
    refused = [row["table_key"] for row in tables if row["action"] == "refused"]
    if refused:
        names = ", ".join(dict.fromkeys(refused))
        why = "another program changed the rows; look at them, then pass --force to take them over, or --undo"
        if force or undo:
            why = "moving the pin would not help; the table says why"
        note(f"error: refused to repair {names}: {why}")
        raise typer.Exit(REFUSED)
    drifted = any(row["classification"] != "no_drift" for row in tables)
    if drifted and not confirm:
        note("nothing was changed; pass --confirm to repair what only maintenance has moved")


def _writing(call: Call, writes: bool) -> Call:
    return replace(call, command=replace(call.command, writes=writes))


def _put(tables: list[Document]) -> None:
    put_table(
        ("table", "branch", "pinned", "newest", "found", "action", "operations", "error"),
        [
            [
                row["table_key"],
                row["table_branch"] or "main",
                row["manifest_version"],
                row["lance_head_version"],
                row["classification"],
                row["action"],
                ", ".join(row["operations"]) or None,
                row["error"],
            ]
            for row in tables
        ],
    )
