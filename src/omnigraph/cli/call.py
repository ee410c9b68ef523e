"""One call of a command: its flags, and what every command does with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.cli.address import Address, resolve
from omnigraph.cli.command import Command, Flags
from omnigraph.cli.consent import require_consent
from omnigraph.cli.output import OutputLost, ReaderGone, note, put, put_json, put_streamed
from omnigraph.manifest.actors import check_actor
from omnigraph.service.documents import Document, Streamed

if TYPE_CHECKING:
    from omnigraph.graph import Graph

Answer = Document | Streamed


@dataclass(frozen=True, slots=True)
class Call:
    """A command and the shared flags of this call."""

    command: Command
    flags: Flags

    @property
    def actor(self) -> str | None:
        """Who asks for the change, or None if the call does not say."""
        return check_actor(self.flags.as_actor, "--as")

    def address(self, uri: str | None, *, read_only: bool = False) -> Address:
        """Return the graph of this call; a writing command first prints where it is about to write.

        With ``read_only`` this call of it writes nothing.
        """
        address = resolve(self.command, self.flags, uri)
        if self.command.writes and not read_only and not self.flags.quiet:
            note(f"omnigraph {self.command.name} -> {address.uri} ({address.route})")
        return address

    def consent(self, address: Address, act: str) -> None:
        """Raise unless the user agrees to this act; call it before the graph is opened."""
        require_consent(self.flags, address, act)

    def open(self, address: Address, *, read_only: bool = False) -> Graph:
        """Open the graph, read-only unless the command writes."""
        import omnigraph

        writes = self.command.writes and not read_only
        return omnigraph.open(address.uri, mode="rw" if writes else "r", actor=self.actor)

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
