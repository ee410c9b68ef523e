"""A worker: one of the processes that serve, started by a parent with sockets and everything that was read at boot.

    python -P -m omnigraph.server.process.worker CHANNEL LISTENER HANDED_DOWN FIGURES

The arguments are numbers of open files. The parent says when to end. A signal from somebody else, such as one
that a terminal or a service manager sends to all processes, is only the wish to drain. When the parent is gone
the worker drains, too: it would be left alone with its port.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NoReturn

from omnigraph.errors import OmniGraphError
from omnigraph.server.process.channel import (
    DRAIN,
    END,
    FAILED,
    READY,
    handed_down,
    shared_figures,
)
from omnigraph.server.process.logs import set_up_logs
from omnigraph.server.process.one_process import run
from omnigraph.server.process.serving import SIGNALS

# Not by __name__, which is another one under `python -m`.
logger = logging.getLogger("omnigraph.server.process")

ORPHANED: Final = 1
"""The exit code of a worker whose parent was gone before anything was served."""


class Orders:
    """What a worker was told to do, by its parent or by signals."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._is_asked = False
        self._drain: Callable[[], None] | None = None
        self._last: list[Callable[[], None]] = []

    def follow(self) -> None:
        """Do what the parent says from now on; in a thread."""
        threading.Thread(target=self._follow, name="omnigraph-orders", daemon=True).start()
        for number in SIGNALS:
            signal.signal(number, lambda *_: self.drain())

    def drain_with(self, drain: Callable[[], None]) -> None:
        """Say how to drain, now that something is served. If that was asked for already, begin."""
        self._drain = drain
        if self._is_asked:
            drain()

    def at_last(self, clean: Callable[[], None]) -> None:
        """Say what to do before the process is ended at once."""
        self._last.append(clean)

    def drain(self) -> None:
        """Drain; a second time does nothing."""
        # In the order opposite to that of `drain_with`, so that no wish is lost between two threads.
        self._is_asked = True
        drain = self._drain
        if drain is not None:
            drain()

    def _follow(self) -> None:
        while True:
            try:
                order = self._channel.recv(1)
            except OSError:
                order = b""
            if order == DRAIN:
                self.drain()
            elif order == END:
                self._end(128 + signal.SIGTERM)
            else:
                break
        if self._drain is None:
            self._end(ORPHANED)
        logger.warning("the parent of this worker is gone")
        self.drain()

    def _end(self, code: int) -> NoReturn:
        for clean in self._last:
            clean()
        os._exit(code)


def main(arguments: Sequence[str]) -> int:
    """Serve until told to end, and return the exit code."""
    numbers = [int(each) for each in arguments]
    channel_number, listener_number, handed_number, figures_number = numbers
    for number in numbers:
        os.set_inheritable(number, False)
    channel = socket.socket(fileno=channel_number)
    orders = Orders(channel)
    set_up_logs()
    orders.follow()
    given = handed_down(handed_number)
    os.close(handed_number)
    is_ready = False

    def ready() -> None:
        nonlocal is_ready
        is_ready = True
        _say(channel, READY)

    try:
        with socket.socket(fileno=listener_number) as listener:
            figures = shared_figures(figures_number)
            return run(given.options, given.data, listener, given.bound, orders, ready, figures)
    except OmniGraphError as error:
        # The parent tells it, once for all workers.
        _say(channel, FAILED + str(error).encode())
    except Exception:
        logger.exception("this is a bug in omnigraph: a worker could not be started, or ended")
        _say(channel, b"" if is_ready else FAILED)
    return 1


def _say(channel: socket.socket, words: bytes) -> None:
    with suppress(OSError):  # the parent is gone; the thread that follows it sees to that
        channel.sendall(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
