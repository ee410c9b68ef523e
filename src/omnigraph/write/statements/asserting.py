"""`assert`: begins a fact at a moment, and ends those that may not hold beside it.

Rivals of a new entity are stored ones with the tuple of one of its unique groups, or the edge's source where it may have
one edge. They are looked up once for all rows:

    since  until   at the moment m of the row
    ≤ m    > m     it holds: it ends at m, or says the same already, and then nothing is written
    > m            it comes later: the new entity ends where the first of these begins
    since = until  it holds never, and is no rival

Rows run one after the other only where two of them have a tuple, or a rival, in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import look
from omnigraph.errors import ConstraintError
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import EdgeType, Entity, NodeType, Period
from omnigraph.types import columns_equal
from omnigraph.write.pending import PendingTable
from omnigraph.write.statements.assign import Scene, nothing
from omnigraph.write.statements.identity import Columns, keyed, new_ids, tuple_texts
from omnigraph.write.statements.periods import OPEN, Spans, moments_of, stored_bound
from omnigraph.write.statements.rows import Places
from omnigraph.write.statements.spaces import column_of, property_type
from omnigraph.write.statements.values import stored_column
from omnigraph.write.vectors import note_inserted


class _Rivals(NamedTuple):
    """Rivals of some rows: their whole rows, and pairs of a row's place and the place of a rival of it."""

    table: pa.Table
    rows: Places
    places: Places


@dataclass(frozen=True)
class Asserting:
    """One `assert`."""

    scene: Scene
    statement: ir.Assert
    pending: PendingTable

    @property
    def entity(self) -> Entity:
        """The type of what is asserted."""
        return self.pending.entity

    @cached_property
    def period(self) -> Period:
        """The period of that type."""
        assert self.entity.period is not None
        return self.entity.period

    def run(self) -> tuple[pa.Array, int]:
        """Assert for every row; return the id of each row's entity, and how many were written."""
        ids = np.empty(self.scene.rows.length, object)
        count = 0
        for at in self._parts():
            count += self._assert(at, ids)
        return pa.array(ids, pa.string()), count

    def _parts(self) -> list[Places]:
        """All rows at once, or element by element if a value reads what earlier elements change."""
        rows = self.scene.rows
        every = np.arange(rows.length)
        if not rows.length:
            return []
        reads = [rows.entities[name] for name in self._names if name in rows.entities]
        if rows.elements is None or not any(self.entity in one.types for one in reads):
            return [every]
        return np.split(every, np.flatnonzero(np.diff(rows.elements)) + 1)

    @cached_property
    def _names(self) -> set[str]:
        """The variables that the statement reads."""
        values = [one.value for one in self.statement.assignments if one.value is not None]
        return {name for one in (*values, self.statement.moment) for name in ir.mentioned(one)}

    # -------------------------------------------------------------- values

    def _assert(self, at: Places, ids: np.ndarray) -> int:
        scene = self.scene
        operands = scene.rows.operands(self._names, scene.table_of, scene.params, at)
        moments = moments_of(self.statement.moment, operands)
        if not moments.known.all():
            raise ConstraintError(
                f"the moment of assert {self.entity.name} is null; say when it begins",
                type_name=self.entity.name,
                violation="null",
            )
        schema = self.pending.schema
        empty = nothing(self.pending, pa.nulls(len(at), pa.string()))
        columns = {name: empty.column(name).combine_chunks() for name in schema.names[1:]}
        for name in self.entity.defaults:
            given = self.entity.properties[name].default_column(len(at))
            columns[name] = given.cast(schema.field(name).type)
        for one in self.statement.assignments:
            name = column_of(self.entity, one.property)
            kind = schema.field(name).type
            columns[name] = stored_column(self.entity, one, operands, kind, scene.blobs)
        kind = schema.field(self.period.since).type
        columns[self.period.since] = stored_bound(self.period, moments.at, kind)
        count = 0
        for wave in _waves(self._tuples(columns), len(at)):
            look()
            count += self._run(wave, at, columns, moments.at, ids)
        return count

    @cached_property
    def _groups(self) -> list[tuple[str, ...]]:
        """The columns that rivals have in common with a new entity."""
        groups = list(self.entity.unique)
        if isinstance(self.entity, EdgeType) and self.entity.cardinality.max == 1:
            groups.append(("src",))
        return groups

    def _tuples(self, columns: Columns) -> list[pa.Array]:
        """For each group a text of each row's tuple; null where a member is null, so that nothing equals it."""
        found = []
        for group in self._groups:
            texts = tuple_texts(self.pending, group, columns)
            for name in group:
                texts = pc.if_else(columns[name].is_valid(), texts, pa.scalar(None, pa.string()))
            found.append(texts)
        return found

    # -------------------------------------------------------------- rivals

    def _run(
        self, wave: Places, at: Places, columns: Columns, moments: Places, ids: np.ndarray
    ) -> int:
        """Assert for rows that have no tuple in common; return how many entities were written."""
        some = {name: column.take(pa.array(wave)) for name, column in columns.items()}
        rivals = self._rivals(some)
        if len(wave) > 1 and len(np.unique(rivals.places)) < len(rivals.places):
            parts = [np.array([one]) for one in wave]
            return sum(self._run(one, at, columns, moments, ids) for one in parts)
        spans = Spans.of(self.period, rivals.table).take(rivals.places)
        mine = moments[wave][rivals.rows]
        held = spans.hold_at(mine)
        later = spans.hold_ever & (spans.since > mine)
        ends = np.full(len(wave), OPEN)
        np.minimum.at(ends, rivals.rows[later], spans.since[later])
        says_it = held & self._says_the_same(rivals, some)
        is_said = np.zeros(len(wave), np.bool_)
        is_said[rivals.rows[says_it]] = True
        for row, place in zip(rivals.rows[says_it], rivals.places[says_it], strict=True):
            ids[at[wave[row]]] = rivals.table.column("id")[int(place)].as_py()
        new = np.flatnonzero(~is_said)
        if not len(new):
            return 0
        ended = held & ~is_said[rivals.rows]
        made = self._new_rows(new, some, ends)
        ids[at[wave[new]]] = made.column("id").to_numpy()
        count = self._end(rivals, ended, mine, made)
        self.pending.put(made, fresh=not self._is_keyed, inserted=True)
        return count + len(new)

    @property
    def _is_keyed(self) -> bool:
        return isinstance(self.entity, NodeType) and self.entity.key is not None

    def _rivals(self, columns: Columns) -> _Rivals:
        """Look up the entities that share a tuple with some row; one look-up serves groups that are read alike."""
        tables: dict[str, pa.Table] = {}
        pairs: list[pa.Table] = []
        for group, texts in zip(self._groups, self._tuples(columns), strict=True):
            lead = self._lead(group)
            if lead not in tables:
                values = columns[lead].unique().drop_null()
                tables[lead] = self.pending.rows_among(lead, values)
            known = tables[lead]
            stored = {name: known.column(name).combine_chunks() for name in group}
            row = pc.index_in(tuple_texts(self.pending, group, stored), texts)
            pairs.append(known.append_column("#row", row).filter(row.is_valid()))
        if not pairs:
            return _Rivals(self.pending.schema.empty_table(), *np.empty((2, 0), np.int64))
        found = pa.concat_tables(pairs)
        rows = found.column("#row").to_numpy().astype(np.int64)
        names = found.column("id").combine_chunks().dictionary_encode()
        codes = names.indices.to_numpy().astype(np.int64)
        # An entity may be a rival by several groups.
        _, first = np.unique(np.stack([rows, codes]), axis=1, return_index=True)
        _, place = np.unique(codes, return_index=True)
        return _Rivals(found.drop(["#row"]).take(pa.array(place)), rows[first], codes[first])

    def _lead(self, group: Sequence[str]) -> str:
        """The column of a group to look rivals up by: a text, if there is one."""
        if "src" in group:
            return "src"
        texts = (name for name in group if pa.types.is_string(self.pending.schema.field(name).type))
        return next(texts, group[0])

    def _says_the_same(self, rivals: _Rivals, columns: Columns) -> np.ndarray:
        """Which rivals already have all assigned values. Blobs are not compared: a blob that is given counts as new."""
        same = np.ones(len(rivals.rows), np.bool_)
        for one in self.statement.assignments:
            kind = property_type(self.entity, one.property)
            if kind.is_blob:
                return np.zeros(len(rivals.rows), np.bool_)
            name = column_of(self.entity, one.property)
            mine = columns[name].take(pa.array(rivals.rows))
            theirs = rivals.table.column(name).combine_chunks().take(pa.array(rivals.places))
            same &= columns_equal(kind, mine, theirs).to_numpy(zero_copy_only=False)
        return same

    # -------------------------------------------------------------- what is written

    def _new_rows(self, new: Places, columns: Columns, ends: Places) -> pa.Table:
        schema, until = self.pending.schema, self.period.until
        made = {name: column.take(pa.array(new)) for name, column in columns.items()}
        if until not in {one.property for one in self.statement.assignments}:
            made[until] = stored_bound(self.period, ends[new], schema.field(until).type)
        if isinstance(self.entity, NodeType) and self.entity.key is not None:
            found = keyed(self.entity, made)
            ids = found.ids.take(pa.array(found.codes))
        else:
            ids = new_ids(self.pending, made, len(new), at_once=True)
        rows = pa.Table.from_arrays(
            [ids if name == "id" else made[name] for name in schema.names], schema=schema
        )
        note_inserted(self.pending, rows)
        return rows

    def _end(self, rivals: _Rivals, ended: np.ndarray, moments: Places, made: pa.Table) -> int:
        """End rivals at the moments of their rows; one whose id the new entity has is replaced by it."""
        rows = rivals.table.take(pa.array(rivals.places[ended]))
        if not rows.num_rows:
            return 0
        field = self.pending.schema.field(self.period.until)
        until = stored_bound(self.period, moments[ended], field.type)
        rows = rows.set_column(rows.schema.get_field_index(field.name), field, until)
        rows = rows.filter(pc.invert(pc.is_in(rows.column("id"), made.column("id"))))
        self.pending.put(rows)
        return int(rows.num_rows)


def _waves(tuples: Sequence[pa.Array], length: int) -> Iterator[Places]:
    """Yield places of rows that have no tuple in common, earlier rows with a tuple in earlier waves."""
    every = np.arange(length)
    if all(len(texts.drop_null().unique()) == len(texts) - texts.null_count for texts in tuples):
        yield every
        return
    levels = np.zeros(length, np.int64)
    taken: list[dict[str, int]] = [{} for _ in tuples]
    values = [texts.to_pylist() for texts in tuples]
    for row in range(length):
        mine = [(seen, texts[row]) for seen, texts in zip(taken, values, strict=True)]
        level = max((seen.get(text, 0) for seen, text in mine if text is not None), default=0)
        levels[row] = level
        for seen, text in mine:
            if text is not None:
                seen[text] = level + 1
    for level in range(int(levels.max()) + 1):
        yield every[levels == level]
