"""`omnigraph optimize`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import opens_storage
from omnigraph.cli.output import note
from omnigraph.cli.progress import optimize_progress
from omnigraph.cli.register import BranchOption, UriArgument, add
from omnigraph.cli.tables import put_table

if TYPE_CHECKING:
    from omnigraph.maintenance.optimize_report import OptimizeReport

FAILED = 1
"""The exit code when something was left out because it failed."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, opens_storage("optimize"), optimize)


def optimize(call: Call, uri: UriArgument = None, branch: BranchOption = None) -> None:
    """Merge small fragments of tables, complete their indexes, and build those that are missing."""
    address = call.address(uri)
    with optimize_progress(call.flags) as progress, call.open(address) as graph:
        report = graph.optimize("main" if branch is None else branch, progress=progress)
    for text in (*report.warnings, *(() if report.note is None else (report.note,))):
        note(f"warning: {text}")
    document = {"uri": address.uri, **report.to_json()}
    call.answer(document, lambda: _put(report), None if report.commit is None else "1 commit made")
    drifted = [row.table_key for row in report if row.skipped == "drift_needs_repair"]
    if drifted:
        names = ", ".join(drifted)
        note(f"another program wrote to {names}, which was left alone: run omnigraph repair")
    if report.failed:
        names = ", ".join(row.table_key for row in report.failed)
        note(f"error: something was left out of these tables: {names}; their rows say why")
        raise typer.Exit(FAILED)


def _put(report: OptimizeReport) -> None:
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
                row.table_key,
                row.fragments_removed,
                row.fragments_added,
                row.manifest_version,
                row.skipped,
                ", ".join(row.pending_indexes) or None,
                row.error,
            ]
            for row in report
        ],
    )
