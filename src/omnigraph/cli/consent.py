"""Ask before an act that cannot be undone on a remote graph, which others may share."""

from __future__ import annotations

import sys

from omnigraph.cli.address import Store
from omnigraph.cli.command import Flags
from omnigraph.cli.output import printable
from omnigraph.errors import BadRequest


def require_consent(flags: Flags, address: Store, act: str) -> None:
    """Return for a local graph, with `--yes`, or if the user agrees at the terminal; else raise."""
    if address.is_local or flags.yes:
        return
    if flags.json or not _at_terminal():
        raise BadRequest(f"{act} on {address.uri} needs consent: pass --yes")
    if not _agrees(f"{act} on {address.uri}? It cannot be undone. [yes/no] "):
        raise BadRequest(f"{act} on {address.uri} was not agreed to; nothing was changed")


def _at_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _agrees(question: str) -> bool:
    # Not input(), which would print the question to stdout if that is a terminal.
    sys.stderr.write(printable(question))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
