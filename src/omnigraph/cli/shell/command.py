"""`omnigraph shell`."""

from __future__ import annotations

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.register import BranchOption, UriArgument, add
from omnigraph.errors import BadRequest


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "shell", shell)


def shell(call: Call, uri: UriArgument = None, branch: BranchOption = None) -> None:
    """Run queries and mutations at a prompt, or those that are piped in."""
    import omnigraph
    from omnigraph.cli.shell.run import run
    from omnigraph.cli.shell.shell import Shell

    if call.flags.json:
        raise BadRequest("--json cannot be used with shell; .format json prints rows as JSON")
    address = call.address(uri)
    with omnigraph.open(address.uri, mode="rw", actor=call.actor) as graph:
        run(Shell(call, address, graph, branch))
