"""Which entities a `where` means, for each row of the mutation.

A condition that mentions no row is judged once. One that compares a property with a value of the row is joined by
it: `update Person set { age: $r.age } where name = $r.name` looks every name up once, whatever the number of rows.
All others are judged row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import look
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Entity, NodeType
from omnigraph.read.values.column import Column
from omnigraph.read.values.expressions import evaluate, holds, type_of
from omnigraph.read.values.operands import Given, OperandRows
from omnigraph.storage.filters import Condition
from omnigraph.types import as_integers, is_unicode
from omnigraph.validate.committed import KEY_LIMIT
from omnigraph.write.pending import PendingTable
from omnigraph.write.statements.rows import Places, SourceRows, TableOf
from omnigraph.write.statements.spaces import TableSpace, column_of, property_type

_MIRRORED: Mapping[str, Any] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CROSS_ROWS = 1_000_000
"""Pairs of rows and candidates that are judged at once."""


@dataclass(frozen=True, slots=True)
class Targets:
    """What a statement changes: rows of a table, and for which row of the mutation (``rows``) each one (``codes``)."""

    table: pa.Table
    rows: Places
    codes: Places


@dataclass(frozen=True, slots=True)
class Where:
    """The `where` of a statement on a table."""

    pending: PendingTable
    condition: ir.Condition
    params: Mapping[str, Any]
    table_of: TableOf

    @property
    def entity(self) -> Entity:
        """The type whose entities it chooses."""
        return self.pending.entity

    @property
    def mentions_rows(self) -> bool:
        """Whether it may choose others for another row."""
        return any(name != ir.TARGET for name in ir.mentioned(self.condition))

    @property
    def properties(self) -> set[str]:
        """The properties of the target that it looks at."""
        return self._looked_at()

    def targets(self, rows: SourceRows, at: Places, *, whole: bool) -> Targets:
        """Return what the condition means for each of the rows at these places.

        ``whole``: their whole rows are wanted, not just the columns that the condition looks at.
        """
        if not len(at):
            return Targets(self.pending.schema.empty_table(), at, at)
        if not self.mentions_rows:
            found = self._judged(self._candidates([], whole=whole))
            pairs = np.repeat(at, found.num_rows), np.tile(np.arange(found.num_rows), len(at))
            return Targets(found, *pairs)
        joined = self._join(rows, at, whole=whole)
        if joined is None:
            return self._row_by_row(rows, at, whole=whole)
        return joined

    # -------------------------------------------------------------- candidates

    def _candidates(self, also: list[Condition], *, whole: bool) -> pa.Table:
        conditions = [*self._pushed(), *also]
        columns = [column_of(self.entity, name) for name in sorted(self._looked_at())]
        # Without a condition to read by, whole rows are read only of what is chosen.
        read_whole = whole and bool(conditions)
        return self.pending.candidates(conditions, None if read_whole else columns)

    def _looked_at(self) -> set[str]:
        return set(_target_properties(self.condition))

    def _pushed(self) -> list[Condition]:
        """The parts of the condition that a table can be filtered by."""
        found = (_pushed(self.entity, part, self.params) for part in _parts(self.condition))
        return [one for one in found if one is not None]

    def _judged(self, candidates: pa.Table) -> pa.Table:
        """Those of the candidates that satisfy a condition without rows."""
        if not candidates.num_rows:
            return candidates
        space = TableSpace(candidates, self.entity)
        operands = OperandRows({ir.TARGET: space}, {ir.TARGET: None}, self.params, space.size)
        held = holds(self.condition, operands)
        return candidates if held.all() else candidates.filter(pa.array(held))

    # -------------------------------------------------------------- rows and candidates

    def _join(self, rows: SourceRows, at: Places, *, whole: bool) -> Targets | None:
        """Pairs by a property that must equal a value of the row; None if there is no such part."""
        key = next(filter(None, map(_join_key, _parts(self.condition))), None)
        if key is None:
            return None
        name, expr = key
        values = evaluate(expr, rows.operands(ir.mentioned(expr), self.table_of, self.params, at))
        distinct = values.array.unique().drop_null()
        also = []
        if len(distinct) <= KEY_LIMIT:
            column = _read_column(self.entity, name)
            known = [one for one in _stored(distinct) if _is_storable(one)]
            also = [Condition(column, "in", known)]
        candidates = self._candidates(also, whole=whole)
        stored = TableSpace(candidates, self.entity).column(name)
        left, right = _comparable(stored), _comparable(values)
        if left.type != right.type:
            left, right = left.cast(pa.float64(), safe=False), right.cast(pa.float64(), safe=False)
        pairs = _matching(left, right)
        return self._satisfied(candidates, rows, at[pairs[1]], pairs[0])

    def _row_by_row(self, rows: SourceRows, at: Places, *, whole: bool) -> Targets:
        candidates = self._candidates([], whole=whole)
        some = max(1, _CROSS_ROWS // max(1, candidates.num_rows))
        found: list[Targets] = []
        for start in range(0, len(at), some):
            look()
            part = at[start : start + some]
            every = np.tile(np.arange(candidates.num_rows), len(part))
            found.append(
                self._satisfied(candidates, rows, np.repeat(part, candidates.num_rows), every)
            )
        return Targets(
            candidates,
            np.concatenate([one.rows for one in found]),
            np.concatenate([one.codes for one in found]),
        )

    def _satisfied(
        self, candidates: pa.Table, rows: SourceRows, at: Places, codes: Places
    ) -> Targets:
        """The pairs that satisfy the whole condition."""
        names = set(ir.mentioned(self.condition)) - {ir.TARGET}
        around = rows.operands(names, self.table_of, self.params, at)
        operands = OperandRows(
            {**around.spaces, ir.TARGET: TableSpace(candidates, self.entity)},
            {**around.codes, ir.TARGET: codes.astype(np.int32)},
            self.params,
            len(at),
        )
        held = holds(self.condition, operands)
        return Targets(candidates, at[held], codes[held])


# ------------------------------------------------------------------ parts of conditions


def _parts(condition: ir.Condition) -> Iterator[ir.Condition]:
    """What must hold for the condition to hold."""
    if isinstance(condition, ir.And):
        for part in condition.parts:
            yield from _parts(part)
    else:
        yield condition


def _target_properties(part: ir.Output | ir.Condition) -> Iterator[str]:
    if isinstance(part, ir.PropertyOf) and part.var == ir.TARGET:
        yield part.property
    for inner in ir.parts_of(part):
        yield from _target_properties(inner)


def _is_target(operand: ir.Expr) -> bool:
    return isinstance(operand, ir.PropertyOf) and operand.var == ir.TARGET


def _read_column(entity: Entity, name: str) -> str:
    """The column to look a value up in: a key of one text is the id, which has an index."""
    is_id = isinstance(entity, NodeType) and entity.id_property == name
    return "id" if is_id else column_of(entity, name)


def _pushed(entity: Entity, part: ir.Condition, params: Mapping[str, Any]) -> Condition | None:
    """The part as a filter of the table; None where it cannot be one."""
    if isinstance(part, ir.IsNull):
        operand = part.operand
        if isinstance(operand, ir.PropertyOf) and operand.var == ir.TARGET:
            return Condition(column_of(entity, operand.property), "is_null")
    if not isinstance(part, ir.Compare):
        return None
    left, op, right = part.left, part.op, part.right
    if isinstance(left, ir.Value) and isinstance(right, ir.PropertyOf) and op in _MIRRORED:
        left, op, right = right, _MIRRORED[op], left
    if op == "member" and isinstance(left, ir.Value) and isinstance(right, ir.PropertyOf):
        return _pushed_list(entity, left, right, params)
    if not isinstance(left, ir.PropertyOf) or not isinstance(right, ir.Value) or op == "suffix":
        return None
    if left.var != ir.TARGET:
        return None
    kind = property_type(entity, left.property)
    value = _beside(kind, right, params)
    if not _is_storable(value):
        return None
    column = column_of(entity, left.property)
    if op == "=":
        column = _read_column(entity, left.property)
    return Condition(column, op, value)


def _pushed_list(
    entity: Entity, values: ir.Value, operand: ir.PropertyOf, params: Mapping[str, Any]
) -> Condition | None:
    if operand.var != ir.TARGET:
        return None
    items = _beside(property_type(entity, operand.property), values, params)
    if not isinstance(items, list) or len(items) > KEY_LIMIT or not all(map(_is_storable, items)):
        return None
    return Condition(_read_column(entity, operand.property), "in", items)


def _beside(kind: Any, operand: ir.Value, params: Mapping[str, Any]) -> Any:
    """A value as it is compared with a column of that type."""
    given = Given(ir.value_of(operand, params), operand.type)
    empty = Column(kind.element, pa.nulls(0, kind.element.arrow_type()))
    return given.beside(empty) if given.value is not None else None


def _is_storable(value: Any) -> bool:
    return not isinstance(value, str) or is_unicode(value)


def _join_key(part: ir.Condition) -> tuple[str, ir.Expr] | None:
    """The property and the value of the row that an equality compares."""
    if not isinstance(part, ir.Compare) or part.op != "=":
        return None
    for one, other in ((part.left, part.right), (part.right, part.left)):
        names = set(ir.mentioned(other))
        if _is_target(one) and names and ir.TARGET not in names and not type_of(other).is_list:
            assert isinstance(one, ir.PropertyOf)
            return None if one.type.is_list else (one.property, other)
    return None


def _stored(distinct: pa.Array) -> list[Any]:
    items: list[Any] = as_integers(distinct).to_pylist()
    return items


def _comparable(column: Column) -> pa.Array:
    """Values as texts or numbers, so that equal ones are equal whatever their types."""
    array = column.array
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_floating(array.type):
        return pc.add(array.cast(pa.float64()), 0.0)  # so that both zeros are one
    if pa.types.is_boolean(array.type):
        return array.cast(pa.int64())
    return as_integers(array).cast(pa.int64(), safe=False)


def _matching(left: pa.Array, right: pa.Array) -> tuple[Places, Places]:
    """The pairs of places with equal values, in the order of the right ones."""
    groups = right.unique().drop_null()
    of_left = pc.index_in(left, groups).fill_null(-1).to_numpy()
    of_right = pc.index_in(right, groups).fill_null(-1).to_numpy()
    order = np.argsort(of_left, kind="stable")
    begins = np.searchsorted(of_left[order], np.arange(len(groups)))
    counts = np.searchsorted(of_left[order], np.arange(len(groups)), side="right") - begins
    rows = np.flatnonzero(of_right >= 0)
    times = counts[of_right[rows]]
    ends = np.cumsum(times)
    nth = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - times, times)
    places = order[np.repeat(begins[of_right[rows]], times) + nth]
    return places.astype(np.int64), np.repeat(rows, times).astype(np.int64)
