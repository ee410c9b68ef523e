"""Catalogue blobs: queries and bundles as they were applied, each under its digest."""

from __future__ import annotations

from typing import Final, Literal

from omnigraph.cluster.declared.resources import digest_bytes, kind_of
from omnigraph.cluster.stored.ledger import Ledger
from omnigraph.errors import OmniGraphError
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import ObjectNotFound

RESOURCES: Final = "__cluster/resources"
Found = Literal["fits", "payload_missing", "payload_mismatch", "payload_read_error"]


def has_blob(address: str) -> bool:
    """Return whether the content of a resource lies in the catalogue."""
    return kind_of(address) in {"query", "policy"}


def blob_name(address: str, digest: str) -> str:
    """Return where the content of a query or bundle lies."""
    kind, *parts = address.split(".", 2)
    ending = "gq" if kind == "query" else "yaml"
    return f"{RESOURCES}/{kind}/{'/'.join(parts)}/{digest.removeprefix('sha256:')}.{ending}"


def write_blob(store: ObjectStore, address: str, content: bytes) -> None:
    """Put the content of a resource into the catalogue, in place of what may lie there."""
    store.replace_bytes(blob_name(address, digest_bytes(content)), content)


def read_blob(store: ObjectStore, address: str, digest: str) -> tuple[Found, bytes, str]:
    """Return what was found, the content of the resource, and what failed; the content is empty unless it fits."""
    try:
        content = store.read_bytes(blob_name(address, digest))
    except ObjectNotFound as error:
        return "payload_missing", b"", error.message
    except OmniGraphError as error:
        return "payload_read_error", b"", error.message
    if digest_bytes(content) != digest:
        return "payload_mismatch", b"", "its bytes are not those that were applied"
    return "fits", content, ""


def unreferenced(store: ObjectStore, ledger: Ledger) -> int:
    """Return how many blobs no resource of the ledger has."""
    named = {
        blob_name(address, entry.digest)
        for address, entry in ledger.resources.items()
        if has_blob(address)
    }
    return len(set(store.list(RESOURCES)) - named)
