"""`graph.changes`: the change feed of a branch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from omnigraph.cancel import Cancel, Timeout, within
from omnigraph.graph.arguments import check_flag
from omnigraph.graph.facets.facet import Facet
from omnigraph.graph.history.changes import baseline
from omnigraph.manifest.branch_names import MAIN, trim_branch_name
from omnigraph.policy.checker import Action

# Loaded by the first call: it needs numpy and pyarrow.
if TYPE_CHECKING:
    from omnigraph.changes.export.output import Out
    from omnigraph.changes.feed.baseline import BaselineResult
    from omnigraph.changes.feed.poll import ChangePage
    from omnigraph.runner.executors import EngineName


class Changes(Facet):
    """`graph.changes`: the commits of a branch in order, each with what it changed."""

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
        images: bool = True,
        timeout: Timeout = None,
        cancel: Cancel | None = None,
    ) -> ChangePage:
        """Return the next page of the change feed, oldest commit first.

        ``start`` is ``"now"`` (the default: only what is committed from now on), ``"beginning"``, or
        ``"after:<commit id>"``; later polls give the ``cursor`` or the ``page_token`` of the page
        before, with the same filter. A page has at most ``limit`` changes (1,000) of
        ``max_commits`` commits (128). ``images=False`` leaves the values of properties out, so that
        more changes fit; a cursor goes on with or without them.
        """
        from omnigraph.changes.change_filter import ChangeFilter
        from omnigraph.changes.feed.poll import PollRequest, poll

        self._state.ensure_open()
        name = trim_branch_name(branch)
        self._access.ask(Action.READ, name)
        request = PollRequest(
            name,
            start,
            cursor,
            page_token,
            ChangeFilter.of(kinds, types, ops),
            limit,
            max_commits,
            check_flag("images", images),
        )
        with within(timeout, cancel):
            return poll(
                self._state.workspace,
                lambda at: self._state.schemas.at(at).catalog,
                request,
                self._access.asking(name),
            )

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
        timeout: Timeout = None,
        cancel: Cancel | None = None,
    ) -> BaselineResult:
        """Write the newest state of a branch, as ``export`` does, and return the cursor after it.

        A file is on disk, with its name, when this returns. ``kinds`` and ``types`` choose what is
        written; polls with the cursor take the same filter. ``ops`` only belongs to the cursor.
        """
        with within(timeout, cancel):
            return baseline(
                self._access, out, trim_branch_name(branch), (kinds, types, ops), engine, progress
            )
