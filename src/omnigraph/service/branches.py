"""`branch`, `tag`, `branch merge` and `commit revert`: names of states, and how branches come together."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.errors import BadRequest
from omnigraph.manifest.branch_names import MAIN, trim_branch_name
from omnigraph.manifest.snapshot import Target
from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.graph.session import Session
    from omnigraph.write.merge.request import MergeResult

PLANNED_CONFLICTS = 1_000
"""How many conflicts a plan shows unless the request says otherwise."""


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
    """Return the names of the branches, `main` first, then by name, and the hash of the schema of each."""
    from omnigraph.graph.session import access_of

    names = session.branches.list()
    manifest = access_of(session).state.workspace.manifest
    hashes = {name: manifest.state(name).head.ir_hash for name in names}
    return {"branches": names, "schema_hashes": hashes}


def delete_branch(session: Session, name: str, uri: str) -> Document:
    """Delete a branch; ``uri`` is how the caller knows the graph."""
    trimmed = trim_branch_name(name)
    session.branches.delete(trimmed)
    return {"uri": uri, "name": trimmed, "actor_id": session.actor}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """How a merge or a revert finds, decides and shows conflicts.

    ``resolve`` is `ours`, `theirs`, or a list of resolutions as JSON has it, and ``resolve_schema`` one of these
    words or a mapping of elements to them. A ``dry_run`` writes
    nothing and says what would be done; ``limit`` is how many conflicts it shows.
    """

    dry_run: bool = False
    resolve: object = None
    resolve_schema: object = None
    granularity: Literal["entity", "property"] = "entity"
    images: bool = False
    short: bool = False
    limit: int | None = None
    if_commit: str | None = None
    operation_id: str | None = None
    message: str | None = None

    def arguments(self) -> dict[str, Any]:
        """The rules, as the methods of a session take them."""
        from omnigraph.write.merge.resolutions import resolve_from_json

        return {
            "dry_run": self.dry_run,
            "resolve": resolve_from_json(self.resolve),
            "resolve_schema": self.resolve_schema,
            "granularity": self.granularity,
            "images": self.images,
            "short": self.short,
            "if_commit": self.if_commit,
            "operation_id": self.operation_id,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest(MergeRules):
    """A branch whose changes another one gets; `main` by default."""

    source: str
    target: str | None = None
    delete_branch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertRequest(MergeRules):
    """A commit that is undone on a branch; `main` by default."""

    graph_commit_id: str
    branch: str | None = None


def merge(session: Session, request: MergeRequest) -> Document:
    """Merge as one commit, or refuse with all conflicts; a dry run returns the plan."""
    if request.dry_run and request.delete_branch:
        raise BadRequest("a dry run deletes no branch; leave out delete_branch")
    result = session.branches.merge(
        request.source,
        MAIN if request.target is None else request.target,
        delete_branch=request.delete_branch,
        **request.arguments(),
    )
    if not result.dry_run:
        return result.to_json()
    return {
        "source": result.source,
        "target": result.target,
        "dry_run": True,
        "outcome": result.outcome,
        "base_commit_id": result.base_commit_id,
        "source_commit_id": result.source_commit_id,
        "target_commit_id": result.target_commit_id,
        "commit": None,
        "stats": result.stats.to_json(),
        **({} if result.schema is None else {"schema": result.schema.to_json()}),
        **_conflicts(result, request.limit),
    }


def revert(session: Session, request: RevertRequest) -> Document:
    """Undo a commit as a new one, or refuse with all conflicts; a dry run says what would be done."""
    result = session.commits.revert(
        request.graph_commit_id.strip(),
        MAIN if request.branch is None else request.branch,
        **request.arguments(),
    )
    document = result.to_json()
    return {**document, **_conflicts(result, request.limit)} if result.dry_run else document


def _conflicts(result: MergeResult, limit: int | None) -> Document:
    """Return the first conflicts of a dry run, as many as fit on a page, and how many there are."""
    from omnigraph.changes.pages import Budget

    most = PLANNED_CONFLICTS if limit is None else limit
    if most < 1:
        raise BadRequest(f"limit is {limit}; give a whole number from 1 on")
    budget, shown = Budget(most), []
    for conflict in result.conflicts:
        document = conflict.to_json()
        if not budget.take(len(json.dumps(document, ensure_ascii=False).encode())):
            break
        shown.append(document)
    return {"conflicts": shown, "conflict_count": len(result.conflicts)}
