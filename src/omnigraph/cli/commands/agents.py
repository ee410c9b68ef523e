"""`omnigraph mcp`: a graph as tools for agents."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.address import Server, Store
from omnigraph.cli.call import Invocation
from omnigraph.cli.shared_options import UriArgument
from omnigraph.errors import BadRequest

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.lang.query.registry import Registry
    from omnigraph.mcp.tool_runners import ToolRunner


def mcp(
    call: Invocation,
    uri: UriArgument = None,
    queries: Annotated[
        Path | None,
        typer.Option("--queries", metavar="DIR", help="Stored queries: a directory of .gq files."),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer only tools that read.")
    ] = False,
    stored_only: Annotated[
        bool, typer.Option("--stored-only", help="Offer only the stored queries.")
    ] = False,
    propose: Annotated[
        str | None,
        typer.Option(
            "--propose",
            metavar="[PREFIX]",
            help="Let all writes go to a new branch of this session, PREFIX/…, for others to merge.",
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Serve on a loopback address at /mcp, not over stdin and stdout.",
        ),
    ] = None,
) -> None:
    """Offer the graph as tools to an agent, by the Model Context Protocol."""
    if importlib.util.find_spec("mcp") is None:
        raise BadRequest("mcp is not installed; install the extra: pip install 'omnigraph[mcp]'")
    import asyncio

    from omnigraph.mcp.messages import Offer, serve_http, serve_stdio

    if propose is not None and read_only:
        raise BadRequest(
            "--propose is for writes and --read-only offers none; leave one of them out"
        )
    offer = Offer(read_only=read_only, stored_only=stored_only)
    address = call.find_address(uri)
    if address is None:
        taken = "" if propose is None else f"; --propose took `{propose}`, so put the URI before it"
        raise BadRequest(f"mcp needs a graph: pass its URI, --store URI, or --server URL{taken}")
    if isinstance(address, Server) and queries is not None:
        raise BadRequest("the stored queries are those of the server; leave out --queries")

    async def serve() -> None:
        from omnigraph.mcp.proposals import INSTRUCTIONS, ProposingRunner

        async with _runner(call, address, queries, read_only=read_only) as plain:
            runner = plain if propose is None else ProposingRunner(plain, propose)
            instructions = None if propose is None else INSTRUCTIONS
            if http is None:
                await serve_stdio(runner, offer, instructions)
            else:
                await serve_http(runner, offer, http, instructions)

    asyncio.run(serve())


@asynccontextmanager
async def _runner(
    call: Invocation, address: Store | Server, queries: Path | None, *, read_only: bool
) -> AsyncIterator[ToolRunner]:
    """Give what runs the tools, and close it; nothing is opened before the first of them."""
    from omnigraph.mcp.tool_runners import ClientRunner, GraphRunner

    if isinstance(address, Server):
        from omnigraph.client import AsyncClient

        async with AsyncClient(address.url, address.graph, call.token(address)) as client:
            yield ClientRunner(client)
        return

    def opened() -> Graph:
        import omnigraph

        # What an agent sends must not decide which files of this machine are read.
        mode: Any = "r" if read_only else "rw"
        return omnigraph.open(address.uri, mode=mode, actor=call.actor, local_files=False)

    def stored() -> Registry:
        from omnigraph.mcp.tools import BUILT_IN_NAMES
        from omnigraph.service.stored import read_directory

        assert queries is not None
        return read_directory(queries, BUILT_IN_NAMES)

    runner = GraphRunner(opened, address.uri, None if queries is None else stored)
    try:
        yield runner
    finally:
        await runner.close()
