"""`omnigraph branch` and `omnigraph tag`; a merge is in `history/merging.py`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Invocation
from omnigraph.cli.shared_options import UriOption, checked_state
from omnigraph.cli.sides.side import state_fields
from omnigraph.cli.text_tables import moment, put_names, put_table
from omnigraph.manifest.snapshot import TEXT_FORMS
from omnigraph.service import wire
from omnigraph.service.documents import Document

BranchArgument = Annotated[str, typer.Argument(metavar="NAME", help="The branch.")]
TagArgument = Annotated[str, typer.Argument(metavar="NAME", help="The tag.")]


def create_branch(
    call: Invocation,
    name: BranchArgument,
    from_: Annotated[
        str, typer.Option("--from", metavar="TARGET", help=f"Where it begins: {TEXT_FORMS}.")
    ] = "main",
    uri: UriOption = None,
) -> None:
    """Make a branch at the head of another one, or at a past state; no data is copied."""
    request = wire.NewBranchBody(name=name, from_=checked_state(from_))
    with call.reach(call.address(uri)) as side:
        document = side.ask("create_branch", request)
    text = f"created branch {document['name']} from {document['from']}"
    call.answer(document, text, f"branch {document['name']} is made")


def list_branches(call: Invocation, uri: UriOption = None) -> None:
    """List the branches, main first."""
    with call.reach(call.address(uri)) as side:
        document = side.ask("branches", wire.NoParameters())
    call.answer(document, lambda: put_names("branch", document["branches"]))


def delete_branch(call: Invocation, name: BranchArgument, uri: UriOption = None) -> None:
    """Delete a branch and its commits; this cannot be undone."""
    name = name.strip()
    address = call.address(uri)
    call.consent(address, f"deleting branch {name}")
    with call.reach(address) as side:
        document = side.ask("delete_branch", wire.NoParameters(), name)
    call.answer(document, f"deleted branch {name}", f"branch {name} is deleted")


def create_tag(
    call: Invocation,
    name: TagArgument,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help=f"What it names: {TEXT_FORMS}.")
    ] = "main",
    uri: UriOption = None,
) -> None:
    """Name the commit of a target; a tag never moves."""
    checked_state(target)
    with call.reach(call.address(uri)) as side:
        request = wire.NewTagBody(name=name, **state_fields(side, target))
        tag = side.ask("create_tag", request)
    text = f"created tag {tag['name']} at commit {tag['graph_commit_id']}"
    call.answer(tag, text, f"tag {tag['name']} is made")


def list_tags(call: Invocation, uri: UriOption = None) -> None:
    """List the tags by name."""
    with call.reach(call.address(uri)) as side:
        document = side.ask("tags", wire.NoParameters())
    call.answer(document, lambda: _put_tags(document["tags"]))


def delete_tag(call: Invocation, name: TagArgument, uri: UriOption = None) -> None:
    """Delete a tag; its commit stays for as long as history is kept."""
    name = name.strip()
    address = call.address(uri)
    call.consent(address, f"deleting tag {name}")
    with call.reach(address) as side:
        document = side.ask("delete_tag", wire.NoParameters(), name)
    call.answer(document, f"deleted tag {document['name']}", f"tag {document['name']} is deleted")


def _put_tags(tags: list[Document]) -> None:
    put_table(
        ("tag", "commit", "branch", "version", "time", "actor"),
        [
            (
                tag["name"],
                tag["graph_commit_id"],
                tag["branch"] or "main",
                tag["manifest_version"],
                moment(tag["created_at"]),
                tag["actor_id"],
            )
            for tag in tags
        ],
    )
