"""`snapshot`, `status` and `entity`: how the graph stands, and one thing in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from omnigraph.service.documents import Document, TargetRequest

if TYPE_CHECKING:
    from omnigraph.graph.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest(TargetRequest):
    """The state whose tables are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRequest(TargetRequest):
    """One node or edge, by its type and id; ``full`` with all bytes of its blobs and vectors."""

    kind: Literal["node", "edge"]
    type: str
    id: str
    full: bool = False


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
    from omnigraph.graph.session import status_shown_at

    return status_shown_at(session, uri).to_json()


def entity(session: Session, request: EntityRequest) -> Document:
    """Return one node or edge; vectors and blobs by their sizes, unless all of it is asked for."""
    from omnigraph.graph.entities import describe_entity
    from omnigraph.graph.session import access_of

    access = access_of(session)
    target = access.reading(**request.target)
    return describe_entity(
        access.state, request.kind, request.type, request.id, target, full=request.full
    )
