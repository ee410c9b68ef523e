"""`omnigraph commit`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.commands.history.changes import commit_changes
from omnigraph.cli.commands.history.log_text import put_with_messages
from omnigraph.cli.commands.history.merging import revert
from omnigraph.cli.register import BranchOption, UriArgument, UriOption, add, group
from omnigraph.cli.tables import moment, put_facts
from omnigraph.errors import BadRequest
from omnigraph.service import history as service


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commits = group(app, "commit", "Look at the history, and undo a commit.")
    add(commits, "commit list", list_)
    add(commits, "commit show", show)
    add(commits, "commit changes", commit_changes)
    add(commits, "commit revert", revert)


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
    request = service.CommitsRequest(branch=branch, filters=tuple(filter or ()), limit=limit)
    with call.open(call.address(uri)) as graph:
        document = service.list_commits(graph, request)
    call.answer(document, lambda: _put_list(document["commits"]))


def show(
    call: Call,
    graph_commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit id.")],
    uri: UriOption = None,
) -> None:
    """Show one commit."""
    with call.open(call.address(uri)) as graph:
        record = service.show_commit(graph, graph_commit_id)
    call.answer(record, lambda: _put_one(record))


def _put_list(commits: list[dict[str, Any]]) -> None:
    rows = [
        (
            commit["graph_commit_id"],
            commit["manifest_version"],
            moment(commit["created_at"]),
            commit["actor_id"],
            commit["operation"],
        )
        for commit in commits
    ]
    put_with_messages(("commit", "version", "time", "actor", "operation"), rows, commits)


def _put_one(record: dict[str, Any]) -> None:
    facts = dict(record["facts"])
    said = {"message": facts.pop("message")} if "message" in facts else {}
    shown = {**record, "branch": record["branch"] or "main", **said, "facts": facts}
    shown["created_at"] = moment(record["created_at"])
    for name in ("facts", "recovery"):
        if name in shown:
            shown[name] = json.dumps(shown[name], ensure_ascii=False) if shown[name] else None
    put_facts(list(shown.items()))
