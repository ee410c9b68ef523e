"""Serving, and how it ends.

The first signal begins the end: `/healthz` says so, every answer closes its connection, and for the delay new
connections are still served, so that a balancer can notice. Then nobody is let in any more. Requests under
way get their time; then reads are stopped, and writes that have begun to publish get a little more. What
is cut even then is recovered by the next who opens the graph. A second signal ends everything at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from types import FrameType
from typing import Any, Final, Protocol, cast

import uvicorn

from omnigraph.server.process.guarded_http import GuardedProtocol
from omnigraph.server.process.transport import (
    MOST_FILES,
    ORDINARY_PATIENCE,
    ConnectionLimits,
    Crowd,
)

logger = logging.getLogger(__name__)

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
SWITCH_SECONDS: Final = 0.0005
"""How long a thread computes before another gets its turn: ten times as often as Python does by itself,
so that the event loop answers while queries compute."""
_TICK: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainTimes:
    """How many seconds a server takes to end.

    ``delay``: new connections are still served; ``timeout``: requests under way may end; ``publishing``:
    writes that have begun to publish may end, after all others were stopped.
    """

    delay: float = 0
    timeout: float = 30
    publishing: float = 5


class Work(Protocol):
    """What requests started outside the event loop."""

    @property
    def is_busy(self) -> bool:
        """Whether something is still under way."""

    def cancel_all(self) -> None:
        """Stop all reads, and the writes that have not begun to publish."""

    def close(self) -> None:
        """Stop what can be stopped, and take no more work."""


class Drained(Protocol):
    """What requests look at to see that the server is ending."""

    draining: bool


class Asker(Protocol):
    """Who asks a process that serves to end."""

    def drain_with(self, drain: Callable[[], None]) -> None:
        """Say how to drain, from now on."""

    def at_last(self, clean: Callable[[], None]) -> None:
        """Say what to do before the process is ended at once."""


class Signals:
    """The signals that end a process: the first one asks for it, the second one does it."""

    def __init__(self) -> None:
        self._asked = False
        self._drain: Callable[[], None] | None = None
        self._last: list[Callable[[], None]] = []

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals inside. Before anything is served, the first raises ``SystemExit``."""
        before = {number: signal.signal(number, self._received) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def drain_with(self, drain: Callable[[], None]) -> None:
        """Say what the first signal does from now on. It is called from a signal handler."""
        self._drain = drain

    def at_last(self, clean: Callable[[], None]) -> None:
        """Say what to do before the process is ended at once."""
        self._last.append(clean)

    def _received(self, number: int, _: FrameType | None) -> None:
        if self._asked:
            for clean in self._last:
                clean()
            # Threads that are busy would keep any gentler end waiting.
            os._exit(128 + number)
        self._asked = True
        if self._drain is None:
            raise SystemExit(128 + number)
        self._drain()


class GraphServer(uvicorn.Server):
    """uvicorn, with our connections and our way to end."""

    def __init__(
        self,
        app: Any,
        state: Drained,
        work: Work,
        ending: DrainTimes,
        patience: ConnectionLimits = ORDINARY_PATIENCE,
        measure: Callable[[], None] = lambda: None,
        most_connections: int = MOST_FILES,
    ) -> None:
        protocol = partial(
            GuardedProtocol,
            patience=patience,
            is_draining=lambda: state.draining,
            crowd=Crowd(most_connections),
        )
        config = uvicorn.Config(
            app,
            http=cast("type[asyncio.Protocol]", protocol),
            ws="none",
            loop="asyncio",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        super().__init__(config)
        self._state = state
        self._work = work
        self._ending = ending
        self._measure = measure
        self._listening: Callable[[], None] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None

    def run_on(self, listener: socket.socket, listening: Callable[[], None]) -> bool:
        """Serve until asked to end; call ``listening`` once connections are taken.

        Return whether all work has ended too: a thread that goes on would keep the process.
        """
        self._listening = listening
        asyncio.run(self.serve(sockets=[listener]))
        self._work.close()
        return not self._work.is_busy

    def drain(self) -> None:
        """Begin to end. May be called from a signal handler or another thread."""
        assert self._loop is not None, "nothing is served yet"
        self._loop.call_soon_threadsafe(self._begin_to_end)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to ``Signals``."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        # uvicorn sets the header `Date` with its first tick only.
        await self.on_tick(0)
        self._listening()

    async def on_tick(self, counter: int) -> bool:
        """Look at what is under way, ten times a second."""
        self._measure()
        return await super().on_tick(counter)

    def _begin_to_end(self) -> None:
        if self._state.draining:
            return
        logger.info("draining")
        self._state.draining = True
        for connection in self._connections():
            connection.close_after_answer()
        asyncio.get_running_loop().call_later(self._ending.delay, self._close_soon)

    def _close_soon(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let nobody in any more, and wait for the requests under way."""
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for connection in self._connections():
            connection.shutdown()
        if not await self._until(self._is_idle, self._ending.timeout):
            logger.warning("stopping what did not end in %g s", self._ending.timeout)
            await self._until(self._is_stopped, self._ending.publishing)
        await self._send_rest()

    @property
    def connection_count(self) -> int:
        """How many connections there are."""
        return len(self.server_state.connections)

    def _connections(self) -> list[GuardedProtocol]:
        return [cast("GuardedProtocol", each) for each in self.server_state.connections]

    def _is_idle(self) -> bool:
        return not (self.server_state.tasks or self._work.is_busy)

    def _is_stopped(self) -> bool:
        """Stop what is under way: again and again, because requests that waited begin meanwhile."""
        self._work.cancel_all()
        return self._is_idle()

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is so, but not longer."""
        until = monotonic() + seconds
        while not is_so():
            if monotonic() >= until:
                return False
            await asyncio.sleep(_TICK)
        return True

    async def _send_rest(self) -> None:
        """Give answers that are written the time to leave, as long as their clients take them."""
        await self._until(
            lambda: not any(each.has_unsent for each in self._connections()),
            self._ending.publishing,
        )
        for connection in self._connections():
            connection.break_off()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; it takes connections once it is served."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def take_turns_often() -> None:
    """Let threads that compute hand over more often, for the sake of the event loop."""
    sys.setswitchinterval(SWITCH_SECONDS)
