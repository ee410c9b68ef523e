"""`init`: create a graph."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.errors import BadRequest
from omnigraph.service.documents import Document
from omnigraph.service.writes.clusters import cluster_of


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    """The schema of a new graph. ``force`` replaces schema files that lie there without a graph."""

    schema_source: str
    force: bool = False
    actor: str | None = None
    message: str | None = None


def init(request: InitRequest, uri: str) -> Document:
    """Create a graph at a storage address and return its first commit.

    ``warnings`` are there if the schema declares no types, so that nothing can be loaded.
    """
    import omnigraph

    cluster = cluster_of(uri)
    if cluster is not None:
        raise BadRequest(
            f"{uri} is a place in the cluster at {cluster}, which makes its own graphs; declare the "
            "graph in its cluster.yaml and apply that, or choose another place",
            root=cluster,
        )
    with omnigraph.init(
        uri,
        request.schema_source,
        actor=request.actor,
        force=request.force,
        message=request.message,
    ) as graph:
        document: Document = {
            "uri": uri,
            "graph_commit_id": graph.snapshot().graph_commit_id,
            "internal_schema_version": graph.internal_schema_version,
        }
        if not graph.schema.catalog.nodes:
            document["warnings"] = ["the schema declares no types: nothing can be loaded"]
        return document
