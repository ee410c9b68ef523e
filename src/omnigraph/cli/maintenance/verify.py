"""`omnigraph verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.output import note, put
from omnigraph.cli.progress import verify_progress
from omnigraph.cli.register import UriArgument, add
from omnigraph.cli.tables import put_table
from omnigraph.service import verify as service
from omnigraph.service.documents import Document

PROBLEMS = 1
"""The exit code when something is not as it should be."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "verify", verify)


def verify(
    call: Call,
    uri: UriArgument = None,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Decode every file, and compare indexes with their columns."),
    ] = False,
) -> None:
    """Read every file that a kept state names; say what is lost or damaged, and how to mend it."""
    address = call.address(uri)
    with verify_progress(call.flags) as progress:
        document = service.verify(
            lambda: call.open(address), address.uri, deep=deep, progress=progress
        )
    call.answer(document, lambda: _put(document))
    count = sum(len(row["problems"]) for row in document["tables"])
    if count:
        note(f"error: {count} problem{'s' * (count != 1)} found")
        raise typer.Exit(PROBLEMS)


def _put(document: Document) -> None:
    put_table(
        ("table", "branch", "versions", "files", "bytes", "rows", "problems"),
        [
            [
                row["table_key"],
                row["branch"],
                row["versions"],
                row["files"],
                row["bytes"],
                row["rows"],
                len(row["problems"]),
            ]
            for row in document["tables"]
        ],
    )
    for row in document["tables"]:
        for one in row["problems"]:
            where = "" if one["file"] is None else f" {one['file']}:"
            needed = f" (needed by {', '.join(one['states'])})" if one["states"] else ""
            put(
                f"{one['kind']}: {row['table_key']} on {row['branch']}:{where} {one['detail']}{needed}"
            )
            put(f"  mend: {one['mend']}")
    if not any(row["problems"] for row in document["tables"]):
        put("no problem found" if document["deep"] else "no problem found; --deep reads all of it")
