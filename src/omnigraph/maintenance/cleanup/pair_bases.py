r"""What merging any two branches into each other would read, for hundreds of branches.

Most branches are a few commits of their own on a commit that others have too, their stem. Whatever two
branches have in common lies below their stems, so all pairs with the same two stems have the same merge
bases, and each is looked for once:

    main   G - M1 - M2 - M3      stems: M3 of main, M1 of a and b, M2 of c
                \     \
    a, b         A, B   C        so (a, c) and (b, c) are the pair (M1, M2)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from omnigraph.errors import HistoryReclaimed
from omnigraph.manifest.history.ancestry import CommitGraph, merge_bases
from omnigraph.manifest.history.equal_content import CommitReader, readable_snapshot
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace

logger = logging.getLogger(__name__)


def pair_bases(
    workspace: Workspace, states: Mapping[str, BranchState]
) -> Iterator[tuple[str, tuple[Snapshot, ...]]]:
    """Yield for every pair of branches `a..b` the states that merging one into the other would read."""
    graph = CommitGraph(workspace.manifest, states.values())
    heads = {
        name: graph.record(state.head.commit.graph_commit_id) for name, state in states.items()
    }
    stems = Stems(graph, heads.values())
    reader = CommitReader(workspace, graph)
    bases: dict[frozenset[str], list[GraphCommit]] = {}
    shared: dict[tuple[frozenset[str], str], Snapshot] = {}
    for first, second in combinations(states, 2):
        pair = heads[first], heads[second]
        # Two branches at one commit have that one in common.
        below = pair if pair[0] == pair[1] else (stems.of(pair[0]), stems.of(pair[1]))
        key = frozenset(stem.graph_commit_id for stem in below)
        if key not in bases:
            bases[key] = merge_bases(graph, *below)
        found = []
        for base in bases[key]:
            known = shared.get((key, base.graph_commit_id))
            if known is not None:
                found.append(known)
                continue
            try:
                read = readable_snapshot(workspace, graph, base, pair, reader=reader)
            except HistoryReclaimed as error:
                logger.warning("%s and %s have lost a merge base: %s", first, second, error)
                continue
            found.append(read)
            # A commit that stands in for the base may be of one of these two branches alone.
            if stems.are_above(read.commit, *pair):
                shared[key, base.graph_commit_id] = read
        yield f"{first}..{second}", tuple(found)


class Stems:
    """Which of some heads reach a commit, as far down as that differs."""

    def __init__(self, graph: CommitGraph, heads: Iterable[GraphCommit]) -> None:
        self._graph = graph
        distinct = {head.graph_commit_id: head for head in heads}
        self._bits = {name: 1 << at for at, name in enumerate(distinct)}
        self._all = (1 << len(distinct)) - 1
        self._reached_by = self._walk(distinct.values())
        self._known: dict[str, GraphCommit] = {}

    def _walk(self, heads: Iterable[GraphCommit]) -> dict[str, int]:
        reached = dict(self._bits)
        waiting = set(self._bits)
        for commit in self._graph.ancestors(heads):
            name = commit.graph_commit_id
            waiting.discard(name)
            for parent in commit.parent_ids:
                reached[parent] = reached.get(parent, 0) | reached[name]
                waiting.add(parent)
            if reached[name] == self._all and all(reached[one] == self._all for one in waiting):
                break
        return reached

    def of(self, head: GraphCommit) -> GraphCommit:
        """Return the newest commit below a head, or the head, that another head reaches or that merges.

        The commits above it are the head's alone, one after the other.
        """
        name = head.graph_commit_id
        if name not in self._known:
            commit = head
            while self._reaching(commit) == self._bits[name] and len(commit.parent_ids) == 1:
                commit = self._graph.parents(commit)[0]
            self._known[name] = commit
        return self._known[name]

    def are_above(self, commit: GraphCommit, *heads: GraphCommit) -> bool:
        """Return whether all these heads reach a commit."""
        reaching = self._reaching(commit)
        return all(self._bits[head.graph_commit_id] & reaching for head in heads)

    def _reaching(self, commit: GraphCommit) -> int:
        # What lies below the walk is below a commit that all heads reach.
        return self._reached_by.get(commit.graph_commit_id, self._all)
