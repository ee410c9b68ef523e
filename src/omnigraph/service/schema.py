"""`schema show` and `schema plan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.graph.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRequest:
    """A new schema. With ``allow_data_loss`` what it drops is removed from disk."""

    schema_source: str
    allow_data_loss: bool = False


def show_schema(session: Session) -> Document:
    """Return the accepted schema as it was written."""
    return {"schema_source": session.schema.source}


def plan_schema(session: Session, request: SchemaRequest, uri: str) -> Document:
    """Return the steps to a new schema; nothing is changed.

    ``warnings`` are there if the plan destroys data or has rename hints that do nothing.
    """
    plan = session.schema.plan(request.schema_source, request.allow_data_loss)
    document = {"uri": uri, **plan.to_json()}
    return {**document, "warnings": list(plan.warnings)} if plan.warnings else document
