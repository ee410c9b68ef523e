"""Requests that a server sends to its own application: a tool call is one, and meets every check that others meet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from omnigraph.errors import QueryCancelled
from omnigraph.server.handling.exchange import Exchange, Scope
from omnigraph.server.handling.lanes import Message, Receive, Watch
from omnigraph.server.handling.sending import Send

if TYPE_CHECKING:
    from omnigraph.client.core import Core, Document, PreparedCall

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
"""A server as ASGI calls it."""
BASE: Final = "http://localhost"
"""The address of these requests. It is nobody's: they take the headers that name this server from the message."""
_ORIGIN: Final = (b"host", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-prefix")
"""Headers that say under which address the caller knows this server."""


def received(body: bytes, watch: Watch) -> Receive:
    """Give a body that is there already, and after it the news that the client has gone."""
    left = [body]

    async def receive() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        await watch.begin()
        return {"type": "http.disconnect"}

    return receive


class InnerClient:
    """Sends the requests of one message, as its client: with its address and id, until it goes."""

    def __init__(self, app: Application, exchange: Exchange, core: Core, watch: Watch) -> None:
        self.core = core
        self._app = app
        self._scope = exchange.scope
        self._headers = [pair for pair in exchange.scope["headers"] if pair[0] in _ORIGIN]
        self._headers.append((b"x-request-id", exchange.request_id.encode()))
        self._watch = watch

    async def send(self, asked: PreparedCall) -> Document:
        """Return the document of the answer, or raise its error."""
        sent = asked.content or b""
        assert isinstance(sent, bytes), "no tool sends a stream"
        status, body = 0, bytearray()

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                body.extend(message.get("body", b""))

        await self._app(self._scope_of(asked, len(sent)), received(sent, self._watch), send)
        if self._watch.gone:
            raise QueryCancelled("the call was given up")
        return self.core.read(asked, status, {}, bytes(body))

    def _scope_of(self, asked: PreparedCall, length: int) -> Scope:
        path, _, query = asked.url.removeprefix(BASE).partition("?")
        headers = [(name.lower().encode(), value.encode()) for name, value in asked.headers.items()]
        headers.append((b"content-length", b"%d" % length))
        return {
            "type": "http",
            "http_version": "1.1",
            "method": asked.method,
            "scheme": self._scope["scheme"],
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [*headers, *self._headers],
            "client": self._scope.get("client"),
            "server": self._scope.get("server"),
        }
