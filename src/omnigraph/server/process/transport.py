"""What a guarded connection stands on: how patient it is, what it has sent, whether it moves, and for how many there is room."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import resource
import struct
import termios
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from uvicorn.protocols.http.flow_control import FlowControl

from omnigraph.server.limits import HEAD_BYTES

logger = logging.getLogger(__name__)

LOOKS: Final = 6
"""How often a transfer is looked at in the time over which its speed counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How much a connection may send before it is answered, and how long it may take."""

    head_bytes: int = HEAD_BYTES
    head_seconds: float = 10
    pace_seconds: float = 30
    bytes_per_second: int = 1024
    idle_seconds: float = 75
    linger_seconds: float = 30

    @property
    def least_bytes(self) -> float:
        """What a transfer must have moved in the time over which its speed counts."""
        return self.bytes_per_second * self.pace_seconds


ORDINARY_PATIENCE: Final = ConnectionLimits()


class Pace:
    """Whether a transfer moves: bytes are compared with those of some looks before."""

    __slots__ = ("_least", "_marks")

    def __init__(self, least: float) -> None:
        self._least = least
        self._marks: deque[int] = deque()

    def is_too_slow(self, is_awaited: bool, moved: int) -> bool:
        """Look at the bytes so far. Time counts only while the other side is awaited."""
        if not is_awaited:
            self._marks.clear()
            return False
        self._marks.append(moved)
        return len(self._marks) > LOOKS and moved - self._marks.popleft() < self._least


MOST_FILES: Final = 1 << 16
"""The number of open files that a process asks the system for, as far as the hard limit allows."""
_OWN_FILES: Final = 256
_SHED: Final = 16


class CountedConnection(Protocol):
    """A connection, as far as the number of connections is concerned."""

    quiet_since: float

    @property
    def is_busy(self) -> bool:
        """Whether a request of it is under way, or an answer not taken yet."""

    def break_off(self) -> None:
        """Close it at once."""


class Crowd:
    """The connections there are. One too many takes the place of those that ask for nothing since longest.

    So clients that open connections and say nothing take the files of nobody else, and those that graphs need
    are left for them. A sixteenth is closed at a time, because it takes a look at all.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._visitors: set[CountedConnection] = set()

    def enter(self, visitor: CountedConnection) -> None:
        """Count a new connection, and close others if it is one too many; itself, if all others are at work."""
        self._visitors.add(visitor)
        if len(self._visitors) <= self._most:
            return
        quiet = [each for each in self._visitors if not each.is_busy]
        quiet.sort(key=lambda each: each.quiet_since)
        for each in quiet[: max(1, self._most // _SHED)]:
            self.leave(each)
            each.break_off()
        logger.warning("there are more than %d connections: the quietest were closed", self._most)

    def leave(self, visitor: CountedConnection) -> None:
        """Count a connection no more; a second time does nothing."""
        self._visitors.discard(visitor)


def room_for_connections() -> int:
    """Ask the system for as many open files as this process may have; return how many may be connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = MOST_FILES if hard == unlimited else min(MOST_FILES, hard)
    if soft != unlimited and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # some systems have a limit below the one they tell
            wanted = soft
    files = MOST_FILES if soft == unlimited else max(soft, wanted)
    return max(files // 2, files - max(_OWN_FILES, files // 4))


class CountedTransport:
    """A transport that counts what is written, and closes without taking an answer away."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._transport = transport
        self._close = close
        self.written = 0
        self.is_ending = False

    def write(self, data: bytes) -> None:
        """Send bytes, sooner or later."""
        self.written += len(data)
        self._transport.write(data)

    def close(self) -> None:
        """Close as the connection thinks best."""
        self._close()

    def close_now(self) -> None:
        """Close when everything that was written is sent."""
        self.is_ending = True
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether nothing more is to be written."""
        return self.is_ending or self._transport.is_closing()

    @property
    def taken(self) -> int:
        """How many bytes the other side has; those that wait here or in the system it has not."""
        return self.written - self._transport.get_write_buffer_size() - _unsent(self._transport)

    @property
    def has_unsent(self) -> bool:
        """Whether something waits here because the other side does not take it."""
        return self._transport.get_write_buffer_size() > 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _unsent(transport: asyncio.Transport) -> int:
    """How many bytes the system holds that the other side has not confirmed; 0 where it cannot say."""
    socket = transport.get_extra_info("socket")
    try:
        answer = fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, b"\0" * 4)
        return cast("int", struct.unpack("i", answer)[0])
    except (AttributeError, OSError, ValueError):
        return 0


class RoomyFlow(FlowControl):
    """Flow control that goes on reading only where there is room."""

    def __init__(self, transport: asyncio.Transport, has_room: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._has_room = has_room

    def resume_reading(self) -> None:
        """Read on, if there is room."""
        if self.read_paused and self._has_room():
            super().resume_reading()
