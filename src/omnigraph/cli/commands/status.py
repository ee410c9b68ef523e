"""`omnigraph status`."""

from __future__ import annotations

from typing import Any

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph
from omnigraph.cli.output import note
from omnigraph.cli.register import UriArgument, add
from omnigraph.cli.tables import moment, put_facts, put_table

TABLE_FIELDS = ("table_key", "row_count", "table_version", "head_version", "versions", "fragments")


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, reads_graph("status"), status)


def status(call: Call, uri: UriArgument = None) -> None:
    """Sum up a graph: branches, head, and the tables of main."""
    with call.open(call.address(uri)) as graph:
        document = graph.status()
    call.answer(document, lambda: _put(document))


def _put(document: dict[str, Any]) -> None:
    head = document["head"]
    put_facts(
        [
            ("graph", document["uri"]),
            ("id", document["graph_id"]),
            ("internal schema", document["internal_schema_version"]),
            ("branches", ", ".join(document["branches"])),
            ("head of main", f"{head['graph_commit_id']}, {moment(head['created_at'])}"),
            ("pending recoveries", document["pending_recoveries"]),
        ]
    )
    for purge in document["purges_owed"]:
        note(
            f"dropped data of {purge['table_key']} is still on disk; the next command that writes removes it"
        )
    for name in document["stray_files"]:
        note(f"{name} is not a file of the graph and is ignored; move it away")
    put_table(
        ("table", "rows", "version", "newest", "versions", "fragments"),
        [[table[name] for name in TABLE_FIELDS] for table in document["tables"]],
    )
