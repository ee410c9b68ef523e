"""`branch create`, `branch list` and `branch delete`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.manifest.branch_names import MAIN, trim_branch_name
from omnigraph.manifest.snapshot import Target
from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.graph.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateBranchRequest:
    """A new branch, and the state of the graph where it begins; the head of `main` by default."""

    name: str
    from_: Target | None = None


def create_branch(session: Session, request: CreateBranchRequest, uri: str) -> Document:
    """Make a branch; ``uri`` is how the caller knows the graph."""
    start = MAIN if request.from_ is None else request.from_
    made = session.branches.create(request.name, start)
    return {
        "uri": uri,
        "from": made.from_,
        "name": made.name,
        "actor_id": session.actor,
        "head_commit_id": made.head_commit_id,
        "version": made.version,
    }


def list_branches(session: Session) -> Document:
    """Return the names of the branches, `main` first, then by name."""
    return {"branches": session.branches.list()}


def delete_branch(session: Session, name: str, uri: str) -> Document:
    """Delete a branch; ``uri`` is how the caller knows the graph."""
    trimmed = trim_branch_name(name)
    session.branches.delete(trimmed)
    return {"uri": uri, "name": trimmed, "actor_id": session.actor}
