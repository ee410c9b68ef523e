"""`graph.branches` and `graph.tags`: names of states, and how branches come together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.graph.arguments import check_flag
from omnigraph.graph.facets.facet import Facet, Resolve, ResolveSchema, merge_options
from omnigraph.manifest import refs
from omnigraph.manifest.actors import check_operation_id
from omnigraph.manifest.branch_names import MAIN, trim_branch_name
from omnigraph.manifest.history.tags import Tag, list_tags
from omnigraph.manifest.snapshot import Target, TargetLike
from omnigraph.policy.checker import Action

# What these need is imported inside the functions, so that a process that only reads stays light.
if TYPE_CHECKING:
    from omnigraph.runner.executors import EngineName
    from omnigraph.write.merge.request import MergeResult


class Branches(Facet):
    """`graph.branches`: create, list, merge and delete branches."""

    def create(
        self,
        name: str,
        from_: TargetLike = MAIN,
        actor: str | None = None,
        *,
        operation_id: str | None = None,
    ) -> refs.BranchCreated:
        """Make a branch at a state: the head of a branch, `tag:NAME`, `commit:ID`, `BRANCH@VERSION`,
        or a value of ``og.at``.

        No data is copied and no commit is made. ``actor`` is who asks. It is checked but not
        recorded, since there is no commit; neither is ``operation_id``.
        """
        from omnigraph.write.branches import create_branch

        self._state.ensure_writable()
        start, wanted = Target.of_value(from_), trim_branch_name(name)
        start = self._access.acting(actor).ask_branch_create(start, wanted)
        check_operation_id(operation_id)
        return create_branch(self._state.workspace, wanted, start)

    def list(self) -> list[str]:
        """Return `main`, then the other branches in code-point order."""
        self._state.ensure_open()
        self._access.ask(Action.READ)
        manifest = self._state.workspace.manifest
        manifest.state(MAIN)  # names alone would not show that another graph is here now
        return refs.list_refs(manifest)

    def delete(
        self,
        name: str,
        actor: str | None = None,
        *,
        operation_id: str | None = None,
    ) -> None:
        """Delete a branch and its commits; this cannot be undone.

        ``actor`` is who asks. As there is no commit, it is not recorded, nor is ``operation_id``.
        """
        from omnigraph.write.branches import delete_branch

        self._state.ensure_writable()
        wanted = trim_branch_name(name)
        self._access.acting(actor).ask(Action.BRANCH_DELETE, target=wanted)
        check_operation_id(operation_id)
        delete_branch(self._state.workspace, wanted)

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
        *,
        short: bool = False,
        resolve_schema: ResolveSchema = None,
        if_commit: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> MergeResult:
        """Bring what ``source`` changed since the common base into another branch, as one commit.

        ``granularity="property"`` puts entities together that both sides changed in different properties.
        ``resolve`` decides entities in conflict: ``"ours"`` (the target's state), ``"theirs"``, or for
        each ``(table key, id)`` an image, None to delete it, or one of the words. ``resolve_schema`` decides
        schemas in conflict in the same words, for all or for each element (``"node:Ship.flag"``). A ``dry_run`` writes
        nothing and lists the conflicts; ``images`` makes conflicts show the entities, and ``short``
        shows their vectors and blobs by their sizes. With
        ``delete_branch`` the source is deleted afterwards; an actor who may not delete it merges nothing. With ``engine="spark"`` executors compare
        tables of which many rows changed. ``if_commit`` is about the branch that is written; it, ``operation_id``
        and ``message`` are as for ``mutate``.
        """
        from omnigraph.runner.executors import Executors
        from omnigraph.write.merge.merge import merge_branches

        acting = self._access.acting(actor)
        theirs, ours = trim_branch_name(source), trim_branch_name(into)
        options = merge_options(
            acting,
            granularity,
            resolve,
            resolve_schema,
            target=ours,
            dry_run=dry_run,
            images=images,
            short=short,
            if_commit=if_commit,
            operation_id=operation_id,
            message=message,
        )
        deletes = check_flag("delete_branch", delete_branch)
        if options.dry_run:
            acting.ask(Action.READ, theirs)
            acting.ask(Action.READ, ours)
        else:
            acting.ask(Action.BRANCH_MERGE, theirs, ours)
            # Rules look at the target alone, and who may not read the source must not carry it elsewhere.
            acting.ask(Action.READ, theirs)

        def may_delete() -> None:
            acting.ask(Action.BRANCH_DELETE, target=theirs)

        if deletes and not options.dry_run:
            # Before anything is merged; and once more when it is, since that may take long.
            may_delete()
        with Executors(engine).comparing() as spark_for:
            options = replace(options, spark_for=spark_for)
            return merge_branches(
                self._state.workspace,
                theirs,
                ours,
                options,
                delete_branch=may_delete if deletes else None,
            )


class Tags(Facet):
    """`graph.tags`: names for single commits, which keep their content readable."""

    def create(
        self,
        name: str,
        at: TargetLike | None = None,
        actor: str | None = None,
        *,
        operation_id: str | None = None,
    ) -> Tag:
        """Name a commit: that of ``at``, a text or another value that names a state; the head of `main`
        by default.

        A tag never moves. While it exists, cleanup keeps what its commit needs. No commit is made,
        so ``operation_id`` is not recorded; the tag itself records who made it, and when.
        """
        from omnigraph.write.tags import create_tag

        self._state.ensure_writable()
        target, acting = Target.of(at=at), self._access.acting(actor)
        target = acting.ask_commit(target, Action.TAG_CREATE)
        check_operation_id(operation_id)
        return create_tag(self._state.workspace, name, target, acting.actor)

    def list(self) -> list[Tag]:
        """Return the tags by name, in code-point order."""
        self._state.ensure_open()
        self._access.ask(Action.READ)
        return list_tags(self._state.workspace.manifest)

    def delete(
        self, name: str, actor: str | None = None, *, operation_id: str | None = None
    ) -> Tag:
        """Delete a tag and return what it was.

        ``actor`` is who asks. As there is no commit, it is not recorded, nor is ``operation_id``.
        """
        from omnigraph.write.tags import delete_tag

        self._state.ensure_writable()
        tag = self._access.acting(actor).ask_commit(Target.of(tag=name), Action.TAG_DELETE)
        check_operation_id(operation_id)
        return delete_tag(self._state.workspace, name, tag.tagged)
