"""The ledger, `__cluster/state.json`: what was applied, what was seen, and what each resource is like.

It is a value; a command reads it, makes another one, and swaps the two. The swap fails if somebody else
replaced the file meanwhile, lock or no lock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from omnigraph import failpoints
from omnigraph.cluster.declared.diagnostics import Code, Diagnostics, Refused
from omnigraph.cluster.declared.resources import (
    digest_bytes,
    graph_address,
    graph_digest,
    kind_of,
    schema_address,
)
from omnigraph.errors import OmniGraphError
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import (
    AlreadyExists,
    InvalidText,
    ObjectChanged,
    ObjectNotFound,
)

STATE_PATH: Final = "__cluster/state.json"
VERSION: Final = 1
FACTS: Final = (
    "applies_to",
    "embedding_provider",
    "embedding_profile",
    "external_blob_policy",
    "expose",
    "tool_name",
)
"""What may stand beside the digest of a resource."""
Status = Literal["pending", "planned", "applying", "applied", "drifted", "blocked", "error"]

BEFORE_SWAP = failpoints.declare("cluster.before_ledger")
AFTER_SWAP = failpoints.declare("cluster.after_ledger")


@dataclass(frozen=True, slots=True)
class AppliedResource:
    """A resource that was applied."""

    digest: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the form in the file."""
        return {"digest": self.digest, **self.facts}


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a cluster has applied and seen."""

    revision: int = 0
    config_digest: str | None = None
    resources: Mapping[str, AppliedResource] = field(default_factory=dict)
    statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    approvals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    recoveries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    observations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def digest(self, address: str) -> str | None:
        """Return the digest of a resource; None if it is not applied."""
        entry = self.resources.get(address)
        return None if entry is None else entry.digest

    @property
    def graphs(self) -> list[str]:
        """The ids of the applied graphs, sorted."""
        return sorted(
            address.partition(".")[2] for address in self.resources if kind_of(address) == "graph"
        )

    def queries(self, graph: str) -> dict[str, AppliedResource]:
        """Return the applied queries of a graph by name."""
        start = f"query.{graph}."
        return {
            address.removeprefix(start): entry
            for address, entry in self.resources.items()
            if address.startswith(start)
        }

    def composite(self, graph: str) -> str:
        """Return the digest of a graph as the parts in this ledger make it."""
        entry = self.resources.get(graph_address(graph))
        facts = {} if entry is None else entry.facts
        return graph_digest(
            self.digest(schema_address(graph)),
            {name: one.digest for name, one in self.queries(graph).items()},
            facts.get("embedding_provider"),
            facts.get("external_blob_policy"),
        )

    def with_entry(self, address: str, entry: AppliedResource) -> Ledger:
        """Return the ledger with a resource as given."""
        return replace(self, resources={**self.resources, address: entry})

    def without(self, *addresses: str) -> Ledger:
        """Return the ledger without some resources, their statuses and observations."""
        return replace(
            self,
            resources={at: one for at, one in self.resources.items() if at not in addresses},
            statuses={at: one for at, one in self.statuses.items() if at not in addresses},
            observations={at: one for at, one in self.observations.items() if at not in addresses},
        )

    def with_status(self, address: str, status: Status, message: str | None = None, *conditions: str) -> Ledger:  # fmt: skip
        """Return the ledger with another status of a resource."""
        said: dict[str, Any] = {"status": status}
        if conditions:
            said["conditions"] = list(conditions)
        if message is not None:
            said["message"] = message
        return replace(self, statuses={**self.statuses, address: said})

    def settled(self) -> Ledger:
        """Return the ledger with the digest of every graph made anew of its parts."""
        ledger = self
        for graph in self.graphs:
            entry = ledger.resources[graph_address(graph)]
            digest = ledger.composite(graph)
            if digest != entry.digest:
                ledger = ledger.with_entry(graph_address(graph), replace(entry, digest=digest))
        return ledger

    def to_json(self) -> dict[str, Any]:
        """Return the form in the file."""
        return {
            "version": VERSION,
            "state_revision": self.revision,
            "applied_revision": {
                "config_digest": self.config_digest,
                "resources": {
                    address: entry.to_json() for address, entry in sorted(self.resources.items())
                },
            },
            "resource_statuses": _sorted(self.statuses),
            "approval_records": _sorted(self.approvals),
            "recovery_records": _sorted(self.recoveries),
            "observations": _sorted(self.observations),
        }


def _sorted(records: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {key: dict(one) for key, one in sorted(records.items())}


class BadLedger(ValueError):
    """A ledger that cannot be used: the code, and why."""

    def __init__(self, code: Code, why: str) -> None:
        super().__init__(why)
        self.code = code


def parse_ledger(text: str) -> Ledger:
    """Return the ledger of a text; ``BadLedger`` if it is not a ledger, or one of a later release."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise BadLedger(
            Code.INVALID_STATE_JSON, "it is no JSON object; put a backup back, or import again"
        )
    version = document.get("version")
    if type(version) is int and version > VERSION:
        raise BadLedger(
            Code.UNSUPPORTED_STATE_VERSION,
            f"it has version {version} and this release knows {VERSION}; upgrade omnigraph",
        )
    try:
        return _ledger(document)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadLedger(
            Code.INVALID_STATE_JSON, "it is no ledger; put a backup back, or import again"
        ) from None


def _ledger(document: Mapping[str, Any]) -> Ledger:
    applied = document["applied_revision"]
    digest, revision = applied.get("config_digest"), document["state_revision"]
    if document["version"] != VERSION or type(revision) is not int or revision < 0:
        raise ValueError(document["version"])
    if digest is not None and not isinstance(digest, str):
        raise TypeError(digest)
    return Ledger(
        revision,
        digest,
        {address: _entry(one) for address, one in applied["resources"].items()},
        *(
            {str(key): dict(one) for key, one in document[name].items()}
            for name in (
                "resource_statuses",
                "approval_records",
                "recovery_records",
                "observations",
            )
        ),
    )


def _entry(document: Mapping[str, Any]) -> AppliedResource:
    if not isinstance(document["digest"], str):
        raise TypeError(document)
    return AppliedResource(
        document["digest"], {key: document[key] for key in FACTS if key in document}
    )


@dataclass(frozen=True, slots=True)
class ReadLedger:
    """A ledger as it was read: its digest and the token to swap it by; neither if there is none."""

    ledger: Ledger
    cas: str | None = None
    token: str | None = None

    @property
    def is_there(self) -> bool:
        """Whether there is a ledger."""
        return self.token is not None


def read_ledger(store: ObjectStore, diagnostics: Diagnostics) -> ReadLedger:
    """Return the ledger, an empty one if there is none; ``Refused`` if it cannot be used."""
    try:
        found = store.read_versioned(STATE_PATH)
        return ReadLedger(
            parse_ledger(found.text), digest_bytes(found.text.encode()), found.version
        )
    except ObjectNotFound:
        return ReadLedger(Ledger())
    except BadLedger as error:
        diagnostics.error(error.code, STATE_PATH, str(error))
    except InvalidText as error:
        diagnostics.error(Code.INVALID_STATE_JSON, STATE_PATH, error.message)
    except OmniGraphError as error:
        diagnostics.error(Code.STATE_READ_ERROR, STATE_PATH, error.message)
    raise Refused


def swap_ledger(
    store: ObjectStore, before: ReadLedger, ledger: Ledger, diagnostics: Diagnostics
) -> ReadLedger | None:
    """Replace the ledger that was read; None if that failed, which was said."""
    ledger = replace(ledger, revision=before.ledger.revision + 1)
    text = json.dumps(ledger.to_json(), indent=2, ensure_ascii=False) + "\n"
    BEFORE_SWAP.hit()
    try:
        if before.token is None:
            token = store.write_text_if_absent(STATE_PATH, text)
        else:
            token = store.write_text_if_match(STATE_PATH, text, before.token)
    except (ObjectChanged, AlreadyExists, ObjectNotFound):
        diagnostics.error(
            Code.STATE_CAS_MISMATCH,
            STATE_PATH,
            "the ledger changed while this command ran; run the command again",
        )
        return None
    except OmniGraphError as error:
        diagnostics.error(Code.STATE_WRITE_ERROR, STATE_PATH, error.message)
        return None
    AFTER_SWAP.hit()
    return ReadLedger(ledger, digest_bytes(text.encode()), token)
