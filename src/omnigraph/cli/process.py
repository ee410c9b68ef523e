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
from typing import Any, NoReturn

from omnigraph.cli.output import (
    WANTS_JSON,
    OutputLost,
    ReaderGone,
    accept_every_character,
    note,
    put,
    put_json,
    put_piece,
    report,
)
from omnigraph.errors import BadRequest, OmniGraphError

FAILED = 1
INTERRUPTED = 130
SIGNALLED = 128
"""A process ended by signal n exits with this number plus n."""
PROGRAM = "omnigraph"
ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
COMPLETE = "__complete"
"""The word by which the scripts of `omnigraph completion` ask what a word can become."""
VERSION = (["version"], ["-v"], ["--version"])


class Terminated(BaseException):
    """The system asked the process to end. Raised so that temporary files and locks are released."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run(arguments: list[str]) -> int:
    """Run a command line and return the exit code; no exception leaves this function."""
    accept_every_character()
    WANTS_JSON.set(False)
    try:
        try:
            with _raise_on_signals():
                return _dispatch(arguments)
        except OmniGraphError as error:
            report(error)
            return _print_error_document(error, WANTS_JSON.get())
        except ReaderGone:
            raise
        except Exception as error:  # noqa: BLE001 - the last line before a person sees a traceback
            return _print_error_document(_report_bug(error), WANTS_JSON.get())
    except KeyboardInterrupt:
        note("interrupted")
        return INTERRUPTED
    except Terminated as ended:
        note(f"ended by {signal.Signals(ended.number).name}")
        return SIGNALLED + ended.number
    except ReaderGone:
        # The rest of the buffer has no reader either. Without this the interpreter would print an
        # error about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


@contextmanager
def _raise_on_signals() -> Iterator[None]:
    """Make signals that end the process raise ``Terminated``, so that cleanup code runs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> NoReturn:
        raise Terminated(number)

    # Ignored signals stay ignored (nohup ignores SIGHUP on purpose). None stands for a handler that
    # was not installed from Python and could not be put back.
    untouched = (signal.SIG_IGN, None)
    before = {
        number: handler
        for number in ENDING
        if (handler := signal.getsignal(number)) not in untouched
    }
    try:
        for number in before:
            signal.signal(number, end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _dispatch(arguments: list[str]) -> int:
    """Answer `version` directly; pass everything else to the argument parser."""
    if arguments in VERSION:
        # Loading the argument parser takes longer than this answer.
        from omnigraph.version import version_text

        put(version_text())
        return 0
    if arguments[:1] == [COMPLETE]:
        from omnigraph.cli.completion import complete

        put_piece("".join(f"{word}\n" for word in complete(arguments[1:])))
        return 0
    import typer
    from typer.main import get_command

    from omnigraph.cli.app import build, with_values
    from omnigraph.cli.words import misuse_text

    _show_warnings()
    arguments = with_values(arguments)
    command = get_command(build(arguments))
    try:
        code = command.main(arguments, prog_name=PROGRAM, standalone_mode=False)
    except typer.TyperException as error:
        WANTS_JSON.set(_asks_for_json(command, arguments))
        return _report_misuse(misuse_text(error), error.exit_code, WANTS_JSON.get())
    if code == INTERRUPTED:  # the argument parser caught the Ctrl-C
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


def _asks_for_json(command: Any, arguments: list[str]) -> bool:
    """Return whether `--json` is among the words as a flag, not as the value of another one.

    For command lines that the parser gave up on.
    """
    words = iter(arguments)
    for word in words:
        if word in {"--json", "--"}:
            return word == "--json"
        command = getattr(command, "commands", {}).get(word, command)
        option = next((each for each in command.params if word in each.opts), None)
        if option is not None and word.startswith("-") and not option.is_flag:
            for _ in range(option.nargs):
                next(words, None)
    return False


def _report_misuse(message: str, exit_code: int, as_json: bool) -> int:
    """Report an error of the argument parser and return its exit code."""
    note(f"error: {message}\n`{PROGRAM} --help`, also after a command, lists what there is")
    _print_error_document(BadRequest(message), as_json)
    return exit_code


def _print_error_document(error: OmniGraphError, as_json: bool) -> int:
    """Print the error as a JSON document if `--json` was given; return its exit code."""
    if as_json:
        try:
            put_json(error.body())
        except OutputLost as lost:
            if not isinstance(error, OutputLost):  # a lost output is reported only once
                report(lost)
    return error.exit_code


def _report_bug(error: Exception) -> OmniGraphError:
    """Report an unexpected exception as a bug, with a traceback only if OMNIGRAPH_DEBUG is set."""
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
    """Print warnings of the engine, such as about work left for cleanup, as plain lines on stderr."""
    import logging

    logging.basicConfig(format="warning: %(message)s", level=logging.WARNING)
