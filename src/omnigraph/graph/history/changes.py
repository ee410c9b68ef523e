"""What commits changed: one commit, and the state from which a change feed goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from omnigraph.graph.access import Access
from omnigraph.graph.arguments import check_progress
from omnigraph.graph.history.exports import write_snapshot
from omnigraph.graph.state import GraphState
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.snapshot import Target
from omnigraph.policy.checker import Action

# Loaded by the first call: it needs numpy and pyarrow.
if TYPE_CHECKING:
    from omnigraph.changes.export.output import Out
    from omnigraph.changes.feed.baseline import BaselineResult
    from omnigraph.changes.feed.commit_changes import CommitChanges
    from omnigraph.runner.executors import EngineName


Filter = tuple[Iterable[str] | None, Iterable[str] | None, Iterable[str] | None]
"""Kinds, types and ops, as a caller gives them."""


def baseline(
    access: Access,
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

    state, wanted = access.state, ChangeFilter.of(*filter)
    state.ensure_open()
    access.ask(Action.EXPORT, branch)
    # One head for both: what is committed from here on is what the cursor gives first.
    head = state.workspace.manifest.state(branch)
    feed = Feed(state.workspace, head, wanted)
    commit_id = head.head.commit.graph_commit_id
    done = write_snapshot(
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
    filter: Filter,
    limit: int | None,
    page_token: str | None,
    *,
    images: bool,
) -> CommitChanges:
    """Return a page of what a commit changed against its first parent."""
    from omnigraph.changes.change_filter import ChangeFilter
    from omnigraph.changes.feed import commit_changes as feed

    wanted, current = ChangeFilter.of(*filter), state.schemas.of(MAIN).catalog
    reader = feed.ChangeReader(state.workspace, current, wanted, images=images)
    return feed.commit_changes(reader, graph_commit_id, limit, page_token)
