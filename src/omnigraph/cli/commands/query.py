"""`omnigraph query`."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph
from omnigraph.cli.output import is_utf8_output, on_terminal, put
from omnigraph.cli.register import UriOption, add
from omnigraph.cli.source import QueryOptions
from omnigraph.cli.targets import TargetOptions
from omnigraph.read.output.render import Format, render

FormatOption = Annotated[
    Format | None, typer.Option("--format", help="How the rows are printed, `table` by default.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, reads_graph("query"), query)


def query(
    call: Call,
    source: QueryOptions,
    target: TargetOptions,
    format: FormatOption = None,
    uri: UriOption = None,
) -> None:
    """Run a read query and print its rows."""
    if call.flags.json and format is not None:
        raise typer.BadParameter("--json excludes --format")
    state = target.read()
    source.refuse_stored()
    text, params = source.read()
    with call.open(call.address(uri)) as graph:
        result = graph.query(text, source.name, params, **state)
    chosen = Format.JSON if call.flags.json else format or Format.TABLE
    width = shutil.get_terminal_size().columns if on_terminal() else None
    for piece in render(result, chosen, ascii_only=not is_utf8_output(), width=width):
        put(piece)
