"""`omnigraph status` and `omnigraph snapshot`: how a graph stands."""

from __future__ import annotations

from typing import Any

from omnigraph.cli.call import Invocation
from omnigraph.cli.output import note, put
from omnigraph.cli.shared_options import TargetOptions, UriArgument
from omnigraph.cli.text_tables import moment, put_facts, put_table
from omnigraph.service import wire

STATUS_FIELDS = {
    "table_key": "table",
    "row_count": "rows",
    "table_version": "version",
    "head_version": "newest",
    "versions": "versions",
    "fragments": "fragments",
    "manifest_bytes": "manifest bytes",
}
SNAPSHOT_FIELDS = ("table_key", "table_version", "table_branch", "row_count", "table_path")


def status(call: Invocation, uri: UriArgument = None) -> None:
    """Sum up a graph: branches, head, the tables of main, and what they need."""
    with call.reach(call.address(uri)) as side:
        document = side.ask("status", wire.NoParameters())
    call.answer(document, lambda: _put_status(document))


def _put_status(document: dict[str, Any]) -> None:
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
        tuple(STATUS_FIELDS.values()),
        [[table[name] for name in STATUS_FIELDS] for table in document["tables"]],
    )
    put_table(("branch", "bytes"), list(document["bytes_by_branch"].items()))
    of_tables = (advised for table in document["tables"] for advised in table["advice"])
    advice = [
        (advised["code"], advised["message"], advised["command"])
        for advised in (*document["advice"], *of_tables)
    ]
    if advice:
        put_table(("advice", "why", "command"), advice)


def snapshot(
    call: Invocation,
    target: TargetOptions,
    uri: UriArgument = None,
) -> None:
    """Show the version of every table at a branch or a commit."""
    state = target.read()
    with call.reach(call.address(uri)) as side:
        document = side.ask("snapshot", wire.TargetParameters(**state))
    call.answer(document, lambda: _put_snapshot(document))


def list_graphs(call: Invocation) -> None:
    """List the graphs of a server."""
    from omnigraph.cli.sides.served import list_graphs as ask

    server = call.server()
    document = ask(server.url, call.token(server))
    rows = [f"{graph['graph_id']}\t{graph['uri']}" for graph in document["graphs"]]
    call.answer(document, lambda: put("\n".join(rows)) if rows else note("there are no graphs"))


def _put_snapshot(document: dict[str, Any]) -> None:
    put(
        f"branch {document['branch']} at commit {document['graph_commit_id']}, "
        f"version {document['manifest_version']}"
    )
    put_table(
        ("table", "version", "fork", "rows", "path"),
        [[table[name] for name in SNAPSHOT_FIELDS] for table in document["tables"]],
    )
