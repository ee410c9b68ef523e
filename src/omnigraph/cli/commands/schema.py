"""`omnigraph schema`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.output import made_commit, note, replayed
from omnigraph.cli.register import CommitFlags, SchemaOption, UriArgument, add, group
from omnigraph.cli.source import naming_file, read_file
from omnigraph.display.text import counted
from omnigraph.service import schema as service
from omnigraph.service.documents import Document
from omnigraph.service.writes.schema import ApplyRequest, apply_schema

LossOption = Annotated[
    bool,
    typer.Option(
        "--allow-data-loss",
        help="Destroy what is dropped: old versions of those tables are removed from disk.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    schemas = group(app, "schema", "Look at the schema, and change it.")
    add(schemas, "schema show", show, alias="get")
    add(schemas, "schema plan", plan)
    add(schemas, "schema apply", apply)


def show(call: Call, uri: UriArgument = None) -> None:
    """Print the schema of a graph as it was written. `schema get` is the same."""
    with call.open(call.address(uri)) as graph:
        document = service.show_schema(graph)
    call.answer(document, document["schema_source"])


def plan(
    call: Call, schema: SchemaOption, allow_data_loss: LossOption = False, uri: UriArgument = None
) -> None:
    """Show the steps to a new schema. Nothing is changed."""
    address = call.address(uri)
    request = service.SchemaRequest(
        schema_source=read_file(schema), allow_data_loss=allow_data_loss
    )
    with naming_file(schema), call.open(address) as graph:
        document = service.plan_schema(graph, request, address.uri)
    call.answer(document, _planned(document))
    for warning in document.get("warnings", ()):
        note(f"warning: {warning}")


def apply(
    call: Call,
    schema: SchemaOption,
    made: CommitFlags,
    allow_data_loss: LossOption = False,
    uri: UriArgument = None,
) -> None:
    """Give the graph a new schema as one commit, or change nothing."""
    request = ApplyRequest(
        schema_source=read_file(schema),
        allow_data_loss=allow_data_loss,
        **made.read(),
    )
    address = call.address(uri)
    with naming_file(schema), call.open(address) as graph:
        document = apply_schema(graph, request, address.uri)
    call.answer(document, _applied(document), made_commit(document))
    for warning in document.get("warnings", ()):
        note(f"warning: {warning}")


def _planned(document: Document) -> str:
    steps = document["steps"]
    if not steps:
        return "the schema is the accepted one; there is nothing to do"
    head = counted(len(steps), "step")
    if not document["supported"]:
        head += ", not supported"
    return "\n".join([head, *_lines(steps)])


def _applied(document: Document) -> str:
    commit = document["commit"]
    if commit is None:
        return "the schema is the accepted one; nothing was changed"
    made = f"  commit {commit['graph_commit_id']}{replayed(document)}"
    return "\n".join(["applied", *_lines(document["steps"]), made])


def _lines(steps: Sequence[Document]) -> list[str]:
    from omnigraph.lang.schema.migrate.steps import read_step

    return [f"  {read_step(step).describe()}" for step in steps]
