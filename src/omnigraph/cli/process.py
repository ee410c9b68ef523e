"""The process contract: exit codes, and what a failure prints where.

| exit | meaning |
|---|---|
| 0 | done |
| 1 | the operation failed |
| 2 | the argument parser found a fault |
| 4 | a compare-and-swap was lost |
| 129 | the terminal is gone (SIGHUP) |
| 130 | interrupted |
| 143 | asked to end (SIGTERM) |
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from omnigraph.cli.output import (
    WANTS_JSON,
    OutputLost,
    ReaderGone,
    accept_every_character,
    note,
    put,
    put_json,
    report,
)
from omnigraph.errors import BadRequest, OmniGraphError

FAILED = 1
INTERRUPTED = 130
SIGNALLED = 128
"""An exit code above this tells which signal ended the process."""
PROGRAM = "omnigraph"
ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
VERSION = (["version"], ["-v"], ["--version"])
PAIRS = ("--node", "--edge")


class Terminated(BaseException):
    """The system asks the process to end, which unwinds it: temporary files go, locks are freed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run(arguments: list[str]) -> int:
    """Run a command line and return the exit code; nothing but that leaves here."""
    accept_every_character()
    WANTS_JSON.set(False)
    try:
        try:
            with _unwinding():
                return _dispatch(arguments)
        except OmniGraphError as error:
            report(error)
            return _answered(error, WANTS_JSON.get())
        except ReaderGone:
            raise
        except Exception as error:  # noqa: BLE001 - the last line before a person sees a traceback
            return _answered(_unexpected(error), WANTS_JSON.get())
    except KeyboardInterrupt:
        note("interrupted")
        return INTERRUPTED
    except Terminated as ended:
        note(f"ended by {signal.Signals(ended.number).name}")
        return SIGNALLED + ended.number
    except ReaderGone:
        # What is still buffered has no reader either; without this the interpreter would say so.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


@contextmanager
def _unwinding() -> Iterator[None]:
    """Let the signals that end a process raise, so that it does not leave everything as it lies."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> NoReturn:
        raise Terminated(number)

    # What is ignored stays so: under nohup a terminal may go. What Python did not set has no handler.
    kept = (signal.SIG_IGN, None)
    before = {
        number: handler for number in ENDING if (handler := signal.getsignal(number)) not in kept
    }
    try:
        for number in before:
            signal.signal(number, end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _dispatch(arguments: list[str]) -> int:
    if arguments in VERSION:
        # Before the argument parser is loaded, which takes longer than the answer.
        from omnigraph.cli.product import version_text

        put(version_text())
        return 0
    import typer
    from typer.main import get_command

    from omnigraph.cli.app import build

    _show_warnings()
    try:
        command = get_command(build())
        code = command.main(_joined(arguments), prog_name=PROGRAM, standalone_mode=False)
    except typer.TyperException as error:
        # Where the parser gave up, nothing better tells whether JSON is wanted.
        return _misused(error.format_message(), error.exit_code, "--json" in arguments)
    if code == INTERRUPTED:  # the argument parser caught it
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


def _joined(arguments: list[str]) -> list[str]:
    """`--node TYPE FILE` as `--node TYPE=FILE`: the parser gives a repeated option one word."""
    joined: list[str] = []
    for at, argument in enumerate(arguments):
        paired = at >= 2 and arguments[at - 2] in PAIRS and "=" not in arguments[at - 1]
        if paired and not argument.startswith("-"):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def _misused(message: str, exit_code: int, as_json: bool) -> int:
    note(f"error: {message}\n`{PROGRAM} --help`, also after a command, lists what there is")
    _answered(BadRequest(message), as_json)
    return exit_code


def _answered(error: OmniGraphError, as_json: bool) -> int:
    """With `--json` the error is also the answer."""
    if as_json:
        try:
            put_json(error.body())
        except OutputLost as lost:
            if not isinstance(error, OutputLost):  # That there is no output is told once.
                report(lost)
    return error.exit_code


def _unexpected(error: Exception) -> OmniGraphError:
    """A bug: not a traceback, but what someone who can mend it needs."""
    from omnigraph import settings

    if settings.DEBUG.get():
        import traceback

        note(traceback.format_exc())
    internal = OmniGraphError(f"internal error: {type(error).__name__}: {error}")
    note(
        f"error: {internal}\nthis is a bug in omnigraph: please report it with the command and what "
        "OMNIGRAPH_DEBUG=1 adds to this message"
    )
    return internal


def _show_warnings() -> None:
    """Warnings of the engine, such as of work left for cleanup, go to stderr as plain lines."""
    import logging

    logging.basicConfig(format="warning: %(message)s", level=logging.WARNING)
