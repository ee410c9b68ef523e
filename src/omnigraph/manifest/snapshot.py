"""Snapshots: immutable maps from table key to table state, and the targets that name them.

For example, ``Target.of(branch="review", version=12)`` names one version of a branch;
``manifest.history.resolve`` turns it into a ``Snapshot`` whose tables are ``{"node:Person": version
8 on table branch "review", "edge:Knows": version 3 on the main lineage}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import BadRequest
from omnigraph.manifest.branch_names import MAIN, trim_branch_name
from omnigraph.manifest.rows import GraphCommit, Head, TableState


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a read needs to stay on one state of the graph from start to end."""

    branch: str
    graph_id: str
    ir_hash: str
    commit: GraphCommit
    tables: Mapping[str, TableState]

    @property
    def graph_commit_id(self) -> str:
        """The id of this snapshot: that of its head commit."""
        return self.commit.graph_commit_id

    @property
    def manifest_version(self) -> int:
        """The version of the head commit on the branch where it was made."""
        return self.commit.manifest_version

    @classmethod
    def of(cls, branch: str, head: Head) -> Snapshot:
        """Return the snapshot that a head row describes."""
        return cls(branch, head.graph_id, head.ir_hash, head.commit, head.tables)

    def to_json(self) -> dict[str, Any]:
        """Return the public form, with tables ordered by key."""
        return {
            "graph_commit_id": self.graph_commit_id,
            "branch": self.branch,
            "manifest_version": self.manifest_version,
            "tables": [self.tables[key].to_json() for key in sorted(self.tables)],
        }


@dataclass(frozen=True, slots=True)
class Target:
    """What a read looks at: a branch head, a commit id, or a version of a branch."""

    branch: str | None = None
    snapshot: str | None = None
    version: int | None = None

    @classmethod
    def of(cls, branch: object = None, snapshot: object = None, version: object = None) -> Target:
        """Return a checked target; without arguments, the head of `main`."""
        if snapshot is not None:
            if branch is not None or version is not None:
                raise BadRequest("give a snapshot alone, or a branch with an optional version")
            if not isinstance(snapshot, str):
                raise BadRequest("a snapshot is named by its commit id, a text")
            return cls(snapshot=snapshot.strip())
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise BadRequest("a version is a whole number")
        return cls(branch=MAIN if branch is None else trim_branch_name(branch), version=version)

    @property
    def names_a_head(self) -> bool:
        """Whether this target means the newest commit of a branch at the time of the read."""
        return self.snapshot is None and self.version is None

    def to_json(self) -> dict[str, Any]:
        """Return the public form; a version appears only if one was given."""
        named: dict[str, Any] = {"branch": self.branch, "snapshot": self.snapshot}
        return named if self.version is None else {**named, "version": self.version}

    def __str__(self) -> str:
        if self.snapshot is not None:
            return f"snapshot {self.snapshot}"
        at = "" if self.version is None else f" at version {self.version}"
        return f"branch {self.branch}{at}"
