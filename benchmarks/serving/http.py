"""A client that costs little: requests are made once, answers are read and counted."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PIECE = 1 << 20


class Connection:
    """One connection, which is kept."""

    def __init__(self, host: str, port: int, token: str = "") -> None:
        self._host = f"{host}:{port}"
        if token:
            self._host += f"\r\nAuthorization: Bearer {token}"
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def close(self) -> None:
        """Give the connection back."""
        self._socket.close()

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        kind: str = "application/json",
        accept: str = "",
    ) -> bytes:
        """Return the bytes of a request."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}", f"Content-Length: {len(body)}"]
        lines += [f"Content-Type: {kind}"] if body else []
        lines += [f"Accept: {accept}"] if accept else []
        return "\r\n".join([*lines, "", ""]).encode() + body

    def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and return the status and the body of its answer."""
        self._socket.sendall(request)
        pieces: list[bytes] = []
        return self._answer(pieces.append), b"".join(pieces)

    def count(self, request: bytes) -> tuple[int, int]:
        """Send a request and return the status and how many bytes its answer has."""
        self._socket.sendall(request)
        total = 0

        def take(piece: bytes) -> None:
            nonlocal total
            total += len(piece)

        return self._answer(take), total

    def send_file(self, method: str, path: str, file: Path, kind: str) -> tuple[int, bytes]:
        """Send a file as the body of a request."""
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: {kind}\r\n"
        self._socket.sendall(f"{head}Content-Length: {file.stat().st_size}\r\n\r\n".encode())
        with file.open("rb") as source:
            self._socket.sendfile(source)
        pieces: list[bytes] = []
        return self._answer(pieces.append), b"".join(pieces)

    def _answer(self, take: Callable[[bytes], object]) -> int:
        head = self._until(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
        if b"content-length" in fields:
            for piece in self._bytes(int(fields[b"content-length"])):
                take(piece)
            return status
        while size := int(self._until(b"\r\n"), 16):
            for piece in self._bytes(size):
                take(piece)
            self._until(b"\r\n")
        self._until(b"\r\n")
        return status

    def _until(self, end: bytes) -> bytes:
        while end not in self._rest:
            self._more()
        found, _, self._rest = self._rest.partition(end)
        return found

    def _bytes(self, size: int) -> Iterator[bytes]:
        while size:
            if not self._rest:
                self._more()
            piece, self._rest = self._rest[:size], self._rest[size:]
            size -= len(piece)
            yield piece

    def _more(self) -> None:
        piece = self._socket.recv(PIECE)
        if not piece:
            raise ConnectionError("the server closed the connection in the middle of an answer")
        self._rest += piece


def query_body(query: str, **params: Any) -> bytes:
    """Return the body of a query."""
    return json.dumps({"query": query, "params": params}).encode()


def many(
    host: str,
    port: int,
    clients: int,
    seconds: float,
    request: Callable[[Connection, int], bytes],
    token: str = "",
) -> dict[str, Any]:
    """Ask from so many clients at once for so long: answers a second, and how often each status came."""
    statuses: dict[int, int] = {}
    took: list[float] = []
    lock = threading.Lock()
    until = time.perf_counter() + seconds

    def work(number: int) -> None:
        connection = Connection(host, port, token)
        mine: list[float] = []
        seen: dict[int, int] = {}
        turn = number
        while time.perf_counter() < until:
            asked = request(connection, turn)
            began = time.perf_counter()
            status, _ = connection.count(asked)
            mine.append(time.perf_counter() - began)
            seen[status] = seen.get(status, 0) + 1
            turn += clients
        connection.close()
        with lock:
            took.extend(mine)
            for status, times in seen.items():
                statuses[status] = statuses.get(status, 0) + times

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = time.perf_counter() - began
    took.sort()
    p99 = took[min(len(took) - 1, int(len(took) * 0.99))] if took else 0.0
    return {"rate": len(took) / spent, "statuses": statuses, "p99": p99, "count": len(took)}
