"""Decide which graph a command works on."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.cli.command import Command, Flags
from omnigraph.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Address:
    """The storage of a graph. ``uri`` is spelled as the user spelled it."""

    uri: str
    is_local: bool

    @property
    def route(self) -> str:
        """How the graph is reached, as a writing command prints it."""
        return f"direct, {'local' if self.is_local else 'remote'}"


def resolve(command: Command, flags: Flags, uri: str | None) -> Address:
    """Return the one graph that the URI and the flags name; refuse none or two."""
    given = [(flag, text) for flag, text in (("a URI", uri), ("--store", flags.store)) if text]
    if len(given) > 1:
        named = " and ".join(f'{flag} "{text}"' for flag, text in given)
        raise BadRequest(f"{command.name} works on one graph and was given two, {named}; drop one")
    if not given:
        empty = uri is not None or flags.store is not None
        raise BadRequest(
            f"{command.name} needs a graph{', and the URI given is empty' if empty else ''}: pass "
            "its URI, or --store URI (graphs behind a server: --server, which this version does "
            "not have yet)"
        )
    return _storage_address(given[0][1])


def _storage_address(uri: str) -> Address:
    """Return the address of a storage URI; refuse the URI of a server."""
    from omnigraph.storage.uris import SUPPORTED, Root

    if uri.lower().startswith(("http://", "https://")):
        raise BadRequest(
            f'"{uri}" is a server, not the storage of a graph; servers are addressed with '
            f"--server, which this version does not have yet: give {SUPPORTED}"
        )
    return Address(uri, Root.parse(uri).is_local)
