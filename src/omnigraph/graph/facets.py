"""`graph.branches`, `graph.tags`, `graph.commits` and `graph.schema`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadRequest
from omnigraph.graph.accepted_schema import AcceptedSchema
from omnigraph.graph.arguments import check_flag
from omnigraph.graph.history.changes import commit_changes
from omnigraph.graph.state import GraphState
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.language import read_source
from omnigraph.manifest import refs
from omnigraph.manifest.actors import check_actor
from omnigraph.manifest.branch_names import MAIN, trim_branch_name
from omnigraph.manifest.history.history import History, read_history
from omnigraph.manifest.history.records import find_commit, list_commits
from omnigraph.manifest.history.tags import Tag, list_tags
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.snapshot import Target, TargetLike

# Writes import what they need inside their methods, so that a process that only reads stays light.
if TYPE_CHECKING:
    from omnigraph.changes.feed.commit_changes import CommitChanges
    from omnigraph.pipeline.load_options import EngineName
    from omnigraph.write.merge.request import MergeOptions, MergeResult
    from omnigraph.write.schema_apply import SchemaApplied, SchemaPlan, SchemaRequest


Resolve = str | Mapping[tuple[str, str], Any] | None
"""How entities in conflict are decided: a word for all, or for each (table key, id) what becomes of it."""


class Branches:
    """`graph.branches`: create, list, merge and delete branches."""

    def __init__(self, state: GraphState) -> None:
        self._state = state

    def create(
        self,
        name: str,
        from_: TargetLike = MAIN,
        actor: str | None = None,
    ) -> refs.BranchCreated:
        """Make a branch at the head of another one, or at a past state: a value of ``og.at``.

        No data is copied and no commit is made. ``actor`` is who asks. It is checked but not
        recorded, since there is no commit.
        """
        from omnigraph.write.branches import create_branch

        self._state.ensure_writable()
        check_actor(actor)
        return create_branch(self._state.workspace, name, Target.of_value(from_))

    def list(self) -> list[str]:
        """Return `main`, then the other branches in code-point order."""
        self._state.ensure_open()
        return refs.list_refs(self._state.workspace.manifest)

    def delete(
        self,
        name: str,
        actor: str | None = None,
    ) -> None:
        """Delete a branch and its commits; this cannot be undone. ``actor`` is who asks."""
        from omnigraph.write.branches import delete_branch

        self._state.ensure_writable()
        check_actor(actor)
        delete_branch(self._state.workspace, name)

    def merge(
        self,
        source: str,
        into: str = MAIN,
        actor: str | None = None,
        delete_branch: bool = False,
        granularity: str = "entity",
        resolve: Resolve = None,
        dry_run: bool = False,
        engine: EngineName = "auto",
        images: bool = False,
    ) -> MergeResult:
        """Bring what ``source`` changed since the common base into another branch, as one commit.

        ``granularity="property"`` puts entities together that both sides changed in different properties.
        ``resolve`` decides entities in conflict: ``"ours"`` (the target's state), ``"theirs"``, or for
        each ``(table key, id)`` an image, None to delete it, or one of the words. A ``dry_run`` writes
        nothing and lists the conflicts; ``images`` makes conflicts show the entities. With
        ``delete_branch`` the source is deleted afterwards. With ``engine="spark"`` executors compare
        tables of which many rows changed.
        """
        from omnigraph.pipeline.spark.executors import Executors
        from omnigraph.write.merge.merge import merge_branches

        options = _merge_options(self._state, actor, granularity, resolve, dry_run, images)
        deletes = check_flag("delete_branch", delete_branch)
        with Executors(engine).comparing() as spark_for:
            options = replace(options, spark_for=spark_for)
            return merge_branches(
                self._state.workspace, source, into, options, delete_branch=deletes
            )


class Tags:
    """`graph.tags`: names for single commits, which keep their content readable."""

    def __init__(self, state: GraphState) -> None:
        self._state = state

    def create(self, name: str, at: TargetLike | None = None, actor: str | None = None) -> Tag:
        """Name a commit: that of the target ``at``, the head of `main` by default.

        A tag never moves. While it exists, cleanup keeps what its commit needs. No commit is made;
        the tag itself records who made it, and when.
        """
        from omnigraph.write.tags import create_tag

        self._state.ensure_writable()
        target = Target.of(at=at)
        return create_tag(self._state.workspace, name, target, self._state.choose_actor(actor))

    def list(self) -> list[Tag]:
        """Return the tags by name, in code-point order."""
        self._state.ensure_open()
        return list_tags(self._state.workspace.manifest)

    def delete(self, name: str, actor: str | None = None) -> Tag:
        """Delete a tag and return what it was. ``actor`` is who asks; it is checked, not recorded."""
        from omnigraph.write.tags import delete_tag

        self._state.ensure_writable()
        check_actor(actor)
        return delete_tag(self._state.workspace, name)


class Commits:
    """`graph.commits`: the history of a branch, single commits, and how to undo one."""

    def __init__(self, state: GraphState) -> None:
        self._state = state

    def list(
        self,
        branch: str = MAIN,
        filter: str | Iterable[str] | None = None,
        limit: int | None = None,
        before: str | None = None,
    ) -> list[GraphCommit]:
        """Return the first-parent chain, newest first; only what all filters let through.

        A filter is `actor=<id>`, `branch=<name>`, `operation=<word>` or `operation_id=<ULID>`.
        ``before``: start after that commit.
        """
        self._state.ensure_open()
        return list_commits(
            self._state.workspace.manifest, trim_branch_name(branch), filter, limit, before
        )

    def history(
        self,
        branches: str | Iterable[str] | None = None,
        limit: int | None = None,
        before: str | None = None,
    ) -> History:
        """Return a page of everything the branches reach over both parents, children first.

        All branches unless some are named; 200 commits unless ``limit`` says otherwise, at most
        1,000. ``before`` is the ``next`` of the page before.
        """
        self._state.ensure_open()
        return read_history(self._state.workspace.manifest, branches, limit, before)

    def show(self, graph_commit_id: str) -> GraphCommit:
        """Return one commit, from whichever live branch holds it."""
        self._state.ensure_open()
        return find_commit(self._state.workspace.manifest, graph_commit_id)

    def changes(
        self,
        graph_commit_id: str,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        limit: int | None = None,
        page_token: str | None = None,
    ) -> CommitChanges:
        """Return what a commit changed against its first parent, a page of ``limit`` (1,000) changes.

        ``kinds``, ``types`` and ``ops`` choose among them. While ``next_page_token`` is not None, there
        is another page.
        """
        return commit_changes(self._state, graph_commit_id, kinds, types, ops, limit, page_token)

    def revert(
        self,
        graph_commit_id: str,
        branch: str = MAIN,
        actor: str | None = None,
        granularity: str = "entity",
        resolve: Resolve = None,
        dry_run: bool = False,
        images: bool = False,
    ) -> MergeResult:
        """Undo one commit of a branch as a new commit; the options are those of a merge.

        ``resolve="ours"`` keeps the state of the branch, ``"theirs"`` takes the one before the commit.
        """
        from omnigraph.write.merge.revert import revert_commit

        options = _merge_options(self._state, actor, granularity, resolve, dry_run, images)
        return revert_commit(self._state.workspace, graph_commit_id, branch, options)


class Schema:
    """`graph.schema`: the accepted schema of the newest commit, and how to change it."""

    def __init__(self, state: GraphState) -> None:
        self._state = state

    @property
    def source(self) -> str:
        """The accepted source text."""
        return self._accepted().row.source

    @property
    def catalog(self) -> Catalog:
        """The accepted types."""
        return self._accepted().catalog

    def plan(self, schema: str | Path, allow_data_loss: bool = False) -> SchemaPlan:
        """Return the steps from the accepted schema to a new one; nothing is written.

        ``schema`` is source text, or a ``Path`` to a file. With ``allow_data_loss`` drops are hard.
        """
        from omnigraph.write.schema_apply import plan_schema

        self._state.ensure_open()
        return plan_schema(self._state.workspace, _request(schema, allow_data_loss))

    def apply(
        self, schema: str | Path, allow_data_loss: bool = False, actor: str | None = None
    ) -> SchemaApplied:
        """Give the graph a new schema as one commit, or change nothing.

        Without ``allow_data_loss`` what is dropped stays readable in earlier snapshots; with it,
        the old versions of those tables are removed from disk.
        """
        from omnigraph.write.schema_apply import apply_schema

        self._state.ensure_writable()
        request = _request(schema, allow_data_loss, self._state.choose_actor(actor))
        return apply_schema(self._state.workspace, request)

    def _accepted(self) -> AcceptedSchema:
        self._state.ensure_open()
        return self._state.schemas.of(MAIN)


def _request(
    schema: str | Path, allow_data_loss: object, actor_id: str | None = None
) -> SchemaRequest:
    from omnigraph.write.schema_apply import SchemaRequest

    if not isinstance(allow_data_loss, bool):
        raise BadRequest(f"allow_data_loss is True or False, not {allow_data_loss!r}")
    source, filename = read_source(schema)
    return SchemaRequest(source, filename, allow_data_loss, actor_id)


def _merge_options(
    state: GraphState,
    actor: str | None,
    granularity: str,
    resolve: Resolve,
    dry_run: object,
    images: object,
) -> MergeOptions:
    """Return the checked options of a merge or revert; a read-only handle may ask for a dry run."""
    from omnigraph.write.merge.request import MergeOptions, check_granularity

    dry = check_flag("dry_run", dry_run)
    if dry:
        state.ensure_open()
    else:
        state.ensure_writable()
    return MergeOptions(
        lambda branch: state.schemas.at(branch).catalog,
        state.choose_actor(actor),
        check_granularity(granularity),
        resolve,
        dry,
        check_flag("images", images),
        state.blob_policy,
    )
