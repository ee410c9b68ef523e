"""The graphs of a cluster: where they lie, and what is seen of one without changing it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from omnigraph.cluster.declared.resources import digest_bytes
from omnigraph.cluster.outcomes import RootContents
from omnigraph.cluster.stored.times import now_text
from omnigraph.errors import NotAGraph, OmniGraphError
from omnigraph.graph import open as open_graph
from omnigraph.graph.graph import state_of
from omnigraph.maintenance.delete_graph import delete_graph, finish_delete, withdraw
from omnigraph.storage.layout import SCHEMA_MIRRORS
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.remains import has_manifest, is_deleted_half
from omnigraph.storage.uris import Root

GRAPHS: Final = "graphs"


def graph_uri(root: Root, graph: str) -> str:
    """Return where a graph of a cluster lies."""
    return f"{root.canonical.rstrip('/')}/{GRAPHS}/{graph}.omni"


def look_at(uri: str) -> RootContents:
    """Return what lies at the root of a graph; `main` alone counts. Nothing is written."""
    try:
        with open_graph(uri, mode="r") as graph:
            return RootContents(
                "complete",
                digest_bytes(graph.schema.source.encode()),
                graph.snapshot().manifest_version,
            )
    except NotAGraph as error:
        return _without_graph(uri, error)
    except OmniGraphError as error:
        return RootContents("partial", message=error.message)


def _without_graph(uri: str, error: OmniGraphError) -> RootContents:
    root = Root.parse(uri)
    if root.is_local and os.path.lexists(root.path) and not Path(root.path).is_dir():
        return RootContents("partial", message=f"{root.path} is a file; move it away")
    store = open_store(root)
    try:
        if is_deleted_half(store):
            return RootContents("tombstone", message="its delete was begun and not finished")
        # Files that an interrupted init left before it made the manifest do no harm.
        if has_manifest(store) or any(map(store.exists, SCHEMA_MIRRORS)):
            return RootContents("partial", message=error.message)
    except OmniGraphError as unreadable:
        return RootContents("partial", message=unreadable.message)
    return RootContents("absent")


def delete_at(uri: str) -> None:
    """Delete the graph at a root, or finish a delete that was begun there; nothing there is fine."""
    root = Root.parse(uri)
    store = open_store(root)
    if has_manifest(store):
        with open_graph(uri, mode="r") as graph:
            delete_graph(state_of(graph).workspace)
    elif is_deleted_half(store):
        finish_delete(root)


def take_back_delete(uri: str) -> bool:
    """Return whether a delete that failed had not made the graph unreadable; it is then as before."""
    store = open_store(Root.parse(uri))
    try:
        withdraw(store)
        return has_manifest(store)
    except OmniGraphError:
        return False


def observation(seen: RootContents, desired_digest: str | None) -> dict[str, Any]:
    """Return what the ledger keeps of a look at a graph."""
    return {
        "exists": seen.place == "complete",
        "manifest_version": seen.manifest_version,
        "live_schema_digest": seen.digest,
        "desired_schema_digest": desired_digest,
        "schema_match": seen.digest is not None and seen.digest == desired_digest,
        "observed_at": now_text(),
    }
