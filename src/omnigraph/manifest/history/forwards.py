r"""The first-parent chain of a branch from an old commit towards the head, without reading all of it.

Records know their parents, not their children. So the records of a range of depths are read at a
time, and the next commit is the one whose first parent is the last. A branch may hold several such
records, because merges bring in those of other branches:

    main   A - B - - - M     after A comes B: it was made on `main`; C was made on `side`,
            \        /       which `main` does not descend from
    side      C - - -

A branch consists of the commits made on it since it was made, before those the commits of its parent
up to that point, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.manifest.history.records import (
    PAGE,
    BranchLineage,
    BranchRecords,
    commit_not_found,
    first_parents,
    is_published,
)
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import GraphCommit


class Forwards:
    """The commits of a branch in the order they were made."""

    def __init__(self, manifest: Manifest, state: BranchState) -> None:
        self._manifest = manifest
        self._state = state
        self._lineage = BranchLineage.of(manifest, state)

    def first(self) -> GraphCommit:
        """Return genesis, with which every history begins."""
        if self._state.head.commit.depth == 0:
            return self._walked()[0]
        found = self._manifest.commits(self._state, (1, 1)).values()
        return next(commit for commit in found if commit.parent_commit_id is None)

    def find(self, graph_commit_id: str) -> GraphCommit | None:
        """Return a commit of the first-parent chain; None if it is not in it."""
        found = self._manifest.commit(self._state, graph_commit_id)
        if found is None or not self._lineage.has(found):
            return None
        if found.depth and is_published(self._manifest, found):
            return found
        # It cannot be read any more, or was made on a deleted branch of that name.
        return next((one for one in self._walk() if one.graph_commit_id == graph_commit_id), None)

    def after(self, start: GraphCommit) -> Iterator[GraphCommit]:
        """Yield the commits after one of the chain, oldest first."""
        head = self._state.head.commit
        if head.depth == 0:
            chain = self._walked()
            yield from chain[
                [one.graph_commit_id for one in chain].index(start.graph_commit_id) + 1 :
            ]
            return
        current, low = start, start.depth + 1
        children: dict[str | None, list[GraphCommit]] = {}
        while current.graph_commit_id != head.graph_commit_id:
            found = children.get(current.graph_commit_id)
            if found is None and low <= head.depth:
                children, low = self._page(low), low + PAGE
                continue
            current = self._child_of(current, found or [])
            yield current

    def _page(self, low: int) -> dict[str | None, list[GraphCommit]]:
        """Return records of the branch and those it descends from, by their first parents."""
        children: dict[str | None, list[GraphCommit]] = {}
        for commit in self._manifest.commits(self._state, (low, low + PAGE - 1)).values():
            if self._lineage.has(commit):
                children.setdefault(commit.parent_commit_id, []).append(commit)
        return children

    def _child_of(self, parent: GraphCommit, found: list[GraphCommit]) -> GraphCommit:
        """Return the record that the chain goes on with.

        Others may have been made on a branch that had the same name, was merged, and was deleted.
        """
        if len(found) > 1:
            found = [commit for commit in found if is_published(self._manifest, commit)]
        if len(found) == 1:
            return found[0]
        for commit in self._walk():
            if commit.parent_commit_id == parent.graph_commit_id:
                return commit
        raise commit_not_found(parent.graph_commit_id)

    def _walk(self) -> Iterator[GraphCommit]:
        """Yield the whole chain, newest first."""
        records = BranchRecords(self._manifest, self._state)
        return first_parents(records, records.head)

    def _walked(self) -> list[GraphCommit]:
        return list(self._walk())[::-1]
