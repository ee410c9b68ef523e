"""`omnigraph schema`."""

from __future__ import annotations

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph
from omnigraph.cli.register import UriArgument, add, group


def register(app: typer.Typer) -> None:
    """Add the commands."""
    schemas = group(app, "schema", "Look at the schema.")
    add(schemas, reads_graph("schema show"), show, alias="get")


def show(call: Call, uri: UriArgument = None) -> None:
    """Print the schema of a graph as it was written. `schema get` is the same."""
    with call.open(call.address(uri)) as graph:
        source = graph.schema.source
    call.answer({"schema_source": source}, source)
