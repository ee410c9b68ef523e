"""`tag create`, `tag list` and `tag delete`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.manifest.snapshot import Target
from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.graph.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTagRequest:
    """A name for the commit of one state of the graph; the head of `main` by default."""

    name: str
    target: Target | None = None


def create_tag(session: Session, request: CreateTagRequest) -> Document:
    """Name a commit."""
    return session.tags.create(request.name, request.target).to_json()


def list_tags(session: Session) -> Document:
    """Return the tags by name."""
    return {"tags": [tag.to_json() for tag in session.tags.list()]}


def delete_tag(session: Session, name: str) -> Document:
    """Delete a tag and say which commit it named."""
    tag = session.tags.delete(name.strip())
    return {
        "name": tag.name,
        "graph_commit_id": tag.graph_commit_id,
        "actor_id": session.actor,
    }
