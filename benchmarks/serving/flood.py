"""Many connections from one thread: requests are made before, and of answers only the status is looked at.

So the client takes a hundredth of what the server takes, and leaves it the cores.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence
from typing import Any

_LENGTH = b"content-length: "


class _Line:
    """One connection: which request is under way, since when, and what of its answer has come."""

    def __init__(self, host: str, port: int, turn: int) -> None:
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.turn = turn
        self.began = 0.0
        self.got = b""

    def ask(self, requests: Sequence[bytes], step: int) -> None:
        self.got = b""
        self.began = time.perf_counter()
        self.socket.sendall(requests[self.turn % len(requests)])
        self.turn += step

    def is_answered(self) -> bool:
        piece = self.socket.recv(1 << 16)
        if not piece:
            raise ConnectionError("the server closed the connection")
        self.got += piece
        head, found, rest = self.got.partition(b"\r\n\r\n")
        if not found:
            return False
        at = head.lower().index(_LENGTH) + len(_LENGTH)
        return len(rest) >= int(head[at:].split(b"\r\n", 1)[0])


def flood(
    host: str, port: int, connections: int, seconds: float, requests: Sequence[bytes]
) -> dict[str, Any]:
    """Ask over so many connections for so long; answers must have a length."""
    lines = {}
    poll = select.epoll()
    for turn in range(connections):
        line = _Line(host, port, turn)
        lines[line.socket.fileno()] = line
        poll.register(line.socket.fileno(), select.EPOLLIN)
        line.ask(requests, connections)
    statuses: dict[str, int] = {}
    took: list[float] = []
    began = time.perf_counter()
    until = began + seconds
    while (now := time.perf_counter()) < until:
        for number, _ in poll.poll(until - now):
            line = lines[number]
            if line.is_answered():
                took.append(time.perf_counter() - line.began)
                status = line.got[9:12].decode()
                statuses[status] = statuses.get(status, 0) + 1
                line.ask(requests, connections)
    spent = time.perf_counter() - began
    for line in lines.values():
        line.socket.close()
    poll.close()
    took.sort()
    return {
        "rate": len(took) / spent,
        "count": len(took),
        "statuses": statuses,
        "p50": took[len(took) // 2] if took else 0.0,
        "p99": took[int(len(took) * 0.99)] if took else 0.0,
    }
