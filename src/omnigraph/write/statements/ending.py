"""`end`: entities that hold at a moment get it as their end; others stay as they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.lang.query import ir
from omnigraph.write.pending import PendingTable
from omnigraph.write.statements.assign import Scene
from omnigraph.write.statements.periods import OPEN, Spans, moments_of, stored_bound
from omnigraph.write.statements.rows import Places
from omnigraph.write.statements.targets import Where


@dataclass(frozen=True, slots=True)
class Ending:
    """One `end`. Of several moments for an entity the first at which it holds is its end, whatever their order."""

    scene: Scene
    statement: ir.End
    pending: PendingTable

    def run(self) -> int:
        """End what is chosen; return how many there are."""
        if not self.scene.rows.length:
            return 0
        if self.statement.var is not None:
            return len(self._end_variable(self.statement.var))
        ended: set[str] = set()
        assert self.statement.where is not None
        scene = self.scene
        where = Where(self.pending, self.statement.where, scene.params, scene.table_of)
        for at in self._rows_for(where):
            targets = where.targets(scene.rows, at, whole=False)
            used, codes = np.unique(targets.codes, return_inverse=True)
            ids = targets.table.column("id").combine_chunks().take(pa.array(used))
            ended.update(self._end(self.pending.current(ids)[0], codes, targets.rows))
        return len(ended)

    def _end_variable(self, var: str) -> list[str]:
        entities = self.scene.rows.entities[var]
        (ids,) = entities.blocks
        found, is_there = self.pending.current(ids)
        there = np.append(is_there.combine_chunks().to_numpy(zero_copy_only=False), False)
        at = np.flatnonzero(there[entities.codes])
        return self._end(found, entities.codes[at].astype(np.int64), at)

    def _rows_for(self, where: Where) -> list[Places]:
        """The rows that the statement runs for: one where all are alike, element by element where ends decide."""
        rows, period = self.scene.rows, self.pending.entity.period
        assert period is not None
        every = np.arange(rows.length)
        if not where.mentions_rows and not list(ir.mentioned(self.statement.moment)):
            return [every[:1]]
        if rows.elements is None or period.until not in where.properties:
            return [every]
        return np.split(every, np.flatnonzero(np.diff(rows.elements)) + 1)

    def _end(self, found: pa.Table, codes: Places, at: Places) -> list[str]:
        """End rows at the moments of the rows ``at``, each of which means the entity in ``codes``."""
        scene, period = self.scene, self.pending.entity.period
        assert period is not None
        names = set(ir.mentioned(self.statement.moment))
        operands = scene.rows.operands(names, scene.table_of, scene.params, at)
        moments = moments_of(self.statement.moment, operands)
        ends = np.full(found.num_rows, OPEN)
        held = moments.known & Spans.of(period, found).take(codes).hold_at(moments.at)
        np.minimum.at(ends, codes[held], moments.at[held])
        places = np.flatnonzero(ends != OPEN)
        if not len(places):
            return []
        rows = found.take(pa.array(places))
        at_until = rows.schema.get_field_index(period.until)
        kind = self.pending.schema.field(period.until)
        until = stored_bound(period, ends[places], kind.type)
        self.pending.put(rows.set_column(at_until, kind, until))
        ids: list[str] = rows.column("id").to_pylist()
        return ids
