"""`omnigraph embed`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import writes_graph
from omnigraph.cli.progress import embed_progress
from omnigraph.cli.register import BranchOption, UriArgument, add

if TYPE_CHECKING:
    from omnigraph.write.embed import EmbedResult

FAILED = 1
"""The exit code when the provider could not make some of the vectors."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, writes_graph("embed"), embed)


def embed(
    call: Call,
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
    address = call.address(uri)
    with embed_progress(call.flags) as progress, call.open(address) as graph:
        done = graph.embed(
            "main" if branch is None else branch, type_, limit, call.actor, progress=progress
        )
    document = {"uri": address.uri, **done.to_json()}
    call.answer(document, _said(done), None if done.commit is None else "vectors were filled")
    if done.failed:
        raise typer.Exit(FAILED)


def _said(done: EmbedResult) -> str:
    lines = [f"filled {done.filled} vectors on branch {done.branch}"]
    if done.failed:
        lines.append(f"  the provider could not make: {done.failed}")
    if done.pending:
        lines.append(f"  still to be filled: {done.pending}")
    if done.commit is not None:
        lines.append(f"  commit {done.commit.graph_commit_id}")
    return "\n".join(lines)
