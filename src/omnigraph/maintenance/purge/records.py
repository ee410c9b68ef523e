"""Purged ids in the manifest: in marks of deleted rows, and in the records of shared commits.

Both are rewritten in the newest state of every branch: a mark `gone:5f0a` becomes `gone:*`, and the ids that
mutations of a shared commit touched (``facts.group``) lose those that are purged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from omnigraph.manifest.history.version_marks import ANY_GONE, gone_mark
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.publisher import rewrite_rows
from omnigraph.manifest.row_reads import read_metadata
from omnigraph.manifest.rows import (
    GRAPH_COMMIT,
    GROUP,
    TABLE_VERSION,
    GraphCommit,
    Head,
    Row,
    commit_row,
    members_of,
    read_commit,
)

Ids = Mapping[int, Collection[str]]
"""The purged ids by incarnation of their tables."""


def blur(manifest: Manifest, branch: str, ids: Ids, keys: Mapping[int, str]) -> None:
    """Take purged ids out of the records of a branch, without a commit. ``keys`` are the keys of tables."""
    marks = {number: set(map(gone_mark, found)) for number, found in ids.items()}
    by_key = {keys[number]: frozenset(found) for number, found in ids.items()}

    def blurred(state: BranchState) -> tuple[Head, list[Row]]:
        rows = [
            row
            for one in manifest.table_rows(state, [TABLE_VERSION])
            if (row := _without_marks(one, marks)) is not one
        ]
        for commit in _shared_commits(state):
            kept = _without_ids(commit, by_key)
            if kept is not commit:
                rows.append(commit_row(kept))
        return replace(state.head, commit=_without_ids(state.head.commit, by_key)), rows

    rewrite_rows(manifest, branch, blurred)


def _without_marks(row: Row, marks: Mapping[int, set[str]]) -> Row:
    number = int(row.object_id.removeprefix("version:").partition("@")[0])
    known = marks.get(number)
    if not known or known.isdisjoint(row.base_objects):
        return row
    kept = tuple(one for one in row.base_objects if one not in known)
    return replace(row, base_objects=tuple(dict.fromkeys((*kept, *ANY_GONE))))


def _shared_commits(state: BranchState) -> list[GraphCommit]:
    texts = read_metadata(state.table, "object_type", GRAPH_COMMIT)
    return [read_commit(text) for text in texts if f'"{GROUP}"' in text]


def _without_ids(commit: GraphCommit, ids: Mapping[str, frozenset[str]]) -> GraphCommit:
    members = members_of(commit.facts)
    if not any(
        not ids.get(key, frozenset()).isdisjoint(named)
        for member in members
        for key, named in member.get("ids", {}).items()
    ):
        return commit
    kept = [
        {
            **member,
            "ids": {
                key: [one for one in named if one not in ids.get(key, ())]
                for key, named in member.get("ids", {}).items()
            },
        }
        for member in members
    ]
    group = {**commit.facts[GROUP], "members": kept}
    return replace(commit, facts={**commit.facts, GROUP: group})
