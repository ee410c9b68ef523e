"""The command line of `omnigraph-server`, and the variables that stand in for its flags."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from omnigraph import settings
from omnigraph.cores import usable_cores
from omnigraph.errors import BadRequest
from omnigraph.server.hosts import Authority, Network, parse_allowed_host, parse_proxy
from omnigraph.server.process.serving import DrainTimes
from omnigraph.service.graph_urls import GRAPH_ID_RULE, is_graph_id
from omnigraph.spelling import did_you_mean
from omnigraph.version import version_text

PROGRAM: Final = "omnigraph-server"
DEFAULT_ID: Final = "default"
"""The id of a graph that is served alone."""

MOST_WORKERS: Final = 256

_BINDINGS: Final = ("--policy", "--server-policy", "--queries")


class Misuse(BadRequest):
    """The command line cannot be understood; the process exits with 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a server is to do, checked as far as that is possible without looking at anything."""

    graphs: tuple[tuple[str, str], ...]
    host: str
    port: int
    unauthenticated: bool
    allowed_hosts: tuple[Authority, ...]
    proxies: tuple[Network, ...]
    ending: DrainTimes
    policies: Mapping[str, Path]
    server_policy: Path | None
    queries: Mapping[str, Path]
    agents: bool
    explorer: bool
    group_commit: bool
    workers: int
    metrics: tuple[str, int] | None
    cluster: str | None = None
    """The directory or address of the cluster whose graphs are served."""
    require_all: bool = False
    """Whether a graph of a cluster that cannot be served ends the server."""

    @property
    def decides(self) -> str | None:
        """The flag that names a policy, if there is one."""
        if self.policies:
            return "--policy"
        return None if self.server_policy is None else "--server-policy"


def parse_options(arguments: Sequence[str]) -> Options:
    """Return what the flags and the environment say; ``Misuse`` if they cannot be understood."""
    given = _parser().parse_args(list(arguments))
    try:
        return _checked(given)
    except Misuse:
        raise
    except BadRequest as refused:
        raise Misuse(refused.message) from None


def _checked(given: argparse.Namespace) -> Options:
    cluster, graphs = _sources(given)
    if cluster is not None:
        for flag in _BINDINGS:
            if _is_given(given, flag):
                raise Misuse(f"{flag} cannot stand beside --cluster, which declares its own")
    workers = settings.SERVER_WORKERS.get() if given.workers is None else given.workers
    bound = settings.SERVER_BIND.get() if given.bind is None else given.bind
    host, port = _address(bound, "--bind")
    metrics = given.metrics_bind
    return Options(
        graphs=graphs,
        host=host,
        port=port,
        unauthenticated=given.unauthenticated or settings.UNAUTHENTICATED.get(),
        allowed_hosts=tuple(map(parse_allowed_host, given.allow_host)),
        proxies=tuple(map(parse_proxy, given.trusted_proxy)),
        ending=DrainTimes(delay=given.drain_delay, timeout=given.drain_timeout),
        policies=_bound("--policy", given.policy, graphs),
        server_policy=None if given.server_policy is None else Path(given.server_policy),
        queries=_bound("--queries", given.queries, graphs, shared=False),
        agents=not given.no_mcp,
        explorer=settings.EXPLORER.get() and not given.no_ui,
        group_commit=not given.no_group_commit,
        workers=_workers(workers.strip()),
        metrics=None if metrics is None else _address(metrics, "--metrics-bind"),
        cluster=cluster,
        require_all=given.require_all_graphs or settings.REQUIRE_ALL_GRAPHS.get(),
    )


def _sources(given: argparse.Namespace) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """Return the cluster that is to be served, or the graphs by their ids."""
    flags = {"--store": given.store, "--graph": given.graph, "--cluster": given.cluster}
    used = [flag for flag, value in flags.items() if value]
    if len(used) > 1:
        raise Misuse(f"{' and '.join(used)} exclude each other; give one of them")
    store, cluster = given.store, given.cluster
    if not used:
        store, cluster = settings.SERVER_STORE.get(), settings.SERVER_CLUSTER.get()
        if store and cluster:
            raise Misuse("OMNIGRAPH_STORE and OMNIGRAPH_CLUSTER exclude each other; unset one")
    if given.graph_id is not None and not store:
        raise Misuse("--graph-id names the graph of --store; give that, or --graph ID=URI")
    if given.graph:
        return None, _named_graphs(given.graph)
    if store:
        return None, ((_graph_id(given.graph_id or DEFAULT_ID, "--graph-id"), store),)
    if cluster:
        return cluster, ()
    raise Misuse("there is nothing to serve; give --store URI, --graph ID=URI, or --cluster")


def _named_graphs(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    graphs: dict[str, str] = {}
    for text in texts:
        name, separator, uri = text.partition("=")
        if not separator or not uri.strip():
            raise Misuse(f"--graph {text} names no graph; give ID=URI")
        if _graph_id(name, "--graph") in graphs:
            raise Misuse(f"--graph names `{name}` twice; give every graph an id of its own")
        graphs[name] = uri
    return tuple(graphs.items())


def _bound(
    flag: str,
    texts: Sequence[str],
    graphs: Sequence[tuple[str, str]],
    *,
    shared: bool = True,
) -> dict[str, Path]:
    """Return what a flag binds to each graph: `ID=PATH` to one, `PATH` to all that have none of their own.

    Unless it can be ``shared``, a path without an id is for a server of a single graph.
    """
    names = [name for name, _ in graphs]
    bound: dict[str, Path] = {}
    for_all: Path | None = None
    for text in texts:
        name, separator, path = text.partition("=")
        if not separator or not is_graph_id(name):
            if for_all is not None:
                raise Misuse(f"{flag} is given twice without a graph; write {flag} ID=PATH")
            for_all = Path(text)
        elif name not in names:
            raise Misuse(
                f"{flag} {text} names the graph `{name}`, which is not served; serve it, too"
            )
        elif name in bound:
            raise Misuse(f"{flag} is given twice for `{name}`; drop one")
        else:
            bound[name] = Path(path)
    if for_all is not None and not shared and len(names) > 1:
        raise Misuse(f"{flag} {for_all} says not for which graph; write {flag} ID={for_all}")
    return bound if for_all is None else {**dict.fromkeys(names, for_all), **bound}


def _graph_id(text: str, flag: str) -> str:
    if not is_graph_id(text):
        raise Misuse(f"{flag}: {text[:80]!r} is no id of a graph; one has {GRAPH_ID_RULE}")
    return text


def _workers(text: str) -> int:
    if text == "auto":
        return usable_cores()
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MOST_WORKERS:
        raise Misuse(f"--workers is {text[:20]!r}; give a number from 1 to {MOST_WORKERS}, or auto")
    return int(text)


def _address(text: str, flag: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise Misuse(f"{flag} {text} is no address; give HOST:PORT, such as 127.0.0.1:8080")
    return host, int(port)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not math.isfinite(seconds) or seconds < 0:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds; give one, 0 or more")
    return seconds


def _is_given(given: argparse.Namespace, flag: str) -> bool:
    return bool(getattr(given, flag.removeprefix("--").replace("-", "_")))


class _Parser(argparse.ArgumentParser):
    """The parser of the standard library, with errors of ours."""

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong, in place of printing it and leaving."""
        raise Misuse(message)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the flags; of one that does not exist say which was meant."""
        given, unknown = self.parse_known_args(args, namespace)
        if unknown:
            word = unknown[0]
            known = [name for action in self._actions for name in action.option_strings]
            hint = did_you_mean(word.partition("=")[0], known) if word.startswith("-") else None
            raise Misuse(f"there is no argument {word[:80]}{'' if hint is None else f'; {hint}'}")
        return given


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        PROGRAM,
        description="Serve graphs over HTTP.",
        epilog="Tokens and limits are variables of the environment: docs/user/settings.md.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--store", metavar="URI", help="the graph to serve, as `default`")
    add("--graph-id", metavar="ID", help="another id for it")
    add("--graph", metavar="ID=URI", action="append", default=[], help="one of several graphs")
    add("--cluster", metavar="DIR|URI", help="a cluster: serve all graphs that were applied")
    add(
        "--require-all-graphs",
        action="store_true",
        help="do not start while a graph of the cluster cannot be served",
    )
    add("--bind", metavar="HOST:PORT", help="where to listen (127.0.0.1:8080; port 0: any)")
    add("--unauthenticated", action="store_true", help="serve everybody, without tokens")
    add(
        "--allow-host",
        metavar="HOST",
        action="append",
        default=[],
        help="answer to this name too, where there are no tokens",
    )
    add(
        "--trusted-proxy",
        metavar="CIDR",
        action="append",
        default=[],
        help="believe X-Forwarded-Proto, -Host and -Prefix from here",
    )
    add(
        "--workers",
        metavar="N",
        help="how many processes serve (1); auto: as many as there are cores",
    )
    add(
        "--drain-timeout",
        metavar="S",
        type=_seconds,
        default=30.0,
        help="how many seconds requests under way get when the server ends (30)",
    )
    add(
        "--drain-delay",
        metavar="S",
        type=_seconds,
        default=0.0,
        help="for how many seconds new connections are still served then (0)",
    )
    add(
        "--policy",
        metavar="[ID=]FILE",
        action="append",
        default=[],
        help="who may do what with a graph, or with all of them",
    )
    add("--server-policy", metavar="FILE", help="who may list the graphs")
    add(
        "--queries",
        metavar="[ID=]DIR",
        action="append",
        default=[],
        help="stored queries: a directory of .gq files",
    )
    add("--metrics-bind", metavar="HOST:PORT", help="where /metrics is (nowhere)")
    add("--no-mcp", action="store_true", help="offer no tools to agents")
    add("--no-ui", action="store_true", help="leave out the explorer at /ui/")
    add(
        "--no-group-commit",
        action="store_true",
        help="make a commit for each mutation, also for those that wait for another one",
    )
    add("--version", action="version", version=version_text())
    return parser
