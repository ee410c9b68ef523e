"""One call of a command: its flags, and what every command does with them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from omnigraph.cli.address import (
    Cluster,
    Reachable,
    Server,
    Store,
    refuse_unusable,
    resolve,
)
from omnigraph.cli.command import Command, Flags
from omnigraph.cli.operator.config import Operator, read_operator
from omnigraph.cli.output import OutputLost, ReaderGone, note, put, put_json, put_streamed, readable
from omnigraph.errors import BadRequest
from omnigraph.manifest.actors import check_actor
from omnigraph.service.documents import Document, Streamed

if TYPE_CHECKING:
    from omnigraph.cli.sides.side import GraphSide
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

    def address(self, uri: str | None, *, read_only: bool = False) -> Reachable:
        """Return the graph of this call; a writing command first prints where it is about to write.

        With ``read_only`` this call of it writes nothing.
        """
        address = self.find_address(uri)
        if address is None:
            raise BadRequest(
                f"{self.command.name} needs a graph: pass its URI or --store URI, --server URL for one "
                f"behind a server, or name one in {self.operator.path or 'config.yaml'}"
            )
        if self.command.writes and not read_only and not self.flags.quiet:
            note(f"omnigraph {self.command.name} -> {address.uri} ({address.route})")
        return address

    def storage(self, uri: str | None) -> Store:
        """Return the graph of a command that opens storage itself."""
        address = self.address(uri)
        assert isinstance(address, Store), "such a command refuses --server"
        return address

    def names_graph(self, uri: str | None) -> bool:
        """Return whether the command line itself names a graph."""
        flags = self.flags
        return any(text is not None for text in (uri, flags.store, flags.server, flags.cluster))

    def find_address(self, uri: str | None) -> Reachable | None:
        """Return the graph of this call, or None if neither flags nor the operator's file name one."""
        address = resolve(self.command, self.flags, uri, self.operator)
        if isinstance(address, Cluster):
            from omnigraph.cluster.served import find_graph
            from omnigraph.storage.uris import Root

            uri = find_graph(address.root, address.graph)
            return Store(uri, Root.parse(uri).is_local)
        return self.with_graph(address) if isinstance(address, Server) else address

    def cluster(self) -> Cluster | None:
        """Return the cluster of a command that is about what one has applied; None if nothing names one."""
        if self.flags.store is not None:
            return None
        address = resolve(self.command, self.flags, None, self.operator)
        return address if isinstance(address, Cluster) else None

    def with_graph(self, address: Server) -> Server:
        """Return the address with its graph: the only one of the server, if nothing says which."""
        if address.graph is not None:
            return address
        from omnigraph.cli.sides.served import only_graph

        graph, is_guess = only_graph(address.url, self.token(address))
        return replace(address, graph=graph, is_guess=is_guess)

    def server(self) -> Server:
        """Return the server of a command that is about one, not about a graph."""
        address = resolve(self.command, self.flags, None, self.operator)
        if isinstance(address, Server):
            return address
        raise BadRequest(
            f"{self.command.name} needs a server: pass --server NAME|URL, or name one in "
            f"{self.operator.path or 'config.yaml'}"
        )

    def token(self, server: Server) -> str | None:
        """Return the token for a server, from the environment or the operator's files."""
        from omnigraph.cli.operator.server_tokens import token_for

        return token_for(server.uri, self.operator.servers)

    def consent(self, address: Reachable, act: str) -> None:
        """Raise unless the user agrees to this act; call it before the graph is opened."""
        require_consent(self.flags, address, act)

    @contextmanager
    def reach(
        self,
        address: Reachable,
        *,
        read_only: bool = False,
        writes: bool = False,
        seconds: int | None = None,
    ) -> Iterator[GraphSide]:
        """Give the graph as commands ask it, while the block runs; for reading unless the command writes.

        ``read_only`` and ``writes`` say otherwise of this call. After ``seconds`` it gives up to open the graph, and to wait for what is asked of it.
        """
        if isinstance(address, Server):
            from omnigraph.cli.sides.served import reached

            assert address.graph is not None, "an address that was found has its graph"
            with reached(
                address.url, address.graph, self.token(address), is_guess=address.is_guess
            ) as served:
                yield served
            return
        from omnigraph.cli.sides.embedded import opened

        writes = writes or (self.command.writes and not read_only)
        with opened(address.uri, writes=writes, actor=self.actor, seconds=seconds) as embedded:
            yield embedded

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


def require_consent(flags: Flags, address: Reachable, act: str) -> None:
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
