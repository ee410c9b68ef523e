"""One call of a command: its flags, and what every command does with them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from omnigraph.cli.address import Cluster, Server, Store, refuse_unusable, resolve
from omnigraph.cli.command import Command, Flags
from omnigraph.cli.operator.config import Operator, read_operator
from omnigraph.cli.output import OutputLost, ReaderGone, note, put, put_json, put_streamed, readable
from omnigraph.errors import BadRequest
from omnigraph.manifest.actors import check_actor
from omnigraph.service.documents import Document, Streamed

if TYPE_CHECKING:
    from omnigraph.graph import Graph


Answer = Document | Streamed


@dataclass(frozen=True)
class Invocation:
    """A command and the shared flags of this call."""

    command: Command
    flags: Flags

    @cached_property
    def operator(self) -> Operator:
        """What the operator's own file says."""
        operator = read_operator()
        for key in operator.unknown:
            note(f"warning: {operator.path}: `{key}` is no setting of omnigraph and has no effect")
        return operator

    def check_flags(self) -> None:
        """Refuse the flags that this command can never use."""
        refuse_unusable(self.command, self.flags, lambda: self.operator)
        check_actor(self.flags.as_actor, "--as")

    @property
    def actor(self) -> str | None:
        """Who asks for the change: `--as`, else the operator's own name; None if nothing says."""
        if "as_actor" not in self.command.takes:
            return None
        if self.flags.as_actor is not None:
            return check_actor(self.flags.as_actor, "--as")
        return self.operator_actor

    @property
    def operator_actor(self) -> str | None:
        """The operator's own name, if the operator's file has one."""
        return check_actor(self.operator.actor, f"`operator.actor` in {self.operator.path}")

    def address(self, uri: str | None, *, read_only: bool = False) -> Store:
        """Return the graph of this call; a writing command first prints where it is about to write.

        With ``read_only`` this call of it writes nothing.
        """
        address = self.find_address(uri)
        if address is None:
            raise BadRequest(
                f"{self.command.name} needs a graph: pass its URI or --store URI, or name one in "
                f"{self.operator.path or 'config.yaml'} (graphs behind a server: --server, which "
                "this version does not have yet)"
            )
        if self.command.writes and not read_only and not self.flags.quiet:
            note(f"omnigraph {self.command.name} -> {address.uri} ({address.route})")
        return address

    def names_graph(self, uri: str | None) -> bool:
        """Return whether the command line itself names a graph."""
        flags = self.flags
        return any(text is not None for text in (uri, flags.store, flags.server, flags.cluster))

    def find_address(self, uri: str | None) -> Store | None:
        """Return the graph of this call, or None if neither flags nor the operator's file name one."""
        address = resolve(self.command, self.flags, uri, self.operator)
        if isinstance(address, Server):
            raise BadRequest(
                f"{address.uri} is behind a server, which this version of omnigraph cannot reach; "
                "pass --store URI to open the storage of the graph"
            )
        if isinstance(address, Cluster):
            raise BadRequest(
                "this version of omnigraph cannot look into a cluster; pass --store "
                f"{address.uri} to open the storage of one of its graphs"
            )
        return address

    def consent(self, address: Store, act: str) -> None:
        """Raise unless the user agrees to this act; call it before the graph is opened."""
        require_consent(self.flags, address, act)

    def open(self, address: Store, *, read_only: bool = False, moved: bool = False) -> Graph:
        """Open the graph, read-only unless the command writes.

        ``moved``: a graph that lies elsewhere than before keeps its id.
        """
        import omnigraph

        writes = self.command.writes and not read_only
        mode: Literal["rw", "r"] = "rw" if writes else "r"
        return omnigraph.open(address.uri, mode=mode, actor=self.actor, moved=moved)

    def answer(
        self, document: Answer, text: str | Callable[[], None], made: str | None = None
    ) -> None:
        """Write the result: the document with `--json`, otherwise the text for people.

        ``made`` says what the command has changed. The change is durable even if the result cannot
        be written, so the error then says so.
        """
        try:
            self._put(document, text)
        except OutputLost as lost:
            if made is None:
                raise
            raise OutputLost(f"{lost.message}, but {made}: do not run the command again") from None
        except ReaderGone:
            if made is not None:
                note(f"nobody read the result, but {made}")
            raise

    def _put(self, document: Answer, text: str | Callable[[], None]) -> None:
        if self.flags.json and isinstance(document, Streamed):
            put_streamed(document)
        elif self.flags.json:
            put_json(document)
        elif callable(text):
            text()
        else:
            put(text)


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
    sys.stderr.write(readable(question))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
