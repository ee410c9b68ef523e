"""`graph.changes`: the change feed of a branch. `graph.commits.changes`: what one commit changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from omnigraph.graph.arguments import check_progress
from omnigraph.graph.history.exports import export
from omnigraph.graph.state import GraphState
from omnigraph.manifest.branch_names import MAIN, trim_branch_name
from omnigraph.manifest.snapshot import Target

# Loaded by the first call: it needs numpy and pyarrow.
if TYPE_CHECKING:
    from omnigraph.changes.export.output import Out
    from omnigraph.changes.feed.baseline import BaselineResult
    from omnigraph.changes.feed.commit_changes import CommitChanges
    from omnigraph.changes.feed.poll import ChangePage
    from omnigraph.pipeline.load_options import EngineName


class Changes:
    """`graph.changes`: the commits of a branch in order, each with what it changed."""

    def __init__(self, state: GraphState) -> None:
        self._state = state

    def poll(
        self,
        branch: str = MAIN,
        *,
        start: str | None = None,
        cursor: str | None = None,
        page_token: str | None = None,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        limit: int | None = None,
        max_commits: int | None = None,
    ) -> ChangePage:
        """Return the next page of the change feed, oldest commit first.

        ``start`` is ``"now"`` (the default: only what is committed from now on), ``"beginning"``, or
        ``"after:<commit id>"``; later polls give the ``cursor`` or the ``page_token`` of the page
        before, with the same filter. A page has at most ``limit`` changes (1,000) of
        ``max_commits`` commits (128).
        """
        from omnigraph.changes.change_filter import ChangeFilter
        from omnigraph.changes.feed.poll import PollRequest, poll

        self._state.ensure_open()
        request = PollRequest(
            trim_branch_name(branch),
            start,
            cursor,
            page_token,
            ChangeFilter.of(kinds, types, ops),
            limit,
            max_commits,
        )
        return poll(self._state.workspace, lambda at: self._state.schemas.at(at).catalog, request)

    def baseline(
        self,
        out: Out,
        branch: str = MAIN,
        *,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        engine: EngineName = "auto",
        progress: Callable[[int, int], object] | None = None,
    ) -> BaselineResult:
        """Write the newest state of a branch, as ``export`` does, and return the cursor after it.

        A file is on disk, with its name, when this returns. ``kinds`` and ``types`` choose what is
        written; polls with the cursor take the same filter. ``ops`` only belongs to the cursor.
        """
        self._state.ensure_open()
        return baseline(
            self._state, out, trim_branch_name(branch), (kinds, types, ops), engine, progress
        )


Filter = tuple[Iterable[str] | None, Iterable[str] | None, Iterable[str] | None]
"""Kinds, types and ops, as a caller gives them."""


def baseline(
    state: GraphState,
    out: Out,
    branch: str,
    filter: Filter,
    engine: EngineName = "auto",
    progress: Callable[[int, int], object] | None = None,
    *,
    lease: bool | None = None,
) -> BaselineResult:
    """Write a baseline; ``lease`` as in an export."""
    from omnigraph.changes.change_filter import ChangeFilter
    from omnigraph.changes.feed.baseline import BaselineResult
    from omnigraph.changes.feed.poll import Feed

    wanted = ChangeFilter.of(*filter)
    # One head for both: what is committed from here on is what the cursor gives first.
    head = state.workspace.manifest.state(branch)
    feed = Feed(state.workspace, head, wanted)
    commit_id = head.head.commit.graph_commit_id
    done = export(
        state,
        out,
        Target.of(snapshot=commit_id),
        wanted.types,
        engine,
        check_progress(progress),
        kinds=wanted.kinds,
        operation="baseline",
        lease=lease,
        durable=True,
    )
    return BaselineResult(commit_id, feed.cursor(commit_id), done)


def commit_changes(
    state: GraphState,
    graph_commit_id: str,
    kinds: Iterable[str] | None,
    types: Iterable[str] | None,
    ops: Iterable[str] | None,
    limit: int | None,
    page_token: str | None,
) -> CommitChanges:
    """Return a page of what a commit changed against its first parent."""
    from omnigraph.changes.change_filter import ChangeFilter
    from omnigraph.changes.feed import commit_changes as feed

    state.ensure_open()
    reader = feed.ChangeReader(
        state.workspace, state.schemas.of(MAIN).catalog, ChangeFilter.of(kinds, types, ops)
    )
    return feed.commit_changes(reader, graph_commit_id, limit, page_token)
