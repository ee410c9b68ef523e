"""Assigning values to entities, for all rows of a statement at once, or wave by wave where elements of `for` meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import look
from omnigraph.errors import ConstraintError
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Entity
from omnigraph.read.values.operands import OperandRows
from omnigraph.storage.blob_policy import BlobPolicy
from omnigraph.types import columns_equal
from omnigraph.write.pending import PendingTable
from omnigraph.write.statements.aggregated import aggregates_by
from omnigraph.write.statements.identity import Identified
from omnigraph.write.statements.rows import Places, SourceRows, TableOf
from omnigraph.write.statements.spaces import TableSpace, column_of, property_type
from omnigraph.write.statements.values import stored_column
from omnigraph.write.statements.waves import waves
from omnigraph.write.vectors import follow_texts, note_inserted


@dataclass(frozen=True, slots=True)
class Scene:
    """What the statements of a mutation share: its rows, its tables, its parameters."""

    rows: SourceRows
    table_of: TableOf
    params: Mapping[str, Any]
    blobs: BlobPolicy


@dataclass(frozen=True)
class Assigning:
    """The assignments of one statement to entities of one table.

    ``at`` is the row of each change, in ascending order, and ``targets`` says which entity each change is of.
    ``replaces``: entities lose all values that are not assigned, as those do that are inserted.
    """

    scene: Scene
    statement: ir.Insert | ir.Update
    pending: PendingTable
    targets: Identified
    at: Places
    replaces: bool = False
    fresh: bool = False

    @property
    def entity(self) -> Entity:
        """The type of the entities."""
        return self.pending.entity

    def run(self) -> None:
        """Put the entities with their new values."""
        if not len(self.at):
            return
        for wave in self._waves():
            look()
            self._run(wave)

    def _waves(self) -> list[Places]:
        elements = self.scene.rows.elements
        if elements is None or not (self._reads_target or self._other_reads):
            return [np.arange(len(self.at))]
        return waves(elements[self.at], self.targets.codes, self._other_reads)

    @cached_property
    def _reads_target(self) -> bool:
        own = (
            {ir.TARGET, self.statement.var}
            if isinstance(self.statement, ir.Update)
            else {ir.TARGET}
        )
        return not self._mentioned.isdisjoint(own)

    @cached_property
    def _mentioned(self) -> set[str]:
        """The variables whose values the assignments look at."""
        values = [one.value for one in self.statement.assignments if one.value is not None]
        return {name for value in values for name in ir.mentioned(value)}

    @cached_property
    def _other_reads(self) -> tuple[Places, ...]:
        """The targets of this statement that each change looks at through other variables."""
        found: list[Places] = []
        for name in self._mentioned - {ir.TARGET, self.statement.var}:
            entities = self.scene.rows.entities.get(name)
            if entities is not None and self.entity in entities.types:
                ids = entities.ids.take(pa.array(self.at))
                places = pc.index_in(ids, self.targets.ids).fill_null(-1).to_numpy()
                found.append(places.astype(np.int64))
        return tuple(one for one in found if (one >= 0).any())

    def _run(self, wave: Places) -> None:
        used, codes = np.unique(self.targets.codes[wave], return_inverse=True)
        ids = self.targets.ids
        ids = ids if len(used) == len(ids) else ids.take(pa.array(used))
        before, is_there = self._before(ids)
        operands = self._operands(self.at[wave], before, codes)
        chosen = _last_changes(codes, len(used))
        is_in_order = len(chosen) == len(wave) and bool((chosen == np.arange(len(chosen))).all())
        columns = dict(zip(before.column_names, before.columns, strict=True))
        for assignment in self.statement.assignments:
            name = column_of(self.entity, assignment.property)
            kind = self.pending.schema.field(name).type
            values = stored_column(self.entity, assignment, operands, kind, self.scene.blobs)
            if len(used) < len(wave):
                self._refuse_different(assignment, values, codes, self.at[wave], ids)
            columns[name] = values if is_in_order else values.take(pa.array(chosen))
        if isinstance(self.statement, ir.Insert):
            self._add_defaults(columns, is_there)
        if not self.replaces:
            assigned = {one.property for one in self.statement.assignments}
            follow_texts(self.pending, before, columns, assigned)
        rows = pa.Table.from_arrays(
            [columns[name] for name in self.pending.schema.names], schema=self.pending.schema
        )
        if self.replaces:
            note_inserted(self.pending, rows)
        is_insert = isinstance(self.statement, ir.Insert)
        # Of an upsert it is known by now whether it found anything.
        is_new = self.fresh or (
            is_insert and not self.replaces and not pc.any(is_there, min_count=0).as_py()
        )
        self.pending.put(rows, fresh=is_new, inserted=is_insert and self.replaces)

    def _before(self, ids: pa.Array) -> tuple[pa.Table, pa.ChunkedArray | pa.Array]:
        """The entities as the statement finds them, and which of them are there."""
        if self.replaces:
            return nothing(self.pending, ids), pa.array(np.zeros(len(ids), np.bool_))
        return self.pending.current(ids)

    def _add_defaults(self, columns: dict[str, Any], is_there: pa.ChunkedArray | pa.Array) -> None:
        """Give new entities the defaults of properties that are not assigned."""
        assigned = {one.property for one in self.statement.assignments}
        for name in self.entity.defaults.keys() - assigned:
            given = self.entity.properties[name].default_column(len(is_there))
            given = given.cast(self.pending.schema.field(name).type)
            columns[name] = pc.if_else(is_there, columns[name], given)

    def _operands(self, at: Places, before: pa.Table, codes: Places) -> OperandRows:
        scene, names = self.scene, self._mentioned - {ir.TARGET}
        supply = None
        if self.statement.var is not None and _has_aggregates(self.statement):
            assert isinstance(self.statement, ir.Update)
            names = names | {self.statement.var}
            supply = aggregates_by(self.statement, scene.rows, scene.table_of, scene.params)
        around = scene.rows.operands(names, scene.table_of, scene.params, at, supply)
        return OperandRows(
            {**around.spaces, ir.TARGET: TableSpace(before, self.entity)},
            {**around.codes, ir.TARGET: codes.astype(np.int32)},
            scene.params,
            len(at),
            supply=supply,
        )

    def _refuse_different(
        self, assignment: ir.Assignment, values: pa.Array, codes: Places, at: Places, ids: pa.Array
    ) -> None:
        """Refuse two rows of a match that give one property of one entity different values."""
        if assignment.value is None or isinstance(assignment.value, ir.Value):
            return
        elements = self.scene.rows.elements
        order = np.argsort(codes, kind="stable")
        one, other = order[:-1], order[1:]
        same = codes[one] == codes[other]
        if elements is not None:
            same &= elements[at[one]] == elements[at[other]]
        one, other = one[same], other[same]
        kind = property_type(self.entity, assignment.property)
        equal = columns_equal(kind, values.take(pa.array(one)), values.take(pa.array(other)))
        different = np.flatnonzero(~equal.to_numpy(zero_copy_only=False))
        if len(different):
            row_id = ids[int(codes[one[different[0]]])].as_py()
            raise ConstraintError(
                f"ambiguous: rows of the match give property `{assignment.property}` of "
                f"{self.entity.name} '{row_id}' different values; narrow the match, or use an aggregate",
                property=assignment.property,
                id=row_id,
                violation="ambiguous",
            )


def _last_changes(codes: Places, count: int) -> Places:
    """The last change of each entity."""
    last = np.zeros(count, np.int64)
    last[codes] = np.arange(len(codes))
    return last


def _has_aggregates(statement: ir.Insert | ir.Update) -> bool:
    return any(
        one.value is not None and ir.has_aggregate(one.value) for one in statement.assignments
    )


def check_constants(scene: Scene, statement: ir.Update, pending: PendingTable) -> None:
    """Refuse values that fit no entity, also where there is none to change: those that are the same for all."""
    rows = OperandRows({}, {}, scene.params, 1)
    for one in statement.assignments:
        if one.value is None or isinstance(one.value, ir.Value):
            kind = pending.schema.field(one.property).type
            stored_column(pending.entity, one, rows, kind, scene.blobs)


def nothing(pending: PendingTable, ids: pa.Array) -> pa.Table:
    """Rows of which only the ids are there."""
    schema = pending.schema
    columns = [ids if one.name == "id" else pa.nulls(len(ids), one.type) for one in schema]
    return pa.Table.from_arrays(columns, schema=schema)
