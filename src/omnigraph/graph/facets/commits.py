"""`graph.commits` and `graph.changes`: the history of a branch, what each commit changed, and how to undo one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from omnigraph.cancel import Cancel, Timeout, within
from omnigraph.graph.arguments import check_flag
from omnigraph.graph.exports_and_diffs import baseline, commit_changes
from omnigraph.graph.facets.facet import Facet, Resolve, ResolveSchema, merge_options
from omnigraph.manifest.branch_names import MAIN, trim_branch_name, trim_written_branch
from omnigraph.manifest.history.history import History, named_branches, read_history
from omnigraph.manifest.history.purge_audits import with_audit
from omnigraph.manifest.history.records import find_commit, list_commits
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.snapshot import Target
from omnigraph.policy.checker import Action

# What these need is imported inside the functions, so that a process that only reads stays light.
if TYPE_CHECKING:
    from omnigraph.changes.export.export_files import Out
    from omnigraph.changes.feed.commit_changes import CommitChanges
    from omnigraph.changes.feed.poll import BaselineResult, ChangePage
    from omnigraph.runner.executors import EngineName
    from omnigraph.write.merge.request import MergeResult


class Commits(Facet):
    """`graph.commits`: the history of a branch, single commits, and how to undo one."""

    def list(
        self,
        branch: str = MAIN,
        filter: str | Iterable[str] | None = None,
        limit: int | None = None,
        before: str | None = None,
    ) -> list[GraphCommit]:
        """Return the first-parent chain, newest first; only what all filters let through.

        Commits made on branches that the actor may not read are left out. A filter is `actor=<id>`, `branch=<name>`, `operation=<word>` or `operation_id=<ULID>`.
        ``before``: start after that commit.
        """
        self._state.ensure_open()
        name = trim_branch_name(branch)
        self._access.ask(Action.READ, name)
        manifest, may_read = self._state.workspace.manifest, self._access.readable(name)
        return list_commits(manifest, name, filter, limit, before, may_read)

    def history(
        self,
        branches: str | Iterable[str] | None = None,
        limit: int | None = None,
        before: str | None = None,
    ) -> History:
        """Return a page of everything the branches reach over both parents, children first.

        All branches unless some are named; 200 commits unless ``limit`` says otherwise, at most
        1,000. ``before`` is the ``next`` of the page before. Commits made on branches that the actor
        may not read are left out; as parents they are still named.
        """
        self._state.ensure_open()
        named = named_branches(branches)
        if not named:
            self._access.ask(Action.READ)
        for branch in named:
            self._access.ask(Action.READ, branch)
        may_read = self._access.readable(*named)
        return read_history(self._state.workspace.manifest, named, limit, before, may_read)

    def show(self, graph_commit_id: str) -> GraphCommit:
        """Return one commit, from whichever live branch holds it; that of a purge with its audit."""
        self._state.ensure_open()
        self._access.ask_about_commit(graph_commit_id)
        manifest = self._state.workspace.manifest
        return with_audit(manifest, find_commit(manifest, graph_commit_id))

    def changes(
        self,
        graph_commit_id: str,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        limit: int | None = None,
        page_token: str | None = None,
        *,
        images: bool = True,
        short: bool = False,
        timeout: Timeout = None,
        cancel: Cancel | None = None,
    ) -> CommitChanges:
        """Return what a commit changed against its first parent, a page of ``limit`` (1,000) changes.

        ``kinds``, ``types`` and ``ops`` choose among them, and ``images=False`` leaves the values of
        properties out; ``short`` shows vectors and blobs by their sizes. While ``next_page_token`` is not None, there is another page.
        """
        self._state.ensure_open()
        self._access.ask_about_commit(graph_commit_id)
        with within(timeout, cancel):
            return commit_changes(
                self._state,
                graph_commit_id,
                (kinds, types, ops),
                limit,
                page_token,
                images=check_flag("images", images),
                short=check_flag("short", short),
            )

    def revert(
        self,
        graph_commit_id: str,
        branch: str = MAIN,
        actor: str | None = None,
        granularity: str = "entity",
        resolve: Resolve = None,
        dry_run: bool = False,
        images: bool = False,
        *,
        short: bool = False,
        resolve_schema: ResolveSchema = None,
        if_commit: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> MergeResult:
        """Undo one commit of a branch as a new commit; the options are those of a merge.

        ``resolve="ours"`` keeps the state of the branch, ``"theirs"`` takes the one before the commit.
        """
        from omnigraph.write.merge.merge import revert_commit

        acting, name = self._access.acting(actor), trim_written_branch(branch)
        options = merge_options(
            acting,
            granularity,
            resolve,
            resolve_schema,
            target=name,
            dry_run=dry_run,
            images=images,
            short=short,
            if_commit=if_commit,
            operation_id=operation_id,
            message=message,
        )
        if options.dry_run:
            acting.ask(Action.READ, name)
            acting.ask_read(Target(snapshot=graph_commit_id))
        else:
            acting.ask(Action.CHANGE, name)
        return revert_commit(
            self._state.workspace, graph_commit_id, name, options, acting.ask_about_commit
        )


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
            filter=ChangeFilter.of(kinds, types, ops),
            limit=limit,
            max_commits=max_commits,
            images=check_flag("images", images),
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
