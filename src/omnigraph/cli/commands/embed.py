"""`omnigraph embed`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.output import made_commit, replayed
from omnigraph.cli.progress import embed_progress
from omnigraph.cli.register import BranchOption, CommitFlags, UriArgument, add
from omnigraph.display.text import counted
from omnigraph.service.documents import Document
from omnigraph.service.writes.embed import EmbedRequest
from omnigraph.service.writes.embed import embed as fill

FAILED = 1
"""The exit code when the provider could not make some of the vectors."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "embed", embed)


def embed(
    call: Call,
    made: CommitFlags,
    uri: UriArgument = None,
    branch: BranchOption = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="T", help="Only this node type; may be repeated."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="At most N vectors.")
    ] = None,
) -> None:
    """Fill vectors that are missing although their text is there; every 1,000 rows are a commit."""
    types = None if type_ is None else tuple(type_)
    request = EmbedRequest(branch=branch, types=types, limit=limit, **made.read())
    address = call.address(uri)
    with embed_progress(call.flags) as progress, call.open(address) as graph:
        document = fill(graph, request, address.uri, progress=progress)
    call.answer(document, _text(document), made_commit(document))
    if document["failed"]:
        raise typer.Exit(FAILED)


def _text(document: Document) -> str:
    lines = [f"filled {counted(document['filled'], 'vector')} on branch {document['branch']}"]
    if document["failed"]:
        lines.append(f"  the provider could not make: {document['failed']}")
    if document["pending"]:
        lines.append(f"  still to be filled: {document['pending']}")
    if document["commit"] is not None:
        lines.append(f"  commit {document['commit']['graph_commit_id']}{replayed(document)}")
    return "\n".join(lines)
