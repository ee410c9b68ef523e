"""Schema changes: plan the steps from the accepted schema to a new source, and apply them.

1. Finish what dead writers left, plan, and take ids for what is new from the graph's counter.
2. Take every lock of the branch, check everything again, and plan again.
3. Stage what the tables need, commit the tables and publish them together with the new schema.
4. Write the mirror files, which follow `main`, release the locks, and remove what a hard drop left behind.

For example, adding ``Person.age`` and renaming Team to Crew moves the table of Person by one version
(a new column, no row is written), and one publish carries that version, the new key of the other
table, the new schema and the commit. On a branch that has no table of Person of its own yet, the table
is forked first, without copying a row; other branches keep their columns and their schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph import failpoints
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.changes import TableChange, Write
from omnigraph.commit.heal import heal, run_healing
from omnigraph.commit.protocol import POINTS, commit_under_locks
from omnigraph.commit.replays import WriteRequest, kept_answer, run_once, shown_commit
from omnigraph.commit.whole_branch import WholeBranch, hold_branch
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted
from omnigraph.errors import SchemaConflict
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.lang.schema.catalog_of import catalog_of
from omnigraph.lang.schema.identities import Numbering
from omnigraph.lang.schema.ir import Ir
from omnigraph.lang.schema.joins import Joins
from omnigraph.lang.schema.migrate.migration import MigrationPlan, plan
from omnigraph.lang.schema.migrate.plan_steps import SchemaStep
from omnigraph.lang.schema.migrate.read_steps import read_step
from omnigraph.lang.schema.migrate.schema_change import SchemaChange
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.identity_counter import take_ids
from omnigraph.manifest.history.resolve import named_branch, schema_at
from omnigraph.manifest.history.tags import list_tags
from omnigraph.manifest.lost_races import schema_changed
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, SchemaRow, TableState
from omnigraph.manifest.schema_row import (
    check_contract,
    mirror_main,
    read_accepted,
    settle_mirrors,
)
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.write.purges import finish_purges
from omnigraph.write.schema_checks import RowChecks
from omnigraph.write.schema_tables import ChangedTables, column_steps, new_dataset, table_changes

BEFORE_MIRRORS = failpoints.declare("schema_apply.before_mirrors")
BEFORE_PURGE = failpoints.declare("schema_apply.before_purge")


@dataclass(frozen=True, slots=True, repr=False)
class SchemaPlan(Shown):
    """The steps to a new schema, and whether all of them can be made."""

    steps: tuple[SchemaStep, ...]
    supported: bool
    warnings: tuple[str, ...] = ()
    """What the plan destroys, and rename hints that do nothing."""
    checked: bool = False
    """Whether all stored rows were looked at, and nothing stands in the way of the plan."""

    def to_json(self) -> dict[str, Any]:
        """Return the public form; ``checked`` appears only if it is true."""
        return {
            "supported": self.supported,
            "step_count": len(self.steps),
            "steps": [step.to_json() for step in self.steps],
            **({"checked": True} if self.checked else {}),
        }

    def _panel(self) -> Panel:
        judged = "can be made" if self.supported else "cannot be made"
        if self.checked:
            judged += " with the rows that are there"
        return _steps_panel(f"schema change that {judged}", self.steps, (), self.warnings)


@dataclass(frozen=True, slots=True, repr=False)
class SchemaApplied(Shown):
    """What a schema change did; ``commit`` is None if there was nothing to change.

    ``replayed``: it was made before, under the same operation id, and had no effect this time.
    """

    applied: bool
    manifest_version: int
    steps: tuple[SchemaStep, ...]
    commit: GraphCommit | None
    warnings: tuple[str, ...] = ()
    """What was destroyed, and what is left to do: a purge or a file that could not be finished."""
    supported: bool = True
    replayed: bool = False

    @classmethod
    def replay(cls, commit: GraphCommit) -> SchemaApplied:
        """Return the answer that a commit keeps."""
        warnings = tuple(kept_answer(commit)["warnings"])
        steps = tuple(read_step(step) for step in commit.facts["schema"]["steps"])
        return cls(True, commit.manifest_version, steps, commit, warnings, replayed=True)

    def to_json(self) -> dict[str, Any]:
        """Return the public form; ``replayed`` appears only if it is true."""
        return {
            "supported": self.supported,
            "applied": self.applied,
            "manifest_version": self.manifest_version,
            "step_count": len(self.steps),
            "steps": [step.to_json() for step in self.steps],
            "commit": None if self.commit is None else self.commit.to_json(),
            **({"replayed": True} if self.replayed else {}),
        }

    def _panel(self) -> Panel:
        done = "applied" if self.applied else "nothing to change"
        facts = []
        if self.commit is not None:
            facts.append(("commit", shown_commit(self.commit, replayed=self.replayed)))
        return _steps_panel(f"schema change: {done}", self.steps, facts, self.warnings)


def _steps_panel(
    title: str,
    steps: Sequence[SchemaStep],
    facts: Sequence[tuple[str, Any]],
    warnings: Sequence[str],
) -> Panel:
    title = f"{title}, {counted(len(steps), 'step')}"
    if not steps:
        return Panel(title, facts, notes=warnings)
    rows = [(step.kind, step.describe()) for step in steps]
    return Panel.of_rows(title, ("step", ""), rows, facts=facts, notes=warnings)


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """A new schema of a branch: its source, the file it came from, and whether dropped data is destroyed."""

    source: str
    filename: str | None = None
    allow_data_loss: bool = False
    actor_id: str | None = None
    branch: str = MAIN
    asked: WriteRequest = field(default_factory=lambda: WriteRequest("schema_apply"))
    """What a repetition is recognised by, and what the commit says about itself."""


def plan_schema(workspace: Workspace, request: SchemaRequest, *, check: bool = False) -> SchemaPlan:
    """Return the steps from the accepted schema of a branch to the new one; nothing is written.

    ``check``: stored rows are judged as ``apply_schema`` would judge them, with the same errors.
    """
    state = named_branch(workspace.manifest, request.branch)
    accepted = _Accepted.read(workspace, state)
    found = accepted.plan(request)
    if check and found.supported:
        checks = RowChecks(workspace, allow_data_loss=request.allow_data_loss)
        checks.run(state, found, accepted.catalog, catalog_of(found.target_ir))
    return SchemaPlan(found.steps, found.supported, _warnings(found), check and found.supported)


def apply_schema(workspace: Workspace, request: SchemaRequest) -> SchemaApplied:
    """Give a branch a new schema as one commit, or change nothing.

    An unsupported plan is refused with its first reason; a plan without steps does nothing, and one of
    a known operation id is only answered.
    """
    heal(workspace)

    def run() -> SchemaApplied:
        return run_healing(workspace, lambda: _Apply(workspace, request).run())

    named_branch(workspace.manifest, request.branch)
    return run_once(workspace, [request.branch], request.asked, run, SchemaApplied.replay)


@dataclass(frozen=True, slots=True)
class _Accepted:
    """The accepted schema of a state of a branch, checked against its tables."""

    row: SchemaRow
    ir: Ir
    catalog: Catalog

    @classmethod
    def read(cls, workspace: Workspace, state: BranchState) -> _Accepted:
        row = workspace.manifest.schema(state)
        ir, catalog = read_accepted(row, state.head)
        check_contract(catalog, state.head)
        return cls(row, ir, catalog)

    def plan(self, request: SchemaRequest, numbering: Numbering | None = None) -> MigrationPlan:
        return plan(
            self.ir,
            request.source,
            request.allow_data_loss,
            request.filename,
            accepted_source=self.row.source,
            numbering=numbering,
        )


def _warnings(found: MigrationPlan) -> tuple[str, ...]:
    """Return what a plan destroys, and the rename hints that do nothing."""
    drops = (step.warning() for step in found.steps)
    return (*(text for text in drops if text), *(one.message for one in found.diagnostics))


class _Apply:
    """One try to apply a schema."""

    def __init__(self, workspace: Workspace, request: SchemaRequest) -> None:
        self.workspace = workspace
        self.request = request
        self.started = stamp_us()
        self.numbering: Numbering | None = None
        self.checks = RowChecks(workspace, allow_data_loss=request.allow_data_loss)

    def run(self) -> SchemaApplied:
        """Plan, take the locks, check and plan again, commit, and tidy up."""
        before = self.workspace.manifest.state(self.request.branch)
        accepted = _Accepted.read(self.workspace, before)
        found = accepted.plan(self.request)
        if not found.steps:
            version = before.head.commit.manifest_version
            return SchemaApplied(False, version, (), None, _warnings(found))
        found.require_supported()
        # Most of the work is done before the locks are taken: it may take as long as reading the tables.
        self.checks.run(before, found, accepted.catalog, catalog_of(found.target_ir))
        if count := found.new_ids(accepted.ir):
            # Before the locks of the branch: the counter is on `main`, whatever branch this is.
            self.numbering = take_ids(self.workspace, count)
            found = accepted.plan(self.request, self.numbering)
        target = catalog_of(found.target_ir)
        expected = table_changes(self.workspace, before, accepted.catalog, target)
        self._refuse_hard_drop(expected, accepted.ir)
        # Planning took a while. Only what happens from here on counts as a change while waiting.
        newest = self.workspace.manifest.state(self.request.branch)
        if newest.head.ir_hash != before.head.ir_hash:
            raise schema_changed()
        POINTS["schema_apply", "before_locks"].hit()
        places = [table.location for _, table in expected.created]
        with hold_branch(self.workspace, newest, self._purpose(expected), places) as branch:
            commit, warnings = self._apply(branch)
        if self.request.allow_data_loss:
            BEFORE_PURGE.hit()
            warnings += finish_purges(self.workspace)
        return SchemaApplied(
            True, commit.manifest_version, found.steps, commit, (*_warnings(found), *warnings)
        )

    def _purpose(self, changes: ChangedTables) -> Purpose:
        """Return what waiters see; a hard drop and new values of columns are written under the locks."""
        drops = any(columns.dropped for _, columns in changes.columns)
        writes = any(columns.writes_values for _, columns in changes.columns)
        slow = writes or (self.request.allow_data_loss and drops)
        return Purpose("schema_apply", slow=slow)

    def _refuse_hard_drop(self, changes: ChangedTables, accepted: Ir) -> None:
        """Refuse a hard drop on a named branch, or from a table that another branch or a tag pins.

        They keep what the drop would destroy.
        """
        purged = self._purged(changes)
        if not purged:
            return
        branch = self.request.branch
        if branch != MAIN:
            raise SchemaConflict(
                f"branch `{branch}` shares tables with other branches, which a hard drop would destroy; drop "
                f"without allow_data_loss, merge the branch, and make the hard drop on `{MAIN}`",
                branches=[branch],
                tags=[],
            )
        branches, tags = self._keeping(purged, accepted)
        if branches or tags:
            named = [
                *(f"branch `{name}`" for name in branches),
                *(f"tag `{name}`" for name in tags),
            ]
            raise SchemaConflict(
                f"a hard drop destroys what {', '.join(named)} {'keeps' if len(named) == 1 else 'keep'}; "
                "delete them first, or drop without allow_data_loss",
                branches=branches,
                tags=tags,
            )

    def _keeping(self, incarnations: set[int], accepted: Ir) -> tuple[list[str], list[str]]:
        """Return the other live branches and the tags that pin one of these tables.

        A branch may have the type in a table of its own, which a merge joined with this one: merges with it go on
        from states of this one.
        """
        manifest = self.workspace.manifest

        def keeps(tables: Iterable[TableState], kept: Collection[int]) -> bool:
            return any(table.incarnation in kept for table in tables)

        def is_kept(name: str) -> bool:
            head = manifest.state(name).head
            joins = Joins(accepted, schema_at(manifest, Snapshot.of(name, head)).ir)
            kept = {each for number in incarnations for each in joins.all(number)}
            return keeps(head.tables.values(), kept)

        tags = [tag.name for tag in list_tags(manifest) if keeps(tag.tables, incarnations)]
        return [name for name in manifest.branch_names() if is_kept(name)], tags

    def _purged(self, changes: ChangedTables) -> set[int]:
        """Return the incarnations of which a hard drop removes something from disk."""
        if not self.request.allow_data_loss:
            return set()
        dropped = {table.incarnation for table in changes.dropped}
        return dropped | {
            table.incarnation for table, columns in changes.columns if columns.dropped
        }

    # -- under the locks

    def _apply(self, branch: WholeBranch) -> tuple[GraphCommit, tuple[str, ...]]:
        """Check and plan again on what is there now, commit, and write the mirror files."""
        state = branch.state
        accepted = _Accepted.read(self.workspace, state)
        if self.request.branch == MAIN:
            settle_mirrors(self.workspace.store, accepted.row)
        found = accepted.plan(self.request, self.numbering)
        found.require_supported()
        target = catalog_of(found.target_ir)
        changes = table_changes(self.workspace, state, accepted.catalog, target)
        self._refuse_hard_drop(changes, accepted.ir)
        self.checks.run(state, found, accepted.catalog, target)
        ir = found.target_ir
        row = SchemaRow(self.request.source, ir.to_json(), ir.shape.shape_hash, ir.ir_hash)
        facts = SchemaChange(state.head.ir_hash, row.ir_hash, found.steps).to_json()
        kept = self.request.asked.facts({"warnings": list(_warnings(found))})
        write = self._write(state, row, changes, {"schema": facts, **kept})
        commit = commit_under_locks(self.workspace, write, {}, branch.held)
        BEFORE_MIRRORS.hit()
        return commit, self._mirror(row)

    def _write(
        self, state: BranchState, row: SchemaRow, changes: ChangedTables, facts: dict[str, Any]
    ) -> Write:
        """Return the write; every table of the branch is among those it rests on."""
        request = self.request
        dropped = {table.incarnation for table in changes.dropped}
        moved = {table.incarnation for table, _ in changes.columns}
        return Write(
            writer="schema_apply",
            pin=state.pin,
            intent=Intent(
                new_ulid(),
                "schema_apply",
                self.started,
                request.actor_id,
                facts=facts,
                operation_id=request.asked.operation_id,
            ),
            tables=tuple(
                TableChange(
                    pin,
                    tuple(
                        column_steps(
                            self.workspace,
                            pin,
                            columns,
                            request.branch,
                            hard=request.allow_data_loss,
                        )
                    ),
                )
                for pin, columns in changes.columns
            ),
            created=tuple(
                new_dataset(self.workspace, entity, table) for entity, table in changes.created
            ),
            relied_on=tuple(
                pin for pin in state.head.tables.values() if pin.incarnation not in dropped | moved
            ),
            renamed=changes.renamed,
            dropped=changes.dropped,
            purged=tuple(sorted(self._purged(changes))),
            schema=row,
            exact_head=True,
            takes_graph_lock=True,
            ir_hash=state.head.ir_hash,
        )

    def _mirror(self, row: SchemaRow) -> tuple[str, ...]:
        """Write the mirror files of `main`. The commit is durable, so a failure is only a warning."""
        if self.request.branch != MAIN:
            return ()
        return mirror_main(self.workspace.store, row)
