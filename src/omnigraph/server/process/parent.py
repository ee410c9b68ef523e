"""The parent of several workers: it binds the port, starts them, and looks after them. It opens no graph.

A worker that dies is started again, after 1, 2, 4 … 30 seconds, and after one second if it had served for a
while. At boot it is different: a worker that cannot be started ends the server with its error.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from subprocess import Popen, TimeoutExpired
from time import monotonic
from typing import BinaryIO, Final

from omnigraph import settings
from omnigraph.server.figures import Figures
from omnigraph.server.process.channel import (
    DRAIN,
    END,
    FAILED,
    PIECE,
    READY,
    HandedDown,
    nameless_file,
    shared_figures,
)
from omnigraph.server.process.ports import Port
from omnigraph.server.process.serving import DrainTimes

logger = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "omnigraph.server.process.worker")
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
SETTLED_SECONDS: Final = 60.0
"""A worker that served for so long is started again as if it had never died before."""
GRACE_SECONDS: Final = 5.0
"""How much longer than it should take the end of a worker is waited for."""
AT_ONCE_SECONDS: Final = 1.0
_SECRET: Final = (settings.SERVER_TOKEN, settings.SERVER_TOKENS_JSON)
"""Variables that hold tokens; workers know the digests."""


@dataclass(slots=True)
class Worker:
    """A process that was started: since when, and what it has said."""

    process: Popen[bytes]
    channel: socket.socket
    began: float
    is_ready: bool = False
    said: bytearray = field(default_factory=bytearray)

    @property
    def failure(self) -> str | None:
        """Why it could not be started, if it said so; empty if the log has it."""
        if not self.said.startswith(FAILED):
            return None
        return self.said[1:].decode("utf-8", "replace")

    def tell(self, order: bytes) -> None:
        """Give it an order; one that is gone needs none."""
        with suppress(OSError):
            self.channel.send(order)

    def end(self, seconds: float) -> int:
        """Wait for its end, and bring it about if that takes too long; return its exit code."""
        try:
            code = self.process.wait(seconds)
        except TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.channel.close()
        return code


@dataclass(slots=True)
class Place:
    """The place of one worker: which process has it, or when the next one is started."""

    number: int
    worker: Worker | None = None
    due: float | None = None
    pause: float = FIRST_PAUSE
    restarts: int = 0
    counted: BinaryIO = field(default_factory=nameless_file)
    """Where its workers count, one after the other."""


class Parent:
    """Workers on one port. ``ready`` is called once, when all of them take connections."""

    def __init__(
        self,
        given: HandedDown,
        port: Port,
        ready: Callable[[], None],
    ) -> None:
        self._port = port
        self._ready = ready
        self._ending: DrainTimes = given.options.ending
        self._given = given
        self._stored: BinaryIO
        self._places = [Place(number) for number in range(1, given.options.workers + 1)]
        self._figures = [shared_figures(place.counted.fileno()) for place in self._places]
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_out.setblocking(False)
        self._is_asked = False
        self._has_begun = False
        self._until: float | None = None
        self._failure: str | None = None

    @property
    def restarts(self) -> int:
        """How many workers were started in place of ones that died."""
        return sum(place.restarts for place in self._places)

    def numbers(self) -> list[Sequence[float]]:
        """Return what each worker has counted, and what the parent itself has."""
        own = Figures()
        own.add("worker_restarts", self.restarts)
        return [own.numbers(), *(figures.numbers() for figures in self._figures)]

    def run(self) -> int:
        """Look after the workers until all have ended; return the exit code."""
        with ExitStack() as cleanup:
            self._stored = cleanup.enter_context(self._given.store())
            for each in (self._selector, self._wake_in, self._wake_out):
                cleanup.callback(each.close)
            for place in self._places:
                cleanup.callback(place.counted.close)
            cleanup.callback(self.end_at_once)
            self._selector.register(self._wake_in, selectors.EVENT_READ, self._woken)
            for place in self._places:
                self._start(place)
            while self._failure is None and self._has_work:
                self._look()
        if self._failure is not None:
            if self._failure:
                logger.error("%s", self._failure)
            return 1
        logger.info("ended")
        return 0

    def drain(self) -> None:
        """Begin to end. May be called from a signal handler."""
        self._is_asked = True
        with suppress(OSError):
            self._wake_out.send(b"!")

    def end_at_once(self) -> None:
        """End all workers, without regard to requests under way. May be called from a signal handler."""
        workers = [place.worker for place in self._places if place.worker is not None]
        for worker in workers:
            worker.tell(END)
        until = monotonic() + AT_ONCE_SECONDS
        for worker in workers:
            worker.end(max(0.0, until - monotonic()))

    @property
    def _has_work(self) -> bool:
        return self._until is None or any(place.worker is not None for place in self._places)

    def _look(self) -> None:
        """Wait for the next thing that happens, and see to it."""
        for key, _ in self._selector.select(self._seconds_left()):
            key.data()
        now = monotonic()
        if self._is_asked and self._until is None:
            self._begin_to_end(now)
        for place in self._places:
            if place.due is not None and place.due <= now:
                place.restarts += 1
                self._start(place)
            if self._until is not None and self._until <= now and place.worker is not None:
                logger.warning("worker %d does not end, and is killed", place.number)
                place.worker.process.kill()
                self._ended(place, place.worker)

    def _seconds_left(self) -> float | None:
        times = [place.due for place in self._places if place.due is not None]
        if self._until is not None:
            times.append(self._until)
        return max(0.0, min(times) - monotonic()) if times else None

    def _woken(self) -> None:
        self._wake_in.recv(PIECE)

    def _start(self, place: Place) -> None:
        """Start a worker; it says when it is ready."""
        place.due = None
        try:
            worker = self._spawn(place)
        except OSError as error:
            self._lost(place, f"worker {place.number} cannot be started: {error.strerror}")
            return
        place.worker = worker
        self._selector.register(
            worker.channel, selectors.EVENT_READ, lambda: self._hear(place, worker)
        )

    def _spawn(self, place: Place) -> Worker:
        secret = {setting.variable for setting in _SECRET}
        environment = {name: value for name, value in os.environ.items() if name not in secret}
        ours, theirs = socket.socketpair()
        try:
            with theirs, self._port.listener() as listener:
                files = (theirs, listener, self._stored, place.counted)
                passed = [file.fileno() for file in files]
                process = Popen(  # noqa: S603 - this program itself
                    [*COMMAND, *map(str, passed)],
                    stdin=subprocess.DEVNULL,
                    # Where the server says its address; a worker has nothing to say there.
                    stdout=subprocess.DEVNULL,
                    pass_fds=passed,
                    env=environment,
                )
        except BaseException:
            ours.close()
            raise
        return Worker(process, ours, monotonic())

    def _hear(self, place: Place, worker: Worker) -> None:
        """Take what a worker says; if that is nothing any more, it is gone."""
        try:
            words = worker.channel.recv(PIECE)
        except OSError:
            words = b""
        worker.said += words
        if not words:
            self._ended(place, worker)
        elif worker.said.startswith(READY) and not worker.is_ready:
            worker.is_ready = True
            worker.said.clear()
            logger.info("worker %d is ready: process %d", place.number, worker.process.pid)
            self._announce()

    def _announce(self) -> None:
        if self._has_begun or self._until is not None:
            return
        if all(place.worker is not None and place.worker.is_ready for place in self._places):
            self._has_begun = True
            self._ready()

    def _ended(self, place: Place, worker: Worker) -> None:
        """Take note that a worker is gone, and see that there will be another."""
        self._selector.unregister(worker.channel)
        place.worker = None
        self._figures[place.number - 1].clear()
        code = worker.end(GRACE_SECONDS)
        if self._until is not None:
            return
        if not worker.is_ready:
            self._lost(place, _why(place.number, worker, code))
            return
        if monotonic() - worker.began >= SETTLED_SECONDS:
            place.pause = FIRST_PAUSE
        self._lost(place, f"worker {place.number} ended{_by(code)}", is_boot=False)

    def _lost(self, place: Place, why: str, *, is_boot: bool = True) -> None:
        """Start another worker after a pause; or end, if this one should have been the first."""
        if is_boot and not self._has_begun:
            self._failure = why
            return
        why = why or f"worker {place.number} could not be started"
        logger.error("%s; another one is started in %g s", why, place.pause)
        place.due = monotonic() + place.pause
        place.pause = min(2 * place.pause, LONGEST_PAUSE)

    def _begin_to_end(self, now: float) -> None:
        logger.info("draining")
        # First: as long as somebody holds a listening socket that nobody serves, connections would hang.
        self._port.close()
        ending = self._ending
        self._until = now + ending.delay + ending.timeout + 3 * ending.publishing + GRACE_SECONDS
        for place in self._places:
            place.due = None
            if place.worker is not None:
                place.worker.tell(DRAIN if place.worker.is_ready else END)


def _why(number: int, worker: Worker, code: int) -> str:
    """Say why a worker could not be started; nothing, if the worker has logged it."""
    if worker.failure is not None:
        return worker.failure
    return f"worker {number} ended{_by(code)} before it was ready; start the server again"


def _by(code: int) -> str:
    if code >= 0:
        return f" with exit code {code}"
    try:
        return f" by signal {signal.Signals(-code).name}"
    except ValueError:
        return f" by signal {-code}"
