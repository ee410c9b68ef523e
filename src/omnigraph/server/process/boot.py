"""From what was read to a server: its graphs, opened, and what decides about each."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.explorer.page_files import Access, Pages
from omnigraph.explorer.sign_in import SignIn
from omnigraph.graph import open as open_graph
from omnigraph.lang.query.registry import Registry
from omnigraph.policy import Checker, DefaultDeny
from omnigraph.policy.cedar import CedarChecker
from omnigraph.server.decisions import LoggedChecker
from omnigraph.server.figures import Figures
from omnigraph.server.handling.agents import is_installed
from omnigraph.server.hosts import Authority, HostRules
from omnigraph.server.limits import ServerLimits
from omnigraph.server.process.boot_data import BootData, registry_of
from omnigraph.server.process.flags import Options
from omnigraph.server.state import GraphMode, ServedGraph, ServerState
from omnigraph.service.stored import check_fit
from omnigraph.storage.scratch import make_scratch

logger = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""How many graphs of a cluster are opened at a time."""


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
        opened = _Opening(options, data, cleanup, personal)
        opened.all()
        server, counted = data.server_bundle, Figures() if figures is None else figures
        counted.set("quarantined_graphs", len(opened.quarantined))
        yield ServerState(
            graphs=opened.graphs,
            quarantined=opened.quarantined,
            limits=ServerLimits.from_environment(),
            hosts=HostRules(bound, options.allowed_hosts, options.proxies),
            spool_directory=spool,
            verifier=data.tokens if personal is None else personal.sign_in,
            policy=None if server is None else LoggedChecker(CedarChecker(server), None),
            agents=options.agents and is_installed(),
            pages=Pages(_access(data, personal)) if options.explorer else None,
            sign_in=None if personal is None else personal.sign_in,
            figures=counted,
        )


def _access(data: BootData, personal: Personal | None) -> Access:
    """How people get in, as the page of the explorer says it."""
    if personal is not None:
        return "code"
    return "open" if data.is_open else "token"


class _Opening:
    """Opens the graphs of a server; of a cluster four at a time, and those that fail are left out."""

    def __init__(
        self, options: Options, data: BootData, cleanup: ExitStack, personal: Personal | None
    ) -> None:
        self._options = options
        self._data = data
        self._cleanup = cleanup
        self._decided = decide(options, data, personal)
        self._of_cluster = (
            {} if data.cluster is None else {one.id: one for one in data.cluster.graphs}
        )
        self.graphs: dict[str, ServedGraph] = {}
        self.quarantined: dict[str, str] = {}

    def all(self) -> None:
        """Open all graphs, or say why that cannot be."""
        cluster = self._data.cluster
        if cluster is None:
            registries = {name: registry_of(found) for name, found in self._data.queries.items()}
            for name, uri in self._options.graphs:
                self._keep(self._open(name, uri, registries.get(name)))
            return
        self.quarantined |= cluster.quarantined
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = pool.map(lambda graph: self._tried(*graph), self._options.graphs)
        for (name, _), result in zip(self._options.graphs, list(found), strict=True):
            if isinstance(result, ServedGraph):
                self._keep(result)
            else:
                self.quarantined[name] = result
        self._refuse_or_tell(cluster.root)

    def _refuse_or_tell(self, root: str) -> None:
        told = "; ".join(f"{name}: {why}" for name, why in sorted(self.quarantined.items()))
        if self.quarantined and self._options.require_all:
            raise BadRequest(
                f"not all graphs of the cluster at {root} can be served, as --require-all-graphs wants: "
                f"{told}"
            )
        if not self.graphs:
            raise BadRequest(
                f"no graph of the cluster at {root} can be served (cluster_no_healthy_graphs): {told}"
            )
        for name, why in sorted(self.quarantined.items()):
            logger.warning("graph %s is quarantined: %s", name, why)

    def _keep(self, served: ServedGraph) -> None:
        self._cleanup.callback(served.graph.close)
        self.graphs[served.id] = served

    def _tried(self, name: str, uri: str) -> ServedGraph | str:
        """Open a graph of a cluster, or return why it cannot be served."""
        try:
            sources = self._data.queries.get(name)
            return self._open(name, uri, None if sources is None else registry_of(sources))
        except OmniGraphError as error:
            return error.message

    def _open(self, name: str, uri: str, stored: Registry | None) -> ServedGraph:
        checker, mode = self._decided[name]
        of_cluster = self._of_cluster.get(name)
        graph = open_graph(
            uri,
            policy=checker,
            upkeep="background",
            local_files=False,
            group_commit=self._options.group_commit,
            embedder=None if of_cluster is None else of_cluster.embedder,
            external_blobs=None if of_cluster is None else of_cluster.external_blobs,
        )
        try:
            if stored is not None:
                check_fit(graph, stored)
        except BaseException:
            graph.close()
            raise
        return ServedGraph(name, graph, mode, stored, checker)


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
