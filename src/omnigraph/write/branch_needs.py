"""Whether a branch is still needed: the rules under which deleting it is refused, in their order.

1. Another branch was made from it, or has tables that are forks of it.
2. Two other branches have a merge base whose content could then no longer be read.
3. A tag names one of its commits.
4. A running export reads one of its table forks.

For the second rule, take `a` merged into both `main` and `c`: the newest common ancestor of `main`
and `c` is then a commit of `a`, and merging `c` into `main` has to read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, takewhile

from omnigraph.clock import now_us
from omnigraph.errors import BranchInUse, Contention, HistoryReclaimed
from omnigraph.manifest import refs
from omnigraph.manifest.branch_names import check_branch_name
from omnigraph.manifest.history.ancestry import CommitGraph, merge_bases
from omnigraph.manifest.history.equal_content import is_readable, origin_of, readable_snapshot
from omnigraph.manifest.history.records import BranchRecords, first_parents
from omnigraph.manifest.history.tags import list_tags
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.read_leases import live_leases


def refuse_needed(workspace: Workspace, name: str) -> None:
    """Refuse to delete a branch that is needed. The caller holds the graph lock."""
    manifest = workspace.manifest
    branch = check_branch_name(name)
    state = manifest.state(branch)
    # Every branch is read once, because any of them may need this one.
    others = [manifest.state(other) for other in refs.list_refs(manifest) if other != branch]
    refs.refuse_dependents(branch, others)
    for other in _bases_lost(workspace, state, others):
        raise BranchInUse(
            f"branch `{branch}` is still needed to merge branch `{other}`, which shares a commit of it "
            "with another branch; merge or delete that one first",
            branch=branch,
            by=other,
        )
    _refuse_tagged(manifest, state)
    _refuse_leased(workspace, state)


def _bases_lost(
    workspace: Workspace, doomed: BranchState, others: Sequence[BranchState]
) -> Iterator[str]:
    """Yield the second branch of every pair that would lose the content of a merge base.

    A merge base is lost if its content was committed on this branch and no other commit of equal
    content can be read. Only branches that hold commits of this one can have such a base.
    """
    manifest = workspace.manifest
    if len(others) < 2:
        return
    graph = CommitGraph(manifest, [*others, doomed])
    origins = _origins(workspace, graph, doomed)
    holders = _holders(manifest, others, list(origins.values()), doomed.name)
    lost: dict[str, bool] = {}
    for first, second in combinations(holders, 2):
        heads = first.head.commit, second.head.commit
        for base in merge_bases(graph, *heads):
            origin = origin_of(graph, base).graph_commit_id
            if origin in origins and origin not in lost:
                lost[origin] = not _survives(workspace, graph, base, doomed.name)
            if lost.get(origin):
                yield second.name


def _origins(
    workspace: Workspace, graph: CommitGraph, doomed: BranchState
) -> dict[str, GraphCommit]:
    """Return the commits from which those of a branch have their content, by id, newest first.

    Most are commits of the branch itself. One that it took over unchanged from another branch counts
    only if it cannot be read there any more.
    """
    records = BranchRecords(graph.manifest, doomed)
    own = takewhile(
        lambda commit: commit.branch == doomed.name, first_parents(records, records.head)
    )
    found = {}
    for commit in own:
        origin = origin_of(graph, commit)
        if origin.branch == doomed.name or not is_readable(workspace, origin):
            found[origin.graph_commit_id] = origin
    return found


def _holders(
    manifest: Manifest, others: Iterable[BranchState], origins: Sequence[GraphCommit], name: str
) -> Iterator[BranchState]:
    """Yield the branches that hold one of these commits, of which most were made on branch ``name``."""
    # Those made on one branch are a chain: who holds any of them holds the first.
    own = [commit for commit in origins if commit.branch == name]
    wanted = [*own[-1:], *(commit for commit in origins if commit.branch != name)]
    known: dict[str, bool] = {}
    for state in others:
        head = state.head.commit
        if head.graph_commit_id not in known:
            known[head.graph_commit_id] = any(
                _may_descend(head, commit)
                and manifest.commit(state, commit.graph_commit_id) is not None
                for commit in wanted
            )
        if known[head.graph_commit_id]:
            yield state


def _may_descend(head: GraphCommit, commit: GraphCommit) -> bool:
    """Return whether a commit can be an ancestor of a head; a depth of 0 says nothing."""
    return head.depth == 0 or head.depth >= commit.depth


def _survives(workspace: Workspace, graph: CommitGraph, base: GraphCommit, without: str) -> bool:
    """Return whether the content of a commit can be read without a branch."""
    try:
        readable_snapshot(workspace, graph, base, without=without)
    except HistoryReclaimed:
        return False
    return True


def _refuse_tagged(manifest: Manifest, doomed: BranchState) -> None:
    for tag in list_tags(manifest):
        if (tag.branch, tag.branch_id) == (doomed.name, doomed.identifier):
            raise BranchInUse(
                f"tag `{tag.name}` names commit {tag.graph_commit_id} of branch `{doomed.name}`; "
                "delete the tag first",
                branch=doomed.name,
                by=f"tag:{tag.name}",
            )


def _refuse_leased(workspace: Workspace, doomed: BranchState) -> None:
    """Refuse while a live read lease names a table fork of the branch."""
    forks = {
        table.table_branch_id
        for table in doomed.head.tables.values()
        if table.table_branch == doomed.name
    }
    for lease in live_leases(workspace.store, now_us()):
        if any(table.table_branch_id in forks for table in lease.tables):
            raise Contention(
                f"a running {lease.operation} reads branch `{doomed.name}`; try again when it has ended",
                attempts=1,
                lease=lease.id,
            )
