"""What a branch consists of: the commits made on it, and those its parents had made before it.

For example, a branch `y` made from `x` at version 9, which was made from `main` at version 5, has
the commits of `y`, those of `x` from version 6 to 9, and those of `main` up to version 5. Together
they are its first-parent chain.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.errors import BranchNotFound
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.manifest import BranchState, Manifest, branch_not_found
from omnigraph.manifest.rows import GraphCommit
from omnigraph.storage.tables.table_errors import TableMissing, VersionMissing


@dataclass(frozen=True, slots=True)
class Lineage:
    """The branches that a branch consists of, each with the versions that belong to it.

    ``versions`` has the version each was made from, and the last one that counts; None is no end.
    """

    versions: dict[str, tuple[int, int | None]]

    @classmethod
    def of(cls, manifest: Manifest, state: BranchState) -> Lineage:
        """Return the lineage of a branch, as the forks of the manifest tell it."""
        versions: dict[str, tuple[int, int | None]] = {}
        name, last = state.name, None
        while name != MAIN:
            made = manifest.branch(name)
            if made is None:
                raise branch_not_found(name)
            versions[name] = made.parent_version, last
            name, last = made.parent or MAIN, made.parent_version
        versions[MAIN] = 0, last
        return cls(versions)

    def has(self, commit: GraphCommit) -> bool:
        """Return whether a commit belongs to it, if its branch is the one that has its name today."""
        first, last = self.versions.get(commit.branch or MAIN, (None, None))
        if first is None:
            return False
        version = commit.manifest_version
        return version > first and (last is None or version <= last)


def is_published(manifest: Manifest, commit: GraphCommit) -> bool | None:
    """Return whether the live branch of its name has a commit; None if that cannot be read any more.

    A record may be that of a deleted branch whose name another one has now.
    """
    try:
        head = manifest.at_version(commit.branch or MAIN, commit.manifest_version)
    except (BranchNotFound, VersionMissing, TableMissing):
        return None
    return head.commit.graph_commit_id == commit.graph_commit_id
