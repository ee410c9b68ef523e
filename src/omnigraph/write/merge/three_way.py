"""The three-way comparison behind merge and revert.

It finds what the source changed since the base and decides it against what the target has now:

1. Tables that the source has as the base or the target has them are left alone, unopened.
2. The others are compared from base to source. Every chunk of changes is decided (``decide.py``), and
   what is to be written is gathered (``merged_table.py``).
3. The result is checked as a whole (``graph_checks.py``), unless entities are in conflict.

Nothing is written to the graph here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.compare_tables import SparkFor, compare, nothing_on_spark
from omnigraph.changes.images import equal_rows
from omnigraph.changes.row_pairs import ROW_ID
from omnigraph.changes.stats import Meter
from omnigraph.changes.table_side import TableSide
from omnigraph.commit.stage_tables import needs_fork
from omnigraph.errors import SchemaBoundary
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity, NodeType
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.read.view.pinned_table import columns_by_key
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.types.columns import put_values
from omnigraph.validate.change_set import ChangeSet
from omnigraph.validate.committed import Committed
from omnigraph.write.merge.cells import compare_cells, show_cells
from omnigraph.write.merge.decide import decide
from omnigraph.write.merge.decided import Decided, DecideOptions, MergeConflict, in_order
from omnigraph.write.merge.graph_checks import cascaded_edges, graph_conflicts, value_conflicts
from omnigraph.write.merge.merged_table import MergedTable, Sides
from omnigraph.write.merge.spool import Scratch
from omnigraph.write.vectors import MakeVectors, vectors_pending


@dataclass(frozen=True, slots=True)
class States:
    """The three states of the graph that a merge is about."""

    base: Snapshot
    source: Snapshot
    target: Snapshot


@dataclass(slots=True)
class Plan:
    """What a merge changes: the tables that get other rows, and the conflicts in the way."""

    tables: dict[str, MergedTable] = field(default_factory=dict)
    conflicts: list[MergeConflict] = field(default_factory=list)
    resolved: int = 0
    embeddings_pending: int = 0
    """Vectors of rows to write that are null although their text is there."""
    broken_values: list[MergeConflict] = field(default_factory=list)
    """Rows with values that break a rule; they count only if no entity is in conflict."""
    cut_off: dict[str, list[str]] = field(default_factory=dict)
    """By type: nodes that a resolution deletes, and whose edges no cascade has removed yet."""

    def count(self, meter: Meter) -> None:
        """Add what the merge changes to the counts of a meter."""
        for table in self.tables.values():
            meter.inserts += table.inserts
            meter.updates += table.updates
            meter.deletes += table.removed.num_rows
            meter.tables_adopted += table.taken_over is not None


def can_take_over(base: TableState, source: TableState, target: TableState, branch: str) -> bool:
    """Return whether a branch can pin the source's state of a table instead of writing rows.

    It has no fork of its own and still pins the state of the base, and the other state is on the main
    lineage, which outlives every branch. (`main` never can: its pin is the head of that lineage.)
    """
    return (
        needs_fork(target, branch)
        and target.identity == base.identity
        and source.table_branch is None
    )


class ThreeWay:
    """One comparison. ``branch`` is the target; ``meter`` counts what the comparison costs."""

    def __init__(
        self,
        workspace: Workspace,
        catalog: Catalog,
        states: States,
        branch: str,
        options: DecideOptions,
        *,
        meter: Meter,
        scratch: Scratch,
        make_vectors: MakeVectors,
        images: bool = False,
        short: bool = False,
        spark_for: SparkFor = nothing_on_spark,
    ) -> None:
        self.workspace = workspace
        self.catalog = catalog
        self.states = states
        self.branch = branch
        self.options = options
        self.meter = meter
        self.scratch = scratch
        self.make_vectors = make_vectors
        self.images = images
        self.short = short
        self.spark_for = spark_for

    def run(self, *, checks: bool) -> Plan:
        """Compare and decide every table; conflicts are in the order of reports.

        Without ``checks`` the result is known to keep all rules, because the source does.
        """
        self._refuse_dropped()
        plan = Plan()
        named: list[tuple[str, str]] = []
        for merged in self._tables_with_news():
            key, type_name = merged.entity.table_key, merged.entity.name
            for decided in self._decide(merged):
                plan.conflicts += decided.conflicts
                plan.resolved += decided.resolved
                plan.embeddings_pending += vectors_pending(merged.entity, decided.rows)
                named += [(key, one) for one in decided.named]
                if checks:
                    plan.broken_values += value_conflicts(merged.entity, decided.rows)
                if len(decided.cut_off) and isinstance(merged.entity, NodeType):
                    plan.cut_off.setdefault(type_name, []).extend(decided.cut_off.to_pylist())
            merged.finish()
            if not merged.changes_nothing:
                plan.tables[key] = merged
        self.options.resolutions.refuse_unused(named)
        if checks and not plan.conflicts:
            plan.conflicts = [*plan.broken_values, *self._check(plan)]
        plan.conflicts = in_order(plan.conflicts)
        return plan

    def _check(self, plan: Plan) -> list[MergeConflict]:
        """Check the result as a whole, after the edges of nodes that a resolution deletes are gone."""
        runner = LocalRunner()
        try:
            committed = Committed(runner, self.states.target.tables, self.workspace.pinned)
            if plan.cut_off:
                found = cascaded_edges(
                    self._changes(plan, runner), committed, plan.cut_off, self._untouched
                )
                for key, ids in found.items():
                    self._remove(plan, self.catalog.entity(key), ids)
            return graph_conflicts(self._changes(plan, runner), committed)
        finally:
            runner.close()

    def _changes(self, plan: Plan, runner: LocalRunner) -> ChangeSet:
        deltas = {key: merged.delta(runner) for key, merged in plan.tables.items()}
        return ChangeSet(self.catalog, deltas)

    def _untouched(self, edge: EdgeType, ids: pa.StringArray) -> pa.StringArray:
        """Return the ids of edges that are equal in base and target."""
        sides = self._sides(edge)
        before, now = sides.base.aligned(ids), sides.target.aligned(ids)
        same = equal_rows(edge, before, now, (sides.base, sides.target))
        return ids.filter(pc.and_(same, now.present))

    def _remove(self, plan: Plan, entity: Entity, ids: list[str]) -> None:
        """Delete rows that the source did not change."""
        merged = plan.tables.get(entity.table_key)
        if merged is None:
            merged = MergedTable(self._sides(entity), self.scratch)
            plan.tables[entity.table_key] = merged
        # The result is not the source's state any more.
        merged.taken_over = None
        merged.remove(pa.array(ids, pa.string()))
        merged.finish()

    def _entities(self) -> Iterator[Entity]:
        yield from (self.catalog.nodes[name] for name in sorted(self.catalog.nodes))
        yield from (self.catalog.edges[name] for name in sorted(self.catalog.edges))

    def _tables_with_news(self) -> Iterator[MergedTable]:
        """Yield the tables that the source has neither as the base nor as the target has them."""
        snapshots = (self.states.base, self.states.source, self.states.target)
        for entity in self._entities():
            base, source, target = (_pin_of(one, entity.table_incarnation_id) for one in snapshots)
            if _identity(source) in {_identity(base), _identity(target)}:
                self.meter.tables_skipped += 1
                continue
            if base is None or source is None or target is None:
                raise self._boundary(entity.name)
            sides = self._sides(entity)
            self._refuse_other_properties(sides)
            adopted = None
            if can_take_over(base, source, target, self.branch):
                # A revert may reach back to a time when the type had another name.
                adopted = replace(source, table_key=entity.table_key)
            whole = adopted is None or bool(self.options.resolutions.named)
            yield MergedTable(sides, self.scratch, adopted, whole_rows=whole)

    def _sides(self, entity: Entity) -> Sides:
        snapshots = (self.states.base, self.states.source, self.states.target)
        return Sides(*(TableSide(self.workspace, one, entity, self.meter) for one in snapshots))

    def _decide(self, merged: MergedTable) -> Iterator[Decided]:
        """Decide about one table, chunk by chunk, and gather what is to be written."""
        sides = merged.sides
        equal = compare_cells(merged.entity, sides)
        options = self.options
        if self.images:
            show = show_cells(sides, short=self.short)
            options = replace(options, images=show, short=self.short)
        spark = self.spark_for(sides.base.state, sides.source.state)
        for changes in compare(sides.base, sides.source, spark=spark):
            target = changes.before
            if not sides.target_is_base:
                # A row that the target has not touched since the base is where it was.
                places = changes.before.table.column(ROW_ID)
                target = sides.target.aligned(changes.ids, places)
            decided = decide(merged.entity, changes, target, options, equal)
            decided = self._with_vectors(merged.entity, decided)
            merged.add(decided, changes, target)
            yield decided

    def _with_vectors(self, entity: Entity, decided: Decided) -> Decided:
        """Make the vectors of texts that resolutions set."""
        rows = decided.rows
        for name, places in decided.unmade.items():
            texts = rows.column(entity.embeds[name].source).take(pa.array(places)).to_pylist()
            made = self.make_vectors(entity, name, texts) if texts else None
            if made is not None:
                column = put_values(rows.column(name).combine_chunks(), places, made)
                at = rows.schema.get_field_index(name)
                rows = rows.set_column(at, rows.schema.field(at), column)
        return replace(decided, rows=rows)

    # -- states that cannot be compared

    def _refuse_dropped(self) -> None:
        """Refuse if the source changed a type that is gone: there is nothing to bring it into."""
        known = {entity.table_incarnation_id for entity in self._entities()}
        before = {pin.incarnation: pin for pin in self.states.base.tables.values()}
        after = {pin.incarnation: pin for pin in self.states.source.tables.values()}
        for number in sorted({*before, *after} - known):
            if _identity(before.get(number)) != _identity(after.get(number)):
                pin = before.get(number) or after[number]
                raise self._boundary(pin.table_key.partition(":")[2])

    def _refuse_other_properties(self, sides: Sides) -> None:
        """Refuse if the type had other properties in the source; a renamed one is the same."""
        declared = {prop.property_id for prop in sides.target.entity.properties.values()}
        with sides.source.reading():
            columns = columns_by_key(sides.source.table.schema)
        if {key for key in columns if isinstance(key, int)} != declared:
            raise self._boundary(sides.target.entity.name)

    def _boundary(self, type_name: str) -> SchemaBoundary:
        commit_id = self.states.base.graph_commit_id
        return SchemaBoundary(
            f"the schema of {type_name} changed between commit {commit_id} and branch `{self.branch}`, "
            "so its rows cannot be merged; write what is missing with a load or a mutation",
            graph_commit_id=commit_id,
            type_name=type_name,
        )


def _pin_of(snapshot: Snapshot, incarnation: int) -> TableState | None:
    pins = snapshot.tables.values()
    return next((pin for pin in pins if pin.incarnation == incarnation), None)


def _identity(pin: TableState | None) -> object:
    return None if pin is None else pin.identity
