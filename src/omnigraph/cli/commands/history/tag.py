"""`omnigraph tag`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.register import UriOption, add, group
from omnigraph.cli.tables import moment, put_table
from omnigraph.manifest.snapshot import TEXT_FORMS, Target
from omnigraph.service.documents import Document
from omnigraph.service.writes import tags as service

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The tag.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    tags = group(app, "tag", "Name single commits, and keep them readable.")
    add(tags, "tag create", create)
    add(tags, "tag list", list_)
    add(tags, "tag delete", delete)


def create(
    call: Call,
    name: NameArgument,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help=f"What it names: {TEXT_FORMS}.")
    ] = "main",
    uri: UriOption = None,
) -> None:
    """Name the commit of a target; a tag never moves."""
    request = service.CreateTagRequest(name=name, target=Target.of_text(target))
    with call.open(call.address(uri)) as graph:
        tag = service.create_tag(graph, request)
    text = f"created tag {tag['name']} at commit {tag['graph_commit_id']}"
    call.answer(tag, text, f"tag {tag['name']} is made")


def list_(call: Call, uri: UriOption = None) -> None:
    """List the tags by name."""
    with call.open(call.address(uri)) as graph:
        document = service.list_tags(graph)
    call.answer(document, lambda: _put_list(document["tags"]))


def delete(call: Call, name: NameArgument, uri: UriOption = None) -> None:
    """Delete a tag; its commit stays for as long as history is kept."""
    name = name.strip()
    address = call.address(uri)
    call.consent(address, f"deleting tag {name}")
    with call.open(address) as graph:
        document = service.delete_tag(graph, name)
    call.answer(document, f"deleted tag {document['name']}", f"tag {document['name']} is deleted")


def _put_list(tags: list[Document]) -> None:
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
