"""Undo one commit on a branch: a three-way merge from that commit back to its first parent.

For example, a commit that renamed "Ann" to "Anna" is undone by the change from "Anna" to "Ann", which is
brought into the head of the branch; if the head has another name by now, that is a conflict. The commit
stays in the history, and the revert is a commit of its own, which can be reverted too.
"""

from __future__ import annotations

from omnigraph.commit.heal import refuse_rollbacks
from omnigraph.commit.replays import run_once
from omnigraph.errors import BadRequest, NoParent, SchemaBoundary
from omnigraph.manifest.branch_names import trim_branch_name
from omnigraph.manifest.history.ancestry import CommitGraph, is_ancestor
from omnigraph.manifest.history.equal_content import readable_snapshot
from omnigraph.manifest.history.records import find_commit
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.write.merge.operation import Operation, run_until_planned
from omnigraph.write.merge.request import MergeOptions, MergeResult, Outcome


def revert_commit(
    workspace: Workspace, graph_commit_id: object, branch: object, options: MergeOptions
) -> MergeResult:
    """Undo one commit on a branch as a new commit, or change nothing.

    A revert whose operation id is known is not repeated; the first answer is returned again.
    """
    name = trim_branch_name(branch)
    if not isinstance(graph_commit_id, str):
        raise BadRequest(f"a commit is named by its id, a text, not by {graph_commit_id!r}")
    wanted = graph_commit_id.strip()

    def run() -> MergeResult:
        refuse_rollbacks(workspace, {name}, read_only=options.dry_run)
        return run_until_planned(
            lambda: _Revert(workspace, options, (workspace.manifest.state(name),)),
            lambda revert: revert.run(wanted),
        )

    return run_once(workspace, [name], options.asked("revert"), run, MergeResult.replay)


class _Revert(Operation):
    """One revert on a pinned head."""

    def run(self, wanted: str) -> MergeResult:
        """Revert, or say in a dry run what a revert would do."""
        with self.meter.running():
            graph = CommitGraph(self.workspace.manifest, self.pinned)
            undone = self._undone(graph, wanted)
            parent = graph.parents(undone)[0]
            plan = self.plan(*self._states(graph, undone, parent), checks=True)
            outcome: Outcome = "reverted" if plan.tables or plan.conflicts else "nothing_to_revert"
            told = self.result(outcome, undone, parent, plan, reverted=wanted)
            if outcome == "nothing_to_revert":
                return told
            facts = {"of": wanted, "resolved": plan.resolved}
            what = f"the revert of `{wanted}` on `{self.target.name}`"
            return self.commit(plan, "revert", what, {"revert": facts}, told)

    def _undone(self, graph: CommitGraph, wanted: str) -> GraphCommit:
        """Return the commit to undo; refuse one that the branch does not rest on, and the first one."""
        head_id = self.target.head.commit.graph_commit_id
        if not graph.holds(wanted) or not is_ancestor(graph, wanted, head_id):
            found = find_commit(self.workspace.manifest, wanted)
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
        source = readable_snapshot(self.workspace, graph, parent, heads)
        if base.ir_hash != source.ir_hash:
            raise SchemaBoundary(
                f"commit `{undone.graph_commit_id}` changed the schema, which a revert cannot undo; "
                "apply the schema you want instead",
                graph_commit_id=undone.graph_commit_id,
                type_name=None,
            )
        return base, source
