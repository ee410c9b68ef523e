"""Running tools: on a graph that this process opens, or through a server.

A graph is opened at the first tool that needs it, so that an agent need not wait for the engine before it
has greeted the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

from omnigraph.cancel import Cancel
from omnigraph.errors import OmniGraphError, QueryCancelled
from omnigraph.mcp.tools import Tool, ToolRequest, built_in, stored_tool
from omnigraph.service import wire
from omnigraph.service.documents import Document, Streamed
from omnigraph.service.operations import OPERATIONS

if TYPE_CHECKING:
    from omnigraph.client.core import Core, PreparedCall
    from omnigraph.graph.graph import Graph
    from omnigraph.lang.query.registry import Registry

_THREADS = 4


class ToolRunner(Protocol):
    """Whatever runs tools for one actor."""

    async def run(self, asked: ToolRequest) -> Document:
        """Return the document of an operation; raise its error."""
        ...

    def built_in(self) -> Mapping[str, Tool]:
        """Return the tools that are no stored queries, by name."""
        ...

    def could(self, tool: Tool) -> bool:
        """Return whether the actor may ever call a tool."""
        ...

    async def stored(self) -> Mapping[str, Tool]:
        """Return the tools of stored queries by name."""
        ...

    async def stored_tool(self, name: str) -> Tool | None:
        """Return the tool of that name, if it is a stored query."""
        ...


def tools_of(registry: Registry | None) -> Mapping[str, Tool]:
    """Return the tools of the stored queries that clients may see, by name."""
    entries = () if registry is None else registry.exposed()
    return {tool.name: tool for tool in map(stored_tool, (one.to_json() for one in entries))}


class GraphRunner:
    """Runs tools on a graph in this process. ``opened`` opens it, once."""

    def __init__(
        self, opened: Callable[[], Graph], uri: str, stored: Callable[[], Registry] | None = None
    ) -> None:
        self._opened = opened
        self._uri = uri
        self._stored = stored
        self._graph: Graph | None = None
        self._registry: Registry | None = None
        self._tools: Mapping[str, Tool] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "omnigraph-tool")
        self._opening = asyncio.Lock()

    async def run(self, asked: ToolRequest) -> Document:
        """Run an operation in a thread; a call that is given up stops the engine."""
        from omnigraph.service.calls import Call

        graph = await self._ready()
        call = Call(
            session=graph.session(graph.actor),
            uri=self._uri,
            operation_id=asked.operation_id,
            if_commit=asked.if_commit,
            stored=self._registry,
        )
        token = Cancel()
        work = asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: _run(token, call, asked)
        )
        try:
            return await work
        except asyncio.CancelledError:
            token.cancel()
            raise

    def built_in(self) -> Mapping[str, Tool]:
        """Return the tools that every graph has."""
        return built_in()

    def could(self, _tool: Tool) -> bool:
        """Return that it may: whoever opens a graph without a policy may do everything."""
        return True

    async def stored(self) -> Mapping[str, Tool]:
        """Return the tools of the queries of the directory; none without one."""
        await self._ready()
        return self._tools

    async def stored_tool(self, name: str) -> Tool | None:
        """Return the tool of a query of the directory."""
        return (await self.stored()).get(name)

    async def _ready(self) -> Graph:
        async with self._opening:
            if self._graph is None:
                loop = asyncio.get_running_loop()
                graph = await loop.run_in_executor(self._threads, self._opened)
                if self._stored is not None:
                    self._registry = await loop.run_in_executor(self._threads, self._stored)
                    self._tools = tools_of(self._registry)
                self._graph = graph
        return self._graph

    async def close(self) -> None:
        """Close the graph, when the tools that run have ended."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        if self._graph is not None:
            self._graph.close()


def _run(token: Cancel, call: Any, asked: ToolRequest) -> Document:
    from omnigraph.cancel import within

    # What a token raises inside must not leave this thread as it is: it would end the event loop.
    try:
        with within(None, token):
            answer = asked.operation.run(call, asked.request, *asked.path)
            return answer.collected() if isinstance(answer, Streamed) else answer
    except KeyboardInterrupt:
        raise QueryCancelled("the call was given up") from None


class Sender(Protocol):
    """What sends the requests of tools: a client, or a part of the server itself."""

    core: Core

    async def send(self, asked: PreparedCall) -> Document:
        """Return the document of the answer, or raise its error."""
        ...


class ClientRunner:
    """Runs tools through a server, or through the application of this very server.

    That one gives the tools of its stored queries: who may invoke them need not be allowed to list them.
    """

    def __init__(
        self,
        client: Sender,
        may: Callable[[Tool], bool] | None = None,
        stored: Mapping[str, Tool] | None = None,
    ) -> None:
        self._client = client
        self._may = may
        self._stored = stored
        self._listed: Mapping[str, Tool] = {}

    async def run(self, asked: ToolRequest) -> Document:
        """Send the request that a tool stands for."""
        prepared = self._client.core.prepare(
            asked.operation.name,
            asked.request,
            *asked.path,
            source=getattr(asked.request, "query", None),
            operation_id=asked.operation_id,
            if_commit=asked.if_commit,
        )
        return await self._client.send(prepared)

    def built_in(self) -> Mapping[str, Tool]:
        """Return the tools that every graph has."""
        return built_in()

    def could(self, tool: Tool) -> bool:
        """Return whether some rule could allow a tool; yes, where nobody can say."""
        return self._may is None or self._may(tool)

    async def stored(self) -> Mapping[str, Tool]:
        """Return the tools of this server, or of what another one lists; none if it does not."""
        if self._stored is not None:
            return self._stored
        try:
            answer = await self.run(ToolRequest(OPERATIONS["queries"], wire.NoParameters()))
        except OmniGraphError:
            return {}
        self._listed = {tool.name: tool for tool in map(stored_tool, answer["queries"])}
        return self._listed

    async def stored_tool(self, name: str) -> Tool | None:
        """Return the tool of a stored query; another server is asked for those not seen before."""
        return self._listed.get(name) or (await self.stored()).get(name)
