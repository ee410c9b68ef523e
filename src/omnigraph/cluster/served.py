"""What a server serves of a cluster: the ledger, and blobs whose digests fit. The config directory is not needed.

Some faults make a cluster unservable; others quarantine a single graph, and the rest is served.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from omnigraph.cluster.declared.cluster_yaml import read_root, variable_of
from omnigraph.cluster.declared.diagnostics import Code, Diagnostics, Refused
from omnigraph.cluster.declared.directory import CONFIG_FILE
from omnigraph.cluster.declared.resources import (
    CLUSTER_SCOPE,
    digest_json,
    graph_address,
    kind_of,
    policy_address,
    provider_address,
    query_address,
)
from omnigraph.cluster.graphs import graph_uri
from omnigraph.cluster.stored.catalogue import read_blob
from omnigraph.cluster.stored.ledger import STATE_PATH, AppliedResource, Ledger, read_ledger
from omnigraph.cluster.stored.recovery_files import read_recoveries
from omnigraph.embeddings.embedding_settings import EmbeddingSettings
from omnigraph.errors import BadRequest
from omnigraph.lang.query.registry import StoredSource
from omnigraph.policy.bundle import Bundle, BundleKind, parse_bundle
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.uris import Root

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class ClusterGraph:
    """A graph as a server opens it."""

    id: str
    uri: str
    queries: tuple[StoredSource, ...] = ()
    bundle: Bundle | None = None
    embedder: EmbeddingSettings | None = None
    external_blobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Serving:
    """What was applied of a cluster."""

    root: str
    revision: int
    graphs: tuple[ClusterGraph, ...]
    server_bundle: Bundle | None = None
    quarantined: Mapping[str, str] = field(default_factory=dict)
    """Graphs that are not served, and why."""

    @property
    def has_policies(self) -> bool:
        """Whether anything is decided about actors."""
        return self.server_bundle is not None or any(one.bundle is not None for one in self.graphs)


def cluster_root(text: str) -> Root:
    """Return where a cluster stores everything, given its directory or that place itself."""
    if "://" not in text and (Path(text) / CONFIG_FILE).is_file():
        diagnostics = Diagnostics()
        try:
            return read_root(text, diagnostics)
        except Refused:
            raise _refusal(text, [str(one) for one in diagnostics]) from None
    return Root.parse(text)


def read_applied(root: Root) -> Ledger:
    """Return the ledger of a cluster; refuse a place without one."""
    diagnostics = Diagnostics()
    try:
        found = read_ledger(open_store(root), diagnostics)
    except Refused:
        raise _refusal(root.canonical, [str(one) for one in diagnostics]) from None
    if not found.is_there:
        raise BadRequest(
            f"there is no cluster at {root.canonical}: {STATE_PATH} is missing (cluster_state_missing); "
            "run `omnigraph cluster import` and `omnigraph cluster apply`"
        )
    return found.ledger


def find_graph(text: str, graph: str | None) -> str:
    """Return where a graph of a cluster lies; without an id, the only one that was applied."""
    root = cluster_root(text)
    applied = read_applied(root).graphs
    if graph is None and len(applied) == 1:
        graph = applied[0]
    if graph is None or graph not in applied:
        known = ", ".join(applied) or "none"
        what = (
            "name one with --graph"
            if graph is None
            else f"`{graph}` is not one ({Code.GRAPH_NOT_APPLIED})"
        )
        raise BadRequest(f"the cluster at {root.canonical} has the graphs {known}; {what}")
    return graph_uri(root, graph)


def read_bundles(text: str) -> dict[str, tuple[Bundle, tuple[str, ...]]]:
    """Return the applied bundles of a cluster by name, each with its scopes."""
    root = cluster_root(text)
    reading = _Reading(root, read_applied(root))
    found = reading.bundles()
    reading.refuse()
    return found


def read_queries(text: str, graph: str | None) -> tuple[str, tuple[StoredSource, ...]]:
    """Return where a graph of a cluster lies, and its applied queries."""
    root = cluster_root(text)
    uri = find_graph(text, graph)
    reading = _Reading(root, read_applied(root))
    found = reading.queries(Path(uri).name.removesuffix(".omni"))
    reading.refuse()
    return uri, found


def read_serving(text: str, environ: Mapping[str, str] = os.environ) -> Serving:
    """Return what a server serves of a cluster; ``BadRequest`` with everything that makes it unservable."""
    root = cluster_root(text)
    reading = _Reading(root, read_applied(root))
    serving = reading.serving(environ)
    reading.refuse()
    return serving


def _refusal(place: str, faults: list[str]) -> BadRequest:
    listed = "; ".join(faults[:_SHOWN])
    return BadRequest(f"the cluster at {place} cannot be served: {listed}", faults=faults)


class _Reading:
    """Reads a cluster, collecting what makes it unservable."""

    def __init__(self, root: Root, ledger: Ledger) -> None:
        self.root = root
        self.ledger = ledger
        self.store: ObjectStore = open_store(root)
        self.faults: list[str] = []
        self.quarantined: dict[str, str] = {}

    def refuse(self) -> None:
        if self.faults:
            raise _refusal(self.root.canonical, self.faults)

    def serving(self, environ: Mapping[str, str]) -> Serving:
        if not self.ledger.graphs:
            self.faults.append("no graph was applied; run apply (cluster_empty)")
        self._recoveries()
        by_scope: dict[str, Bundle] = {}
        for bundle, scopes in self.bundles().values():
            by_scope |= dict.fromkeys(scopes, bundle)
        graphs = []
        for name in self.ledger.graphs:
            self._check_composite(name)
            entry = self.ledger.resources[graph_address(name)]
            graphs.append(
                ClusterGraph(
                    name,
                    graph_uri(self.root, name),
                    self.queries(name),
                    by_scope.get(name),
                    self._embedder(name, entry, environ),
                    tuple(entry.facts.get("external_blob_policy", {}).get("allow", ())),
                )
            )
        served = tuple(one for one in graphs if one.id not in self.quarantined)
        return Serving(
            self.root.canonical,
            self.ledger.revision,
            served,
            by_scope.get(CLUSTER_SCOPE),
            self.quarantined,
        )

    def bundles(self) -> dict[str, tuple[Bundle, tuple[str, ...]]]:
        """Return the bundles by name, with their scopes."""
        found = {}
        taken: dict[str, str] = {}
        for address, entry in self._of_kind("policy"):
            name = address.partition(".")[2]
            scopes = tuple(entry.facts.get("applies_to", ()))
            if not scopes:
                self.faults.append(
                    f"{address} is bound to nothing; run apply (policy_bindings_missing)"
                )
            for scope in scopes:
                if taken.setdefault(scope, name) != name:
                    self.faults.append(
                        f"{taken[scope]} and {name} both decide about `{scope}`; unbind one "
                        "(duplicate_policy_binding)"
                    )
            text = self._text(policy_address(name), entry)
            if text is None:
                continue
            try:
                kind: BundleKind = "server" if CLUSTER_SCOPE in scopes else "graph"
                bundle = parse_bundle(text.removeprefix("\ufeff"), Path(f"{name}.yaml"), kind)
            except BadRequest as error:
                self.faults.append(f"{address}: {error.message} (policy_invalid)")
                continue
            found[name] = bundle, scopes
        return found

    def queries(self, graph: str) -> tuple[StoredSource, ...]:
        """Return the queries of a graph."""
        found = []
        for name, entry in sorted(self.ledger.queries(graph).items()):
            text = self._text(query_address(graph, name), entry)
            if text is not None:
                found.append(
                    StoredSource(
                        name,
                        text,
                        entry.facts.get("tool_name"),
                        bool(entry.facts.get("expose", True)),
                        f"{name}.gq",
                    )
                )
        return tuple(found)

    def _of_kind(self, kind: str) -> list[tuple[str, AppliedResource]]:
        return [
            (at, one) for at, one in sorted(self.ledger.resources.items()) if kind_of(at) == kind
        ]

    def _text(self, address: str, entry: AppliedResource) -> str | None:
        found, content, why = read_blob(self.store, address, entry.digest)
        if found == "fits":
            return content.decode("utf-8", "replace")
        code = {
            "payload_missing": "catalog_payload_missing",
            "payload_mismatch": "catalog_payload_digest_mismatch",
            "payload_read_error": "catalog_payload_read_error",
        }[found]
        self.faults.append(f"{address}: {why}; run refresh and apply ({code})")
        return None

    def _recoveries(self) -> None:
        records, strange = read_recoveries(self.store)
        for name in strange:
            self.faults.append(f"{name} is no recovery file (cluster_recovery_unattributed)")
        for record in records:
            if record.graph_id in self.ledger.graphs:
                self.quarantined[record.graph_id] = (
                    f"{record.operation} {record.operation_id} was not finished; run apply "
                    "(cluster_recovery_pending)"
                )

    def _check_composite(self, graph: str) -> None:
        if self.ledger.composite(graph) != self.ledger.digest(graph_address(graph)):
            self.faults.append(
                f"{graph_address(graph)} is not made of the parts in the ledger "
                "(external_blob_policy_digest_mismatch)"
            )

    def _embedder(
        self, graph: str, entry: AppliedResource, environ: Mapping[str, str]
    ) -> EmbeddingSettings | None:
        name = entry.facts.get("embedding_provider")
        if name is None:
            return None
        provider = self.ledger.resources.get(provider_address(name))
        if provider is None:
            self.faults.append(
                f"{graph_address(graph)} names the provider {name} (embedding_provider_missing)"
            )
            return None
        profile: Mapping[str, Any] | None = provider.facts.get("embedding_profile")
        if profile is None:
            self.faults.append(f"provider {name} has no profile (embedding_profile_missing)")
            return None
        if digest_json(profile) != provider.digest:
            self.faults.append(f"provider {name} was changed (embedding_digest_mismatch)")
            return None
        key = variable_of(str(profile.get("api_key", "")))
        secret = "" if key is None else environ.get(key, "")
        if key is not None and not secret:
            self.quarantined.setdefault(
                graph, f"the variable {key} of the embedding provider {name} is not set; set it"
            )
        return EmbeddingSettings(
            str(profile["kind"]),
            str(profile.get("model", "")),
            str(profile.get("base_url", "")),
            secret,
        )
