"""`omnigraph ui`: look at a graph in the browser."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.address import Server, Store
from omnigraph.cli.call import Invocation
from omnigraph.cli.output import note, put_json
from omnigraph.cli.shared_options import UriArgument
from omnigraph.errors import BadRequest


def ui(
    call: Invocation,
    uri: UriArgument = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", metavar="N", min=0, max=65_535, help="Where to listen, not the usual port."
        ),
    ] = None,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the link, and open no browser.")
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Change nothing (usual for a graph elsewhere).")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Allow changes of a graph that is not on this machine.")
    ] = False,
    queries: Annotated[
        Path | None,
        typer.Option("--queries", metavar="DIR", help="Stored queries: a directory of .gq files."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="HOST", help="Answer to this name, too."),
    ] = None,
) -> None:
    """Look at the graph in the browser: draw it, ask it, follow its edges."""
    if read_only and write:
        raise BadRequest("--read-only and --write exclude each other; give one of them")
    address = call.address(uri, read_only=True)
    if isinstance(address, Server):
        if read_only or write or queries is not None or port is not None or allow_host:
            raise BadRequest(
                "a server decides itself what it serves and to whom; leave out --read-only, --write, "
                "--queries, --port and --allow-host"
            )
        _open_server(call, address, no_open=no_open)
        return
    for library in ("uvicorn", "httptools", "prometheus_client"):
        if importlib.util.find_spec(library) is None:
            raise BadRequest(
                f"{library} is not installed; install the extra: pip install 'omnigraph[server]'"
            )
    from omnigraph.explorer.launch import Announcements, ExploreOptions, explore
    from omnigraph.server.hosts import parse_allowed_host

    wanted = ExploreOptions(
        uri=_absolute(address),
        actor=call.actor,
        mode="read-only" if read_only or not (address.is_local or write) else "read-write",
        port=port,
        opens=not no_open,
        queries=queries,
        allowed_hosts=tuple(map(parse_allowed_host, allow_host or ())),
    )

    def tell(url: str) -> None:
        if call.flags.json:
            put_json(
                {
                    "url": url,
                    "graph_id": "default",
                    "actor_id": wanted.actor,
                    "mode": wanted.mode,
                }
            )
        else:
            note(f"explorer at {url}")

    code = explore(wanted, Announcements(tell, note))
    if code:
        raise typer.Exit(code)


def _open_server(call: Invocation, address: Server, *, no_open: bool) -> None:
    """Open the explorer of a server, where the person signs in."""
    url = f"{address.url.rstrip('/')}/ui/"
    call.answer(
        {"url": url, "graph_id": address.graph, "actor_id": None, "mode": None},
        f"explorer at {url}",
    )
    if not no_open:
        from omnigraph.explorer.forwarding import open_in_browser

        if not open_in_browser(url):
            note("no browser was opened; open the link yourself")


def _absolute(address: Store) -> str:
    """The address of a graph, the same from whatever directory it is named."""
    if not address.is_local:
        return address.uri
    return str(Path(address.uri.removeprefix("file://")).expanduser().resolve())
