"""Merge one branch into another: one commit with two parents, or nothing.

1. Finish what dead writers left, and pin both heads. What happens on the source afterwards is not
   merged; a commit on the target, maintenance aside, ends the merge without effect.
2. Find the base in the commit graph. The outcome follows from the heads alone.
3. Compare and decide (``three_way.py``), then publish (``publish.py``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.changes.stats import Meter
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.heal import refuse_rollbacks
from omnigraph.errors import BadRequest, Gone, OmniGraphError, StorageError
from omnigraph.manifest.branch_names import MAIN, check_branch_name, trim_branch_name
from omnigraph.manifest.history.ancestry import CommitGraph, merge_bases, unknown_records
from omnigraph.manifest.history.equal_content import readable_snapshot
from omnigraph.manifest.lost_races import schema_changed
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.write.branches import delete_branch as delete_source
from omnigraph.write.merge.conflicts import conflicts_error
from omnigraph.write.merge.decide import DecideOptions
from omnigraph.write.merge.publish import PlanAgain, Publication, publish_merge, refuse_replaced
from omnigraph.write.merge.request import MergeOptions, MergeResult, MergeStats, Outcome
from omnigraph.write.merge.resolutions import Resolutions, read_resolutions
from omnigraph.write.merge.spool import Scratch
from omnigraph.write.merge.three_way import Plan, States, ThreeWay

if TYPE_CHECKING:
    from omnigraph.lang.schema.catalog import Catalog


def merge_branches(
    workspace: Workspace,
    source: object,
    target: object,
    options: MergeOptions,
    *,
    delete_branch: bool = False,
) -> MergeResult:
    """Bring what the source changed since the common base into the target.

    With ``delete_branch`` the source is deleted afterwards; if that is refused, the result says so.
    """
    names = _branch(source), _branch(target)
    if names[0] == names[1]:
        raise BadRequest(f"branch `{names[0]}` cannot be merged into itself; name two branches")
    if options.dry_run and delete_branch:
        raise BadRequest("a dry run deletes no branch; leave out delete_branch or dry_run")
    refuse_rollbacks(workspace, names, read_only=options.dry_run)
    result, pinned = _run(workspace, *names, options)
    if not delete_branch:
        return result
    try:
        delete_source(workspace, names[0], pinned.pin)
    except OmniGraphError as error:
        return replace(result, branch_deleted=False, branch_delete_error=str(error))
    return replace(result, branch_deleted=True)


def _branch(name: object) -> str:
    text = trim_branch_name(name)
    return text if text == MAIN else check_branch_name(text)


def _run(
    workspace: Workspace, source: str, target: str, options: MergeOptions
) -> tuple[MergeResult, BranchState]:
    """Run the merge until it is not in its own way; return what it did and the source as pinned."""
    while True:
        heads = workspace.manifest.state(source), workspace.manifest.state(target)
        merge = _Merge(workspace, *heads, options)
        try:
            return merge.run(), heads[0]
        except PlanAgain:
            continue
        except (StorageError, Gone):
            # Files may be gone because one of the branches is.
            refuse_replaced(workspace, *heads)
            raise
        finally:
            merge.scratch.close()


class _Merge:
    """One merge of two pinned heads."""

    def __init__(
        self, workspace: Workspace, source: BranchState, target: BranchState, options: MergeOptions
    ) -> None:
        self.workspace = workspace
        self.source = source
        self.target = target
        self.options = options
        self.started = stamp_us()
        self.meter = Meter(workspace)
        self.scratch = Scratch()

    def run(self) -> MergeResult:
        """Merge, or say in a dry run what a merge would do."""
        if self.source.head.ir_hash != self.target.head.ir_hash:
            raise schema_changed()
        with self.meter.running():
            catalog = self.options.catalog(self.target)
            resolutions = read_resolutions(catalog, self.options.resolve, self.options.blobs)
            graph = CommitGraph(self.workspace.manifest, [self.target, self.source])
            theirs, ours = self.source.head.commit, self.target.head.commit
            base = merge_bases(graph, theirs, ours)[0]
            outcome = self._outcome(graph, base)
            if resolutions.named and outcome != "merged":
                raise BadRequest(
                    f"there is nothing to resolve: the merge of `{self.source.name}` into "
                    f"`{self.target.name}` is {outcome}; leave out resolve"
                )
            plan, commit = Plan(), None
            if outcome != "already_up_to_date":
                before = readable_snapshot(self.workspace, graph, base, [theirs, ours])
                plan = self._plan(catalog, before, resolutions, checks=outcome == "merged")
                commit = self._commit(graph, plan, outcome, base)
        return self._result(outcome, base, plan, commit)

    def _outcome(self, graph: CommitGraph, base: GraphCommit) -> Outcome:
        """Return what the heads say; maintenance on either side does not count."""
        if base == graph.counts_as(self.source.head.commit):
            return "already_up_to_date"
        if base == graph.counts_as(self.target.head.commit):
            return "fast_forward"
        return "merged"

    def _plan(
        self, catalog: Catalog, base: Snapshot, resolutions: Resolutions, *, checks: bool
    ) -> Plan:
        states = States(
            base,
            Snapshot.of(self.source.name, self.source.head),
            Snapshot.of(self.target.name, self.target.head),
        )
        plan = ThreeWay(
            self.workspace,
            catalog,
            states,
            self.target.name,
            DecideOptions(self.options.granularity, resolutions),
            self.meter,
            self.scratch,
            images=self.options.images,
        ).run(checks=checks)
        plan.counts(self.meter)
        return plan

    def _commit(
        self, graph: CommitGraph, plan: Plan, outcome: Outcome, base: GraphCommit
    ) -> GraphCommit | None:
        """Publish the merge; in a dry run return None, also with conflicts."""
        if self.options.dry_run:
            return None
        if plan.conflicts:
            what = f"the merge of `{self.source.name}` into `{self.target.name}`"
            raise conflicts_error(what, plan.conflicts)
        facts = {
            "outcome": outcome,
            "base_commit_id": base.graph_commit_id,
            "granularity": self.options.granularity,
            "resolved": plan.resolved,
        }
        theirs = self.source.head.commit
        intent = Intent(
            new_ulid(),
            "branch_merge",
            self.started,
            self.options.actor_id,
            merged_parent_commit_id=theirs.graph_commit_id,
            facts={"merge": facts},
        )
        publication = Publication(
            "branch_merge",
            self.target,
            plan,
            intent,
            lambda: refuse_replaced(self.workspace, self.source),
            unknown_records(graph, theirs, self.target),
        )
        return publish_merge(self.workspace, publication)

    def _result(
        self, outcome: Outcome, base: GraphCommit, plan: Plan, commit: GraphCommit | None
    ) -> MergeResult:
        return MergeResult(
            outcome=outcome,
            source=self.source.name,
            target=self.target.name,
            base_commit_id=base.graph_commit_id,
            source_commit_id=self.source.head.commit.graph_commit_id,
            target_commit_id=self.target.head.commit.graph_commit_id,
            stats=MergeStats.of(self.meter.stats(), plan.resolved),
            actor_id=self.options.actor_id,
            commit=commit,
            dry_run=self.options.dry_run,
            conflicts=tuple(plan.conflicts),
        )
