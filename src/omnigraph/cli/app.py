"""The command line as a tree of commands, one module per group."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer

from omnigraph.cli.commands import (
    blob,
    branch,
    commit,
    embed,
    explain,
    export,
    init,
    lint,
    load,
    mutate,
    query,
    schema,
    snapshot,
    status,
    version,
)
from omnigraph.cli.commands.history import changes, diff, log, tag
from omnigraph.cli.maintenance import cleanup, ensure_indices, optimize, repair
from omnigraph.cli.output import put
from omnigraph.cli.product import version_text
from omnigraph.cli.register import HelpingGroup, take_flags
from omnigraph.cli.shell import command as shell

ABOUT = "A typed property graph that branches, merges and time-travels like Git."
MODULES = (
    init,
    load,
    mutate,
    blob,
    embed,
    query,
    explain,
    shell,
    export,
    status,
    snapshot,
    schema,
    branch,
    tag,
    commit,
    log,
    changes,
    diff,
    optimize,
    ensure_indices,
    repair,
    cleanup,
    lint,
    version,
)


def build() -> typer.Typer:
    """Return the whole command line."""
    app = typer.Typer(
        cls=HelpingGroup,
        help=ABOUT,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    take_flags(app, _version_option())
    for module in MODULES:
        module.register(app)
    return app


def _version_option() -> inspect.Parameter:
    def show(wanted: bool) -> None:
        if wanted:
            put(version_text())
            raise typer.Exit

    option = typer.Option(
        "-v", "--version", is_eager=True, callback=show, help="Print the version."
    )
    return inspect.Parameter(
        "version",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[bool, option],
    )
