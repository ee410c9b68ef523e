"""`omnigraph cleanup`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.output import note
from omnigraph.cli.register import UriArgument, add
from omnigraph.cli.source import seconds_of
from omnigraph.cli.tables import put_table
from omnigraph.service.documents import Document
from omnigraph.service.writes import maintenance as service

FAILED = 1
"""The exit code when a table could not be cleaned up."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "cleanup", cleanup)


def cleanup(
    call: Call,
    uri: UriArgument = None,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep", metavar="N", min=1, help="Keep the newest N versions of each table."
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="DUR",
            help="Keep what is younger: a number and s, m, h, d or w.",
        ),
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Remove it; without this, only show what would go.")
    ] = False,
) -> None:
    """Remove old versions that nothing needs; without --confirm, show what would go."""
    seconds = None if older_than is None else seconds_of("--older-than", older_than, "7d")
    request = service.CleanupRequest(keep_versions=keep, older_than_secs=seconds, confirm=confirm)
    # What is only shown needs no consent, and its graph is opened for reading.
    call = replace(call, command=replace(call.command, writes=confirm))
    address = call.address(uri)
    if confirm:
        call.consent(address, "removing old versions")
    with call.open(address) as graph:
        document, remarks = service.cleanup(graph, request, address.uri)
    _explain(document, remarks.warnings, older_than)
    done = "old versions were removed" if confirm else None
    call.answer(document, lambda: _put(document), done)
    failed = [row["table_key"] for row in document["tables"] if row["error"] is not None]
    if failed:
        names = ", ".join(dict.fromkeys(failed))
        note(f"error: these tables could not be cleaned up: {names}; run it again")
        raise typer.Exit(FAILED)


def _explain(document: Document, warnings: Sequence[str], older_than: str | None) -> None:
    """Say on stderr what stays, and what to mind."""
    kept, preview = document["keep_versions"], document.get("preview")
    parts = [] if kept is None else [f"the newest {kept} version{'s' * (kept != 1)} of each table"]
    if older_than is not None:
        parts.append(f"what is younger than {older_than.strip()}")
    doing = "would keep" if preview else "kept"
    end = "; pass --confirm to remove the rest" if preview else ""
    note(f"{doing} {' and '.join(parts)}, and all that branches, tags and readers need{end}")
    for warning in warnings:
        note(f"warning: {warning}")


def _put(document: Document) -> None:
    shown: list[list[Any]] = [
        [
            row["table_key"],
            row["table_branch"] or "main",
            row["old_versions_removed"],
            row["bytes_removed"],
            len(row["why_kept"]),
            row["error"],
        ]
        for row in document["tables"]
    ]
    goes = "goes" if document.get("preview") else "gone"
    put_table(("table", "branch", f"versions {goes}", "bytes", "versions kept", "error"), shown)
