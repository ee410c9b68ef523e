"""`omnigraph init` and `omnigraph schema`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from omnigraph.cli.call import Invocation
from omnigraph.cli.output import made_commit, note, replayed
from omnigraph.cli.shared_options import (
    CommitFlags,
    MessageOption,
    SchemaOption,
    UriArgument,
    naming_file,
    read_file,
)
from omnigraph.display.text import counted
from omnigraph.service import schema as service
from omnigraph.service import wire
from omnigraph.service.documents import Document

LossOption = Annotated[
    bool,
    typer.Option(
        "--allow-data-loss",
        help="Destroy what is dropped: old versions of those tables are removed from disk.",
    ),
]


def init(
    call: Invocation,
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="Where to: a path, a file:// or an s3:// URI.")
    ],
    schema: SchemaOption,
    force: Annotated[
        bool, typer.Option("--force", help="Replace schema files left there without a graph.")
    ] = False,
    message: MessageOption = None,
) -> None:
    """Create a graph from a schema."""
    request = service.InitRequest(
        schema_source=read_file(str(schema)),
        force=force,
        actor=call.operator_actor,
        message=message,
    )
    address = call.storage(uri)
    with naming_file(str(schema)):
        document = service.init(request, address.uri)
    for warning in document.get("warnings", ()):
        note(f"warning: {warning}")
    call.answer(document, f"initialized {address.uri}", f"the graph at {address.uri} is made")


def show_schema(
    call: Invocation,
    clean: Annotated[
        bool, typer.Option("--clean", help="Leave out rename hints, which did their work.")
    ] = False,
    uri: UriArgument = None,
) -> None:
    """Print the schema of a graph as it was written. `schema get` is the same."""
    with call.reach(call.address(uri)) as side:
        document = side.ask("schema", wire.NoParameters())
    if clean:
        document = service.without_rename_hints(document)
    call.answer(document, document["schema_source"])


def plan_schema(
    call: Invocation,
    schema: SchemaOption,
    allow_data_loss: LossOption = False,
    check: Annotated[
        bool, typer.Option("--check", help="Judge all stored rows by the new rules.")
    ] = False,
    uri: UriArgument = None,
) -> None:
    """Show the steps to a new schema. Nothing is changed."""
    address = call.address(uri)
    request = wire.SchemaPlanBody(
        schema_source=read_file(schema), allow_data_loss=allow_data_loss, check=check
    )
    with naming_file(schema), call.reach(address) as side:
        document = side.ask("schema_plan", request)
    call.answer(document, _planned(document))
    for warning in document.get("warnings", ()):
        note(f"warning: {warning}")


def apply_schema(
    call: Invocation,
    schema: SchemaOption,
    made: CommitFlags,
    allow_data_loss: LossOption = False,
    uri: UriArgument = None,
) -> None:
    """Give the graph a new schema as one commit, or change nothing."""
    request = wire.SchemaApplyBody(
        schema_source=read_file(schema), allow_data_loss=allow_data_loss, message=made.message
    )
    with naming_file(schema), call.reach(call.address(uri)) as side:
        document = side.ask("apply_schema", request, said=made.conditions())
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
    if document.get("checked"):
        head += "; every stored row keeps the new rules"
    return "\n".join([head, *_step_lines(steps)])


def _applied(document: Document) -> str:
    commit = document["commit"]
    if commit is None:
        return "the schema is the accepted one; nothing was changed"
    made = f"  commit {commit['graph_commit_id']}{replayed(document)}"
    return "\n".join(["applied", *_step_lines(document["steps"]), made])


def _step_lines(steps: Sequence[Document]) -> list[str]:
    from omnigraph.lang.schema.migrate.read_steps import read_step

    return [f"  {read_step(step).describe()}" for step in steps]
