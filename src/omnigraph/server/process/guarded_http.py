"""Connections of clients who mean no good, or are merely slow: HTTP as uvicorn speaks it, with guards.

uvicorn's protocol on httptools is fast and strict about framing. What it lacks (0.54) is here:

| what | answer |
|---|---|
| a head of more than 32 KiB | 431; the parser never sees more of it |
| a head that is not complete after 10 s | the connection is closed |
| a body or an answer of less than 1 KiB/s over 30 s | the connection is closed |
| no `Host`, or two; a target that is no path; another version than 1.0 and 1.1 | 400 |
| fields after a chunked body, which the parser gives out as if they were of the head | dropped |
| a fault in a request behind one that is still being answered | told when that is answered |
| a client that goes away while a second request waits behind the first | the first is told too |
| more connections than there is room for | those without a request are closed, the quietest first |
| requests that wait behind one another without end | are not read any further |
| an answer before the end of the body, and then the end of the connection | the rest of the body is awaited a little, because closing at once would take the answer from the client |
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from omnigraph.server.handling.sending import AT_ONCE
from omnigraph.server.process.transport import (
    LOOKS,
    ConnectionLimits,
    CountedTransport,
    Crowd,
    Pace,
    RoomyFlow,
)
from omnigraph.server.refusals import Header, Refusal

logger = logging.getLogger(__name__)


class GuardedProtocol(HttpToolsProtocol):
    """One connection. Made by uvicorn, with how patient it is and whether the server is ending."""

    def __init__(
        self,
        *,
        patience: ConnectionLimits,
        is_draining: Callable[[], bool],
        crowd: Crowd,
        **uvicorn: Any,
    ) -> None:
        super().__init__(**uvicorn)
        self._patience = patience
        self._crowd = crowd
        self.quiet_since = 0.0
        """When it was made, or had its last answer."""
        self._idle_since: float | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._is_draining = is_draining
        self._in_head = True
        self._head_bytes = 0
        self._bare_bytes = 0
        self._got_body = False
        self._waiting_bytes = 0
        self._received = 0
        self._is_deaf = False
        self._may_stay = True
        self._wire: CountedTransport
        self._fault: bytes | None = None
        self._last_words: bytes | None = None
        self._running: RequestResponseCycle | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._look_timer: asyncio.TimerHandle | None = None
        self._upload = Pace(patience.least_bytes)
        self._download = Pace(patience.least_bytes)

    # -- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin: a client that says nothing may stay as long as one between two requests."""
        self._wire = CountedTransport(transport, self._close_gently)
        wire = cast("asyncio.Transport", self._wire)
        super().connection_made(wire)
        self.flow = RoomyFlow(wire, lambda: self._waiting_bytes <= HIGH_WATER_LIMIT)
        self._wait_for_request()
        self._look()
        self._crowd.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request of the connection, not only the newest."""
        self._crowd.leave(self)
        for timer in (self._head_timer, self._linger_timer, self._look_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        self._wire.is_ending = True
        for cycle in (self._running, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None:
                _disconnect(cycle)
        self.pipeline.clear()
        super().connection_lost(exc)

    def close_after_answer(self) -> None:
        """Let the answers under way be the last of this connection."""
        for cycle in (self.cycle, self._running, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None:
                cycle.keep_alive = False

    def shutdown(self) -> None:
        """Close a connection without a request; that of another closes after its answer."""
        if self._has_request:
            self.close_after_answer()
        else:
            self._wire.close_now()

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way, or an answer not taken yet."""
        return self._has_request or self.has_unsent

    @property
    def _has_request(self) -> bool:
        return self._running is not None or bool(self.pipeline)

    def _wait_for_request(self) -> None:
        """Close the connection if no request comes. One timer stays for all the times between requests."""
        self._idle_since = self.quiet_since = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self._patience.idle_seconds, self._look_if_idle)

    def _look_if_idle(self) -> None:
        self._idle_timer = None
        if self._idle_since is None:
            return
        left = self._idle_since + self._patience.idle_seconds - self.loop.time()
        if left > 0:
            self._idle_timer = self.loop.call_later(left, self._look_if_idle)
        else:
            self.timeout_keep_alive_handler()

    def _look(self) -> None:
        """Close the connection if the client takes or gives less than it must."""
        self._look_timer = self.loop.call_later(self._patience.pace_seconds / LOOKS, self._look)
        has_unsent = self.has_unsent
        taken = self._wire.taken if has_unsent else 0
        if self._upload.is_too_slow(self._awaits_body, self._received) or (
            self._download.is_too_slow(has_unsent, taken)
        ):
            logger.info("connection closed: the client is too slow")
            self.break_off()

    def break_off(self) -> None:
        """Close the connection at once, whatever is on its way."""
        self._wire.is_ending = True
        self._wire.abort()

    @property
    def has_unsent(self) -> bool:
        """Whether the client has not taken all of its answer yet."""
        return self._wire.has_unsent

    @property
    def _awaits_body(self) -> bool:
        """Whether it is the client who has to go on."""
        return not (
            self._in_head
            or self._is_deaf
            or self.flow.read_paused
            or self.cycle.response_complete
            or self.cycle.waiting_for_100_continue
        )

    def _close_gently(self) -> None:
        """Close; if the client still sends a body, when that has ended or after a little while."""
        wire = self._wire
        if wire.is_closing():
            wire.close_now()
            return
        if self._in_head or not wire.can_write_eof():
            wire.close_now()
            return
        wire.is_ending = self._is_deaf = True
        wire.write_eof()
        wire.resume_reading()
        self._linger()

    def _linger(self) -> None:
        if self._linger_timer is None:
            self._linger_timer = self.loop.call_later(
                self._patience.linger_seconds, self._wire.close_now
            )

    # -- what comes in

    def data_received(self, data: bytes) -> None:
        """Take bytes: of a head no more than it may have."""
        self._idle_since = None
        self._received += len(data)
        if self._running is not None and self._running is not self.cycle:
            self._waiting_bytes += len(data)
            if self._waiting_bytes > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
        while data and not self._is_deaf and not self._wire.is_ending:
            rest = b""
            if self._in_head:
                room = self._patience.head_bytes - self._head_bytes
                if room <= 0:
                    self._refuse(self._too_large())
                    return
                if len(data) > room:
                    data, rest = data[:room], data[room:]
                self._head_bytes += len(data)
            self._feed(data)
            data = rest
        if self._in_head and self._head_bytes:
            # Most heads come whole, and need no timer.
            self._begin_head()
        if self.pipeline and len(self.cycle.body) <= HIGH_WATER_LIMIT:
            # uvicorn stops reading here, and would not see a client go away.
            self.flow.resume_reading()

    def _feed(self, data: bytes) -> None:
        began_in_head, self._got_body = self._in_head, False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Nothing that we speak; the request itself was taken, and what follows is not HTTP.
            self._is_deaf = True
        except httptools.HttpParserError:
            self._refuse(self._fault or self._plain("Invalid HTTP request received."))
        else:
            # Chunk extensions and fields after the body are no body, and may go on for ever.
            in_body = not (began_in_head or self._in_head)
            self._bare_bytes = self._bare_bytes + len(data) if in_body and not self._got_body else 0
            if self._bare_bytes > self._patience.head_bytes:
                self._refuse(self._plain("Too much beside the body."))

    def _begin_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(
                self._patience.head_seconds, self._out_of_patience
            )

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _out_of_patience(self) -> None:
        self._head_timer = None
        if self._running is not None:
            # Perhaps it is not read because of the request before it.
            self._begin_head()
            return
        logger.info("connection closed: the head of a request did not come")
        self.break_off()

    def on_message_begin(self) -> None:
        """A request begins, perhaps in the bytes behind another one, where it was not counted yet."""
        super().on_message_begin()
        self._head_bytes = self._head_bytes or 1

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of a head; one after the body is dropped."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check a head and begin to answer the request."""
        self._fault = self._fault_of_head()
        if self._fault is not None:
            raise ValueError("refused")
        super().on_headers_complete()
        at_once: Any = partial(self._answer_at_once, self.cycle)
        self.cycle.scope["extensions"] = {AT_ONCE: at_once}
        self._in_head, self._head_bytes, self._bare_bytes = False, 0, 0
        self._forget_head()
        self._may_stay = self.cycle.keep_alive and not self.parser.should_upgrade()
        # A client that was not told to go on may keep its body, and send another request instead.
        if self._is_draining() or not self._may_stay or self.expect_100_continue:
            self.cycle.keep_alive = False

    def _fault_of_head(self) -> bytes | None:
        size = len(self.parser.get_method()) + len(self.url)
        hosts = 0
        for name, value in self.headers:
            size += len(name) + len(value)
            hosts += name == b"host"
        if size > self._patience.head_bytes:
            return self._too_large()
        if self.parser.get_http_version() not in {"1.0", "1.1"}:
            return self._plain("This server speaks HTTP/1.1.")
        if not self.url.startswith(b"/"):
            return self._plain("The target of a request is a path.")
        if hosts != 1:
            return self._plain("A request names its host once.")
        return None

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._got_body = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request has come whole: the next bytes are another head."""
        super().on_message_complete()
        self._in_head = True
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None
        if self.expect_100_continue and not self._is_draining():
            self.cycle.keep_alive = self._may_stay
        if self._running is None and self.cycle.response_complete:
            self._wait_for_request()

    # -- what goes out

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """An answer was given: go on with what waits behind it."""
        self._running, self._waiting_bytes = None, 0
        if self._head_timer is not None:
            # A head that has begun behind this request has all its time from now on.
            self._forget_head()
            self._begin_head()
        self.server_state.total_requests += 1
        if self._wire.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._last_words is not None:
            self._say(self._last_words)
        elif not self._in_head:
            self._linger()
        else:
            self._wait_for_request()

    def _answer_at_once(
        self, cycle: RequestResponseCycle, status: int, headers: Iterable[Header], body: bytes
    ) -> bool:
        """Send a whole answer with one write; return whether that can be done."""
        if cycle.response_started or cycle.disconnected or self.flow.write_paused:
            return False
        lines = [STATUS_LINE[status]]
        for name, value in (*cycle.default_headers, *headers):
            if b"\n" in value or b"\r" in value:
                return False
            if name == b"connection" and value == b"close":
                cycle.keep_alive = False
            else:
                lines += (name, b": ", value, b"\r\n")
        lines.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
        lines.append(body)
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        self._wire.write(b"".join(lines))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._wire.close()
        cycle.on_response()
        return True

    def _refuse(self, answer: bytes) -> None:
        """Take no more of this connection; say why, after the answers that are owed before."""
        self._is_deaf = True
        faulty = None if self._in_head else self.cycle
        if faulty is not None:
            has_begun, is_over = faulty.response_started, faulty.response_complete
            _disconnect(faulty)
            if faulty is self._running:
                self._running = None
            for waiting in [each for each in self.pipeline if each[0] is faulty]:
                self.pipeline.remove(waiting)
            if is_over:
                self._wire.close_now()
                return
            if has_begun:
                self.break_off()
                return
        if self._running is None:
            self._say(answer)
        else:
            self._last_words = answer

    def _say(self, answer: bytes) -> None:
        """Answer for the last time. What the client still sends is taken a little while."""
        wire = self._wire
        wire.write(answer)
        wire.is_ending = self._is_deaf = True
        with suppress(OSError, RuntimeError):
            wire.write_eof()
            wire.resume_reading()
        self._linger()

    def _too_large(self) -> bytes:
        refusal = Refusal(
            431,
            "head_too_large",
            f"the head of the request has more than {self._patience.head_bytes:,} bytes; shorten its "
            "address and its headers",
        )
        request_id = secrets.token_hex(8)
        logger.info("request", extra={"request_id": request_id, "status": 431})
        return self._answer(
            431,
            json.dumps(refusal.body()).encode(),
            (b"content-type", b"application/json"),
            (b"x-request-id", request_id.encode()),
        )

    def _plain(self, text: str) -> bytes:
        logger.info("request", extra={"status": 400})
        return self._answer(400, text.encode(), (b"content-type", b"text/plain; charset=utf-8"))

    def _answer(self, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> bytes:
        lines = [
            *self.server_state.default_headers,
            *headers,
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        head = b"".join(name + b": " + value + b"\r\n" for name, value in lines)
        return STATUS_LINE[status] + head + b"\r\n" + body

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing to warn of: another protocol was offered, and was not taken."""


def _disconnect(cycle: RequestResponseCycle) -> None:
    """Let a request see that nobody waits for its answer."""
    if not cycle.response_complete:
        cycle.disconnected = True
    cycle.message_event.set()
    cycle.flow.resume_writing()
