"""The resources of a cluster as values: their addresses, digests, and what depends on what.

A digest is the hash of the bytes of a file, or of canonical JSON: keys sorted, no blanks, UTF-8. None
depends on where the directory lies or how its paths are spelled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

CLUSTER_SCOPE: Final = "cluster"
"""The scope of a bundle that decides about the server itself."""


def digest_bytes(data: bytes) -> str:
    """Return the digest of the bytes of a file."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def digest_json(value: object) -> str:
    """Return the digest of a value as canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return digest_bytes(text.encode())


def graph_address(graph: str) -> str:
    """Return the address of a graph."""
    return f"graph.{graph}"


def schema_address(graph: str) -> str:
    """Return the address of the schema of a graph."""
    return f"schema.{graph}"


def query_address(graph: str, name: str) -> str:
    """Return the address of a stored query of a graph."""
    return f"query.{graph}.{name}"


def policy_address(name: str) -> str:
    """Return the address of a bundle."""
    return f"policy.{name}"


def provider_address(name: str) -> str:
    """Return the address of an embedding provider."""
    return f"provider.embedding.{name}"


def kind_of(address: str) -> str:
    """Return the kind of a resource: the first word of its address."""
    return address.partition(".")[0]


def graph_of(address: str) -> str | None:
    """Return the graph that a resource belongs to; None for bundles and providers."""
    kind, _, rest = address.partition(".")
    return rest.partition(".")[0] if kind in {"graph", "schema", "query"} else None


def graph_digest(
    schema: str | None,
    queries: Mapping[str, str],
    embedding_provider: str | None,
    external_blobs: Mapping[str, Any] | None,
) -> str:
    """Return the digest of a graph, made of those of its parts."""
    parts: dict[str, Any] = {"schema": schema, "queries": dict(queries)}
    if embedding_provider is not None:
        parts["embedding_provider"] = embedding_provider
    if external_blobs is not None:
        parts["external_blobs"] = external_blobs
    return digest_json(parts)


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource as it should be: its digest, its file if it has one, and facts beside the digest."""

    address: str
    digest: str
    content: bytes | None = field(default=None, repr=False)
    file: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the ledger keeps beside the digest, by the names it has there."""


@dataclass(frozen=True, slots=True)
class Desired:
    """Everything that a directory declares."""

    name: str | None
    resources: Mapping[str, Resource]
    depends: Mapping[str, tuple[str, ...]]
    """What each resource depends on."""

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each resource, by address."""
        return {address: one.digest for address, one in sorted(self.resources.items())}

    @property
    def bindings(self) -> dict[str, list[str]]:
        """The scopes of each bundle, by its name."""
        return {
            address.partition(".")[2]: list(one.facts["applies_to"])
            for address, one in sorted(self.resources.items())
            if kind_of(address) == "policy"
        }

    @property
    def config_digest(self) -> str:
        """The digest of the whole."""
        return digest_json({"resources": self.digests, "bindings": self.bindings})

    @property
    def graphs(self) -> list[str]:
        """The ids of the graphs, sorted."""
        return sorted(
            address.partition(".")[2] for address in self.resources if kind_of(address) == "graph"
        )

    def affected_by(self, addresses: Iterable[str]) -> dict[str, list[str]]:
        """Return what depends on each of some resources, directly or not."""
        above: dict[str, set[str]] = {}
        for address, below in self.depends.items():
            for one in below:
                above.setdefault(one, set()).add(address)
        found = {}
        for address in addresses:
            reached: set[str] = set()
            waiting = [address]
            while waiting:
                new = above.get(waiting.pop(), set()) - reached
                reached |= new
                waiting += new
            found[address] = sorted(reached)
        return found
