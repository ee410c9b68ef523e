"""The command line as a tree of commands, one module per group.

A process loads the module of the command it runs, and all of them only for the help of the whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from omnigraph.cli.command import COMMANDS, LEGACY, LEGEND, SCOPE_FLAGS, flag_text
from omnigraph.cli.local.product import version_text
from omnigraph.cli.output import put
from omnigraph.cli.register import HelpingGroup, take_flags

ABOUT: Final = "A typed property graph that branches, merges and time-travels like Git."
MODULES: Final[Mapping[str, str]] = {
    "init": "commands.init",
    "load": "commands.load",
    "ingest": "commands.load",
    "mutate": "commands.mutate",
    "blob": "commands.blob",
    "embed": "commands.embed",
    "query": "commands.query",
    "explain": "commands.explain",
    "shell": "shell.command",
    "export": "commands.export",
    "status": "commands.status",
    "snapshot": "commands.snapshot",
    "schema": "commands.schema",
    "branch": "commands.branch",
    "tag": "commands.history.tag",
    "commit": "commands.commit",
    "log": "commands.history.log",
    "changes": "commands.history.changes",
    "diff": "commands.history.diff",
    "optimize": "maintenance.optimize",
    "ensure-indices": "maintenance.ensure_indices",
    "repair": "maintenance.repair",
    "cleanup": "maintenance.cleanup",
    "verify": "maintenance.verify",
    "lint": "commands.lint",
    "alias": "local.alias",
    "profile": "local.profile",
    "login": "local.login",
    "logout": "local.login",
    "examples": "local.examples",
    "completion": "local.completion",
    "version": "local.version",
}
"""The module of each command or group, in the order of the help."""

VALUED: Final = frozenset(map(flag_text, SCOPE_FLAGS))
"""The shared flags that take a value."""


class _Root(HelpingGroup):
    """The commands and groups in the order of ``MODULES``; typer would list the groups last."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the words that the help lists."""
        known = list(MODULES)
        return sorted(
            super().list_commands(ctx), key=lambda word: known.index(word) if word in MODULES else 0
        )


def build(arguments: Sequence[str] | None = None) -> typer.Typer:
    """Return the command line; with ``arguments``, only what is needed to run them."""
    app = typer.Typer(
        cls=_Root,
        help=ABOUT,
        epilog="\n\n".join(_legend()),
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    take_flags(app, _version_option())
    word = "" if arguments is None else command_word(arguments) or ""
    word = LEGACY.get(word, word)
    names = [MODULES[word]] if word in MODULES else dict.fromkeys(MODULES.values())
    for name in names:
        import_module(f"omnigraph.cli.{name}").register(app)
    return app


def command_word(arguments: Sequence[str]) -> str | None:
    """Return the first word that is neither a flag nor the value of one."""
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            return word
        if word in VALUED:
            next(words, None)
    return None


def _legend() -> Iterator[str]:
    """Give what each capability means, and the commands that have it."""
    yield "Where commands work:"
    for capability, meaning in LEGEND.items():
        names = dict.fromkeys(
            command.name.partition(" ")[0]
            for command in COMMANDS.values()
            if command.capability == capability and command.name.partition(" ")[0] in MODULES
        )
        yield f"{capability}: {meaning} ({', '.join(names)})"


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
