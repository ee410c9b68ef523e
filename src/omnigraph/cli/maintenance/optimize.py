"""`omnigraph optimize`."""

from __future__ import annotations

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.output import note
from omnigraph.cli.progress import optimize_progress
from omnigraph.cli.register import BranchOption, UriArgument, add
from omnigraph.cli.tables import put_table
from omnigraph.service.documents import Document
from omnigraph.service.writes import maintenance as service

FAILED = 1
"""The exit code when something was left out because it failed."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "optimize", optimize)


def optimize(call: Call, uri: UriArgument = None, branch: BranchOption = None) -> None:
    """Merge small fragments of tables, complete their indexes, and build those that are missing."""
    address = call.address(uri)
    with optimize_progress(call.flags) as progress, call.open(address) as graph:
        document, remarks = service.optimize(graph, branch, address.uri, progress=progress)
    for text in remarks.warnings:
        note(f"warning: {text}")
    tables = document["tables"]
    call.answer(document, lambda: _put(tables), "1 commit made" if remarks.commits else None)
    drifted = [row["table_key"] for row in tables if row["skipped"] == "drift_needs_repair"]
    if drifted:
        names = ", ".join(drifted)
        note(f"another program wrote to {names}, which was left alone: run omnigraph repair")
    failed = [row["table_key"] for row in tables if row["error"] is not None]
    if failed:
        names = ", ".join(failed)
        note(f"error: something was left out of these tables: {names}; their rows say why")
        raise typer.Exit(FAILED)


def _put(tables: list[Document]) -> None:
    columns = (
        "table",
        "fragments merged",
        "into",
        "version",
        "skipped",
        "pending indexes",
        "error",
    )
    put_table(
        columns,
        [
            [
                row["table_key"],
                row["fragments_removed"],
                row["fragments_added"],
                row["manifest_version"],
                row["skipped"],
                ", ".join(row["pending_indexes"]) or None,
                row["error"],
            ]
            for row in tables
        ],
    )
