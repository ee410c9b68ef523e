"""`schema apply`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import SchemaConflict
from omnigraph.service.documents import Document
from omnigraph.service.schema import SchemaRequest
from omnigraph.service.writes.clusters import cluster_of

if TYPE_CHECKING:
    from omnigraph.graph.session import Session


_PUBLISHED = "supported", "step_count", "steps", "applied", "manifest_version", "commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest(SchemaRequest):
    """A new schema, which the graph gets."""

    operation_id: str | None = None
    message: str | None = None


def apply_schema(session: Session, request: ApplyRequest, uri: str) -> Document:
    """Give the graph a new schema as one commit; ``uri`` is how the caller knows the graph.

    ``warnings`` are there if something was destroyed or is left to do.
    """
    cluster = cluster_of(session.uri)
    if cluster is not None:
        raise SchemaConflict(
            f"the graph belongs to the cluster at {cluster}, which decides its schema; change the "
            "file that its cluster.yaml names, and apply that",
            root=cluster,
        )
    done = session.schema.apply(
        request.schema_source,
        request.allow_data_loss,
        operation_id=request.operation_id,
        message=request.message,
    )
    answer = done.to_json()
    document = {"uri": uri, **{name: answer.pop(name) for name in _PUBLISHED}, **answer}
    return {**document, "warnings": list(done.warnings)} if done.warnings else document
