"""What the parts of a handle share: `graph.branches`, `graph.tags` and the others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from omnigraph.graph.access import Access
from omnigraph.graph.arguments import check_flag
from omnigraph.manifest.actors import check_message, check_operation_id
from omnigraph.policy.checker import Action

if TYPE_CHECKING:
    from omnigraph.write.merge.request import MergeOptions

Resolve = str | Mapping[tuple[str, str], Any] | None
"""How entities in conflict are decided: a word for all, or for each (table key, id) what becomes of it."""

ResolveSchema = str | Mapping[str, str] | None
"""How schemas in conflict are decided: a word for all, or for each element (`node:Ship.flag`) a word."""


class Facet:
    """A group of calls on a graph, for one actor."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._state = access.state

    def __repr__(self) -> str:
        calls = ", ".join(name for name in dir(self) if not name.startswith("_"))
        name = type(self).__name__.lower()
        return f"<graph.{name} of {self._state.workspace.root.canonical}: {calls}>"


def merge_options(
    access: Access,
    granularity: str,
    resolve: Resolve,
    resolve_schema: ResolveSchema,
    *,
    target: str,
    dry_run: object,
    images: object,
    short: object,
    if_commit: str | None,
    operation_id: object,
    message: object,
) -> MergeOptions:
    """Return the checked options of a merge or revert; a read-only handle may ask for a dry run."""
    from omnigraph.write.merge.request import MergeOptions, check_granularity
    from omnigraph.write.vectors import TextVectors

    state, dry = access.state, check_flag("dry_run", dry_run)
    if dry:
        state.ensure_open()
    else:
        state.ensure_writable()
    return MergeOptions(
        lambda branch: state.schemas.at(branch).catalog,
        access.actor,
        check_granularity(granularity),
        resolve=resolve,
        resolve_schema=resolve_schema,
        dry_run=dry,
        images=check_flag("images", images),
        blobs=state.blob_policy,
        short=check_flag("short", short),
        operation_id=check_operation_id(operation_id),
        message=check_message(message),
        if_commit=if_commit,
        vectors=TextVectors(state.embedder),
        # Whoever may read both sides may ask for a dry run; the guard decides how much it tells them.
        check_schema=partial(access.guard_schema, target)
        if dry
        else partial(_check_schema, access, target),
    )


def _check_schema(access: Access, target: str, source: str) -> None:
    """Refuse another schema of a branch, if the actor may not give it one or a guard objects."""
    access.ask(Action.SCHEMA_APPLY, target=target)
    access.guard_schema(target, source)
