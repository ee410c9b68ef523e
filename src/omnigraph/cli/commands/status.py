"""`omnigraph status`."""

from __future__ import annotations

from typing import Any

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.output import note
from omnigraph.cli.register import UriArgument, add
from omnigraph.cli.tables import moment, put_facts, put_table
from omnigraph.service import states as service

TABLE_FIELDS = {
    "table_key": "table",
    "row_count": "rows",
    "table_version": "version",
    "head_version": "newest",
    "versions": "versions",
    "fragments": "fragments",
    "manifest_bytes": "manifest bytes",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "status", status)


def status(call: Call, uri: UriArgument = None) -> None:
    """Sum up a graph: branches, head, the tables of main, and what they need."""
    address = call.address(uri)
    with call.open(address) as graph:
        document = service.status(graph, address.uri)
    call.answer(document, lambda: _put(document))


def _put(document: dict[str, Any]) -> None:
    head, optimized = document["head"], document["last_optimize"]
    put_facts(
        [
            ("graph", document["uri"]),
            ("id", document["graph_id"]),
            ("internal schema", document["internal_schema_version"]),
            ("branches", ", ".join(document["branches"])),
            ("head of main", f"{head['graph_commit_id']}, {moment(head['created_at'])}"),
            ("last optimize", "never" if optimized is None else moment(optimized)),
            ("pending recoveries", document["pending_recoveries"]),
        ]
    )
    for name in document["stray_files"]:
        note(f"{name} is not a file of the graph and is ignored; move it away")
    put_table(
        tuple(TABLE_FIELDS.values()),
        [[table[name] for name in TABLE_FIELDS] for table in document["tables"]],
    )
    put_table(("branch", "bytes"), list(document["bytes_by_branch"].items()))
    of_tables = (one for table in document["tables"] for one in table["advice"])
    advice = [
        (one["code"], one["message"], one["command"]) for one in (*document["advice"], *of_tables)
    ]
    if advice:
        put_table(("advice", "why", "command"), advice)
