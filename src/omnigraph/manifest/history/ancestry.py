r"""The commit graph over both parents: merge bases, ancestors, and records a branch lacks.

A criss-cross, for example, where both branches merged each other's first commit:

    G - A1 - A2      A2 merges B1, B2 merges A1
      \    X
        B1 - B2

A1 and B1 are common ancestors of A2 and B2, and neither is an ancestor of the other, so both are
merge bases. G is none, because it is an ancestor of A1.

All walks go from the greatest depth to the smallest: a parent is less deep than its child, so
when a commit is reached, everything below it in history has not been looked at yet, and all that
its descendants say about it is known.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from omnigraph.manifest.history.records import MAINTENANCE, BranchRecords, commit_not_found
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import GraphCommit


class CommitGraph:
    """The commits that several branches hold, read in pages as they are needed."""

    def __init__(self, manifest: Manifest, states: Iterable[BranchState]) -> None:
        self.manifest = manifest
        self._branches = [BranchRecords(manifest, state) for state in states]
        self._held_by: dict[str, BranchRecords] = {}
        self._records: dict[str, GraphCommit] = {}
        for branch in self._branches:
            self._keep(branch, branch.head)

    def add(self, state: BranchState) -> None:
        """Let the records of one more branch count."""
        self._branches.append(BranchRecords(self.manifest, state))
        self._keep(self._branches[-1], self._branches[-1].head)

    @property
    def states(self) -> list[BranchState]:
        """The states of the branches whose records count."""
        return [branch.state for branch in self._branches]

    def record(self, graph_commit_id: str) -> GraphCommit:
        """Return a record; raise ``CommitNotFound`` if none of the branches holds it."""
        known = self._records.get(graph_commit_id)
        if known is not None:
            return known
        for branch in self._branches:
            found = branch.find(graph_commit_id)
            if found is not None:
                return self._keep(branch, found)
        raise commit_not_found(graph_commit_id)

    def holds(self, graph_commit_id: str) -> bool:
        """Return whether one of the branches holds a commit."""
        return graph_commit_id in self._records or any(
            branch.find(graph_commit_id) is not None for branch in self._branches
        )

    def parents(self, commit: GraphCommit) -> tuple[GraphCommit, ...]:
        """Return the parents of a commit, the first one first."""
        if all(parent in self._records for parent in commit.parent_ids):
            return tuple(self._records[parent] for parent in commit.parent_ids)
        self.record(commit.graph_commit_id)
        branch = self._held_by[commit.graph_commit_id]
        return tuple(self._keep(branch, parent) for parent in branch.parents(commit))

    def counts_as(self, commit: GraphCommit) -> GraphCommit:
        """Return the commit itself, or what a maintenance commit was made on: it has that content."""
        while commit.operation in MAINTENANCE and commit.parent_commit_id is not None:
            commit = self.parents(commit)[0]
        return commit

    def ancestors(
        self, start: Iterable[GraphCommit], least_depth: int = 1
    ) -> Iterator[GraphCommit]:
        """Yield commits and all their ancestors once each, deepest first, down to a depth."""
        queue = _Deepest()
        for commit in start:
            queue.push(commit)
        for commit in queue.drain():
            if commit.depth < least_depth:
                return
            yield commit
            for parent in self.parents(commit):
                queue.push(parent)

    def _keep(self, branch: BranchRecords, commit: GraphCommit) -> GraphCommit:
        self._held_by.setdefault(commit.graph_commit_id, branch)
        return self._records.setdefault(commit.graph_commit_id, commit)


class _Deepest:
    """A queue that gives out each commit once, the deepest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self.waiting: dict[str, GraphCommit] = {}

    def push(self, commit: GraphCommit) -> None:
        """Add a commit, unless it waits already."""
        if commit.graph_commit_id not in self.waiting:
            self.waiting[commit.graph_commit_id] = commit
            heapq.heappush(self._heap, (-commit.depth, commit.graph_commit_id))

    def drain(self) -> Iterator[GraphCommit]:
        """Yield what waits, also what is added meanwhile, until nothing is left."""
        while self._heap:
            _, name = heapq.heappop(self._heap)
            yield self.waiting.pop(name)


@dataclass(slots=True)
class _Reached:
    """What is known of a commit on the way down: its distances to the heads that reach it."""

    left: int | None = None
    right: int | None = None
    below_base: bool = False
    """Whether it is a proper ancestor of a merge base."""

    def join(self, child: _Reached, *, below_base: bool) -> None:
        """Take over what a child of the commit was reached by."""
        self.left = _nearer(self.left, child.left)
        self.right = _nearer(self.right, child.right)
        self.below_base = self.below_base or below_base


def _nearer(known: int | None, child: int | None) -> int | None:
    if child is None:
        return known
    return child + 1 if known is None else min(known, child + 1)


def merge_bases(graph: CommitGraph, a: GraphCommit, b: GraphCommit) -> list[GraphCommit]:
    """Return the common ancestors of two commits that are no ancestors of another one, best first.

    The best one has the smallest sum of distances to both, then the greatest time, then the greatest
    id. A maintenance commit counts as its first parent: it is no base and no step.
    """
    queue = _Deepest()
    reached: dict[str, _Reached] = {}
    for head, start in ((a, "left"), (b, "right")):
        commit = graph.counts_as(graph.record(head.graph_commit_id))
        queue.push(commit)
        setattr(reached.setdefault(commit.graph_commit_id, _Reached()), start, 0)
    bases: list[tuple[int, GraphCommit]] = []
    for commit in queue.drain():
        here = reached[commit.graph_commit_id]
        is_base = here.left is not None and here.right is not None and not here.below_base
        if is_base:
            bases.append(((here.left or 0) + (here.right or 0), commit))
        for parent in map(graph.counts_as, graph.parents(commit)):
            queue.push(parent)
            known = reached.setdefault(parent.graph_commit_id, _Reached())
            known.join(here, below_base=is_base or here.below_base)
        if not _can_meet(reached[name] for name in queue.waiting):
            break
    bases.sort(key=lambda one: (one[1].created_us, one[1].graph_commit_id), reverse=True)
    return [commit for _, commit in sorted(bases, key=lambda one: one[0])]


def _can_meet(waiting: Iterable[_Reached]) -> bool:
    """Return whether another base can follow: both sides still have ways around the bases found."""
    left = right = False
    for one in waiting:
        if not one.below_base:
            left = left or one.left is not None
            right = right or one.right is not None
            if left and right:
                return True
    return False


def is_ancestor(graph: CommitGraph, graph_commit_id: str, of: str) -> bool:
    """Return whether a commit is another one or an ancestor of it, over both parents."""
    descendant = graph.record(of)
    if graph_commit_id == of:
        return True
    if not graph.holds(graph_commit_id):
        return False
    depth = graph.record(graph_commit_id).depth
    return any(
        commit.graph_commit_id == graph_commit_id
        for commit in graph.ancestors([descendant], least_depth=depth)
    )


def unknown_records(
    graph: CommitGraph, head: GraphCommit, state: BranchState
) -> tuple[GraphCommit, ...]:
    """Return the records of a commit and its ancestors that a branch does not hold yet, oldest first."""
    target = BranchRecords(graph.manifest, state)
    missing: list[GraphCommit] = []
    queue = _Deepest()
    queue.push(graph.record(head.graph_commit_id))
    for commit in queue.drain():
        if not target.holds(commit):
            missing.append(commit)
            for parent in graph.parents(commit):
                queue.push(parent)
    return tuple(reversed(missing))


def brought_commits(graph: CommitGraph, merge: GraphCommit) -> list[GraphCommit]:
    """Return what a merge brought: the ancestors of its merged parent that its first parent lacks."""
    first, merged = graph.parents(merge)
    queue = _Deepest()
    known = {first.graph_commit_id}
    found = []
    queue.push(first)
    queue.push(merged)
    for commit in queue.drain():
        is_known = commit.graph_commit_id in known
        if not is_known:
            found.append(commit)
        for parent in graph.parents(commit):
            queue.push(parent)
            if is_known:
                known.add(parent.graph_commit_id)
        if queue.waiting.keys() <= known:
            break
    return found


def bringing_merge(graph: CommitGraph, merge: GraphCommit, commit: GraphCommit) -> str | None:
    """Return the oldest merge through which a commit came, of those on the first-parent chain of one.

    The commit is an ancestor of ``merge``. None: it is on that chain itself.
    """
    queue = _Deepest()
    queue.push(merge)
    chain = {merge.graph_commit_id}
    oldest: dict[str, tuple[int, str]] = {}
    for one in queue.drain():
        name = one.graph_commit_id
        if name == commit.graph_commit_id or one.depth < commit.depth:
            break
        reached = (one.depth, name) if name in chain else oldest[name]
        for at, parent in enumerate(graph.parents(one)):
            queue.push(parent)
            if at == 0 and name in chain:
                chain.add(parent.graph_commit_id)
            else:
                known = oldest.get(parent.graph_commit_id, reached)
                oldest[parent.graph_commit_id] = min(known, reached)
    name = commit.graph_commit_id
    return None if name in chain else oldest[name][1]
