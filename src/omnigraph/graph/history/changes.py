"""`graph.changes`: the change feed of a branch. `graph.commits.changes`: what one commit changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from omnigraph.graph.state import GraphState
from omnigraph.manifest.branch_names import MAIN, trim_branch_name

# Loaded by the first call: it needs numpy and pyarrow.
if TYPE_CHECKING:
    from omnigraph.changes.feed.commit_changes import CommitChanges
    from omnigraph.changes.feed.poll import ChangePage


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
