"""`omnigraph explain`."""

from __future__ import annotations

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph
from omnigraph.cli.output import printable
from omnigraph.cli.register import UriOption, add
from omnigraph.cli.source import QueryOptions
from omnigraph.cli.targets import TargetOptions


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, reads_graph("explain"), explain)


def explain(
    call: Call,
    source: QueryOptions,
    target: TargetOptions,
    uri: UriOption = None,
) -> None:
    """Show what a read query would do, without running it."""
    state = target.read()
    source.refuse_stored()
    text, params = source.read()
    with call.open(call.address(uri)) as graph:
        explained = graph.explain(text, source.name, params, **state)
    call.answer(explained.to_json(), printable(explained.text))
