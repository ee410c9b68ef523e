"""Write results to stdout and everything else to stderr."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING, Any, Final

from omnigraph.display.text import printable
from omnigraph.errors import BadRequest, OmniGraphError, SourceError, StorageError
from omnigraph.service.documents import Document, Streamed, ascii_json

if TYPE_CHECKING:
    from omnigraph.cli.command import Flags

WANTS_JSON: ContextVar[bool] = ContextVar("WANTS_JSON", default=False)
"""Whether the current command was given `--json`, according to the argument parser."""
LEVELS: Final = ("debug", "info", "warning", "error")


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
            sys.stderr.write(f"{readable(text)}\n")
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


def readable(text: str) -> str:
    """Return a text of several lines in which no data controls a terminal."""
    return printable(text, keep="\n\t")


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


def show_log(flags: Flags) -> None:
    """Print the log of the package on stderr, from the level that the flags ask for.

    Without these flags nothing is set up: warnings and errors appear as Python shows them by default.
    """
    import logging

    asked = flags.log_level
    if asked is None and not flags.verbose:
        return
    level = "info" if asked is None else asked.strip().lower()
    if level not in LEVELS:
        raise BadRequest(f"--log-level is `{asked}`; it is one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
    )
    logger = logging.getLogger("omnigraph")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    # The root logger would print warnings again.
    logger.propagate = False
