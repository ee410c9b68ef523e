"""What the argument parser found wrong, in words that say what to write instead."""

from __future__ import annotations

from typing import Any

from omnigraph.cli.address import refuse_unusable
from omnigraph.cli.command import COMMANDS, SCOPE_FLAGS, Flags
from omnigraph.cli.operator.config import read_operator
from omnigraph.cli.output import one_line


def misuse_text(error: Any) -> str:
    """Return the message of an error of the argument parser.

    Raise ``BadRequest`` instead if an argument is missing where a flag was given that the command
    refuses: the flag is what the user has to change.
    """
    context = getattr(error, "ctx", None)
    message: str = error.format_message()
    if context is None:
        return message
    if message.startswith("Missing argument"):
        _refuse_flags(context)
    if message.startswith("Got unexpected extra argument"):
        taken = [
            each.metavar for each in context.command.params if each.param_type_name == "argument"
        ]
        return (
            f"{message}; {context.command_path} takes {' '.join(taken) or 'no words but options'}"
        )
    wanted = _wanted(error.__cause__)
    # The library that checks values puts these words before those of the check itself.
    found = error.message if wanted is None else wanted
    return message.replace(error.message, found.removeprefix("Value error, "))


def _wanted(cause: Any) -> str | None:
    """Return what a value should have been, as far as the library that checks values knows."""
    errors = getattr(cause, "errors", None)
    if errors is None:
        return None
    fault = errors()[0]
    given = one_line(str(fault["input"]))
    if fault["type"].startswith("int_"):
        return f"expected a whole number, got {given}"
    if fault["type"] == "greater_than_equal":
        return f"expected a whole number, {fault['ctx']['ge']} or more, got {given}"
    return None


def _refuse_flags(context: Any) -> None:
    """Raise if a flag was given, here or further left, that the command can never use."""
    command = COMMANDS.get(context.command_path.partition(" ")[2])
    if command is None:
        return
    before = context.obj if isinstance(context.obj, Flags) else Flags()
    here = Flags(**{name: context.params.get(name) for name in SCOPE_FLAGS})
    refuse_unusable(command, before.then(here), read_operator)
