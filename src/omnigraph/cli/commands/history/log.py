"""`omnigraph log`, `omnigraph commit list` and `commit show`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from omnigraph.cli.call import Invocation
from omnigraph.cli.commands.history.log_text import (
    actors_text,
    put_drawn,
    put_flat,
    put_with_messages,
)
from omnigraph.cli.output import note
from omnigraph.cli.shared_options import BranchOption, UriArgument, UriOption
from omnigraph.cli.text_tables import moment, put_facts
from omnigraph.errors import BadRequest
from omnigraph.service import wire


def _check_filters(filters: list[str] | None) -> list[str] | None:
    """Refuse a wrong filter as the argument parser refuses a value, before a graph is opened."""
    from omnigraph.manifest.history.records import parse_filter

    for text in filters or ():
        try:
            parse_filter(text)
        except BadRequest as error:
            raise typer.BadParameter(str(error)) from None
    return filters


def list_commits(
    call: Invocation,
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
    request = wire.CommitsParameters(branch=branch, filter=filter or [], limit=limit)
    with call.reach(call.address(uri)) as side:
        document = side.ask("commits", request)
    call.answer(document, lambda: _put_commits(document["commits"]))


def show_commit(
    call: Invocation,
    graph_commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit id.")],
    uri: UriOption = None,
) -> None:
    """Show one commit."""
    with call.reach(call.address(uri)) as side:
        record = side.ask("commit", wire.NoParameters(), graph_commit_id)
    call.answer(record, lambda: _put_commit(record))


def _put_commits(commits: list[dict[str, Any]]) -> None:
    rows = [
        (
            commit["graph_commit_id"],
            commit["manifest_version"],
            moment(commit["created_at"]),
            actors_text(commit),
            commit["operation"],
        )
        for commit in commits
    ]
    put_with_messages(("commit", "version", "time", "actor", "operation"), rows, commits)


def _put_commit(record: dict[str, Any]) -> None:
    facts = dict(record["facts"])
    said = {"message": facts.pop("message")} if "message" in facts else {}
    shown = {**record, "branch": record["branch"] or "main", **said, "facts": facts}
    shown["created_at"] = moment(record["created_at"])
    for name in ("facts", "recovery"):
        if name in shown:
            shown[name] = json.dumps(shown[name], ensure_ascii=False) if shown[name] else None
    put_facts(list(shown.items()))


def log(
    call: Invocation,
    uri: UriArgument = None,
    branch: Annotated[
        list[str] | None,
        typer.Option("--branch", metavar="NAME", help="Only this branch; may be repeated."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="At most N commits.")
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="ID", help="Start after this commit.")
    ] = None,
    flat: Annotated[bool, typer.Option("--flat", help="Leave the drawing out.")] = False,
) -> None:
    """Draw the commits of all branches, newest first."""
    request = wire.HistoryParameters(branch=branch or [], limit=limit, before=before)
    with call.reach(call.address(uri)) as side:
        document = side.ask("history", request)
    call.answer(document, lambda: (put_flat if flat else put_drawn)(document))
    if "next" in document and not call.flags.json:
        note(f"there is more: --before {document['next']}")
