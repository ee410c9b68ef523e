"""From what was read to a server: its graphs, opened, and what decides about each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from omnigraph.explorer.pages import Access, Pages
from omnigraph.explorer.sign_in import SignIn
from omnigraph.graph import open as open_graph
from omnigraph.policy import Checker, DefaultDeny
from omnigraph.policy.cedar import CedarChecker
from omnigraph.server.decisions import LoggedChecker
from omnigraph.server.figures import Figures
from omnigraph.server.handling.agents import is_installed
from omnigraph.server.hosts import Authority, HostRules
from omnigraph.server.limits import ServerLimits
from omnigraph.server.process.boot_data import BootData, registry_of
from omnigraph.server.process.options import Options
from omnigraph.server.state import GraphMode, ServedGraph, ServerState
from omnigraph.service.stored import check_fit
from omnigraph.storage.scratch import make_scratch


@dataclass(frozen=True, slots=True)
class Personal:
    """What makes a server that of `omnigraph ui`: how its one user signs in, and what that user may do."""

    sign_in: SignIn
    checker: Checker | None


@contextmanager
def booted(
    options: Options,
    data: BootData,
    bound: Authority,
    figures: Figures | None = None,
    personal: Personal | None = None,
) -> Iterator[ServerState]:
    """Open the graphs, which recovers what dead writers left, and make the state that requests see."""
    with ExitStack() as cleanup:
        spool = make_scratch("spool")
        cleanup.callback(shutil.rmtree, spool, ignore_errors=True)
        graphs = {}
        decided = decide(options, data, personal)
        registries = {name: registry_of(sources) for name, sources in data.queries.items()}
        server = data.server_bundle
        for name, uri in options.graphs:
            (checker, mode), stored = decided[name], registries.get(name)
            graph = open_graph(
                uri,
                policy=checker,
                upkeep="background",
                local_files=False,
                group_commit=options.group_commit,
            )
            cleanup.callback(graph.close)
            if stored is not None:
                check_fit(graph, stored)
            graphs[name] = ServedGraph(name, graph, mode, stored, checker)
        yield ServerState(
            graphs=graphs,
            limits=ServerLimits.from_environment(),
            hosts=HostRules(bound, options.allowed_hosts, options.proxies),
            spool_directory=spool,
            verifier=data.tokens if personal is None else personal.sign_in,
            policy=None if server is None else LoggedChecker(CedarChecker(server), None),
            agents=options.agents and is_installed(),
            pages=Pages(_access(data, personal)) if options.explorer else None,
            sign_in=None if personal is None else personal.sign_in,
            figures=Figures() if figures is None else figures,
        )


def _access(data: BootData, personal: Personal | None) -> Access:
    """How people get in, as the page of the explorer says it."""
    if personal is not None:
        return "code"
    return "open" if data.is_open else "token"


def decide(
    options: Options, data: BootData, personal: Personal | None = None
) -> dict[str, tuple[Checker | None, GraphMode]]:
    """Return what decides about each graph: its bundle, or else that whoever has a token may read."""
    if personal is not None and personal.checker is not None:
        return {name: (personal.checker, "policy") for name, _ in options.graphs}
    if data.is_open:
        return {name: (None, "open") for name, _ in options.graphs}
    # One bundle of several graphs is compiled once.
    compiled = {id(bundle): CedarChecker(bundle) for bundle in data.bundles.values()}
    decided: dict[str, tuple[Checker | None, GraphMode]] = {}
    for name, _ in options.graphs:
        if name in data.bundles:
            decided[name] = LoggedChecker(compiled[id(data.bundles[name])], name), "policy"
        else:
            decided[name] = LoggedChecker(DefaultDeny(), name), "default_deny"
    return decided
