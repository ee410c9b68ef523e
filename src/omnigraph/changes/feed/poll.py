"""The change feed: the commits of a branch in order, each with what it changed.

A consumer keeps its own place. It begins somewhere, applies the blocks of a page, stores the cursor
with them, and polls again with that cursor:

    poll(start="beginning")    blocks C2, C3   cursor "after C3"
    poll(cursor="after C3")    blocks C4       cursor "after C4", caught up

A page that ends inside the changes of a commit has no cursor but a page token, so that half a commit
is never taken for a whole one. Nothing about consumers is stored in the graph.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from omnigraph.cancel import look
from omnigraph.changes.change_filter import ChangeFilter
from omnigraph.changes.cursors import (
    ChangePlace,
    CursorToken,
    FeedToken,
    TokenScope,
    filter_digest,
    read_token,
    write_token,
)
from omnigraph.changes.diff import EVERYTHING
from omnigraph.changes.export.write_export import ExportResult, ExportStats
from omnigraph.changes.feed.commit_changes import ChangeBlock, ChangeReader, gap
from omnigraph.changes.pages import Budget, check_changes, check_commits, take
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    CursorRejected,
    HistoryReclaimed,
    PolicyDenied,
    SchemaBoundary,
)
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.forwards import Forwards
from omnigraph.manifest.history.resolve import catalog_at, resolve_commit
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.workspace import Workspace

_AFTER = "after:"


@dataclass(frozen=True, slots=True)
class PollRequest:
    """Where to begin (one of ``start``, ``cursor`` and ``page_token``), and how much to return.

    ``images``: with the values of properties.
    """

    branch: str
    start: object = None
    cursor: object = None
    page_token: object = None
    filter: ChangeFilter = EVERYTHING
    limit: object = None
    max_commits: object = None
    images: bool = True


@dataclass(frozen=True, slots=True, repr=False)
class ChangePage(Shown):
    """A page of the change feed.

    It has either a ``cursor``, with which the next poll goes on, or a ``next_page_token``, because the
    last block goes on. ``caught_up``: there is nothing after this page for now.
    """

    blocks: tuple[ChangeBlock, ...]
    cursor: str | None = None
    caught_up: bool = False
    next_page_token: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        shown: dict[str, Any] = {"blocks": [block.to_json() for block in self.blocks]}
        if self.next_page_token is not None:
            return {**shown, "next_page_token": self.next_page_token}
        return {**shown, "cursor": self.cursor, "caught_up": self.caught_up}

    def _panel(self) -> Panel:
        title = f"{counted(len(self.blocks), 'commit')} of the change feed"
        notes = [] if self.next_page_token is None else ["the last one goes on: .next_page_token"]
        if self.caught_up:
            notes.append("caught up")
        rows = [
            (one.commit.graph_commit_id, one.commit.operation, len(one.changes))
            for one in self.blocks
        ]
        if not rows:
            return Panel(title, notes=notes)
        return Panel.of_rows(title, ("commit", "operation", "changes"), rows, notes=notes)


class Feed:
    """The change feed of one state of a branch; what is committed later belongs to the next poll."""

    def __init__(self, workspace: Workspace, state: BranchState, filter: ChangeFilter) -> None:
        self.workspace = workspace
        self.state = state
        self.filter = filter
        self.forwards = Forwards(workspace.manifest, state)
        self.scope = TokenScope(
            self.forwards.first().graph_commit_id,
            state.name,
            state.identifier or "",
            filter_digest(filter.to_json()),
        )

    def cursor(self, after: str) -> str:
        """Return the cursor that says: all commits up to this one are consumed."""
        return write_token(self.state.head.graph_id, CursorToken(self.scope, after))

    def page_token(self, after: str, cut: str, page: str, place: ChangePlace) -> str:
        """Return the token of a page that ended inside the block after a commit."""
        return write_token(self.state.head.graph_id, FeedToken(self.scope, after, cut, page, place))

    def read_cursor(self, text: object) -> CursorToken:
        """Return a cursor of this feed."""
        head = self.state.head
        token = read_token(head.graph_id, text, CursorToken, head.former_ids)
        self._refuse_other_scope(token.scope)
        return token

    def read_page_token(self, text: object) -> FeedToken:
        """Return a page token of this feed."""
        head = self.state.head
        token = read_token(head.graph_id, text, FeedToken, head.former_ids)
        self._refuse_other_scope(token.scope)
        return token

    def _refuse_other_scope(self, scope: TokenScope) -> None:
        ours = self.scope
        if scope.root != ours.root:
            raise CursorRejected("it belongs to another history; take a baseline")
        if scope.branch != ours.branch:
            raise CursorRejected(f"it belongs to branch `{scope.branch}`, not to `{ours.branch}`")
        if scope.incarnation != ours.incarnation:
            raise CursorRejected(
                f"branch `{ours.branch}` was deleted and made again since; take a baseline"
            )
        if scope.filter != ours.filter:
            raise CursorRejected(
                "it was made for another filter; use the same filter, or a baseline"
            )

    def commit(self, graph_commit_id: str) -> GraphCommit:
        """Return a commit of the branch's own history."""
        found = self.forwards.find(graph_commit_id)
        if found is None:
            raise CursorRejected(
                f"commit `{graph_commit_id}` is not in the history of branch `{self.state.name}`; list "
                "its commits to see which are"
            )
        return found


@dataclass(frozen=True, slots=True)
class _Position:
    """Where a page begins: after a commit, perhaps inside the next block, and where the poll ends."""

    after: GraphCommit
    cut: str
    page: str | None = None
    place: ChangePlace | None = None


def poll(
    workspace: Workspace,
    catalog_of: Callable[[BranchState], Catalog],
    request: PollRequest,
    ask: Callable[[str], object] = lambda _: None,
) -> ChangePage:
    """Return the next page of the change feed of a branch.

    ``ask`` raises ``PolicyDenied`` for a branch that may not be read. A page ends before a commit that was
    made on such a branch, and a poll that begins there is denied: a feed without it would not lead to the
    state of its branch.
    """
    budget = Budget(check_changes(request.limit))
    max_commits = check_commits(request.max_commits)
    state = workspace.manifest.state(request.branch)
    feed = Feed(workspace, state, request.filter)
    position = _position(feed, request)
    current = catalog_of(state)
    if request.cursor is None and request.page_token is None:
        refuse_unknown_types(workspace, current, request.filter, position.after)
    reader = ChangeReader(
        workspace, current, request.filter, skips_unknown_types=True, images=request.images
    )
    if position.page is not None and position.page != reader.page_digest():
        raise CursorRejected(
            "a type was renamed since; poll again with the cursor before this page"
        )

    blocks: list[ChangeBlock] = []
    last, place = position.after, position.place
    for commit in feed.forwards.after(last) if last.graph_commit_id != position.cut else ():
        look()
        if len(blocks) == max_commits or budget.is_used_up:
            break
        try:
            ask(commit.branch or MAIN)
            taken = take(reader.changes(commit, last, place), budget)
        except PolicyDenied:
            if not blocks:
                raise
            break
        except (HistoryReclaimed, SchemaBoundary) as unreadable:
            if not blocks:
                raise _refusal(commit, unreadable, request.cursor) from None
            break
        if taken.has_more and not taken.changes:
            break  # the first change of this block is too large for what is left of the page
        blocks.append(ChangeBlock(commit, tuple(taken.changes)))
        if taken.has_more:
            token = feed.page_token(
                last.graph_commit_id, position.cut, reader.page_digest(), taken.place
            )
            return ChangePage(tuple(blocks), next_page_token=token)
        last, place = commit, None
        if commit.graph_commit_id == position.cut:
            break
    is_cut = last.graph_commit_id == position.cut
    return ChangePage(
        tuple(blocks),
        feed.cursor(last.graph_commit_id),
        caught_up=is_cut and _is_head(workspace, state, position.cut),
    )


def _position(feed: Feed, request: PollRequest) -> _Position:
    """Return where a poll begins; without any word about it, after the newest commit."""
    given = [one for one in (request.start, request.cursor, request.page_token) if one is not None]
    if len(given) > 1:
        raise BadRequest("give one of start, cursor and page_token, not several")
    head = feed.state.head.commit
    if request.cursor is not None:
        token = feed.read_cursor(request.cursor)
        return _Position(feed.commit(token.after), head.graph_commit_id)
    if request.page_token is not None:
        page = feed.read_page_token(request.page_token)
        return _Position(feed.commit(page.after), page.cut, page.page, page.place)
    start = "now" if request.start is None else request.start
    return _Position(start_commit(feed, start), head.graph_commit_id)


def start_commit(feed: Feed, start: object) -> GraphCommit:
    """Return the commit after which a feed begins, given where to begin in words (`now`, `beginning`, …)."""
    if start == "now":
        return feed.state.head.commit
    if start == "beginning":
        return feed.forwards.first()
    if isinstance(start, str) and start.startswith(_AFTER):
        return feed.commit(start.removeprefix(_AFTER).strip())
    raise BadRequest(f"start is {start!r}; it is now, beginning or after:<commit id>")


def refuse_unknown_types(
    workspace: Workspace, current: Catalog, filter: ChangeFilter, after: GraphCommit
) -> None:
    """Refuse a name that is a type neither now nor where the feed begins."""
    catalogs = [current]
    with contextlib.suppress(HistoryReclaimed):
        if filter.types:
            catalogs.append(
                catalog_at(workspace.manifest, resolve_commit(workspace.manifest, after)[1])
            )
    filter.refuse_unknown_types(*catalogs)


def _refusal(
    commit: GraphCommit, unreadable: HistoryReclaimed | SchemaBoundary, cursor: object
) -> Exception:
    """Return the error for a poll whose first commit cannot be delivered."""
    if isinstance(unreadable, HistoryReclaimed):
        return gap(commit, cursor if isinstance(cursor, str) else None, unreadable)
    return SchemaBoundary(
        f"{unreadable.message}: poll with start=after:{commit.graph_commit_id}",
        **{**unreadable.details, "resume_after": commit.graph_commit_id},
    )


def _is_head(workspace: Workspace, state: BranchState, graph_commit_id: str) -> bool:
    """Return whether a branch is still at this commit."""
    try:
        now = workspace.manifest.state(state.name)
    except BranchNotFound:
        return False
    return (now.identifier, now.head.commit.graph_commit_id) == (state.identifier, graph_commit_id)


@dataclass(frozen=True, slots=True, repr=False)
class BaselineResult(Shown):
    """A complete baseline. Store what was written before the cursor, or both together."""

    snapshot_commit_id: str
    resume_cursor: str
    export: ExportResult

    @property
    def stats(self) -> ExportStats:
        """What was written and what it cost."""
        return self.export.stats

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {
            "snapshot_commit_id": self.snapshot_commit_id,
            "resume_cursor": self.resume_cursor,
            "stats": self.stats.to_json(),
        }

    def _panel(self) -> Panel:
        facts = [("commit", self.snapshot_commit_id), ("resume at", self.resume_cursor)]
        return Panel(f"baseline of {counted(self.stats.records, 'record')}", facts)
