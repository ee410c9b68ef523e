"""Who may begin: bounds on the writes of each actor, on streams, and on answers held. Reads: ``read_lane``.

All of it is used by the thread of the event loop alone, so nothing here is locked. Whoever is let in leaves
when the engine has ended, not when its client has gone.
"""

from __future__ import annotations

import asyncio

from omnigraph.errors import Busy
from omnigraph.server.limits import STREAMS, WAITING_SECONDS


class Writers:
    """The writes of each actor that are under way, and the bytes of their raw bodies."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._counts: dict[str | None, int] = {}
        self._bytes: dict[str | None, int] = {}

    @property
    def running(self) -> int:
        """How many writes are under way."""
        return sum(self._counts.values())

    def enter(self, actor: str | None, size: int = 0) -> WriteSlot:
        """Let a write of this actor in, with a body of this size, or refuse and change nothing."""
        count = self._counts.get(actor, 0)
        if count >= self._most:
            raise Busy(
                f"{count} writes of this actor are under way, and more than {self._most} may not be; "
                "send the request again in a second",
                cause="writes",
            )
        slot = WriteSlot(self, actor)
        slot.charge(size)
        self._counts[actor] = count + 1
        return slot

    def charge(self, actor: str | None, size: int) -> None:
        """Count bytes of a body, or refuse and count nothing."""
        held = self._bytes.get(actor, 0)
        if held + size > self._most_bytes:
            raise Busy(
                f"the bodies of this actor's writes under way have {held:,} bytes, and with {size:,} "
                f"more they would pass {self._most_bytes:,}; send the request again in a second",
                cause="bodies",
            )
        if size:
            self._bytes[actor] = held + size

    def leave(self, actor: str | None, size: int) -> None:
        """Take back what one write holds."""
        for counts, amount in ((self._counts, 1), (self._bytes, size)):
            left = counts.get(actor, 0) - amount
            if left > 0:
                counts[actor] = left
            else:
                counts.pop(actor, None)


class WriteSlot:
    """The place of one write, and the bytes that its body is charged with."""

    __slots__ = ("_actor", "_left", "_size", "_writers")

    def __init__(self, writers: Writers, actor: str | None) -> None:
        self._writers = writers
        self._actor = actor
        self._size = 0
        self._left = False

    def charge(self, size: int) -> None:
        """Count further bytes of the body, or refuse and count nothing."""
        self._writers.charge(self._actor, size)
        self._size += size

    def leave(self) -> None:
        """Give the place back; a second time does nothing."""
        if not self._left:
            self._left = True
            self._writers.leave(self._actor, self._size)


class Streams:
    """Exports and baselines at once; there is no waiting."""

    def __init__(self, most: int = STREAMS) -> None:
        self._most = most
        self.running = 0

    def enter(self) -> None:
        """Let one in, or refuse."""
        if self.running >= self._most:
            raise Busy(
                f"{self.running} exports are under way, and more than {self._most} may not be; send "
                "the request again in a second",
                cause="streams",
            )
        self.running += 1

    def leave(self) -> None:
        """End one."""
        self.running -= 1


class HeldAnswers:
    """The bytes of answers that are being sent, as the engine holds them.

    Few answers wait for room at a time, because those that wait are held, too.
    """

    def __init__(self, most: int, waiting: int, patience: float = WAITING_SECONDS) -> None:
        self._most = most
        self._most_waiting = waiting
        self._patience = patience
        self._freed = asyncio.Event()
        self._waiting = 0
        self.held = 0

    async def hold(self, size: int) -> None:
        """Wait until there is room for an answer, and take it; refuse when that takes too long.

        One that is larger than all room there is gets in alone.
        """
        if self._fits(size):
            self.held += size
            return
        if self._waiting >= self._most_waiting:
            raise self._no_room(size)
        self._waiting += 1
        try:
            async with asyncio.timeout(self._patience):
                while not self._fits(size):
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            raise self._no_room(size) from None
        finally:
            self._waiting -= 1
        self.held += size

    def _no_room(self, size: int) -> Busy:
        return Busy(
            f"answers of {self.held:,} bytes are being sent, and this one of {size:,} would pass the "
            f"{self._most:,} that a server holds; send the request again in a second",
            cause="answers",
        )

    def _fits(self, size: int) -> bool:
        return not self.held or self.held + size <= self._most

    def free(self, size: int) -> None:
        """Give room back."""
        self.held -= size
        self._freed.set()
