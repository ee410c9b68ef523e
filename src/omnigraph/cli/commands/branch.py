"""`omnigraph branch`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.commands.history.merging import merge
from omnigraph.cli.register import UriOption, add, group
from omnigraph.cli.tables import put_names
from omnigraph.manifest.snapshot import TEXT_FORMS, Target
from omnigraph.service.writes import branches as service

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The branch.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    branches = group(app, "branch", "Make, list, merge and delete branches.")
    add(branches, "branch create", create)
    add(branches, "branch list", list_)
    add(branches, "branch merge", merge)
    add(branches, "branch delete", delete)


def create(
    call: Call,
    name: NameArgument,
    from_: Annotated[
        str, typer.Option("--from", metavar="TARGET", help=f"Where it begins: {TEXT_FORMS}.")
    ] = "main",
    uri: UriOption = None,
) -> None:
    """Make a branch at the head of another one, or at a past state; no data is copied."""
    request = service.CreateBranchRequest(name=name, from_=Target.of_text(from_))
    address = call.address(uri)
    with call.open(address) as graph:
        document = service.create_branch(graph, request, address.uri)
    text = f"created branch {document['name']} from {document['from']}"
    call.answer(document, text, f"branch {document['name']} is made")


def list_(call: Call, uri: UriOption = None) -> None:
    """List the branches, main first."""
    with call.open(call.address(uri)) as graph:
        document = service.list_branches(graph)
    call.answer(document, lambda: put_names("branch", document["branches"]))


def delete(call: Call, name: NameArgument, uri: UriOption = None) -> None:
    """Delete a branch and its commits; this cannot be undone."""
    name = name.strip()
    address = call.address(uri)
    call.consent(address, f"deleting branch {name}")
    with call.open(address) as graph:
        document = service.delete_branch(graph, name, address.uri)
    call.answer(document, f"deleted branch {name}", f"branch {name} is deleted")
