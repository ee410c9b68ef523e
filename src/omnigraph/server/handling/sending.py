"""How answers leave: whole, or in pieces that wait for the client.

A piece has at most ``PIECE_BYTES`` bytes, and no more than ``WAITING_PIECES`` of them wait to be sent. An answer whose making
fails after its first byte is left without its end, so that no client takes it for complete.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, Final

from omnigraph.cancel import look
from omnigraph.server.handling.lanes import ClientGone, Message, Watch
from omnigraph.server.limits import PIECE_BYTES, WAITING_PIECES
from omnigraph.server.refusals import Header

Send = Callable[[Message], Awaitable[None]]

AT_ONCE: Final = "omnigraph.answer_at_once"
"""An extension of the scope: a function that sends a whole answer with one write, if that is possible now.

It takes the status, the headers and the body, and returns whether they were sent.
"""
AtOnce = Callable[[int, Sequence[Header], bytes], bool]

_HANDED_OVER: Final = PIECE_BYTES * WAITING_PIECES
_LOOK_SECONDS: Final = 0.1
"""How often a producer that waits for its client looks whether it should stop."""


class Outgoing:
    """The answer to one request, as far as it has been sent."""

    __slots__ = ("_at_once", "_send", "begun", "extra", "sent", "status")

    def __init__(self, send: Send, at_once: AtOnce | None = None) -> None:
        self._send = send
        self._at_once = at_once
        self.extra: list[Header] = []
        """Headers of every answer to this request."""
        self.begun = False
        self.status = 0
        self.sent = 0

    async def begin(self, status: int, headers: Sequence[Header]) -> None:
        """Send the head of the answer."""
        self.begun = True
        self.status = status
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [*headers, *self.extra],
            }
        )

    async def relay(self, message: Message) -> None:
        """Send a message of an answer that somebody else makes."""
        if message["type"] == "http.response.start":
            self.begun, self.status = True, message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *self.extra]}
        else:
            self.sent += len(message.get("body", b""))
        await self._send(message)

    async def piece(self, body: bytes | memoryview, *, more: bool = True) -> None:
        """Send a part of the body, cut to pieces; the last one if there are not ``more``."""
        size = len(body)
        self.sent += size
        if size > PIECE_BYTES:
            view = memoryview(body)
            last = (size - 1) // PIECE_BYTES * PIECE_BYTES
            for at in range(0, last, PIECE_BYTES):
                await self._send(_part(bytes(view[at : at + PIECE_BYTES]), more=True))
            body = bytes(view[last:])
        await self._send(_part(bytes(body), more=more))

    async def whole(
        self, status: int, headers: Sequence[Header], body: bytes, *, head: bool = False
    ) -> None:
        """Send an answer whose length is known; of a HEAD request only the head."""
        # Of a 304 it would be the length of what is not sent again.
        length = [] if status == 304 else [(b"content-length", b"%d" % len(body))]
        all_headers = [*headers, *length]
        body = b"" if head else body
        if (
            self._at_once is not None
            and len(body) <= PIECE_BYTES
            and self._at_once(status, [*all_headers, *self.extra], body)
        ):
            self.begun, self.status, self.sent = True, status, len(body)
            return
        await self.begin(status, all_headers)
        await self.piece(body, more=False)


def _part(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def send_pulled(
    outgoing: Outgoing, watch: Watch, pool: Executor, first: bytes, pull: Callable[[], bytes]
) -> None:
    """Send an answer whose next part is made, in a thread, while the one before it leaves.

    ``pull`` returns nothing at the end. A client that does not read holds no thread.
    """
    loop = asyncio.get_running_loop()
    watch.begin()
    part, following = first, loop.run_in_executor(pool, pull)
    try:
        while part:
            await outgoing.piece(part)
            if watch.gone:
                raise ClientGone
            part = await following
            if part:
                following = loop.run_in_executor(pool, pull)
    finally:
        # What a part is made of is given back after this.
        with suppress(Exception):
            await following
    await outgoing.piece(b"", more=False)


def puller(pieces: Iterator[bytes]) -> Callable[[], bytes]:
    """Return what ``send_pulled`` calls: several pieces at once where they are small."""

    def pull() -> bytes:
        parts, size = [], 0
        for piece in pieces:
            parts.append(piece)
            size += len(piece)
            if size >= PIECE_BYTES:
                break
        return b"".join(parts)

    return pull


class Pipe:
    """A file that the engine writes to in its thread, and that the event loop sends from.

    What is handed over at a time is as much as may wait: ``WAITING_PIECES`` pieces. ``write`` waits until they
    are sent, and looks meanwhile whether it should stop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._room = threading.Semaphore(1)
        self._rest = bytearray()
        self._arrived: deque[bytes] = deque()
        self._news = asyncio.Event()
        self.produced = 0

    def write(self, data: bytes | memoryview) -> int:
        """Take bytes of the producer."""
        view = memoryview(data)
        at = 0
        while at < len(view):
            taken = view[at : at + _HANDED_OVER - len(self._rest)]
            at += len(taken)
            if len(taken) == _HANDED_OVER:
                self._hand_over(bytes(taken))
                continue
            self._rest += taken
            if len(self._rest) == _HANDED_OVER:
                self.flush()
        return len(view)

    def flush(self) -> None:
        """Hand over what is there."""
        if self._rest:
            pieces, self._rest = bytes(self._rest), bytearray()
            self._hand_over(pieces)

    def _hand_over(self, pieces: bytes) -> None:
        while not self._room.acquire(timeout=_LOOK_SECONDS):
            look()
        look()
        self.produced += len(pieces)
        self._loop.call_soon_threadsafe(self._arrive, pieces)

    def _arrive(self, pieces: bytes) -> None:
        self._arrived.append(pieces)
        self._news.set()

    async def send_all(
        self, outgoing: Outgoing, headers: Sequence[Header], producer: asyncio.Task[Any]
    ) -> None:
        """Send what the producer writes. What it refuses before its first byte is raised here.

        If it fails later, it is raised too, and the answer has no end.
        """
        producer.add_done_callback(lambda _: self._news.set())
        while True:
            if self._arrived:
                if not outgoing.begun:
                    await outgoing.begin(200, headers)
                await outgoing.piece(self._arrived.popleft())
                self._room.release()
            elif producer.done():
                break
            else:
                self._news.clear()
                await self._news.wait()
        producer.result()
        if not outgoing.begun:
            await outgoing.begin(200, headers)
        await outgoing.piece(b"", more=False)
