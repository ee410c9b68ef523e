"""`omnigraph init`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.output import note
from omnigraph.cli.register import MessageOption, SchemaOption, add
from omnigraph.cli.source import naming_file, read_file
from omnigraph.service.writes.create import InitRequest
from omnigraph.service.writes.create import init as create


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "init", init)


def init(
    call: Call,
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
    request = InitRequest(
        schema_source=read_file(str(schema)),
        force=force,
        actor=call.operator_actor,
        message=message,
    )
    address = call.address(uri)
    with naming_file(str(schema)):
        document = create(request, address.uri)
    for warning in document.get("warnings", ()):
        note(f"warning: {warning}")
    call.answer(document, f"initialized {address.uri}", f"the graph at {address.uri} is made")
