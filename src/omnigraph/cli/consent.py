"""Asking before something that cannot be undone happens to a graph that others may share."""

from __future__ import annotations

import sys

from omnigraph.cli.address import Address
from omnigraph.cli.command import Flags
from omnigraph.cli.output import printable
from omnigraph.errors import BadRequest


def require_consent(flags: Flags, address: Address, act: str) -> None:
    """Go on for a local graph, with `--yes`, or when the person at the terminal agrees."""
    if address.is_local or flags.yes:
        return
    if flags.json or not _at_terminal():
        raise BadRequest(f"{act} on {address.uri} needs consent: pass --yes")
    if not _agrees(f"{act} on {address.uri}? It cannot be undone. [yes/no] "):
        raise BadRequest(f"{act} on {address.uri} was not agreed to; nothing was changed")


def _at_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _agrees(question: str) -> bool:
    # Not input(): it would put the question on stdout when that is a terminal.
    sys.stderr.write(printable(question))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
