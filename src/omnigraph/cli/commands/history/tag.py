"""`omnigraph tag`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph, writes_graph
from omnigraph.cli.register import UriOption, add, group
from omnigraph.cli.tables import moment, put_table
from omnigraph.cli.targets import WORD, parse_word

if TYPE_CHECKING:
    from omnigraph.manifest.history.tags import Tag

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The tag.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    tags = group(app, "tag", "Name single commits, and keep them readable.")
    add(tags, writes_graph("tag create"), create)
    add(tags, reads_graph("tag list"), list_)
    add(tags, writes_graph("tag delete"), delete)


def create(
    call: Call,
    name: NameArgument,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help=f"What it names: {WORD}.")
    ] = "main",
    uri: UriOption = None,
) -> None:
    """Name the commit of a target; a tag never moves."""
    at = parse_word(target)
    with call.open(call.address(uri)) as graph:
        tag = graph.tags.create(name, at, actor=call.actor)
    text = f"created tag {tag.name} at commit {tag.graph_commit_id}"
    call.answer(tag.to_json(), text, f"tag {tag.name} is made")


def list_(call: Call, uri: UriOption = None) -> None:
    """List the tags by name."""
    with call.open(call.address(uri)) as graph:
        found = graph.tags.list()
    call.answer({"tags": [tag.to_json() for tag in found]}, lambda: _put_list(found))


def delete(call: Call, name: NameArgument, uri: UriOption = None) -> None:
    """Delete a tag; its commit stays for as long as history is kept."""
    name = name.strip()
    address = call.address(uri)
    call.consent(address, f"deleting tag {name}")
    with call.open(address) as graph:
        tag = graph.tags.delete(name, actor=call.actor)
    document = {
        "name": tag.name,
        "graph_commit_id": tag.graph_commit_id,
        "actor_id": call.actor,
    }
    call.answer(document, f"deleted tag {tag.name}", f"tag {tag.name} is deleted")


def _put_list(found: list[Tag]) -> None:
    put_table(
        ("tag", "commit", "branch", "version", "time", "actor"),
        [
            (
                tag.name,
                tag.graph_commit_id,
                tag.branch or "main",
                tag.manifest_version,
                moment(tag.created_us),
                tag.actor_id,
            )
            for tag in found
        ],
    )
