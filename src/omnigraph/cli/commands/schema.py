"""`omnigraph init` and `omnigraph schema`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Invocation
from omnigraph.cli.output import made_commit, note, replayed
from omnigraph.cli.shared_options import (
    BranchOption,
    CommitFlags,
    MessageOption,
    SchemaOption,
    TargetOptions,
    UriArgument,
    UriOption,
    checked_state,
    naming_file,
    read_file,
    step_lines,
)
from omnigraph.display.text import counted
from omnigraph.manifest.snapshot import TEXT_FORMS
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
    state: TargetOptions,
    clean: Annotated[
        bool, typer.Option("--clean", help="Leave out rename hints, which did their work.")
    ] = False,
    uri: UriArgument = None,
) -> None:
    """Print the schema of a state of the graph as it was written. `schema get` is the same."""
    wanted = wire.TargetParameters(**state.read())
    with call.reach(call.address(uri)) as side:
        document = side.ask("schema", wanted)
    if clean:
        document = service.without_rename_hints(document)
    call.answer(document, document["schema_source"])


def diff_schemas(
    call: Invocation,
    from_: Annotated[str, typer.Argument(metavar="FROM", help=f"One state: {TEXT_FORMS}.")],
    to: Annotated[str, typer.Argument(metavar="TO", help="The other state, named alike.")],
    uri: UriOption = None,
) -> None:
    """Show the steps from the schema of one state of the graph to that of another."""
    request = wire.SchemaDiffBody(from_=checked_state(from_), to=checked_state(to))
    with call.reach(call.address(uri)) as side:
        document = side.ask("schema_diff", request)
    steps = document["steps"]
    text = "\n".join([counted(len(steps), "step"), *step_lines(steps)])
    call.answer(document, text if steps else "no differences")


def plan_schema(
    call: Invocation,
    schema: SchemaOption,
    allow_data_loss: LossOption = False,
    check: Annotated[
        bool, typer.Option("--check", help="Judge all stored rows by the new rules.")
    ] = False,
    branch: BranchOption = None,
    uri: UriArgument = None,
) -> None:
    """Show the steps to a new schema of a branch. Nothing is changed."""
    address = call.address(uri)
    request = wire.SchemaPlanBody(
        schema_source=read_file(schema),
        allow_data_loss=allow_data_loss,
        check=check,
        branch=branch,
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
    branch: BranchOption = None,
    uri: UriArgument = None,
) -> None:
    """Give a branch a new schema as one commit, or change nothing; other branches keep theirs."""
    request = wire.SchemaApplyBody(
        schema_source=read_file(schema),
        allow_data_loss=allow_data_loss,
        branch=branch,
        message=made.message,
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
    return "\n".join([head, *step_lines(steps)])


def _applied(document: Document) -> str:
    commit = document["commit"]
    if commit is None:
        return "the schema is the accepted one; nothing was changed"
    made = f"  commit {commit['graph_commit_id']}{replayed(document)}"
    return "\n".join(["applied", *step_lines(document["steps"]), made])
