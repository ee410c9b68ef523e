"""`omnigraph log`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.commands.history.log_text import put_drawn, put_flat
from omnigraph.cli.output import note
from omnigraph.cli.register import UriArgument, add
from omnigraph.service import history as service


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "log", log)


def log(
    call: Call,
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
    request = service.HistoryRequest(branches=tuple(branch or ()), limit=limit, before=before)
    with call.open(call.address(uri)) as graph:
        document = service.history(graph, request)
    call.answer(document, lambda: (put_flat if flat else put_drawn)(document))
    if "next" in document and not call.flags.json:
        note(f"there is more: --before {document['next']}")
