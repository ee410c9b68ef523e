"""Who made a change of an entity: the commit, the merge that brought it, and what a hidden branch had done."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from omnigraph.changes.entity_history.walk import Stop
from omnigraph.manifest.history.ancestry import CommitGraph, bringing_merge, brought_commits
from omnigraph.manifest.history.records import BranchLineage, is_published
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import GraphCommit


class Authors:
    """Tells of stops who made them, as seen from a branch; records are read only where it takes them."""

    def __init__(self, manifest: Manifest, branch: BranchState) -> None:
        self._manifest = manifest
        self._branch = branch
        self._merged_by: dict[tuple[str, str], str | None] = {}
        self._via: dict[str, Mapping[str, Any]] = {}

    @cached_property
    def _graph(self) -> CommitGraph:
        return CommitGraph(self._manifest, [self._branch])

    @cached_property
    def _lineage(self) -> BranchLineage:
        return BranchLineage.of(self._manifest, self._branch)

    def of(self, stop: Stop, table_key: str, id: str) -> dict[str, Any]:
        """Return the fields of an entry that say who made it."""
        commit = stop.commit
        shown: dict[str, Any] = {
            "graph_commit_id": commit.graph_commit_id,
            "branch": commit.branch,
            "actor_id": _actor(commit, table_key, id),
            "created_at": commit.created_us,
            "operation": commit.operation,
            "merged_by": self._merge_of(stop),
        }
        if stop.hidden is not None:
            shown["via"] = self._brought(stop)
        if stop.reclaimed:
            shown["reclaimed"] = {"after": stop.after}
        return shown

    def _merge_of(self, stop: Stop) -> str | None:
        if stop.merge is None or self._is_on_chain(stop.commit):
            return None
        key = (stop.merge.graph_commit_id, stop.commit.graph_commit_id)
        if key not in self._merged_by:
            self._merged_by[key] = bringing_merge(self._graph, stop.merge, stop.commit)
        return self._merged_by[key]

    def _is_on_chain(self, commit: GraphCommit) -> bool:
        """Whether a commit is surely on the first-parent chain of the branch."""
        if not self._lineage.has(commit):
            return False
        # `main` is never made again, so that its version numbers are enough.
        return commit.branch is None or is_published(self._manifest, commit) is True

    def _brought(self, stop: Stop) -> Mapping[str, Any]:
        """Return what the merged parent of a merge brought, from the records."""
        name, hidden = stop.commit.graph_commit_id, stop.hidden
        assert hidden is not None
        if name not in self._via:
            brought = brought_commits(self._graph, stop.commit)
            actors = {actor for one in brought for actor in one.actors if actor is not None}
            self._via[name] = {
                "graph_commit_id": hidden.graph_commit_id,
                "branch": hidden.branch,
                "actors": sorted(actors),
                "commits": len(brought),
            }
        return self._via[name]


def _actor(commit: GraphCommit, table_key: str, id: str) -> str | None:
    """Return who made a change: of a commit that several mutations share, the last one that names the id."""
    for member in reversed(commit.members):
        if id in member.get("ids", {}).get(table_key, ()):
            actor: str | None = member["actor_id"]
            return actor
    return commit.actor_id
