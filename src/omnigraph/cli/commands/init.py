"""`omnigraph init`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import COMMANDS
from omnigraph.cli.output import note
from omnigraph.cli.register import SchemaOption, add


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, COMMANDS["init"], init)


def init(
    call: Call,
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="Where to: a path, a file:// or an s3:// URI.")
    ],
    schema: SchemaOption,
    force: Annotated[
        bool, typer.Option("--force", help="Replace schema files left there without a graph.")
    ] = False,
) -> None:
    """Create a graph from a schema."""
    import omnigraph

    address = call.address(uri)
    with omnigraph.init(address.uri, schema, force=force) as graph:
        document = {
            "uri": address.uri,
            "graph_commit_id": graph.snapshot().graph_commit_id,
            "internal_schema_version": graph.internal_schema_version,
        }
        has_types = bool(graph.schema.catalog.nodes)
    if not has_types:
        note(f"{schema} declares no types, so the graph has none and nothing can be loaded into it")
    call.answer(document, f"initialized {address.uri}", f"the graph at {address.uri} is made")
