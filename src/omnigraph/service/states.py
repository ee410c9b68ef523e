"""`snapshot`, `status` and `entity`: how the graph stands, and one thing in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.service.documents import Document
from omnigraph.service.requests import TargetRequest

if TYPE_CHECKING:
    from omnigraph.graph.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest(TargetRequest):
    """The state whose tables are listed."""


def snapshot(session: Session, request: SnapshotRequest) -> Document:
    """Return the version of every table at one state of the graph."""
    pinned = session.snapshot(**request.target).to_json()
    return {
        "branch": pinned["branch"],
        "graph_commit_id": pinned["graph_commit_id"],
        "manifest_version": pinned["manifest_version"],
        "internal_schema_version": session.internal_schema_version,
        "tables": pinned["tables"],
    }


def status(session: Session, uri: str) -> Document:
    """Return how the graph stands and what it needs; ``uri`` is how the caller knows it."""
    return {**session.status().to_json(), "uri": uri}
