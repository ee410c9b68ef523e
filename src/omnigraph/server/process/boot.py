"""From options to a server: who may use it, where it listens, and its graphs, opened."""

from __future__ import annotations

import logging
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.errors import BadRequest, StorageError
from omnigraph.graph import open as open_graph
from omnigraph.policy import Checker, DefaultDeny
from omnigraph.policy.bundle import read_bundle
from omnigraph.policy.cedar import CedarChecker, load
from omnigraph.server.decisions import LoggedChecker
from omnigraph.server.handling.agents import is_installed
from omnigraph.server.hosts import Authority, HostRules, authority_of, is_loopback
from omnigraph.server.limits import ServerLimits
from omnigraph.server.process.options import Options
from omnigraph.server.process.serving import listen
from omnigraph.server.state import GraphMode, ServedGraph, ServerState
from omnigraph.server.tokens import TokenTable
from omnigraph.service.stored import check_fit, read_directory
from omnigraph.storage.scratch import make_scratch

if TYPE_CHECKING:
    from omnigraph.lang.query.registry import Registry

logger = logging.getLogger(__name__)

TOKENS_HELP: Final = "set OMNIGRAPH_SERVER_BEARER_TOKEN or OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"


def check_access(options: Options, tokens: TokenTable | None) -> None:
    """Refuse a server that nobody could use, and one that everybody could without anybody saying so."""
    if tokens is None and options.decides is not None:
        raise BadRequest(
            f"{options.decides} decides about actors, and without tokens there are none; {TOKENS_HELP}"
        )
    if tokens is None and not options.unauthenticated:
        raise BadRequest(
            "there are no tokens, so everybody could read and write everything; "
            f"{TOKENS_HELP}, or say --unauthenticated"
        )
    if tokens is not None and options.unauthenticated:
        logger.warning("there are tokens, so --unauthenticated changes nothing")


@contextmanager
def listening(options: Options, is_open: bool) -> Iterator[tuple[socket.socket, Authority]]:
    """Bind the address to listen on; refuse an open server that others could reach by any name."""
    try:
        listener = listen(options.host, options.port)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise StorageError(
            f"cannot listen on {options.host}:{options.port}: {why}; choose another --bind"
        ) from None
    with listener:
        address, port = listener.getsockname()[:2]
        if is_open and not is_loopback(address) and not options.allowed_hosts:
            raise BadRequest(
                f"{options.host} can be reached from other machines, and there are no tokens; say with "
                "--allow-host under which name the server answers, or bind a loopback address"
            )
        yield listener, authority_of(address, port)


@contextmanager
def booted(options: Options, tokens: TokenTable | None, bound: Authority) -> Iterator[ServerState]:
    """Open the graphs, which recovers what dead writers left, and make the state that requests see."""
    with ExitStack() as cleanup:
        spool = make_scratch("spool")
        cleanup.callback(shutil.rmtree, spool, ignore_errors=True)
        graphs = {}
        decided = read_policies(options, is_open=tokens is None)
        registries = {name: read_stored(path) for name, path in options.queries.items()}
        for name, uri in options.graphs:
            (checker, mode), stored = decided[name], registries.get(name)
            graph = open_graph(uri, policy=checker, upkeep="background", local_files=False)
            cleanup.callback(graph.close)
            if stored is not None:
                check_fit(graph, stored)
            graphs[name] = ServedGraph(name, graph, mode, stored, checker)
        yield ServerState(
            graphs=graphs,
            limits=ServerLimits.from_environment(),
            hosts=HostRules(bound, options.allowed_hosts, options.proxies),
            spool_directory=spool,
            verifier=tokens,
            policy=_server_policy(options),
            agents=options.agents and is_installed(),
        )


def read_policies(
    options: Options, *, is_open: bool
) -> dict[str, tuple[Checker | None, GraphMode]]:
    """Return what decides about each graph: its bundle, or else that whoever has a token may read."""
    if is_open:
        return {name: (None, "open") for name, _ in options.graphs}
    bound = options.policies
    # One file for several graphs is read once.
    read = {path: load(path) for path in dict.fromkeys(bound.values())}
    decided: dict[str, tuple[Checker | None, GraphMode]] = {}
    for name, _ in options.graphs:
        if name in bound:
            decided[name] = LoggedChecker(read[bound[name]], name), "policy"
        else:
            decided[name] = LoggedChecker(DefaultDeny(), name), "default_deny"
    return decided


def _server_policy(options: Options) -> Checker | None:
    if options.server_policy is None:
        return None
    return LoggedChecker(CedarChecker(read_bundle(options.server_policy, "server")), None)


def read_stored(directory: Path) -> Registry:
    """Read the stored queries of a graph; refuse them with everything that is wrong."""
    from omnigraph.mcp.tools import BUILT_IN_NAMES

    return read_directory(directory, BUILT_IN_NAMES)
