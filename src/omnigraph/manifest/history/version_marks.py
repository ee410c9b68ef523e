"""The marks of published table versions: which commit published each, and which rows left the table then.

The row `version:7@@v=9` of the manifest has in its ``base_objects``, besides the table,

    commit:01J…   the commit that published version 9
    gone:5f0a     a row left the table whose id has this hash
    gone:*        rows left the table, too many to be told, or it is not known which

So the history of one entity is found without looking at other commits: a row carries the version of its
last change, and a row that is absent left the table only in a version with its mark. Two ids may have one
hash: a mark says where to look. Rows of older releases have no marks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import TABLE_VERSION
from omnigraph.storage.filters import Condition, Pushdown, filter_expression, sql_literal
from omnigraph.storage.tables.staging import TOLD_ROWS, Staged

ANY_GONE: Final = ("gone:*",)
"""The mark of a version that any row may have left."""

_NEAR: Final = 8
"""A commit rarely makes more versions of a table than this: those are looked up by name."""
_COLUMNS: Final = ("object_id", "base_objects", "table_version", "table_branch")


def gone_mark(id: str) -> str:
    """Return the mark of a row that left its table."""
    return f"gone:{hashlib.blake2b(id.encode('utf-8', 'surrogatepass'), digest_size=2).hexdigest()}"


def gone_marks(committed: Iterable[Staged]) -> tuple[str, ...]:
    """Return the marks of the rows that some transactions on one table removed."""
    ids: set[str] = set()
    for staged in committed:
        if staged.rows.deleted == 0:
            continue
        if staged.removed_ids is None:
            return ANY_GONE
        ids.update(staged.removed_ids)
    return ANY_GONE if len(ids) > TOLD_ROWS else tuple(sorted(map(gone_mark, ids)))


class Published(NamedTuple):
    """A published version of a table; ``graph_commit_id`` is None if its row has no marks."""

    table_branch: str | None
    version: int
    graph_commit_id: str | None


def first_published(
    manifest: Manifest,
    state: BranchState,
    incarnation: int,
    table_branch: str | None,
    versions: tuple[int, int],
) -> Published | None:
    """Return the lowest version between two of them that a branch of the graph published, both included."""
    low, high = versions
    near = [
        f"version:{incarnation}@{table_branch or ''}@v={version}"
        for version in range(low, min(low + _NEAR, high + 1))
    ]
    where = filter_expression(state.table.schema, [Condition("object_id", "in", near)])
    found = _published(manifest, state, where)
    if not found and high >= low + _NEAR:
        found = published_between(manifest, state, incarnation, table_branch, versions)
    return found[0] if found else None


def published_between(
    manifest: Manifest,
    state: BranchState,
    incarnation: int,
    table_branch: str | None,
    versions: tuple[int, int],
) -> list[Published]:
    """Return the versions between two of them that a branch of the graph published, ascending."""
    wanted = [
        Condition("object_type", "=", TABLE_VERSION),
        Condition("object_id", "prefix", f"version:{incarnation}@{table_branch or ''}@v="),
        Condition("table_version", ">=", versions[0]),
        Condition("table_version", "<=", versions[1]),
    ]
    return _published(manifest, state, filter_expression(state.table.schema, wanted))


def versions_it_left(
    manifest: Manifest, state: BranchState, incarnation: int, id: str
) -> list[Published]:
    """Return the versions in which a row of this id may have left the table, and all without marks.

    They are of all branches of the table that this branch of the graph knows, ascending.
    """
    kind = state.table.schema.field("base_objects").type.value_type
    marks = " OR ".join(
        f"array_has(base_objects, {sql_literal(mark, kind)})" for mark in (gone_mark(id), *ANY_GONE)
    )
    prefix = sql_literal(f"version:{incarnation}@", kind)
    where = Pushdown(
        f"object_type = '{TABLE_VERSION}' AND starts_with(object_id, {prefix}) "
        f"AND ({marks} OR array_length(base_objects) < 2)",
        columns=frozenset({"object_type", "object_id", "base_objects"}),
    )
    return _published(manifest, state, where)


def _published(manifest: Manifest, state: BranchState, where: Pushdown | None) -> list[Published]:
    assert where is not None, "the filter tests something"
    found = [_read(row) for row in manifest.read_rows(state, where, _COLUMNS)]
    return sorted(found, key=lambda one: one.version)


def _read(row: dict[str, Any]) -> Published:
    commits = [one for one in row["base_objects"] or () if one.startswith("commit:")]
    name = commits[0].removeprefix("commit:") if commits else None
    return Published(row["table_branch"], row["table_version"], name)
