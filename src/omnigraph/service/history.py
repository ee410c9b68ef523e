"""`log`, `commit list` and `commit show`: which commits there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.manifest.branch_names import MAIN
from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.graph.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest:
    """A page of the commit graph: of all branches if none is named, from after the commit ``before``."""

    branches: tuple[str, ...] = ()
    limit: int | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsRequest:
    """A part of the chain of one branch; every filter is a text such as ``actor=ada``."""

    branch: str | None = None
    filters: tuple[str, ...] = ()
    limit: int | None = None
    before: str | None = None


def history(session: Session, request: HistoryRequest) -> Document:
    """Return what branches reach over both parents, children first, with heads and tags."""
    return session.commits.history(request.branches, request.limit, request.before).to_json()


def list_commits(session: Session, request: CommitsRequest) -> Document:
    """Return the commits of a branch, newest first."""
    branch = MAIN if request.branch is None else request.branch
    found = session.commits.list(branch, request.filters, request.limit, request.before)
    return {"commits": [commit.to_json() for commit in found]}


def show_commit(session: Session, graph_commit_id: str) -> Document:
    """Return one commit, from whichever branch holds it."""
    return session.commits.show(graph_commit_id.strip()).to_json()
