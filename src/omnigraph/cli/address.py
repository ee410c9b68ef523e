"""Decide which graph a command works on: what the command line says, then a profile, then defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from omnigraph import settings
from omnigraph.cli.command import SCOPE_FLAGS, Command, Flags, flag_text
from omnigraph.cli.operator.config import NamedGraph, Operator, ScopeKind
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.service.graph_urls import GRAPH_ID_RULE, check_server_url, is_graph_id

_OF_GRAPH: Final = re.compile(r"(?P<base>.*)/graphs/(?P<graph>[^/]+)/?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Store:
    """The storage of one graph. ``uri`` is spelled as the user spelled it."""

    uri: str
    is_local: bool

    @property
    def route(self) -> str:
        """How the graph is reached, as a writing command prints it."""
        return f"direct, {'local' if self.is_local else 'remote'}"


@dataclass(frozen=True, slots=True)
class Server:
    """A graph behind a server; ``graph`` is None if nothing says which.

    ``is_guess``: the graph is one that such a server often has, because it does not tell.
    """

    url: str
    graph: str | None
    is_guess: bool = False
    is_local: ClassVar[bool] = False
    route: ClassVar[str] = "served"

    @property
    def uri(self) -> str:
        """The address that the server itself shows for the graph."""
        return self.url if self.graph is None else f"{self.url}/graphs/{self.graph}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A graph of a cluster, opened at its storage; ``graph`` is None if nothing says which."""

    root: str
    graph: str | None


Address: TypeAlias = Store | Server | Cluster
Reachable: TypeAlias = Store | Server
"""Where a command can find one graph."""


def resolve(command: Command, flags: Flags, uri: str | None, operator: Operator) -> Address | None:
    """Return the one graph that the command line, a profile or a default names; None if none does.

    A flag that has no meaning for that graph is refused.
    """
    address = _explicit(command, flags, uri, operator)
    if address is None:
        address = _configured(command, flags, operator)
    if flags.graph is not None and not isinstance(address, Server | Cluster):
        given = (
            "neither is given" if address is None else f'"{address.uri}" is storage of one graph'
        )
        why = f"it names a graph of a server or cluster, and {given}"
        raise command.refusal("--graph", why, "leave it out")
    if isinstance(address, Server) and flags.as_actor is not None:
        raise command.refusal("--as", "a server knows its callers by their tokens", "leave it out")
    return address


@dataclass(frozen=True, slots=True)
class Named:
    """What names the graph of a command besides its arguments; ``by_option`` of this very call."""

    text: str
    by_option: bool


def named_by(flags: Flags, uri: str | None, operator: Callable[[], Operator]) -> Named | None:
    """Return which option, profile or default names a graph; None if none does."""
    options = ("--uri", uri), ("--store", flags.store), ("--server", flags.server)
    for flag, text in (*options, ("--cluster", flags.cluster)):
        if text is not None:
            return Named(f'{flag} "{text}"', by_option=True)
    profile = flags.profile if flags.profile is not None else settings.PROFILE.get()
    if profile is not None:
        return Named(f"profile `{profile}`", by_option=False)
    defaults = operator().defaults
    for key in ("server", "store"):
        if getattr(defaults, key) is not None:
            return Named(f"`defaults.{key}`", by_option=False)
    return None


def refuse_unusable(command: Command, flags: Flags, operator: Callable[[], Operator]) -> None:
    """Refuse the flags that this command can never use."""
    for name in SCOPE_FLAGS:
        if getattr(flags, name) is not None and name not in command.takes:
            raise command.refusal(flag_text(name), *_advice(command, flags, name, operator))


def _advice(
    command: Command, flags: Flags, name: str, operator: Callable[[], Operator]
) -> tuple[str, str]:
    """Return why the flag makes no sense here, and what to pass instead."""
    if command.capability == "local":
        return "it touches no graph", "leave it out"
    if name == "as_actor":
        return "it records no actor", "leave it out"
    if command.capability == "served":
        why = "it is about all graphs" if name == "graph" else "it asks a server"
        return why, "leave it out" if name == "graph" else "pass --server URL"
    if command.group == "cluster":
        return "it works on the directory that --config names", "pass --config DIR"
    if command.capability == "control" and name != "cluster":
        return "it looks at files, or at what a cluster applied", "pass --cluster DIR"
    if not command.takes:
        return "it works on the storage that its URI names", "pass the URI as an argument"
    if name == "server":
        return "it opens the storage of the graph itself", "pass --store URI"
    root = flags.cluster or "<root>"
    storage = _storage_of(operator().clusters.get(root, root))
    return (
        "it works on one graph, not on a cluster",
        f"pass --store {storage}/graphs/{flags.graph or '<id>'}.omni",
    )


def _storage_of(root: str) -> str:
    """Return where a cluster has its graphs: the place as it is spelled, or what its cluster.yaml says."""
    from omnigraph.cluster.served import cluster_root
    from omnigraph.storage.uris import Root

    with suppress(OmniGraphError):
        found = cluster_root(root).canonical
        if found != Root.parse(root).canonical:
            return found
    return root.rstrip("/")


def _explicit(
    command: Command, flags: Flags, uri: str | None, operator: Operator
) -> Address | None:
    """Return the graph that the command line itself names."""
    given = [
        (flag, text)
        for flag, text in (
            ("a URI", uri),
            ("--store", flags.store),
            ("--server", flags.server),
            ("--cluster", flags.cluster),
        )
        if text is not None
    ]
    if len(given) > 1:
        named = " and ".join(f'{flag} "{text}"' for flag, text in given)
        raise BadRequest(f"{command.name} works on one graph and was given {named}; keep one")
    if not given:
        return None
    flag, text = given[0]
    if not text.strip():
        raise BadRequest(f"{flag} is empty; give {command.name} the address of a graph")
    if flag == "--server":
        return _server(text, flags.graph, operator)
    if flag == "--cluster":
        return _cluster(text, flags.graph, operator)
    return _storage(text)


def _configured(command: Command, flags: Flags, operator: Operator) -> Address | None:
    """Return the graph of the profile, or else of the defaults."""
    name = flags.profile if flags.profile is not None else settings.PROFILE.get()
    if name is not None:
        profile = find_profile(operator, name)
        kind, target = binding_of(profile)
        whose = f"profile `{profile.name}`"
        graph = profile.default_graph if flags.graph is None else flags.graph
    elif operator.defaults.server is not None:
        kind, target, whose = "server", operator.defaults.server, "`defaults.server`"
        graph = operator.defaults.default_graph if flags.graph is None else flags.graph
    elif operator.defaults.store is not None:
        kind, target, whose, graph = "store", operator.defaults.store, "`defaults.store`", None
    else:
        return None
    if kind not in command.takes:
        raise BadRequest(
            f"{whose} names a {kind}, which {command.name} ({command.capability} command) cannot "
            f"use; pass {'--server URL' if command.capability == 'served' else '--store URI'}"
        )
    return scope(kind, target, graph, operator)


def find_profile(operator: Operator, name: str) -> NamedGraph:
    """Return the profile of this name; refuse an unknown one."""
    operator.refuse_faulty("profiles", name)
    if name not in operator.profiles:
        raise BadRequest(f"there is no profile `{name}`; {_known('profiles', operator.profiles)}")
    return operator.profiles[name]


def binding_of(profile: NamedGraph) -> tuple[ScopeKind, str]:
    """Return what a profile names; refuse one that does not name exactly one thing."""
    if len(profile.bindings) != 1:
        has = " and ".join(profile.bindings) or "none of them"
        raise BadRequest(
            f"profile `{profile.name}` must name one of server, cluster and store, and has {has}; "
            "keep one"
        )
    kind, target = next(iter(profile.bindings.items()))
    if kind == "store" and profile.default_graph is not None:
        raise BadRequest(
            f"profile `{profile.name}` has a store, which is the storage of one graph, and a "
            "default_graph; drop one"
        )
    return kind, target


def scope(kind: ScopeKind, target: str, graph: str | None, operator: Operator) -> Address:
    """Return the address of what a profile or a default names."""
    if kind == "server":
        return _server(target, graph, operator)
    if kind == "cluster":
        return _cluster(target, graph, operator)
    return _storage(target)


def _storage(uri: str) -> Store:
    """Return the address of a storage URI; refuse the URI of a server."""
    from omnigraph.storage.uris import SUPPORTED, Root

    if uri.lower().startswith(("http://", "https://")):
        raise BadRequest(
            f'"{uri}" is a server, not the storage of a graph; pass it as --server URL, or give '
            f"{SUPPORTED}"
        )
    return Store(uri, Root.parse(uri).is_local)


def _server(text: str, graph: str | None, operator: Operator) -> Server:
    """Return the address behind a name of the file, or behind a URL."""
    url = text
    if "://" not in text:
        operator.refuse_faulty("servers", text)
        if text not in operator.servers:
            raise BadRequest(f"there is no server `{text}`; {_known('servers', operator.servers)}")
        url = operator.servers[text]
    check_server_url(url)
    named = _OF_GRAPH.fullmatch(url)
    if named is None:
        return Server(url.rstrip("/"), None if graph is None else _graph_id(graph))
    if graph is not None and graph != named["graph"]:
        raise BadRequest(
            f'--graph is "{graph}", and the URL "{url}" names the graph "{named["graph"]}"; drop one'
        )
    return Server(named["base"], _graph_id(named["graph"]))


def _cluster(text: str, graph: str | None, operator: Operator) -> Cluster:
    """Return the graph of a cluster given by a name of the file, a directory or a URI."""
    operator.refuse_faulty("clusters", text)
    root = operator.clusters.get(text, text)
    if root is text and "://" not in text and not _is_directory(text):
        raise BadRequest(
            f"`{text}` is neither a cluster nor a directory; "
            f"{_known('clusters', operator.clusters)}"
        )
    return Cluster(root, None if graph is None else _graph_id(graph))


def _is_directory(text: str) -> bool:
    from pathlib import Path

    with suppress(OSError):  # a name that is too long
        return Path(text).is_dir()
    return False


def _graph_id(text: str) -> str:
    if not is_graph_id(text):
        raise BadRequest(f"`{text}` cannot be the id of a graph; one has {GRAPH_ID_RULE}")
    return text


def _known(what: str, names: Mapping[str, object]) -> str:
    if not names:
        return f"config.yaml has no {what}"
    return f"config.yaml has the {what} {', '.join(sorted(names))}"
