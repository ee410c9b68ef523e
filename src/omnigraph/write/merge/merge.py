"""Merge one branch into another, or undo a commit: one commit with two parents, or nothing.

1. Finish what dead writers left, and pin both heads. What happens on the source afterwards is not
   merged; a commit on the target, maintenance aside, ends the merge without effect.
2. Find the base in the commit graph. The outcome follows from the heads alone.
3. Compare and decide (``three_way.py``), then publish (``operation.py``).

A revert is a three-way merge from a commit back to its first parent. For example, a commit that renamed "Ann"
to "Anna" is undone by the change from "Anna" to "Ann", which is brought into the head of the branch; if the head
has another name by now, that is a conflict. The commit stays in the history, and the revert is a commit of its
own, which can be reverted too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from omnigraph.commit.heal import refuse_rollbacks
from omnigraph.commit.replays import run_once
from omnigraph.errors import BadRequest, NoParent, OmniGraphError
from omnigraph.lang.schema.merge.resolution_words import Words
from omnigraph.manifest.branch_names import MAIN, check_branch_name, trim_branch_name
from omnigraph.manifest.history.ancestry import (
    CommitGraph,
    is_ancestor,
    merge_bases,
    unknown_records,
)
from omnigraph.manifest.history.equal_content import readable_snapshot
from omnigraph.manifest.history.records import find_commit
from omnigraph.manifest.manifest import BranchPin, BranchState
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.write.branches import delete_branch as delete_source
from omnigraph.write.merge.operation import MergeRun, run_until_planned
from omnigraph.write.merge.request import MergeOptions, MergeResult, Outcome
from omnigraph.write.merge.three_way import Plan


def merge_branches(
    workspace: Workspace,
    source: object,
    target: object,
    options: MergeOptions,
    *,
    delete_branch: Callable[[], object] | None = None,
) -> MergeResult:
    """Bring what the source changed since the common base into the target.

    With ``delete_branch`` the source is deleted afterwards, if that function raises no error. If it
    does, or the branch cannot be deleted, the result says so. A merge whose operation id is known is not
    repeated; the first answer is returned again.
    """
    theirs, ours = _branch(source), _branch(target)
    if theirs == ours:
        raise BadRequest(f"branch `{ours}` cannot be merged into itself; name two branches")
    if options.dry_run and delete_branch is not None:
        raise BadRequest("a dry run deletes no branch; leave out delete_branch or dry_run")
    merged: list[BranchPin] = []

    def make() -> _Merge:
        return _Merge(workspace, options, tuple(map(workspace.manifest.state, (ours, theirs))))

    def run(merge: _Merge) -> MergeResult:
        merged.append(merge.source.pin)
        return merge.run()

    def planned() -> MergeResult:
        refuse_rollbacks(workspace, (theirs, ours), read_only=options.dry_run)
        return run_until_planned(make, run)

    asked = options.asked("merge")
    result = run_once(workspace, [ours], asked, planned, MergeResult.replay)
    if delete_branch is None:
        return result
    if result.replayed:
        return _found(workspace, result)
    return _delete(workspace, merged[-1], result, delete_branch)


def _branch(name: object) -> str:
    text = trim_branch_name(name)
    return text if text == MAIN else check_branch_name(text)


def _delete(
    workspace: Workspace, merged: BranchPin, result: MergeResult, may_delete: Callable[[], object]
) -> MergeResult:
    """Delete the merged branch. The merge is done, so a refusal is only reported."""
    try:
        may_delete()
        delete_source(workspace, merged.name, merged)
    except OmniGraphError as error:
        return replace(result, branch_deleted=False, branch_delete_error=str(error))
    return replace(result, branch_deleted=True)


def _found(workspace: Workspace, result: MergeResult) -> MergeResult:
    """Say whether the branch of a merge that was made before is gone; nothing is deleted any more."""
    if result.source is None or workspace.manifest.branch(result.source) is None:
        return replace(result, branch_deleted=True)
    left = (
        f"branch `{result.source}` is still there: the merge was made before, and to repeat it deletes "
        "nothing; delete the branch by itself"
    )
    return replace(result, branch_deleted=False, branch_delete_error=left)


class _Merge(MergeRun):
    """One merge of two pinned heads."""

    def run(self) -> MergeResult:
        """Merge, or say in a dry run what a merge would do."""
        self.check_head()
        theirs, ours = self.source.head.commit, self.target.head.commit
        plan = Plan()
        with self.meter.running():
            graph = CommitGraph(self.workspace.manifest, self.pinned)
            base = merge_bases(graph, theirs, ours)[0]
            outcome = self._outcome(graph, base)
            self._refuse_idle_resolutions(outcome)
            if outcome == "already_up_to_date":
                Words(self.options.resolve_schema).refuse_unused()
            else:
                before = readable_snapshot(self.workspace, graph, base, [theirs, ours])
                after = Snapshot.of(self.source.name, self.source.head)
                # The result of a fast-forward is the source, which keeps all rules.
                plan = self.plan(before, after, self.source.name, checks=outcome == "merged")
            told = self.result(outcome, base, theirs, plan, source=self.source.name)
            return told if outcome == "already_up_to_date" else self._commit(graph, plan, told)

    @property
    def source(self) -> BranchState:
        """The branch that is merged."""
        return self.pinned[1]

    def _outcome(self, graph: CommitGraph, base: GraphCommit) -> Outcome:
        """Return what the heads say; maintenance on either side does not count."""
        if base == graph.counts_as(self.source.head.commit):
            return "already_up_to_date"
        if base == graph.counts_as(self.target.head.commit):
            return "fast_forward"
        return "merged"

    def _refuse_idle_resolutions(self, outcome: Outcome) -> None:
        if outcome != "merged" and self.resolutions().named:
            raise BadRequest(
                f"there is nothing to resolve: the merge of `{self.source.name}` into "
                f"`{self.target.name}` is {outcome}; leave out resolve"
            )

    def _commit(self, graph: CommitGraph, plan: Plan, told: MergeResult) -> MergeResult:
        theirs = self.source.head.commit
        facts = {
            "outcome": told.outcome,
            "base_commit_id": told.base_commit_id,
            "granularity": self.options.granularity,
            "resolved": plan.resolved,
            **plan.resolved_schema(),
        }
        return self.commit(
            plan,
            "branch_merge",
            f"the merge of `{self.source.name}` into `{self.target.name}`",
            {"merge": facts},
            told,
            theirs.graph_commit_id,
            unknown_records(graph, theirs, self.target),
        )


def revert_commit(
    workspace: Workspace,
    graph_commit_id: object,
    branch: object,
    options: MergeOptions,
    may_know: Callable[[str], object],
) -> MergeResult:
    """Undo one commit on a branch as a new commit, or change nothing.

    A revert whose operation id is known is not repeated; the first answer is returned again. ``may_know`` is asked
    before a commit of other branches is said to exist, and raises if it must not be.
    """
    name = trim_branch_name(branch)
    if not isinstance(graph_commit_id, str):
        raise BadRequest(f"a commit is named by its id, a text, not by {graph_commit_id!r}")
    wanted = graph_commit_id.strip()

    def run() -> MergeResult:
        refuse_rollbacks(workspace, {name}, read_only=options.dry_run)
        return run_until_planned(
            lambda: _Revert(workspace, options, (workspace.manifest.state(name),)),
            lambda revert: revert.run(wanted, may_know),
        )

    return run_once(workspace, [name], options.asked("revert"), run, MergeResult.replay)


class _Revert(MergeRun):
    """One revert on a pinned head."""

    def run(self, wanted: str, may_know: Callable[[str], object]) -> MergeResult:
        """Revert, or say in a dry run what a revert would do."""
        self.check_head()
        with self.meter.running():
            graph = CommitGraph(self.workspace.manifest, self.pinned)
            undone = self._undone(graph, wanted, may_know)
            parent = graph.parents(undone)[0]
            states = self._states(graph, undone, parent)
            plan = self.plan(*states, f"the state before {wanted}", checks=True, undone=wanted)
            effects = plan.tables or plan.conflicts or plan.changes_schema
            outcome: Outcome = "reverted" if effects else "nothing_to_revert"
            told = self.result(outcome, undone, parent, plan, reverted=wanted)
            if outcome == "nothing_to_revert":
                return told
            facts = {"of": wanted, "resolved": plan.resolved, **plan.resolved_schema()}
            what = f"the revert of `{wanted}` on `{self.target.name}`"
            return self.commit(plan, "revert", what, {"revert": facts}, told)

    def _undone(
        self, graph: CommitGraph, wanted: str, may_know: Callable[[str], object]
    ) -> GraphCommit:
        """Return the commit to undo; refuse one that the branch does not rest on, and the first one."""
        head_id = self.target.head.commit.graph_commit_id
        if not graph.holds(wanted) or not is_ancestor(graph, wanted, head_id):
            found = find_commit(self.workspace.manifest, wanted)
            may_know(wanted)
            raise BadRequest(
                f"commit `{found.graph_commit_id}` is not in the history of branch "
                f"`{self.target.name}`, so there is nothing of it to undo; list the commits of the branch",
                graph_commit_id=found.graph_commit_id,
                branch=self.target.name,
            )
        undone = graph.record(wanted)
        if undone.parent_commit_id is None:
            raise NoParent(
                f"commit `{wanted}` is the first one and has no parent to go back to; choose a later one",
                graph_commit_id=wanted,
            )
        return undone

    def _states(
        self, graph: CommitGraph, undone: GraphCommit, parent: GraphCommit
    ) -> tuple[Snapshot, Snapshot]:
        """Return the contents of the commit and of its parent."""
        heads = [self.target.head.commit]
        base = readable_snapshot(self.workspace, graph, undone, heads)
        return base, readable_snapshot(self.workspace, graph, parent, heads)
