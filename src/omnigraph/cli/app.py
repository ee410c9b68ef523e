"""The command line as a tree of commands.

A process loads the module of the command it runs, and all of them only for the help of the whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import typer

from omnigraph.cli.command import COMMANDS, GROUPS, LEGACY, LEGEND, SCOPE_FLAGS, WORDS, flag_text
from omnigraph.cli.output import put
from omnigraph.cli.register import HelpingGroup, add, group, take_flags
from omnigraph.version import version_text

ABOUT: Final = "A typed property graph that branches, merges and time-travels like Git."
VALUED: Final = frozenset(map(flag_text, SCOPE_FLAGS))
"""The shared flags that take a value."""


class _Root(HelpingGroup):
    """The commands and groups in the order of ``COMMANDS``; typer would list the groups last."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the words that the help lists."""
        return sorted(
            super().list_commands(ctx), key=lambda word: WORDS.index(word) if word in WORDS else 0
        )


OPTIONAL: Final = {"--propose": "proposals"}
"""Options whose value may be left out, and what it is then."""


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
    groups: dict[str, typer.Typer] = {}
    for command in COMMANDS.values():
        if word in WORDS and command.group != word:
            continue
        if command.group in GROUPS and command.group not in groups:
            groups[command.group] = group(app, command.group, GROUPS[command.group])
        add(groups.get(command.group, app), command)
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


def with_values(arguments: Sequence[str]) -> list[str]:
    """Return the words, with a value after each option of ``OPTIONAL`` that has none: the parser asks for one."""
    words: list[str] = []
    for at, word in enumerate(arguments):
        if word == "--":
            return [*words, *arguments[at:]]
        following = arguments[at + 1 : at + 2]
        lacks_value = not following or following[0].startswith("-")
        words.append(f"{word}={OPTIONAL[word]}" if word in OPTIONAL and lacks_value else word)
    return words


def _legend() -> Iterator[str]:
    """Give what each capability means, and the commands that have it."""
    yield "Where commands work:"
    for capability, meaning in LEGEND.items():
        names = dict.fromkeys(
            command.group for command in COMMANDS.values() if command.capability == capability
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
