"""`omnigraph schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph, writes_graph
from omnigraph.cli.output import note
from omnigraph.cli.register import SchemaOption, UriArgument, add, group
from omnigraph.cli.source import naming_file, read_file
from omnigraph.service import schema as service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph import SchemaApplied, SchemaStep

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
    add(schemas, reads_graph("schema show"), show, alias="get")
    add(schemas, reads_graph("schema plan"), plan)
    add(schemas, writes_graph("schema apply"), apply)


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
    call: Call, schema: SchemaOption, allow_data_loss: LossOption = False, uri: UriArgument = None
) -> None:
    """Give the graph a new schema as one commit, or change nothing."""
    address = call.address(uri)
    with call.open(address) as graph:
        done = graph.schema.apply(schema, allow_data_loss, actor=call.actor)
    document = {"uri": address.uri, **done.to_json()}
    call.answer(document, _applied(done), "the schema is applied" if done.applied else None)
    for warning in done.warnings:
        note(f"warning: {warning}")


def _planned(document: dict[str, Any]) -> str:
    from omnigraph.lang.schema.migrate.steps import read_step

    steps = document["steps"]
    if not steps:
        return "the schema is the accepted one; there is nothing to do"
    head = f"{len(steps)} step{'' if len(steps) == 1 else 's'}"
    if not document["supported"]:
        head += ", not supported"
    return "\n".join([head, *(f"  {read_step(step).describe()}" for step in steps)])


def _applied(done: SchemaApplied) -> str:
    if done.commit is None:
        return "the schema is the accepted one; nothing was changed"
    return "\n".join(["applied", *_lines(done.steps), f"  commit {done.commit.graph_commit_id}"])


def _lines(steps: Sequence[SchemaStep]) -> list[str]:
    return [f"  {step.describe()}" for step in steps]
