"""`omnigraph commit`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph, writes_graph
from omnigraph.cli.commands.history.changes import commit_changes
from omnigraph.cli.commands.history.merging import revert
from omnigraph.cli.register import BranchOption, UriArgument, UriOption, add, group
from omnigraph.cli.tables import moment, put_facts, put_table
from omnigraph.errors import BadRequest

if TYPE_CHECKING:
    from omnigraph.manifest.rows import GraphCommit


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commits = group(app, "commit", "Look at the history, and undo a commit.")
    add(commits, reads_graph("commit list"), list_)
    add(commits, reads_graph("commit show"), show)
    add(commits, reads_graph("commit changes"), commit_changes)
    add(commits, writes_graph("commit revert"), revert)


def _check_filters(filters: list[str] | None) -> list[str] | None:
    """Refuse a wrong filter as the argument parser refuses a value, before a graph is opened."""
    from omnigraph.manifest.history.records import parse_filter

    for text in filters or ():
        try:
            parse_filter(text)
        except BadRequest as error:
            raise typer.BadParameter(str(error)) from None
    return filters


def list_(
    call: Call,
    uri: UriArgument = None,
    branch: BranchOption = None,
    filter: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="KEY=VALUE",
            callback=_check_filters,
            help="Only commits with this actor, branch, operation or operation_id; repeatable.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="At most N commits.")
    ] = None,
) -> None:
    """List the commits of a branch, newest first."""
    with call.open(call.address(uri)) as graph:
        found = graph.commits.list("main" if branch is None else branch, filter, limit)
    call.answer({"commits": [commit.to_json() for commit in found]}, lambda: _put_list(found))


def show(
    call: Call,
    graph_commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit id.")],
    uri: UriOption = None,
) -> None:
    """Show one commit."""
    with call.open(call.address(uri)) as graph:
        record = graph.commits.show(graph_commit_id.strip()).to_json()
    call.answer(record, lambda: _put_one(record))


def _put_list(found: list[GraphCommit]) -> None:
    put_table(
        ("commit", "version", "time", "actor", "operation"),
        [
            (
                commit.graph_commit_id,
                commit.manifest_version,
                moment(commit.created_us),
                commit.actor_id,
                commit.operation,
            )
            for commit in found
        ],
    )


def _put_one(record: dict[str, Any]) -> None:
    shown = {**record, "branch": record["branch"] or "main"}
    shown["created_at"] = moment(record["created_at"])
    if "recovery" in shown:
        shown["recovery"] = json.dumps(shown["recovery"], ensure_ascii=False)
    put_facts(list(shown.items()))
