"""`schema apply`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.graph.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    """A new schema. With ``allow_data_loss`` what it drops is removed from disk."""

    schema_source: str
    allow_data_loss: bool = False
    operation_id: str | None = None


def apply_schema(session: Session, request: ApplyRequest, uri: str) -> Document:
    """Give the graph a new schema as one commit; ``uri`` is how the caller knows the graph.

    ``warnings`` are there if something was destroyed or is left to do.
    """
    done = session.schema.apply(
        request.schema_source, request.allow_data_loss, operation_id=request.operation_id
    )
    document = {"uri": uri, **done.to_json()}
    return {**document, "warnings": list(done.warnings)} if done.warnings else document
