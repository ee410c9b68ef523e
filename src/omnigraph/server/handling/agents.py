"""`POST /graphs/{graph_id}/mcp`: the tools of a graph for agents, inside the server.

A tool stands for a request, so each call becomes one: it goes through the application of this server with
the caller's own token, and meets the same checks, limits and policy as if it had come over the network.
The SDK speaks the protocol, one message a request, without sessions; it is loaded at the first of them.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from omnigraph.cancel import Cancel
from omnigraph.errors import BadRequest
from omnigraph.policy import Action
from omnigraph.server.decisions import could_ever, would_allow
from omnigraph.server.handling.exchange import Exchange
from omnigraph.server.handling.inner_requests import BASE, Application, InnerClient, received
from omnigraph.server.handling.lanes import Message, Watch

if TYPE_CHECKING:
    from omnigraph.mcp.tool_runners import ToolRunner
    from omnigraph.mcp.tools import Tool
    from omnigraph.server.state import ServedGraph

LARGEST: Final = 1 << 20
"""The most bytes that a message may have, as any JSON body."""
_CALLER: Final = "omnigraph.caller"
"""Where the runner of a request stands in its scope."""


_PATH: Final = re.compile(rb"/graphs/([^/]+)/mcp")


def agent_graph(raw_path: bytes) -> bytes | None:
    """Return the graph whose tools a path names; None if it names something else."""
    found = _PATH.fullmatch(raw_path) if raw_path.endswith(b"/mcp") else None
    return None if found is None else found[1]


def is_installed() -> bool:
    """Return whether the SDK is there; it comes with the extra `mcp`."""
    return importlib.util.find_spec("mcp") is not None


class AgentRoute:
    """Answers messages of the protocol. One server of the SDK serves all graphs and all actors."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._manager: Any = None
        self._serving: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._ended = asyncio.Event()
        self._stored: dict[str, Mapping[str, Tool]] = {}

    async def serve(
        self, exchange: Exchange, served: ServedGraph, token: str | None, body: bytes
    ) -> None:
        """Answer one message, for the caller who has this token."""
        _check_message(body)
        await self._start()
        watch = Watch(exchange.receive, Cancel())
        runner = self._runner(exchange, served, token, watch)
        relay = _Relay(exchange)
        try:
            # Answers are JSON, whatever else a client takes: there are no streams of events here.
            headers = [pair for pair in exchange.scope["headers"] if pair[0] != b"accept"]
            headers.append((b"accept", b"application/json"))
            scope = {**exchange.scope, "headers": headers, _CALLER: runner}
            await self._manager.handle_request(scope, received(body, watch), relay.send)
        finally:
            watch.end()
        relay.refuse()

    def _runner(
        self, exchange: Exchange, served: ServedGraph, token: str | None, watch: Watch
    ) -> ToolRunner:
        from omnigraph.client.core import Core
        from omnigraph.mcp.tool_runners import ClientRunner, tools_of

        client = InnerClient(self._app, exchange, Core(BASE, served.id, token), watch)
        if served.id not in self._stored:
            self._stored[served.id] = tools_of(served.stored)
        checker, actor = served.checker, exchange.actor

        def may(tool: Tool) -> bool:
            if tool.is_of_the_graph:
                return would_allow(checker, actor, Action.READ)
            return all(could_ever(checker, actor, action) for action in tool.actions)

        return ClientRunner(client, may, self._stored[served.id])

    async def _start(self) -> None:
        async with self._starting:
            if self._serving is not None:
                return
            # It takes a second, in which others are to be answered.
            await asyncio.to_thread(_load_sdk)
            from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
            from mcp.server.transport_security import TransportSecuritySettings

            from omnigraph.mcp.messages import Offer, make_server

            self._manager = StreamableHTTPSessionManager(
                make_server(_runner_of, Offer()),
                json_response=True,
                stateless=True,
                max_request_body_size=LARGEST,
                # Hosts and origins were checked before, by the rules of this server.
                security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            )
            ready = asyncio.Event()
            self._serving = asyncio.create_task(self._serve(ready))
            await ready.wait()

    async def _serve(self, ready: asyncio.Event) -> None:
        async with self._manager.run():
            ready.set()
            await self._ended.wait()

    async def end(self) -> None:
        """Stop serving, when the server ends."""
        self._ended.set()
        if self._serving is not None:
            await self._serving


class _Sent(msgspec.Struct):
    """As much of a message as must be right before the SDK reads it."""

    jsonrpc: Literal["2.0"]
    method: str
    id: int | str | None = None
    params: dict[str, msgspec.Raw] = {}


_SENT: Final = msgspec.json.Decoder(_Sent)


def _check_message(body: bytes) -> None:
    """Refuse what is no message of the protocol, in words of this server."""
    try:
        _SENT.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = str(error)
    except RecursionError:
        why = "it is nested too deeply"
    else:
        return
    raise BadRequest(
        f"the body is no message of the protocol: {why}; send one JSON object with `jsonrpc`, `id`, `method` and "
        "`params`, and several one by one"
    )


class _Relay:
    """Sends the answers of the SDK, but for refusals that are not JSON: those get a body of this server."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._is_refused = False

    async def send(self, message: Message) -> None:
        """Send a message of an answer, or note that it is to be replaced."""
        if message["type"] == "http.response.start" and message["status"] >= 400:
            kinds = [value for name, value in message.get("headers", ()) if name == b"content-type"]
            if not any(kind.startswith(b"application/json") for kind in kinds):
                self._is_refused = True
        if not self._is_refused:
            await self._exchange.out.relay(message)

    def refuse(self) -> None:
        """Raise what was refused and not sent."""
        if self._is_refused:
            raise BadRequest(
                "the message was refused; send requests of the protocol that one JSON answer ends"
            )


def _load_sdk() -> None:
    for name in (
        "mcp.server.streamable_http_manager",
        "omnigraph.client.core",
        "omnigraph.mcp.messages",
    ):
        importlib.import_module(name)


def _runner_of(context: Any) -> ToolRunner:
    runner: ToolRunner = context.request.scope[_CALLER]
    return runner
