"""What a command is, and which of the shared flags it can use.

A flag that a command cannot use is refused with advice; none is silently ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

from omnigraph.errors import BadRequest
from omnigraph.manifest.actors import check_actor

Capability = Literal["any", "direct", "local"]

NOT_YET = ("server", "cluster", "graph", "profile")
SCOPE_FLAGS = ("store", *NOT_YET, "as_actor")


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
    """A command, described by what it needs.

    ``any`` works on a graph wherever it is served from, ``direct`` opens its storage itself,
    ``local`` touches no graph. ``takes`` are the scope flags it can use.
    """

    name: str
    capability: Capability
    takes: frozenset[str]
    writes: bool = False

    @property
    def word(self) -> str:
        """The last word of the name, under which the command is registered in its group."""
        return self.name.rpartition(" ")[2]


def reads_graph(name: str) -> Command:
    """Return a command that reads a graph."""
    return Command(name, "any", frozenset({"store", "server", "graph", "profile"}))


def writes_graph(name: str) -> Command:
    """Return a command that changes a graph and records who asked for it."""
    takes = frozenset({"store", "server", "graph", "profile", "as_actor"})
    return Command(name, "any", takes, writes=True)


def opens_storage(name: str) -> Command:
    """Return a command that works on the storage of a graph itself, never through a server."""
    return Command(name, "direct", frozenset({"store", "cluster", "graph", "profile"}), writes=True)


def refuse_unusable(command: Command, flags: Flags) -> None:
    """Refuse the flags that this command cannot use, or that no command can use yet."""
    for name in SCOPE_FLAGS:
        if getattr(flags, name) is None:
            continue
        flag = _flag_text(name)
        if name not in command.takes:
            raise BadRequest(
                f"{flag} cannot be used with {command.name} ({command.capability} command): "
                f"{_advice(command, name)}",
                flag=flag,
            )
        if name in NOT_YET:
            raise BadRequest(
                f"{flag} is not available in this version of omnigraph; pass --store URI to open "
                "the graph's storage",
                flag=flag,
            )
    check_actor(flags.as_actor, "--as")


def _flag_text(name: str) -> str:
    return "--as" if name == "as_actor" else f"--{name}"


def _advice(command: Command, name: str) -> str:
    """Return why the flag makes no sense here, and what to pass instead."""
    if command.capability == "local":
        return "it touches no graph; leave it out"
    if name == "as_actor":
        return "it records no actor; leave it out"
    instead = "--store URI" if "store" in command.takes else "the graph's URI as an argument"
    if name == "server":
        return f"it opens the graph's storage itself; pass {instead}"
    return f"it works on the storage of one graph; pass {instead}"
