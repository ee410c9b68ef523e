"""Write results to stdout and everything else to stderr."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import IO, Any

from omnigraph.errors import OmniGraphError, SourceError, StorageError
from omnigraph.service.documents import Document, Streamed, ascii_json

WANTS_JSON: ContextVar[bool] = ContextVar("WANTS_JSON", default=False)
"""Whether the current command was given `--json`, according to the argument parser."""


class OutputLost(StorageError):
    """Stdout accepts no more output: the disk is full, or stdout is closed."""


class ReaderGone(Exception):
    """The reader of stdout stopped reading (`omnigraph commit list | head`)."""


def put(text: str) -> None:
    """Write a result to stdout, ending in a newline; raise if it could not be written."""
    put_piece(text if text.endswith("\n") else f"{text}\n")


def put_piece(text: str) -> None:
    """Write a part of a result to stdout as it is; raise if it could not be written."""
    stream = sys.stdout
    if stream is None:  # the process was started with stdout closed
        raise OutputLost("cannot write the output: stdout is closed")
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        raise OutputLost(f"cannot write the output: {error.strerror or error}") from error


class StdoutBytes:
    """Stdout as a file for bytes; errors come as those of ``put``."""

    def write(self, data: bytes) -> int:
        """Write a piece; raise if it could not be written."""
        if data:
            self._try(lambda stream: stream.write(data))
        return len(data)

    def flush(self) -> None:
        """Write what is still held back."""
        self._try(lambda stream: stream.flush())

    @staticmethod
    def _try(act: Callable[[IO[bytes]], object]) -> None:
        if sys.stdout is None:
            raise OutputLost("cannot write the output: stdout is closed")
        try:
            act(sys.stdout.buffer)
        except BrokenPipeError:
            raise ReaderGone from None
        except OSError as error:
            raise OutputLost(f"cannot write the output: {error.strerror or error}") from error


def put_json(document: Any) -> None:
    """Write one pretty JSON document to stdout."""
    put(json.dumps(document, indent=2, ensure_ascii=not is_utf8_output()))


def put_streamed(document: Streamed) -> None:
    """Write one pretty JSON document to stdout, as its parts come."""
    as_written = str if is_utf8_output() else ascii_json
    for piece in document.json_text(pretty=True):
        put_piece(as_written(piece))
    put_piece("\n")


def note(text: str) -> None:
    """Write a line for the person at the terminal to stderr, if stderr is open."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{printable(text)}\n")
            sys.stderr.flush()


def report(error: OmniGraphError) -> None:
    """Print an error on stderr; an error in a source is shown with its line."""
    note(f"error: {error.render() if isinstance(error, SourceError) else error}")


def on_terminal() -> bool:
    """Return whether stdout is a terminal, so that a person reads the results."""
    return sys.stdout is not None and sys.stdout.isatty()


def in_colour() -> bool:
    """Return whether stdout is a terminal that shows colours to a person who wants them."""
    if not on_terminal():
        return False
    from rich.console import Console

    console = Console(file=sys.stdout)  # knows TERM and NO_COLOR
    return console.color_system is not None and not console.no_color


def printable(text: str) -> str:
    """Return the text with control characters escaped, so that data cannot control a terminal."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text
    )


def one_line(text: str) -> str:
    """Return the text on one line, so that data cannot look like lines of the program's own output."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def accept_every_character() -> None:
    """Make stdout and stderr escape characters that their encoding cannot express."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def is_utf8_output() -> bool:
    """Return whether stdout can express every character."""
    encoding = getattr(sys.stdout, "encoding", None) or ""
    return encoding.lower().replace("-", "") == "utf8"


def made_commit(document: Document) -> str | None:
    """Say that the commit of a document is made; None if there is none."""
    commit = document["commit"]
    if commit is None:
        return None
    return f"commit {commit['graph_commit_id']} is made on branch {commit['branch'] or 'main'}"


def replayed(document: Document) -> str:
    """Say of a write that it had been made before, under the same operation id."""
    return " (made before, under this operation id)" if document.get("replayed") else ""
