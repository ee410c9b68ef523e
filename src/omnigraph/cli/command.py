"""What each command is: its capability, and which of the shared flags it can use.

A flag that a command cannot use is refused with advice; none is silently ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final, Literal

from omnigraph.errors import BadRequest

Capability = Literal["any", "direct", "local"]

SCOPE_FLAGS: Final = ("store", "server", "cluster", "graph", "profile", "as_actor")
LEGEND: Final[Mapping[Capability, str]] = {
    "any": "works on a graph, wherever it is",
    "direct": "opens the storage of a graph itself",
    "local": "touches no graph",
}
"""What each capability means, as help says it."""


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags that every command understands, with their values in one call."""

    store: str | None = None
    server: str | None = None
    cluster: str | None = None
    graph: str | None = None
    profile: str | None = None
    as_actor: str | None = None
    yes: bool = False
    quiet: bool = False
    verbose: bool = False
    log_level: str | None = None
    json: bool = False

    def then(self, later: Flags) -> Flags:
        """Return these flags, overridden by those given further right on the command line."""
        # An empty text counts as given. It often comes from an unset variable in a script, and must
        # lead to an error, not to another graph.
        given = {
            field.name: value
            for field in fields(later)
            if (value := getattr(later, field.name)) not in {None, False}
        }
        return replace(self, **given)


@dataclass(frozen=True, slots=True)
class Command:
    """A command: ``takes`` are the scope flags it can use, ``writes`` whether it changes a graph."""

    name: str
    capability: Capability
    takes: frozenset[str]
    writes: bool = False

    @property
    def word(self) -> str:
        """The last word of the name, under which the command is registered in its group."""
        return self.name.rpartition(" ")[2]

    def refusal(self, flag: str, why: str, instead: str) -> BadRequest:
        """Return the error about a flag that this command cannot use."""
        return BadRequest(
            f"{flag} cannot be used with {self.name} ({self.capability} command): {why}; {instead}",
            flag=flag,
        )


_ANYWHERE: Final = frozenset({"store", "server", "graph", "profile"})
_WRITERS: Final = _ANYWHERE | {"as_actor"}
_STORAGE: Final = frozenset({"store", "cluster", "graph", "profile"})
_NONE: Final[frozenset[str]] = frozenset()

COMMANDS: Final[Mapping[str, Command]] = {
    command.name: command
    for command in (
        Command("init", "direct", _NONE, writes=True),
        Command("load", "any", _WRITERS, writes=True),
        Command("ingest", "any", _WRITERS, writes=True),
        Command("mutate", "any", _WRITERS, writes=True),
        Command("blob get", "any", _ANYWHERE),
        Command("blob stat", "any", _ANYWHERE),
        Command("blob put", "any", _WRITERS, writes=True),
        Command("embed", "any", _WRITERS, writes=True),
        Command("query", "any", _ANYWHERE),
        Command("explain", "any", _ANYWHERE),
        # Each of its statements may write; it opens the graph for that itself.
        Command("shell", "any", _WRITERS),
        Command("export", "any", _ANYWHERE),
        Command("status", "any", _ANYWHERE),
        Command("snapshot", "any", _ANYWHERE),
        Command("schema show", "any", _ANYWHERE),
        Command("schema plan", "any", _ANYWHERE),
        Command("schema apply", "any", _WRITERS, writes=True),
        Command("branch create", "any", _WRITERS, writes=True),
        Command("branch list", "any", _ANYWHERE),
        Command("branch merge", "any", _WRITERS, writes=True),
        Command("branch delete", "any", _WRITERS, writes=True),
        Command("tag create", "any", _WRITERS, writes=True),
        Command("tag list", "any", _ANYWHERE),
        Command("tag delete", "any", _WRITERS, writes=True),
        Command("commit list", "any", _ANYWHERE),
        Command("commit show", "any", _ANYWHERE),
        Command("commit changes", "any", _ANYWHERE),
        Command("commit revert", "any", _WRITERS, writes=True),
        Command("log", "any", _ANYWHERE),
        Command("changes poll", "any", _ANYWHERE),
        Command("changes baseline", "any", _ANYWHERE),
        Command("diff", "any", _ANYWHERE),
        Command("optimize", "direct", _STORAGE, writes=True),
        Command("ensure-indices", "direct", _STORAGE, writes=True),
        Command("repair", "direct", _STORAGE, writes=True),
        Command("cleanup", "direct", _STORAGE, writes=True),
        Command("verify", "direct", _STORAGE),
        Command("lint", "any", _ANYWHERE | {"cluster"}),
        Command("alias", "local", _NONE),
        Command("profile list", "local", _NONE),
        Command("profile show", "local", _NONE),
        Command("login", "local", _NONE),
        Command("logout", "local", _NONE),
        Command("examples", "local", _NONE),
        Command("completion", "local", _NONE),
        Command("version", "local", _NONE),
    )
}
"""Every command by its words."""
LEGACY: Final[Mapping[str, str]] = {"read": "query", "change": "mutate", "check": "lint"}
"""Older spellings of commands."""


def flag_text(name: str) -> str:
    """Return a flag as it is written on the command line."""
    return "--as" if name == "as_actor" else f"--{name}"
