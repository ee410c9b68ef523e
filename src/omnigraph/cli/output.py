"""What a command writes: results to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import json
import sys
from contextvars import ContextVar
from typing import Any

from omnigraph.errors import OmniGraphError, SourceError, StorageError

WANTS_JSON: ContextVar[bool] = ContextVar("WANTS_JSON", default=False)
"""Whether the command in hand was given `--json`, as the argument parser found."""


class OutputLost(StorageError):
    """Stdout takes no more: a full disk, or it is closed."""


class ReaderGone(Exception):
    """Whoever read stdout stopped reading (`omnigraph commit list | head`)."""


def put(text: str) -> None:
    """Write a result to stdout, ending in a newline. It is out, or the command has failed."""
    stream = sys.stdout
    if stream is None:  # the process was started with stdout closed
        raise OutputLost("cannot write the output: stdout is closed")
    try:
        stream.write(text if text.endswith("\n") else f"{text}\n")
        stream.flush()
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        raise OutputLost(f"cannot write the output: {error.strerror or error}") from error


def put_json(document: Any) -> None:
    """Write one pretty JSON document to stdout."""
    put(json.dumps(document, indent=2, ensure_ascii=not is_utf8_output()))


def note(text: str) -> None:
    """Write a line for the person at the terminal to stderr, if there is one to read it."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{printable(text)}\n")
            sys.stderr.flush()


def report(error: OmniGraphError) -> None:
    """Say on stderr what went wrong; a fault in a source is shown in its line."""
    note(f"error: {error.render() if isinstance(error, SourceError) else error}")


def on_terminal() -> bool:
    """Whether a person reads the results."""
    return sys.stdout is not None and sys.stdout.isatty()


def printable(text: str) -> str:
    """The text with control characters spelled out, so that data cannot steer a terminal."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text
    )


def accept_every_character() -> None:
    """Let stdout and stderr spell out what their encoding cannot carry instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def is_utf8_output() -> bool:
    """Whether results may hold any character as it is."""
    encoding = getattr(sys.stdout, "encoding", None) or ""
    return encoding.lower().replace("-", "") == "utf8"
