"""Undo one commit on a branch: the three-way merge with that commit as the base and its first parent as
the source.

For example, a commit that renamed "Ann" to "Anna" is undone by the change from "Anna" to "Ann", which is
brought into the head of the branch; if the head has another name by now, that is a conflict. The commit
stays in the history, and the revert is a commit of its own, which can be reverted too.
"""

from __future__ import annotations

from omnigraph.changes.stats import Meter
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.heal import refuse_rollbacks
from omnigraph.errors import BadRequest, Gone, NoParent, SchemaBoundary, StorageError
from omnigraph.manifest.branch_names import trim_branch_name
from omnigraph.manifest.history.ancestry import CommitGraph, is_ancestor
from omnigraph.manifest.history.equal_content import readable_snapshot
from omnigraph.manifest.history.records import find_commit
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.write.merge.conflicts import conflicts_error
from omnigraph.write.merge.decide import DecideOptions
from omnigraph.write.merge.publish import PlanAgain, Publication, publish_merge, refuse_replaced
from omnigraph.write.merge.request import MergeOptions, MergeResult, MergeStats
from omnigraph.write.merge.resolutions import read_resolutions
from omnigraph.write.merge.spool import Scratch
from omnigraph.write.merge.three_way import Plan, States, ThreeWay


def revert_commit(
    workspace: Workspace, graph_commit_id: object, branch: object, options: MergeOptions
) -> MergeResult:
    """Undo one commit on a branch as a new commit, or change nothing."""
    name = trim_branch_name(branch)
    if not isinstance(graph_commit_id, str):
        raise BadRequest(f"a commit is named by its id, a text, not by {graph_commit_id!r}")
    refuse_rollbacks(workspace, {name}, read_only=options.dry_run)
    while True:
        head = workspace.manifest.state(name)
        revert = _Revert(workspace, graph_commit_id.strip(), head, options)
        try:
            return revert.run()
        except PlanAgain:
            continue
        except (StorageError, Gone):
            refuse_replaced(workspace, head)
            raise
        finally:
            revert.scratch.close()


class _Revert:
    """One revert on a pinned head."""

    def __init__(
        self,
        workspace: Workspace,
        graph_commit_id: str,
        target: BranchState,
        options: MergeOptions,
    ) -> None:
        self.workspace = workspace
        self.graph_commit_id = graph_commit_id
        self.target = target
        self.options = options
        self.started = stamp_us()
        self.meter = Meter(workspace)
        self.scratch = Scratch()

    def run(self) -> MergeResult:
        """Revert, or say in a dry run what a revert would do."""
        with self.meter.running():
            graph = CommitGraph(self.workspace.manifest, [self.target])
            undone = self._undone(graph)
            parent = graph.parents(undone)[0]
            plan = self._plan(self._states(graph, undone, parent))
            commit = self._commit(plan)
        changes = bool(plan.tables or plan.conflicts)
        return MergeResult(
            outcome="reverted" if changes else "nothing_to_revert",
            reverted=undone.graph_commit_id,
            target=self.target.name,
            base_commit_id=undone.graph_commit_id,
            source_commit_id=parent.graph_commit_id,
            target_commit_id=self.target.head.commit.graph_commit_id,
            stats=MergeStats.of(self.meter.stats(), plan.resolved),
            actor_id=self.options.actor_id,
            commit=commit,
            dry_run=self.options.dry_run,
            conflicts=tuple(plan.conflicts),
        )

    def _undone(self, graph: CommitGraph) -> GraphCommit:
        """Return the commit to undo; refuse one that the branch does not rest on, and the first one."""
        wanted = self.graph_commit_id
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
                f"commit `{wanted}` is the first one and has no parent to go back to",
                graph_commit_id=wanted,
            )
        return undone

    def _states(self, graph: CommitGraph, undone: GraphCommit, parent: GraphCommit) -> States:
        heads = [self.target.head.commit]
        base, source = (
            readable_snapshot(self.workspace, graph, one, heads) for one in (undone, parent)
        )
        if base.ir_hash != source.ir_hash:
            raise SchemaBoundary(
                f"commit `{undone.graph_commit_id}` changed the schema, which a revert cannot undo; "
                "apply the schema you want instead",
                graph_commit_id=undone.graph_commit_id,
                type_name=None,
            )
        return States(base, source, Snapshot.of(self.target.name, self.target.head))

    def _plan(self, states: States) -> Plan:
        catalog = self.options.catalog(self.target)
        resolutions = read_resolutions(catalog, self.options.resolve, self.options.blobs)
        plan = ThreeWay(
            self.workspace,
            catalog,
            states,
            self.target.name,
            DecideOptions(self.options.granularity, resolutions),
            self.meter,
            self.scratch,
            images=self.options.images,
        ).run(checks=True)
        plan.counts(self.meter)
        return plan

    def _commit(self, plan: Plan) -> GraphCommit | None:
        """Publish the revert; return None in a dry run, and if nothing would change."""
        if self.options.dry_run or not (plan.tables or plan.conflicts):
            return None
        if plan.conflicts:
            what = f"the revert of `{self.graph_commit_id}` on `{self.target.name}`"
            raise conflicts_error(what, plan.conflicts)
        facts = {"of": self.graph_commit_id, "resolved": plan.resolved}
        intent = Intent(
            new_ulid(),
            "revert",
            self.started,
            self.options.actor_id,
            facts={"revert": facts},
        )
        return publish_merge(
            self.workspace, Publication("revert", self.target, plan, intent, _nothing_else)
        )


def _nothing_else() -> None:
    """Check nothing: a revert depends on its own branch alone."""
