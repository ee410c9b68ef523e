"""`omnigraph status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph
from omnigraph.cli.output import note
from omnigraph.cli.register import UriArgument, add
from omnigraph.cli.tables import moment, put_facts, put_table

if TYPE_CHECKING:
    from omnigraph.maintenance.status import Status


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, reads_graph("status"), status)


def status(call: Call, uri: UriArgument = None) -> None:
    """Sum up a graph: branches, head, the tables of main, and what they need."""
    with call.open(call.address(uri)) as graph:
        found = graph.status()
    call.answer(found.to_json(), lambda: _put(found))


def _put(found: Status) -> None:
    optimized = "never" if found.last_optimize is None else moment(found.last_optimize)
    put_facts(
        [
            ("graph", found.uri),
            ("id", found.graph_id),
            ("internal schema", found.internal_schema_version),
            ("branches", ", ".join(found.branches)),
            ("head of main", f"{found.head.graph_commit_id}, {moment(found.head.created_us)}"),
            ("last optimize", optimized),
            ("pending recoveries", found.pending_recoveries),
        ]
    )
    for name in found.stray_files:
        note(f"{name} is not a file of the graph and is ignored; move it away")
    put_table(
        ("table", "rows", "version", "newest", "versions", "fragments", "manifest bytes"),
        [
            (
                table.table_key,
                table.pin.row_count,
                table.pin.table_version,
                table.head_version,
                table.versions,
                table.fragments,
                table.manifest_bytes,
            )
            for table in found.tables
        ],
    )
    put_table(("branch", "bytes"), list(found.bytes_by_branch.items()))
    if found.all_advice:
        rows = [(one.code, one.message, one.command) for one in found.all_advice]
        put_table(("advice", "why", "command"), rows)
