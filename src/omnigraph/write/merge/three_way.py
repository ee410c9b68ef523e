"""The three-way comparison behind merge and revert.

It finds what the source changed since the base and decides it against what the target has now:

1. Tables that the source has as the base or the target has them are left alone, unopened. A type that the
   target does not have yet is taken from the source as a whole.
2. The others are compared from base to source. Every chunk of changes is decided (``decide.py``), and
   what is to be written is gathered (``merged_table.py``).
3. The result is checked as a whole (``graph_checks.py``), unless entities are in conflict.

Nothing is written to the graph here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.compare_tables import SparkFor, compare, nothing_on_spark
from omnigraph.changes.images import equal_rows
from omnigraph.changes.row_pairs import ROW_ID
from omnigraph.changes.stats import Meter
from omnigraph.changes.table_side import TableSide, rows_schema, state_of
from omnigraph.commit.stage_tables import needs_fork
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity, NodeType
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.types.columns import put_values
from omnigraph.validate.change_set import ORDER, ChangeSet, TableDelta
from omnigraph.validate.committed import Committed
from omnigraph.validate.new_rules import new_rules
from omnigraph.write.merge.cells import compare_cells, show_cells
from omnigraph.write.merge.decide import decide
from omnigraph.write.merge.decided import Decided, DecideOptions, MergeConflict, in_order
from omnigraph.write.merge.deserted import deserted_sources
from omnigraph.write.merge.graph_checks import (
    cascaded_edges,
    graph_conflicts,
    misfit_conflicts,
    value_conflicts,
)
from omnigraph.write.merge.merged_table import MergedTable, Sides, checked_columns
from omnigraph.write.merge.schemas import MergedSchemas, other_vectors
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
    dropped_rows: int = 0
    """How many rows the target loses with types that the merge drops."""
    cut_off: dict[str, list[str]] = field(default_factory=dict)
    """By type: nodes that a resolution deletes, and whose edges no cascade has removed yet."""
    schemas: MergedSchemas | None = None
    """The schemas of the three states and what they come to; None if they have one schema."""

    @property
    def changes_schema(self) -> bool:
        """Whether the target gets another schema."""
        return self.schemas is not None and self.schemas.row is not None

    def schema_facts(self) -> dict[str, Any]:
        """Return what the commit says about the schema; nothing if it stays."""
        if self.schemas is None or self.schemas.change is None:
            return {}
        return {"schema": self.schemas.change.to_json()}

    def resolved_schema(self) -> dict[str, Any]:
        """Return the elements of the schema that words decided, for the commit; nothing if there are none."""
        decided = () if self.schemas is None else self.schemas.resolved
        return {"resolved_schema": list(decided)} if decided else {}

    def count(self, meter: Meter) -> None:
        """Add what the merge changes to the counts of a meter."""
        for table in self.tables.values():
            meter.inserts += table.inserts
            meter.updates += table.updates
            meter.deletes += table.removed.num_rows
            meter.tables_adopted += table.taken_over is not None
        meter.deletes += self.dropped_rows


def can_take_over(base: TableState, source: TableState, target: TableState, branch: str) -> bool:
    """Return whether a branch can pin the source's state of a table instead of writing rows.

    It has no fork of its own and still pins the state of the base, and the other state is on the main
    lineage of the same table, which outlives every branch. (`main` never can: its pin is the head of that
    lineage.) A type that two branches added has two tables after they were merged, and keeps the one of
    its branch.
    """
    return (
        source.incarnation == target.incarnation
        and needs_fork(target, branch)
        and target.identity == base.identity
        and source.table_branch is None
    )


def no_rows(entity: Entity) -> TableState:
    """Return the state of a table that is not there yet."""
    return TableState(entity.table_key, entity.table_incarnation_id, "", 0, None, 0)


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
        schemas: MergedSchemas | None = None,
    ) -> None:
        self.workspace = workspace
        self.catalog = catalog
        self.schemas = schemas
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
        plan = Plan(schemas=self.schemas, dropped_rows=self._dropped_rows())
        named: list[tuple[str, str]] = []
        for merged in self._tables_with_news():
            key, type_name = merged.entity.table_key, merged.entity.name
            for decided in self._decide(merged):
                plan.conflicts += decided.conflicts
                plan.resolved += decided.resolved
                plan.embeddings_pending += vectors_pending(merged.entity, decided.rows)
                named += [(key, one) for one in decided.named]
                if checks:
                    misfits = merged.sides.source.misfits
                    plan.broken_values += misfit_conflicts(merged.entity, misfits, decided.rows)
                    plan.broken_values += value_conflicts(merged.entity, decided.rows)
                if len(decided.cut_off) and isinstance(merged.entity, NodeType):
                    plan.cut_off.setdefault(type_name, []).extend(decided.cut_off.to_pylist())
            merged.finish()
            if merged.is_new or not merged.changes_nothing:
                plan.tables[key] = merged
        self.options.resolutions.refuse_unused(named)
        if checks and not plan.conflicts:
            plan.conflicts = [*plan.broken_values, *self._stricter(plan), *self._check(plan)]
        plan.conflicts = in_order(plan.conflicts)
        return plan

    def _dropped_rows(self) -> int:
        if self.schemas is None:
            return 0
        kept = {number for one in self._entities() for number in one.incarnations}
        pins = self.states.target.tables.values()
        return sum(pin.row_count for pin in pins if pin.incarnation not in kept)

    def _check(self, plan: Plan) -> list[MergeConflict]:
        """Check the result as a whole, after the edges of nodes that a resolution deletes are gone."""
        runner = LocalRunner()
        try:
            committed = self._committed(runner)
            if plan.cut_off:
                found = cascaded_edges(
                    self._changes(plan, runner), committed, plan.cut_off, self._untouched
                )
                for key, ids in found.items():
                    self._remove(plan, self.catalog.entity(key), ids)
            return graph_conflicts(self._changes(plan, runner), committed)
        finally:
            runner.close()

    def _committed(self, runner: LocalRunner) -> Committed:
        """Return the rows of the target, under the names of the merged schema."""
        tables = self.states.target.tables
        if self.schemas is None or self.schemas.catalog is self.schemas.target:
            return Committed(runner, tables, self.workspace.pinned)
        pins, columns = {}, {}
        for entity in self._entities():
            side = self._side("target", entity)
            pins[entity.table_key] = side.state or no_rows(entity)
            if side.state is not None:
                columns[entity.table_key] = {
                    name: side.column_of(name) for name in entity.properties
                }
        return Committed(runner, pins, self.workspace.pinned, columns)

    def _changes(self, plan: Plan, runner: LocalRunner) -> ChangeSet:
        deltas = {key: merged.delta(runner) for key, merged in plan.tables.items()}
        for entity in self._judged():
            rows = self._all_rows(plan, entity)
            deserted = None
            if isinstance(entity, EdgeType) and entity.cardinality.min:
                deserted = runner.frame(self._deserted(plan, entity, rows))
            deltas[entity.table_key] = TableDelta(
                entity, runner.frame(rows), replaced=True, deserted=deserted
            )
        return ChangeSet(self.catalog, deltas)

    # -- rules that the source made stricter, which rows of the target have to keep as well

    def _judged(self) -> list[Entity]:
        """Return the types that get a stricter rule than the target has."""
        if self.schemas is None or self.schemas.change is None:
            return []
        rules = new_rules(self.schemas.change.steps, self.schemas.target, self.catalog)
        keys = {rule.entity.table_key for rule in rules}
        here = (state_of(self.states.target, one) is not None for one in self._entities())
        found = zip(self._entities(), here, strict=True)
        return [one for one, is_here in found if is_here and one.table_key in keys]

    def _stricter(self, plan: Plan) -> Iterator[MergeConflict]:
        """Yield the rows of the target that stay and have values which break a stricter rule."""
        for entity in self._judged():
            for rows in self._staying(plan, entity):
                yield from value_conflicts(entity, rows)

    def _staying(self, plan: Plan, entity: Entity) -> Iterator[pa.Table]:
        """Yield the rows of the target that the merge neither writes nor deletes, as they will be."""
        merged = plan.tables.get(entity.table_key)
        gone = pa.array([], pa.string())
        if merged is not None:
            gone = pa.concat_arrays(
                [
                    *merged.rows.table().column("id").chunks,
                    *merged.removed.table().column("id").chunks,
                    gone,
                ]
            )
        for rows in self._side("target", entity).as_stored():
            yield rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=gone)))

    def _all_rows(self, plan: Plan, entity: Entity) -> pa.Table:
        """Return all rows of a type after the merge, with what the rules about sets read.

        Those of the target come last: they are the incoming ones for a rule that it did not have.
        """
        columns = checked_columns(entity)
        schema = rows_schema(entity)
        fields = pa.schema([schema.field(name) for name in columns])
        parts = [rows.select(columns) for rows in self._staying(plan, entity)]
        if entity.table_key in plan.tables:
            parts.insert(0, plan.tables[entity.table_key].rows.table().select(columns))
        whole = pa.concat_tables([fields.empty_table(), *(part.cast(fields) for part in parts)])
        order = pa.array(np.arange(whole.num_rows))
        return whole.append_column(ORDER, order)

    def _deserted(self, plan: Plan, edge: EdgeType, rows: pa.Table) -> pa.Table:
        node = self.catalog.nodes[edge.from_type]
        merged = plan.tables.get(node.table_key)

        def are_there(ids: pa.StringArray) -> pa.BooleanArray:
            there = self._side("target", node).aligned(ids).present
            if merged is None:
                return there
            new, gone = (
                pc.is_in(ids, value_set=one.table().column("id").combine_chunks())
                for one in (merged.rows, merged.removed)
            )
            return pc.or_(new, pc.and_(there, pc.invert(gone)))

        return deserted_sources(self._side("base", edge), rows, are_there)

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
            base, source, target = (state_of(one, entity) for one in snapshots)
            if source is None or _identity(source) in {_identity(base), _identity(target)}:
                self.meter.tables_skipped += 1
                continue
            sides, adopted = self._sides(entity), None
            if self._can_pin(entity, base, source, target):
                # The type may have had another name where the state was made.
                adopted = replace(source, table_key=entity.table_key)
            whole = adopted is None or bool(self.options.resolutions.named)
            yield MergedTable(sides, self.scratch, adopted, whole_rows=whole)

    def _can_pin(
        self,
        entity: Entity,
        base: TableState | None,
        source: TableState,
        target: TableState | None,
    ) -> bool:
        """Return whether the target can pin the source's state of a table instead of writing rows."""
        if self.schemas is not None and not self.schemas.has_columns_of_source(entity):
            return False
        if target is None:
            return source.table_branch is None
        return base is not None and can_take_over(base, source, target, self.branch)

    def _side(self, which: Literal["base", "source", "target"], entity: Entity) -> TableSide:
        snapshot: Snapshot = getattr(self.states, which)
        without: frozenset[str] = frozenset()
        if self.schemas is not None:
            without = other_vectors(entity, getattr(self.schemas, which))
        return TableSide(
            self.workspace, snapshot, entity, self.meter, defaults=True, without=without
        )

    def _sides(self, entity: Entity) -> Sides:
        return Sides(
            self._side("base", entity), self._side("source", entity), self._side("target", entity)
        )

    def _decide(self, merged: MergedTable) -> Iterator[Decided]:
        """Decide about one table, chunk by chunk, and gather what is to be written."""
        sides = merged.sides
        equal = compare_cells(merged.entity, sides)
        options = self.options
        own = {} if self.schemas is None else self.schemas.own(merged.entity)
        if self.images:
            show = show_cells(sides, short=self.short)
            options = replace(options, images=show, short=self.short)
        spark = self.spark_for(sides.base.state, sides.source.state)
        every_row = self.schemas is not None and self.schemas.brings_back(merged.entity)
        for changes in compare(sides.base, sides.source, spark=spark, every_row=every_row):
            target = changes.before
            if not sides.target_is_base:
                # A row that the target has not touched since the base is where it was.
                places = changes.before.table.column(ROW_ID)
                target = sides.target.aligned(changes.ids, places)
            decided = decide(merged.entity, changes, target, options, equal, own)
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


def _identity(pin: TableState | None) -> object:
    return None if pin is None else pin.identity
