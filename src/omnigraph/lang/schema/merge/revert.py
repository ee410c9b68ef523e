"""Undoes the schema change of a commit: the merge of the schema before it into the head.

Additions, renames, descriptions, indexes, defaults and rules that were tightened are undone. What a
commit dropped or loosened is not: rows written since may not fit the schema before it, and the values
of dropped properties are gone from the head.
"""

from __future__ import annotations

from typing import Any

from omnigraph.errors import SchemaBoundary
from omnigraph.lang.schema.identities import Numbering
from omnigraph.lang.schema.merge.merge import SchemaMerge, merge_schemas, merge_steps
from omnigraph.lang.schema.merge.resolution_words import ResolveSchema
from omnigraph.lang.schema.merge.sides import DataChanged, SchemaSide, no_data_changed
from omnigraph.lang.schema.migrate.plan_steps import SchemaStep

_ONE_WAY = {
    "drop_type",
    "drop_property",
    "relax_property",
    "relax_cardinality",
    "extend_enum",
    "widen_property",
    "change_embed",
    "unsupported_change",
}
"""The steps that a revert cannot undo."""


def revert_schema(
    commit: SchemaSide,
    parent: SchemaSide,
    head: SchemaSide,
    *,
    commit_id: str,
    data: DataChanged = no_data_changed,
    resolve: ResolveSchema | None = None,
    numbering: Numbering | None = None,
) -> SchemaMerge:
    """Undo in the head what a commit did to its parent's schema.

    ``data`` tells what was written since the commit: what it added and somebody filled since is in
    conflict with the revert. A step that cannot be undone is a SchemaBoundary that names its type.
    """
    for step in merge_steps(parent.ir, commit.ir):
        if not is_undone(step):
            raise _boundary(step, commit_id)
    return merge_schemas(commit, parent, head, data=data, resolve=resolve, numbering=numbering)


def is_undone(step: SchemaStep) -> bool:
    """Whether a revert undoes a step. Of the rules that were removed, only an index comes back."""
    body = step.to_json()
    if body["kind"] == "drop_constraint":
        return bool(body["constraint"]["kind"] == "index")
    return body["kind"] not in _ONE_WAY


def _boundary(step: SchemaStep, commit_id: str) -> SchemaBoundary:
    body = step.to_json()
    type_name = _type_name(body)
    return SchemaBoundary(
        f"commit {commit_id} cannot be reverted: it changed the schema of {type_name} "
        f"({step.describe()}), and rows written since may not fit the schema before it; apply the "
        "schema that you want, and load what is missing from an export of the commit's parent",
        graph_commit_id=commit_id,
        type_name=type_name,
    )


def _type_name(body: dict[str, Any]) -> str:
    if "entity" in body:
        return str(body["entity"]).partition(":")[2].partition(".")[0] or str(body["entity"])
    return str(body.get("type_name") or body.get("name"))
