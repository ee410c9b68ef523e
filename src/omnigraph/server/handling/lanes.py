"""Where the engine works: threads for reads, writes, streams and the encoding of answers, and what stops it.

A call of the engine takes a thread and cannot be killed. So every one gets a ``Cancel`` token, which fires when
the client has gone, when its time is up, or when the server ends, and the place it holds is given back when
the call has ended, whoever still waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from time import monotonic
from typing import Any, Final, TypeVar

from omnigraph.cancel import Cancel
from omnigraph.server.handling.read_lane import ReadLane, run_ordinary

T = TypeVar("T")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

WRITE_THREADS: Final = 8
MUTATION_THREADS: Final = 64
"""Mutations have threads of their own: most of them wait for a commit that they share."""
STREAM_THREADS: Final = 8
ENCODING_THREADS: Final = 4
UNWATCHED: Final = 0.05
"""Seconds for which nobody looks whether the client is still there: most calls are over by then."""


class ClientGone(Exception):
    """The client closed the connection; there is nobody to answer."""


class Lanes:
    """The threads of a server, a pool for each kind of work, so that none takes the threads of another."""

    def __init__(self, read_threads: int) -> None:
        self.reads = ReadLane(read_threads)
        self.writes = ThreadPoolExecutor(WRITE_THREADS, "omnigraph-write")
        self.mutations = ThreadPoolExecutor(MUTATION_THREADS, "omnigraph-mutation")
        self.streams = ThreadPoolExecutor(STREAM_THREADS, "omnigraph-stream")
        self.encoding = ThreadPoolExecutor(ENCODING_THREADS, "omnigraph-encode")
        """Bodies to disk, and answers to bytes: short pieces of work that never wait for a client."""
        self.unwatched = Unwatched()
        self._tokens: set[Cancel] = set()
        self._writing: set[Future[Any]] = set()

    @property
    def is_busy(self) -> bool:
        """Whether a call of the engine is under way, waited for or not."""
        return bool(self._tokens) or self.reads.running > 0

    @property
    def waiting_writes(self) -> int:
        """How many writes wait for a thread."""
        return sum(not (each.running() or each.done()) for each in tuple(self._writing))

    def cancel_all(self) -> None:
        """Stop all reads, and the writes that have not begun to publish."""
        for token in (*self._tokens, *self.reads.tokens()):
            token.cancel()

    def close(self) -> None:
        """Stop what can be stopped, and take no more work."""
        self.cancel_all()
        self.reads.close()
        for pool in (self.writes, self.mutations, self.streams, self.encoding):
            pool.shutdown(wait=False, cancel_futures=True)

    async def run(
        self,
        pool: Executor,
        work: Callable[[], T],
        token: Cancel,
        leave: Callable[[], object],
    ) -> T:
        """Do engine work in a thread of a pool; ``leave`` gives its place back when it has ended."""
        self._tokens.add(token)

        def ended() -> None:
            self._tokens.discard(token)
            leave()

        try:
            running = pool.submit(run_ordinary, work, token, None)
        except BaseException:
            ended()
            raise
        if pool in (self.writes, self.mutations):
            self._writing.add(running)
            running.add_done_callback(self._writing.discard)
        try:
            result = await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            # Whoever waited is gone, the thread is not.
            token.cancel()
            _when_done(running, ended)
            raise
        except BaseException:
            ended()
            raise
        ended()
        return result


def _when_done(running: Future[Any], ended: Callable[[], object]) -> None:
    loop = asyncio.get_running_loop()

    def tell(_: object) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it all places
            loop.call_soon_threadsafe(ended)

    running.add_done_callback(tell)


class Watch:
    """Looks whether the client of one request is still there, from a moment on; fires a token if not."""

    __slots__ = ("_receive", "_soon", "_task", "_when_begun", "_when_gone", "gone", "token")

    def __init__(
        self,
        receive: Receive,
        token: Cancel,
        when_gone: Callable[[], object] | None = None,
        when_begun: Callable[[], object] | None = None,
    ) -> None:
        self._receive = receive
        self._task: asyncio.Task[None] | None = None
        self._when_gone = when_gone
        self._when_begun = when_begun
        self._soon: Unwatched | None = None
        self.token = token
        self.gone = False

    def begin_soon(self, unwatched: Unwatched) -> None:
        """Look when the request is no longer among those that are not watched yet."""
        self._soon = unwatched
        unwatched.add(self)

    def begin(self) -> asyncio.Task[None]:
        """Look from now on. The body must have been received."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._look())
            if self._when_begun is not None:
                self._when_begun()
        return self._task

    async def _look(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self.token.cancel()
        if self._when_gone is not None:
            self._when_gone()

    def end(self) -> None:
        """Look no more."""
        if self._soon is not None:
            self._soon.discard(self)
        if self._task is not None:
            self._task.cancel()

    async def unless_gone(
        self, work: Coroutine[Any, Any, None], undo: Callable[[], object]
    ) -> None:
        """Wait for a place, but no longer than the client does; ``undo`` gives back one that came too late."""
        task = asyncio.get_running_loop().create_task(work)
        try:
            await asyncio.wait({task, self.begin()}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _abandon(task, undo)
            raise
        if not task.done():
            await _abandon(task, undo)
            raise ClientGone
        task.result()


class Unwatched:
    """Requests that are under way for less than ``UNWATCHED`` seconds. One timer looks after all of them."""

    def __init__(self) -> None:
        self._since: dict[Watch, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, watch: Watch) -> None:
        """Begin to watch after a while: not before that time, and at most as much again after it."""
        self._since[watch] = monotonic()
        if self._timer is None:
            self._wait()

    def discard(self, watch: Watch) -> None:
        """Forget a request that is over, or is watched already."""
        self._since.pop(watch, None)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(UNWATCHED, self._look)

    def _look(self) -> None:
        self._timer = None
        due = monotonic() - UNWATCHED
        for watch in [watch for watch, since in self._since.items() if since <= due]:
            del self._since[watch]
            watch.begin()
        if self._since:
            self._wait()


async def _abandon(task: asyncio.Task[None], undo: Callable[[], object]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is None:
        undo()
