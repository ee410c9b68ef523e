"""`graph.tags`: create, list and delete tags."""

from __future__ import annotations

from omnigraph.graph.facets.facet import Facet
from omnigraph.manifest.actors import check_operation_id
from omnigraph.manifest.history.tags import Tag, list_tags
from omnigraph.manifest.snapshot import Target, TargetLike
from omnigraph.policy.checker import Action


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
