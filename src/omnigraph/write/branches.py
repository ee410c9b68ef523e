"""Create and delete graph branches, under the graph lock.

Deleting one that is still needed is refused, by these rules in their order:

1. Another branch was made from it, or has tables that are forks of it.
2. Two other branches have a merge base whose content could then no longer be read.
3. A tag names one of its commits.
4. A running export reads one of its table forks.

For the second rule, take `a` merged into both `main` and `c`: the newest common ancestor of `main`
and `c` is then a commit of `a`, and merging `c` into `main` has to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, takewhile

from omnigraph.cancel import shielded
from omnigraph.clock import now_us
from omnigraph.commit.drift import HealFirst
from omnigraph.commit.heal import heal, run_healing
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.errors import BranchInUse, Contention, HistoryReclaimed
from omnigraph.manifest import refs
from omnigraph.manifest.branch_names import MAIN, check_branch_name
from omnigraph.manifest.history.ancestry import CommitGraph, merge_bases
from omnigraph.manifest.history.equal_content import (
    is_readable,
    is_same_content,
    origin_of,
    read_commit,
    readable_snapshot,
)
from omnigraph.manifest.history.records import BranchRecords, first_parents
from omnigraph.manifest.history.registrations import registered_alone
from omnigraph.manifest.history.resolve import resolve
from omnigraph.manifest.history.tags import list_tags
from omnigraph.manifest.lost_races import branch_remade
from omnigraph.manifest.manifest import BranchPin, BranchState, Manifest
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.snapshot import Target
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.locks.read_leases import live_leases
from omnigraph.storage.locks.waiting import Patience, Purpose


def refuse_needed(workspace: Workspace, branch: str) -> None:
    """Refuse to delete a branch that is needed. The caller holds the graph lock."""
    manifest = workspace.manifest
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
    """Refuse while a live read lease names a table fork of the branch, or a table that only it has."""
    leases = list(live_leases(workspace.store, now_us()))
    if not leases:
        return
    own = {one.location for one in registered_alone(workspace.manifest, doomed)}
    forks = {
        table.table_branch_id
        for table in doomed.head.tables.values()
        if table.table_branch == doomed.name
    }
    for lease in leases:
        if any(table.table_branch_id in forks or table.location in own for table in lease.tables):
            raise Contention(
                f"a running {lease.operation} reads branch `{doomed.name}`; try again when it has ended",
                attempts=1,
                lease=lease.id,
            )


def create_branch(workspace: Workspace, name: str, source: Target) -> refs.BranchCreated:
    """Make a branch at the head of another one, or at the commit that a past target names.

    No data is copied and no commit is made. At a past commit the branch descends from the branch on
    which that commit was made.
    """
    if source.names_a_head:
        return fork_head(workspace, name, source.branch or MAIN)
    return _forked(workspace, name, lambda: _past_version(workspace, source))


def fork_head(workspace: Workspace, name: str, parent: str) -> refs.BranchCreated:
    """Make a branch at the head of another one."""
    return _forked(workspace, name, lambda: (parent, None))


def _forked(
    workspace: Workspace, name: str, find: Callable[[], tuple[str, int | None]]
) -> refs.BranchCreated:
    """Make a branch of the branch and at the version that ``find`` gives under the graph lock; None: its newest."""
    branch = check_branch_name(name)
    # A dead writer may have left an operation on an earlier branch of that name; recovery discards it.
    heal(workspace)

    def fork() -> refs.BranchCreated:
        with _take_graph_lock(workspace, "branch_create", Patience()):
            _refuse_unsettled(workspace, branch)
            parent, version = find()
            with shielded():
                return refs.create_ref(workspace.manifest, branch, parent, version)

    return run_healing(workspace, fork)


def _past_version(workspace: Workspace, source: Target) -> tuple[str, int]:
    """Return where the commit of a past target is; refuse one that is not readable."""
    snapshot = resolve(workspace.manifest, source)
    commit = snapshot.commit
    read_commit(workspace, commit)
    return commit.branch or MAIN, commit.manifest_version


def delete_branch(workspace: Workspace, name: str, merged: BranchPin | None = None) -> None:
    """Delete a branch and its commits, while no writer is between its checks and its publish.

    ``merged`` is the branch as a merge brought it into another one: if it is another branch by now, or
    has commits since, it stays.
    """
    branch, patience = check_branch_name(name), Patience()
    with (
        _take_graph_lock(workspace, "branch_delete", patience),
        _lock_out_writers(workspace, branch, patience),
    ):
        if merged is not None:
            _refuse_unmerged(workspace, merged)
        refuse_needed(workspace, branch)
        with shielded():
            refs.delete_ref(workspace.manifest, branch)


def _refuse_unmerged(workspace: Workspace, merged: BranchPin) -> None:
    """Refuse to delete what was written to a branch after it was merged."""
    state = workspace.manifest.state(merged.name)
    if state.identifier != merged.identifier:
        raise branch_remade(merged.name)
    if not is_same_content(workspace.manifest, state, merged.head_commit_id):
        raise BranchInUse(
            f"branch `{merged.name}` has commits that came after the merge, so it was not deleted; merge "
            "it again",
            branch=merged.name,
            by=merged.name,
        )


def discard_branch(workspace: Workspace, made: refs.BranchCreated) -> bool:
    """Delete a branch that its creator no longer needs; return False if others have written to it.

    A branch with a pending sidecar stays as well, because its operation is left to recovery.
    """
    name, patience = made.name, Patience()
    with (
        _take_graph_lock(workspace, "branch_delete", patience),
        _lock_out_writers(workspace, name, patience),
    ):
        state = workspace.manifest.state(name)
        pending = list_sidecars(workspace, state.head.graph_id)
        moved = state.head.commit.graph_commit_id != made.head_commit_id
        if (
            state.identifier != made.identifier
            or moved
            or any(one.branch == name for one in pending)
        ):
            return False
        refuse_needed(workspace, name)
        with shielded():
            refs.delete_ref(workspace.manifest, name)
        return True


def _lock_out_writers(workspace: Workspace, branch: str, patience: Patience) -> HeldLocks:
    """Take the head lock and every table lock of a branch.

    The caller holds the graph lock, so the branch cannot be replaced meanwhile.
    """
    tables = workspace.manifest.state(branch).head.tables.values()
    names = [workspace.lock_name(table.location, branch) for table in tables]
    purpose = Purpose("branch_delete")
    return workspace.locks.acquire([workspace.locks.head_lock(branch), *names], patience, purpose)


def _refuse_unsettled(workspace: Workspace, name: str) -> None:
    """Refuse a name for which an operation is still pending on an earlier branch.

    Otherwise that operation could be published to the new branch. A schema apply whose process died
    comes first: a branch made now would keep the schema before it.
    """
    if workspace.manifest.branch(name) is not None:
        return
    for sidecar in list_sidecars(workspace, workspace.manifest.state(MAIN).head.graph_id):
        if sidecar.writer == "schema_apply":
            raise HealFirst(sidecar.operation_id)
        if sidecar.branch == name:
            raise Contention(
                f"an operation on the earlier branch `{name}` is not settled yet; try again, or "
                "reopen the graph read-write",
                attempts=1,
                operation_id=sidecar.operation_id,
            )


def _take_graph_lock(workspace: Workspace, operation: str, patience: Patience) -> HeldLocks:
    """Take the graph lock. That there is a graph is checked first, because taking a lock writes to the store."""
    workspace.manifest.state(MAIN)
    return workspace.locks.acquire(workspace.locks.graph_lock(), patience, Purpose(operation))
