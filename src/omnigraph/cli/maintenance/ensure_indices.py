"""`omnigraph ensure-indices`."""

from __future__ import annotations

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


def ensure_indices(call: Call, uri: UriArgument = None, branch: BranchOption = None) -> None:
    """Build the declared indexes that are missing, and complete those that do not cover all rows."""
    address = call.address(uri)
    with call.open(address) as graph:
        document, remarks = service.ensure_indices(graph, branch, address.uri)
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
