"""The protocol itself: tools and resources as the SDK of the Model Context Protocol serves them.

Every tool answers with its document, as structured content and as the same JSON in a text. An error is a
result with ``isError`` and the body that HTTP would have.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO

import msgspec

from omnigraph.errors import BadRequest, OmniGraphError, StorageError
from omnigraph.mcp.tool_runners import ToolRunner
from omnigraph.mcp.tools import PROPOSAL, Tool, ToolRequest
from omnigraph.service import wire
from omnigraph.service.operations import OPERATIONS
from omnigraph.version import __version__

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp_types import CallToolResult

logger = logging.getLogger("omnigraph.mcp")
_RESOURCES: Final = {
    "omnigraph://schema": ("schema", "The schema of the graph."),
    "omnigraph://branches": ("branches", "The branches of the graph."),
    "omnigraph://queries": ("queries", "The stored queries of the graph."),
}
_INTRODUCTION: Final = (
    "A typed property graph with branches, diffs and merges. Look at `schema` first; ask with `query` "
    "and pass values as params."
)
_WRITING: Final = (
    "Write on a branch (`branches_create`, then `mutate` or `load` with `branch`), look at `diff`, then "
    "`branches_merge`."
)


@dataclass(frozen=True, slots=True)
class Offer:
    """Which tools are offered: all, only those that read, or only stored queries."""

    read_only: bool = False
    stored_only: bool = False

    def holds(self, tool: Tool) -> bool:
        """Return whether a tool is offered."""
        if self.read_only and not tool.reads_only:
            return False
        return tool.stored is not None or tool.name == PROPOSAL or not self.stored_only


def make_server(
    runner_of: Callable[[Any], ToolRunner], offer: Offer, instructions: str | None = None
) -> Server[Any]:
    """Return a server of the SDK. ``runner_of`` gives the runner for the context of a request."""
    from mcp import types
    from mcp.server.lowlevel import Server

    async def list_tools(context: Any, _: Any) -> types.ListToolsResult:
        tools = await _tools(runner_of(context), offer)
        return types.ListToolsResult(tools=[_shown(tool) for tool in tools])

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        return await _answered(lambda: _call(runner_of(context), offer, params))

    async def list_resources(_context: Any, _: Any) -> types.ListResourcesResult:
        resources = [
            types.Resource(uri=uri, name=name, description=text, mime_type="application/json")
            for uri, (name, text) in _RESOURCES.items()
        ]
        return types.ListResourcesResult(resources=resources)

    async def read_resource(context: Any, params: Any) -> types.ReadResourceResult:
        document = await _resource(runner_of(context), str(params.uri))
        contents = types.TextResourceContents(
            uri=str(params.uri), mime_type="application/json", text=_json(document)
        )
        return types.ReadResourceResult(contents=[contents])

    return Server(
        "omnigraph",
        version=__version__,
        instructions=f"{_INTRODUCTION} {instructions or _WRITING}",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


async def _tools(runner: ToolRunner, offer: Offer) -> list[Tool]:
    """Return the tools that the caller may ever call."""
    stored = await runner.stored()
    tools = (*runner.built_in().values(), *stored.values())
    return [tool for tool in tools if offer.holds(tool) and runner.could(tool)]


async def _call(runner: ToolRunner, offer: Offer, params: Any) -> dict[str, Any]:
    tool = runner.built_in().get(params.name) or await runner.stored_tool(params.name)
    if tool is None or not offer.holds(tool) or not runner.could(tool):
        # A tool that may not be called is as unknown.
        raise BadRequest(f"there is no tool `{params.name[:80]}`; list the tools")
    return await runner.run(tool.request(params.arguments))


async def _answered(work: Callable[[], Awaitable[dict[str, Any]]]) -> CallToolResult:
    from mcp import types

    failed = False
    try:
        document = await work()
    except OmniGraphError as error:
        document, failed = error.body(), True
    except Exception:
        logger.exception("a tool failed")
        document = {"error": "internal error; the log of the server has more", "kind": "internal"}
        document["code"], failed = "internal", True
    text = types.TextContent(type="text", text=_json(document))
    return types.CallToolResult(content=[text], structured_content=document, is_error=failed)


async def _resource(runner: ToolRunner, uri: str) -> dict[str, Any]:
    from mcp import MCPError

    if uri not in _RESOURCES:
        raise MCPError(code=-32002, message=f"there is no resource {uri[:200]}; list the resources")
    name, _ = _RESOURCES[uri]
    try:
        return await runner.run(ToolRequest(OPERATIONS[name], wire.NoParameters()))
    except OmniGraphError as error:
        raise MCPError(code=-32000, message=str(error), data=error.body()) from None


def _shown(tool: Tool) -> Any:
    from mcp import types

    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.input_schema),
        output_schema=dict(tool.output_schema),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.reads_only, destructive_hint=tool.destroys, open_world_hint=False
        ),
    )


def _json(document: dict[str, Any]) -> str:
    return msgspec.json.encode(document).decode()


async def serve_stdio(runner: ToolRunner, offer: Offer, instructions: str | None = None) -> None:
    """Serve one agent over stdin and stdout, until it goes."""
    wire = _take_stdout()
    import anyio
    from mcp.server.stdio import stdio_server

    server = make_server(lambda _: runner, offer, instructions)
    async with stdio_server(stdout=anyio.wrap_file(wire)) as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _take_stdout() -> TextIO:
    """Return stdout for the protocol alone; whatever else writes there writes to stderr, to the end of the process.

    The SDK does so while it serves, and gives stdout back: what a library has not flushed by then would follow.
    """
    sys.stdout.flush()
    wire = os.dup(1)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return os.fdopen(wire, "w", encoding="utf-8", newline="\n")


async def serve_http(
    runner: ToolRunner, offer: Offer, text: str, instructions: str | None = None
) -> None:
    """Serve on a loopback address, where browsers of other pages have no way in."""
    import ipaddress

    import uvicorn

    host, _, port = text.rpartition(":")
    bare = host.strip("[]")
    try:
        is_loopback = bare == "localhost" or ipaddress.ip_address(bare).is_loopback
        number = int(port)
    except ValueError:
        raise BadRequest(f"--http {text} is no address; give one such as 127.0.0.1:8080") from None
    if not is_loopback:
        raise BadRequest(
            f"--http {text} can be reached by others, and there are no tokens here; start omnigraph-server "
            "with tokens, which offers the same tools at /graphs/ID/mcp"
        )
    app = make_server(lambda _: runner, offer, instructions).streamable_http_app(
        stateless_http=True, json_response=True, host=bare
    )
    config = uvicorn.Config(app, bare, number, log_level="warning", server_header=False)
    logger.warning("tools of the graph are at http://%s/mcp", text)
    try:
        await uvicorn.Server(config).serve()
    except SystemExit:
        raise StorageError(f"cannot listen on {text}; choose another address") from None
