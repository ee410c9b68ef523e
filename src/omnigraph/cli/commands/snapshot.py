"""`omnigraph snapshot`."""

from __future__ import annotations

from typing import Any

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.output import put
from omnigraph.cli.register import UriArgument, add
from omnigraph.cli.tables import put_table
from omnigraph.cli.targets import TargetOptions
from omnigraph.service import states as service

TABLE_FIELDS = ("table_key", "table_version", "table_branch", "row_count", "table_path")


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "snapshot", snapshot)


def snapshot(
    call: Call,
    target: TargetOptions,
    uri: UriArgument = None,
) -> None:
    """Show the version of every table at a branch or a commit."""
    state = target.read()
    with call.open(call.address(uri)) as graph:
        document = service.snapshot(graph, service.SnapshotRequest(**state))
    call.answer(document, lambda: _put(document))


def _put(document: dict[str, Any]) -> None:
    put(
        f"branch {document['branch']} at commit {document['graph_commit_id']}, "
        f"version {document['manifest_version']}"
    )
    put_table(
        ("table", "version", "fork", "rows", "path"),
        [[table[name] for name in TABLE_FIELDS] for table in document["tables"]],
    )
