"""`omnigraph diff`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.commands.history.changes import (
    LimitOption,
    PageTokenOption,
    put_changes,
    put_page_token,
)
from omnigraph.cli.commands.history.filters import FilterOptions, NoImagesOption
from omnigraph.cli.output import put
from omnigraph.cli.register import UriOption, add
from omnigraph.manifest.snapshot import TEXT_FORMS, Target
from omnigraph.service import changes as service
from omnigraph.service.documents import Document, Streamed

COUNTED = {"inserts": "inserted", "updates": "updated", "deletes": "deleted"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "diff", diff)


def diff(
    call: Call,
    from_: Annotated[str, typer.Argument(metavar="FROM", help=f"One state: {TEXT_FORMS}.")],
    to: Annotated[str, typer.Argument(metavar="TO", help="The other state, named alike.")],
    shown: FilterOptions,
    uri: UriOption = None,
    no_images: NoImagesOption = False,
    limit: LimitOption = None,
    page_token: PageTokenOption = None,
) -> None:
    """Show what changed, net, from one state of the graph to another."""
    request = service.DiffRequest(
        from_=Target.of_text(from_),
        to=Target.of_text(to),
        images=not no_images,
        limit=limit,
        page_token=page_token,
        **shown.read(),
    )
    with call.open(call.address(uri)) as graph:
        if page_token is not None:
            page = service.diff_page(graph, request)
            call.answer(page, lambda: _put_page(page))
        else:
            # Inside, because the changes are found while they are printed.
            found = service.diff(graph, request)
            call.answer(found, lambda: _put_all(found))


def _put_page(page: Document) -> None:
    put_changes(page["changes"])
    put_page_token(page)


def _put_all(found: Streamed) -> None:
    for changes in found.values():
        put_changes(changes)
    stats = found.end()["stats"]
    is_empty = not any(stats[name] for name in COUNTED)
    counts = (f"{stats[name]:,} {what}" for name, what in COUNTED.items())
    put("no differences" if is_empty else ", ".join(counts))
