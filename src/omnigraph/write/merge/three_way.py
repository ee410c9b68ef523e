"""The three-way comparison behind merge and revert: what the source changed since the base, decided
against what the target has now.

1. Tables that the source has as the base or the target has them are left alone, unopened.
2. The others are compared from base to source. Every chunk of changes is decided (``decide.py``) and its
   outcome is gathered (``merged_table.py``).
3. The result is checked as a whole (``graph_checks.py``), unless entities are in conflict.

Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.compare import compare
from omnigraph.changes.images import equal_column
from omnigraph.changes.row_changes import Rows
from omnigraph.changes.stats import Meter
from omnigraph.changes.table_side import TableSide
from omnigraph.commit.staging import needs_fork
from omnigraph.errors import SchemaBoundary
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.write.merge.conflicts import MergeConflict, in_order
from omnigraph.write.merge.decide import Cells, DecideOptions, Side, decide
from omnigraph.write.merge.merged_table import MergedTable, Sides
from omnigraph.write.merge.spool import Scratch


@dataclass(frozen=True, slots=True)
class States:
    """The three states of the graph that a merge is about."""

    base: Snapshot
    source: Snapshot
    target: Snapshot


@dataclass(slots=True)
class Plan:
    """What a merge changes: the tables that get other rows, and the conflicts in the way."""

    tables: list[MergedTable] = field(default_factory=list)
    conflicts: list[MergeConflict] = field(default_factory=list)
    resolved: int = 0


def can_take_over(base: TableState, source: TableState, target: TableState, branch: str) -> bool:
    """Return whether a branch can pin the source's state of a table instead of writing rows.

    It has no fork of its own and still the state of the base, and the other state is on the main
    lineage, which outlives every branch. (`main` never can: its pin is the head of that lineage.)
    """
    return (
        needs_fork(target, branch)
        and target.identity == base.identity
        and source.table_branch is None
    )


class ThreeWay:
    """One comparison. ``branch`` is the name of the target, ``meter`` counts what it costs."""

    def __init__(
        self,
        workspace: Workspace,
        catalog: Catalog,
        states: States,
        branch: str,
        options: DecideOptions,
        meter: Meter,
        scratch: Scratch,
    ) -> None:
        self.workspace = workspace
        self.catalog = catalog
        self.states = states
        self.branch = branch
        self.options = options
        self.meter = meter
        self.scratch = scratch

    def run(self) -> Plan:
        """Compare and decide every table; conflicts are in the order of reports."""
        plan = Plan()
        named: list[tuple[str, str]] = []
        for merged in self._tables_with_news():
            for decided in self._decide(merged):
                plan.conflicts += decided.conflicts
                plan.resolved += decided.resolved
                named += [(merged.entity.table_key, one) for one in decided.named]
            merged.finish()
            if not merged.changes_nothing:
                plan.tables.append(merged)
        self.options.resolutions.refuse_unused(named)
        plan.conflicts = in_order(plan.conflicts)
        return plan

    def _tables_with_news(self) -> Iterator[MergedTable]:
        """Yield the tables that the source has neither as the base nor as the target has them."""
        for entity in self.catalog.entities():
            base, source, target = (
                _state_of(snapshot, entity)
                for snapshot in (self.states.base, self.states.source, self.states.target)
            )
            if _identity(source) in {_identity(base), _identity(target)}:
                self.meter.tables_skipped += 1
                continue
            if base is None or source is None or target is None:
                raise self._boundary(entity)
            snapshots = (self.states.base, self.states.source, self.states.target)
            sides = Sides(
                *(TableSide(self.workspace, one, entity, self.meter) for one in snapshots)
            )
            taken_over = source if can_take_over(base, source, target, self.branch) else None
            yield MergedTable(sides, self.scratch, taken_over)
