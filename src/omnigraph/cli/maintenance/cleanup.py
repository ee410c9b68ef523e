"""`omnigraph cleanup`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import opens_storage
from omnigraph.cli.output import note
from omnigraph.cli.register import UriArgument, add
from omnigraph.cli.source import seconds_of
from omnigraph.cli.tables import put_table

if TYPE_CHECKING:
    from omnigraph.maintenance.cleanup.report import CleanupReport

FAILED = 1
"""The exit code when a table could not be cleaned up."""
KEEP = 10
"""How many versions stay when the command does not say."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, opens_storage("cleanup"), cleanup)


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
    seconds = None if older_than is None else seconds_of("--older-than", older_than)
    if keep is None and seconds is None:
        keep = KEEP
    # What is only shown needs no consent, and its graph is opened for reading.
    call = replace(call, command=replace(call.command, writes=confirm))
    address = call.address(uri)
    if confirm:
        call.consent(address, "removing old versions")
    with call.open(address) as graph:
        report = graph.cleanup(keep, seconds, dry_run=not confirm)
    _explain(report, older_than)
    document = {"uri": address.uri, **report.to_json()}
    call.answer(document, lambda: _put(report), "old versions were removed" if confirm else None)
    if report.failed:
        names = ", ".join(dict.fromkeys(row.table_key for row in report.failed))
        note(f"error: these tables could not be cleaned up: {names}; run it again")
        raise typer.Exit(FAILED)


def _explain(report: CleanupReport, older_than: str | None) -> None:
    """Say on stderr what stays, and what to mind."""
    kept = report.policy.keep_versions
    parts = [] if kept is None else [f"the newest {kept} version{'s' * (kept != 1)} of each table"]
    if older_than is not None:
        parts.append(f"what is younger than {older_than.strip()}")
    doing = "would keep" if report.dry_run else "kept"
    end = "; pass --confirm to remove the rest" if report.dry_run else ""
    note(f"{doing} {' and '.join(parts)}, and all that branches, tags and readers need{end}")
    for warning in report.warnings:
        note(f"warning: {warning}")


def _put(report: CleanupReport) -> None:
    shown: list[list[Any]] = [
        [
            row.table_key,
            row.table_branch or "main",
            row.old_versions_removed,
            row.bytes_removed,
            len(row.why_kept),
            row.error,
        ]
        for row in report
    ]
    goes = "goes" if report.dry_run else "gone"
    put_table(("table", "branch", f"versions {goes}", "bytes", "versions kept", "error"), shown)
