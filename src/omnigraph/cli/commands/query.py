"""`omnigraph query`."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph
from omnigraph.cli.output import is_utf8_output, on_terminal, put
from omnigraph.cli.register import BranchOption, UriOption, add
from omnigraph.cli.source import (
    InlineOption,
    ParamsFileOption,
    ParamsOption,
    QueryNameArgument,
    QueryOption,
    read_params,
    read_query,
    refuse_stored_query,
)
from omnigraph.cli.targets import AtVersionOption, SnapshotOption, refuse_two_targets
from omnigraph.read.output.render import Format, render

FormatOption = Annotated[
    Format | None, typer.Option("--format", help="How the rows are printed, `table` by default.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, reads_graph("query"), query)


def query(
    call: Call,
    name: QueryNameArgument = None,
    query: QueryOption = None,
    inline: InlineOption = None,
    params: ParamsOption = None,
    params_file: ParamsFileOption = None,
    branch: BranchOption = None,
    snapshot: SnapshotOption = None,
    at_version: AtVersionOption = None,
    format: FormatOption = None,
    uri: UriOption = None,
) -> None:
    """Run a read query and print its rows."""
    if call.flags.json and format is not None:
        raise typer.BadParameter("--json excludes --format")
    refuse_two_targets(branch, snapshot, at_version)
    refuse_stored_query(name, query, inline)
    source = read_query(query, inline, params_file)
    given = read_params(params, params_file)
    with call.open(call.address(uri)) as graph:
        result = graph.query(
            source, name, given, branch=branch, snapshot=snapshot, version=at_version
        )
    chosen = Format.JSON if call.flags.json else format or Format.TABLE
    width = shutil.get_terminal_size().columns if on_terminal() else None
    for piece in render(result, chosen, ascii_only=not is_utf8_output(), width=width):
        put(piece)
