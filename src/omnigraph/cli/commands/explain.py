"""`omnigraph explain`."""

from __future__ import annotations

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph
from omnigraph.cli.output import printable
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


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, reads_graph("explain"), explain)


def explain(
    call: Call,
    name: QueryNameArgument = None,
    query: QueryOption = None,
    inline: InlineOption = None,
    params: ParamsOption = None,
    params_file: ParamsFileOption = None,
    branch: BranchOption = None,
    snapshot: SnapshotOption = None,
    at_version: AtVersionOption = None,
    uri: UriOption = None,
) -> None:
    """Show what a read query would do, without running it."""
    refuse_two_targets(branch, snapshot, at_version)
    refuse_stored_query(name, query, inline)
    source = read_query(query, inline, params_file)
    given = read_params(params, params_file)
    with call.open(call.address(uri)) as graph:
        explained = graph.explain(
            source, name, given, branch=branch, snapshot=snapshot, version=at_version
        )
    call.answer(explained.to_json(), printable(explained.text))
