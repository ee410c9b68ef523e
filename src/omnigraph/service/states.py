"""`snapshot`, `status`, `catalog`, `entity`, `neighbors` and `subgraph`: how the graph stands, and parts of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.service.documents import Document, SeenRequest, TargetRequest

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighborsRequest(SeenRequest):
    """A node, which of its edges are followed, what is shown of them, and where the page before ended."""

    type: str
    id: str
    direction: Literal["out", "in", "both"] = "both"
    edges: tuple[str, ...] | None = None
    properties: Mapping[str, Sequence[str]] | None = None
    limit: int | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgraphRequest(SeenRequest):
    """Nodes by type and id, or a query that finds them, and what is shown of the edges among them."""

    nodes: tuple[tuple[str, str], ...] | None = None
    query: str | None = None
    name: str | None = None
    params: Mapping[str, Any] | None = None
    edges: tuple[str, ...] | None = None
    properties: Mapping[str, Sequence[str]] | None = None
    limit: int | None = None


def snapshot(session: Session, request: SnapshotRequest) -> Document:
    """Return the version of every table at one state of the graph."""
    pinned = session.snapshot(**request.target).to_json()
    return {
        "branch": pinned["branch"],
        "graph_commit_id": pinned["graph_commit_id"],
        "manifest_version": pinned["manifest_version"],
        "internal_schema_version": session.internal_schema_version,
        "schema_hash": pinned["schema_hash"],
        "tables": pinned["tables"],
    }


def status(session: Session, uri: str) -> Document:
    """Return how the graph stands and what it needs; ``uri`` is how the caller knows it."""
    from omnigraph.graph.session import status_shown_at

    return status_shown_at(session, uri).to_json()


def catalog(session: Session) -> Document:
    """Return the types of the graph and their properties."""
    return session.catalog_document()


def neighbors(session: Session, request: NeighborsRequest) -> Document:
    """Return a page of the edges of a node and the nodes at their other ends."""
    return session.neighbors(
        request.type,
        request.id,
        request.direction,
        request.edges,
        request.properties,
        request.limit,
        request.after,
        **request.seen,
    )


def subgraph(session: Session, request: SubgraphRequest) -> Document:
    """Return nodes, or those that a query finds, and the edges among them."""
    return session.subgraph(
        request.nodes,
        request.query,
        request.name,
        request.params,
        request.edges,
        request.properties,
        request.limit,
        **request.seen,
    )


def entity(session: Session, request: EntityRequest) -> Document:
    """Return one node or edge; vectors and blobs by their sizes, unless all of it is asked for."""
    from omnigraph.graph.entities import describe_entity
    from omnigraph.graph.session import access_of

    access = access_of(session)
    target = access.reading(**request.target)
    return describe_entity(
        access.state, request.kind, request.type, request.id, target, full=request.full
    )
