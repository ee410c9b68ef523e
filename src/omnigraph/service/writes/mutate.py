"""`mutate`: inserts, updates and deletes of one query, as one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.manifest.branch_names import MAIN
from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.graph.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class MutateRequest:
    """A query text that writes, the name of one query where it has several, and parameters.

    With ``if_commit`` it happens only if the branch is still at that commit.
    """

    query: str
    name: str | None = None
    params: Mapping[str, Any] | None = None
    branch: str | None = None
    if_commit: str | None = None
    operation_id: str | None = None
    message: str | None = None


def mutate(session: Session, request: MutateRequest) -> Document:
    """Run a mutation as one commit; ``commit`` is None if nothing matched."""
    done = session.mutate(
        request.query,
        request.name,
        request.params,
        MAIN if request.branch is None else request.branch,
        if_commit=request.if_commit,
        operation_id=request.operation_id,
        message=request.message,
    )
    return done.to_json()
