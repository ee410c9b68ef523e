"""`log`, `commit list`, `commit show`, `diff`, `commit changes`, the change feed, `history` and `blame`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from omnigraph.errors import ResourceLimit
from omnigraph.manifest.branch_names import MAIN, trim_branch_name
from omnigraph.service.documents import Document, Streamed, TargetRequest

if TYPE_CHECKING:
    from omnigraph.changes.diff import Change
    from omnigraph.changes.export.export_files import Out
    from omnigraph.graph.session import Session
    from omnigraph.manifest.snapshot import Target

CHANGES_A_PIECE = 256
MOST_ENTRIES: Final = 200
"""How many changes of an entity one page has at most."""


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
    commits = session.commits.list(branch, request.filters, request.limit, request.before)
    return {"commits": [commit.to_json() for commit in commits]}


def show_commit(session: Session, graph_commit_id: str) -> Document:
    """Return one commit, from whichever branch holds it."""
    return session.commits.show(graph_commit_id.strip()).to_json()


class FilterValues(TypedDict):
    """The values that choose among changes; an empty one excludes nothing."""

    kinds: tuple[str, ...]
    types: tuple[str, ...]
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRequest:
    """A request for changes: only nodes or edges, types and operations that it names, if it names any."""

    kinds: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()

    @property
    def filter(self) -> FilterValues:
        """The filter, as the methods of a session take it."""
        return {"kinds": self.kinds, "types": self.types, "ops": self.ops}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRequest(FilterRequest):
    """A request for changes to look at; without ``images`` the values of properties are not shown."""

    images: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortRequest(ShownRequest):
    """A request for changes in which vectors and blobs may be shown by their sizes alone."""

    short: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRequest(ShortRequest):
    """Two states to compare; ``limit`` and ``page_token`` choose a page of the changes."""

    from_: Target
    to: Target
    limit: int | None = None
    page_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChangesRequest(ShortRequest):
    """A page of what one commit changed."""

    graph_commit_id: str
    limit: int | None = None
    page_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRequest(ShownRequest):
    """A page of the change feed of a branch, from one of ``start``, ``cursor`` and ``page_token``."""

    branch: str | None = None
    start: str | None = None
    cursor: str | None = None
    page_token: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRequest(FilterRequest):
    """The newest state of a branch, and the cursor after it."""

    branch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityHistoryRequest(TargetRequest):
    """A page of the changes of a node or edge, from after the commit ``before``."""

    kind: Literal["node", "edge"]
    type: str
    id: str
    edges: bool = False
    images: bool = True
    short: bool = False
    limit: int | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityBlameRequest(TargetRequest):
    """A node or edge whose values are explained; ``edges`` with the edges of a node."""

    kind: Literal["node", "edge"]
    type: str
    id: str
    edges: bool = False


def entity_history(session: Session, request: EntityHistoryRequest) -> Document:
    """Return a page of the changes of one node or edge, newest first."""
    if request.limit is not None and request.limit > MOST_ENTRIES:
        raise ResourceLimit(
            f"limit is {request.limit:,}; a page has at most {MOST_ENTRIES} changes of an entity: ask for "
            "fewer, and for the next page with the commit in `next`",
            resource="page_changes",
            limit=MOST_ENTRIES,
            actual=request.limit,
        )
    return session.history(
        request.kind,
        request.type,
        request.id,
        edges=request.edges,
        images=request.images,
        short=request.short,
        limit=request.limit,
        before=request.before,
        **request.target,
    ).to_json()


def entity_blame(session: Session, request: EntityBlameRequest) -> Document:
    """Return for each property of a node or edge the commit that gave it its value."""
    return session.blame(
        request.kind, request.type, request.id, edges=request.edges, **request.target
    ).to_json()


def diff(session: Session, request: DiffRequest) -> Streamed:
    """Return everything that changed, net, from one state to another, as it is found."""
    from omnigraph.changes.diff_result import side_json
    from omnigraph.changes.pages import check_changes

    check_changes(request.limit)
    differing = session.diff(
        request.from_, request.to, images=request.images, short=request.short, **request.filter
    )
    head: Document = {"from": side_json(differing.from_), "to": side_json(differing.to)}
    if differing.schema is not None:
        head["schema"] = dict(differing.schema)
    return Streamed(
        head, "changes", _pieces(differing), lambda: {"stats": differing.stats.to_json()}
    )


def diff_page(session: Session, request: DiffRequest) -> Document:
    """Return one page of what changed, net, from one state to another."""
    differing = session.diff(
        request.from_, request.to, images=request.images, short=request.short, **request.filter
    )
    return differing.page(request.limit, request.page_token).to_json()


def commit_changes(session: Session, request: CommitChangesRequest) -> Streamed:
    """Return everything that a commit changed against its first parent, page by page."""
    first = commit_changes_page(session, request)
    rest = {name: value for name, value in first.items() if name == "schema"}

    def pieces() -> Iterator[list[str]]:
        page = first
        yield _texts(page["changes"])
        while "next_page_token" in page:
            following = replace(request, page_token=page["next_page_token"])
            page = commit_changes_page(session, following)
            yield _texts(page["changes"])

    return Streamed({"cause": first["cause"]}, "changes", pieces(), rest)


def commit_changes_page(session: Session, request: CommitChangesRequest) -> Document:
    """Return one page of what a commit changed against its first parent."""
    return session.commits.changes(
        request.graph_commit_id.strip(),
        limit=request.limit,
        page_token=request.page_token,
        images=request.images,
        short=request.short,
        **request.filter,
    ).to_json()


def poll(session: Session, request: FeedRequest) -> Document:
    """Return the next commits of a branch, each with all it changed, and the cursor after them.

    The page may end inside the changes of a commit; the rest of that commit is read as well.
    """
    page = poll_page(session, request)
    blocks = page["blocks"]
    while "next_page_token" in page:
        token = page["next_page_token"]
        following = replace(request, start=None, cursor=None, page_token=token)
        page = poll_page(session, following, max_commits=1)
        for block in page["blocks"]:
            if blocks and blocks[-1]["cause"] == block["cause"]:
                blocks[-1]["changes"] += block["changes"]
            else:
                blocks.append(block)
    return {**page, "blocks": blocks}


def poll_page(
    session: Session, request: FeedRequest, *, max_commits: int | None = None
) -> Document:
    """Return one page of the change feed: with a cursor, or with the token of the next page."""
    return session.changes.poll(
        MAIN if request.branch is None else request.branch,
        start=request.start,
        cursor=request.cursor,
        page_token=request.page_token,
        limit=request.limit,
        max_commits=max_commits,
        images=request.images,
        **request.filter,
    ).to_json()


def baseline(
    session: Session,
    request: BaselineRequest,
    out: Out,
    progress: Callable[[int, int], object] | None = None,
    *,
    on_pinned: Callable[[str], object] | None = None,
) -> Document:
    """Write the newest state of a branch to a file, and return the cursor that goes on after it.

    ``on_pinned`` is told the commit before the first line.
    """
    from omnigraph.graph import exports_and_diffs
    from omnigraph.graph.session import access_of

    done = exports_and_diffs.baseline(
        access_of(session),
        out,
        trim_branch_name(MAIN if request.branch is None else request.branch),
        (request.kinds, request.types, request.ops),
        progress=progress,
        lease=True,  # a handle that only reads has to be told: cleanup must know about it
        on_pinned=on_pinned,
    )
    return done.to_json()


def _pieces(changes: Iterable[Change]) -> Iterator[list[str]]:
    waiting = iter(changes)
    while piece := list(islice(waiting, CHANGES_A_PIECE)):
        yield _texts(change.to_json() for change in piece)


def _texts(changes: Iterable[dict[str, Any]]) -> list[str]:
    return [json.dumps(change, ensure_ascii=False, separators=(",", ":")) for change in changes]
