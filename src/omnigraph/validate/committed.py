"""Committed rows of the pinned snapshot, read by the few keys a change touches where possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.manifest.rows import TableState
from omnigraph.runner.runner import Frame, Runner, distinct
from omnigraph.storage.filters import Condition, Pushdown, filter_expression
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.types import stored_items
from omnigraph.validate.change_set import ChangeSet

if TYPE_CHECKING:
    import pyarrow as pa

KEY_LIMIT = 10_000
"""Up to this many keys are looked up through the index; for more, whole columns are scanned."""


class Overlay(Protocol):
    """What counts as committed of one table although it is not yet."""

    @property
    def rows(self) -> pa.Table:
        """Added and changed rows, one per id."""

    @property
    def hidden(self) -> pa.Array:
        """The ids of stored rows that no longer count."""


class Committed:
    """The committed side of a validation.

    It remembers in ``relied_on`` which tables were read, because the publish relies on them. ``columns`` says,
    for tables whose columns are not those of their type, which column holds each property; None: no column
    does, and all is null. ``overlays`` are by table key what counts besides the stored rows, or in their place.
    """

    def __init__(
        self,
        runner: Runner,
        pins: Mapping[str, TableState],
        locate: Callable[[TableState], TableRef],
        columns: Mapping[str, Mapping[str, str | None]] = MappingProxyType({}),
        overlays: Mapping[str, Overlay] = MappingProxyType({}),
    ) -> None:
        self.runner = runner
        self.pins = pins
        self.locate = locate
        self._columns = columns
        self._overlays = overlays
        self.relied_on: set[str] = set()
        self._scanned: dict[tuple[str, ...], Frame] = {}
        self._empty: dict[pa.Schema, Frame] = {}
        self._distinct: dict[tuple[int, str], tuple[Frame, list[Any] | None]] = {}

    def rows(
        self,
        changes: ChangeSet,
        entity: Entity,
        columns: Sequence[str],
        column: str,
        keys: Frame,
        key_column: str,
    ) -> Frame:
        """Return committed rows whose ``column`` is among the keys, or all rows if the keys are many."""
        names = list(dict.fromkeys(["id", *columns]))
        self.relied_on.add(entity.table_key)
        schema = entity.arrow_schema()
        if changes.delta(entity).replaced or self._is_empty(entity):
            return self._empty_rows(schema, names)
        wanted = self._few_values(keys, key_column)
        if wanted is None:
            return self._scan_among(entity, names, column, keys, key_column)
        if not wanted:
            return self._empty_rows(schema, names)
        among = stored_items(wanted, schema.field(column).type)
        return self._read(entity, names, [Condition(column, "in", among)])

    def between(self, edge: EdgeType, columns: Sequence[str], keys: Frame) -> Frame:
        """Return committed edges whose ends are among those of the keys, or all if these are many."""
        names = list(dict.fromkeys(["id", *columns]))
        self.relied_on.add(edge.table_key)
        if self._is_empty(edge):
            return self._empty_rows(edge.arrow_schema(), names)
        where = ends_among(lambda side: self._few_values(keys, side))
        if not where:
            return self._scan_among(edge, names, "src", keys, "src")
        return self._read(edge, names, where)

    def with_ids(self, entity: Entity, columns: Sequence[str], keys: Frame) -> Frame:
        """Return the committed rows whose id is among those of the keys, or all if these are many."""
        names = list(dict.fromkeys(["id", *columns]))
        self.relied_on.add(entity.table_key)
        schema = entity.arrow_schema()
        if self._is_empty(entity):
            return self._empty_rows(schema, names)
        wanted = self._few_values(keys, "id")
        if wanted is None:
            return self._scan_among(entity, names, "id", keys, "id")
        return self._read(entity, names, [Condition("id", "in", wanted)])

    def no_rows(self, entity: Entity, columns: Sequence[str]) -> Frame:
        """Return a frame of these columns of a type, and of its ids, without rows."""
        return self._empty_rows(entity.arrow_schema(), list(dict.fromkeys(["id", *columns])))

    def all_rows(self, entity: Entity, columns: Sequence[str]) -> Frame:
        """Return every committed row."""
        self.relied_on.add(entity.table_key)
        names = list(dict.fromkeys(["id", *columns]))
        return self._scan(entity, names)

    def _few_values(self, keys: Frame, column: str) -> list[Any] | None:
        """Return the distinct values of a column; None if there are many.

        Rules ask for the same ones, and for rows that are elsewhere every question is a job.
        """
        if self.runner.in_memory(keys) is not None:
            return distinct(self.runner, keys, column, KEY_LIMIT)
        asked = (id(keys), column)
        if asked not in self._distinct:
            self._distinct[asked] = (keys, distinct(self.runner, keys, column, KEY_LIMIT))
        return self._distinct[asked][1]

    def _empty_rows(self, schema: pa.Schema, names: Sequence[str]) -> Frame:
        """Return a frame of these columns without rows."""
        import pyarrow as pa

        fields = pa.schema([schema.field(name) for name in names])
        if fields not in self._empty:
            self._empty[fields] = self.runner.frame(fields.empty_table())
        return self._empty[fields]

    def _scan_among(
        self, entity: Entity, names: Sequence[str], column: str, keys: Frame, key_column: str
    ) -> Frame:
        """Return the rows that have one of many keys, or whole columns where that is no dearer."""
        here = self.runner.in_memory(keys)
        found = None
        if (
            self._is_as_declared(entity, [*names, column])
            and here is not None
            and _is_exact(here.column(key_column), entity, column)
        ):
            ref = self.locate(self.pins[entity.table_key])
            found = self.runner.scan_among(ref, names, column, here.column(key_column))
        return self._scan(entity, names) if found is None else found

    def _scan(self, entity: Entity, names: Sequence[str]) -> Frame:
        """Return whole columns; rules that need the same columns share one scan."""
        key = (entity.table_key, *names)
        if key not in self._scanned:
            self._scanned[key] = self._read(entity, names)
        return self._scanned[key]

    def _is_as_declared(self, entity: Entity, names: Sequence[str]) -> bool:
        stored = self._columns.get(entity.table_key, {})
        return all(stored.get(name, name) == name for name in names)

    def _is_empty(self, entity: Entity) -> bool:
        key = entity.table_key
        return self.pins[key].row_count == 0 and key not in self._overlays

    def _read(
        self, entity: Entity, names: Sequence[str], conditions: Sequence[Condition] = ()
    ) -> Frame:
        """Return columns of the rows that satisfy all conditions, under the names of the type."""
        stored = self._read_stored(entity, names, conditions)
        overlay = self._overlays.get(entity.table_key)
        if overlay is None:
            return stored
        rows = _satisfying(overlay.rows, conditions).select(names)
        return self._laid_over(stored, rows, overlay.hidden)

    def _laid_over(self, stored: Frame, rows: pa.Table, hidden: pa.Array) -> Frame:
        """Return rows, and those stored ones that are not hidden."""
        import pyarrow as pa
        import pyarrow.compute as pc

        here = self.runner.in_memory(stored)
        if here is not None:
            left = here.filter(pc.invert(pc.is_in(here.column("id"), hidden)))
            return self.runner.frame(pa.concat_tables([left.cast(rows.schema), rows]))
        text = "SELECT * FROM com ANTI JOIN hid USING (id) UNION ALL BY NAME SELECT * FROM new"
        frames = {
            "com": stored,
            "hid": self.runner.frame(pa.table({"id": hidden})),
            "new": self.runner.frame(rows),
        }
        return self.runner.sql(text, frames)

    def _read_stored(
        self, entity: Entity, names: Sequence[str], conditions: Sequence[Condition]
    ) -> Frame:
        import pyarrow as pa

        pin, schema = self.pins[entity.table_key], entity.arrow_schema()
        if pin.row_count == 0:
            return self._empty_rows(schema, names)
        asked = [*names, *(one.column for one in conditions)]
        if self._is_as_declared(entity, asked):
            where = filter_expression(schema, conditions) if conditions else None
            return self.runner.scan(self.locate(pin), names, where)
        stored = self._columns[entity.table_key]
        if any(stored.get(one.column, one.column) is None for one in conditions):
            return self._empty_rows(schema, names)
        there = {name: stored.get(name, name) for name in names}
        renamed = [replace(one, column=stored.get(one.column) or one.column) for one in conditions]
        ref = self.locate(pin)
        where = filter_expression(open_table(ref).schema, renamed) if renamed else None
        found = self.runner.scan(ref, [one for one in there.values() if one is not None], where)
        fields = pa.schema([schema.field(name) for name in names])
        return self.runner.map(found, _UnderNames(there, fields), fields)


@dataclass(frozen=True, slots=True)
class _UnderNames:
    """Gives columns the names and types of a schema; one that there is no column for is null."""

    stored: Mapping[str, str | None]
    schema: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        columns = []
        for field in self.schema:
            name = self.stored[field.name]
            if name is None:
                columns.append(pa.nulls(batch.num_rows, field.type))
            else:
                columns.append(batch.column(name).cast(field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _is_exact(keys: pa.ChunkedArray, entity: Entity, column: str) -> bool:
    """Say whether Arrow finds equal what SQL does: it would tell -0.0 from 0.0."""
    import pyarrow as pa

    kind = entity.arrow_schema().field(column).type
    return bool(keys.type == kind and not pa.types.is_floating(kind))


def _satisfying(rows: pa.Table, conditions: Sequence[Condition]) -> pa.Table:
    """Return at least those rows that satisfy all conditions; as in ``_is_exact``, numbers may be equal in two forms."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for one in conditions:
        kind = rows.schema.field(one.column).type
        if one.op == "in" and (pa.types.is_string(kind) or pa.types.is_integer(kind)):
            rows = rows.filter(pc.is_in(rows.column(one.column), pa.array(one.value, kind)))
    return rows


def ends_among(values: Callable[[str], list[Any] | None]) -> list[Condition]:
    """Return conditions on the ends of edges, by their values; none if these are too many.

    If only one end has too many different values, the condition is on the other end alone.
    """
    ends = [(side, values(side)) for side in ("src", "dst")]
    return [Condition(side, "in", wanted) for side, wanted in ends if wanted is not None]


def filter_by_ends(edge: EdgeType, values: Callable[[str], list[Any] | None]) -> Pushdown | None:
    """Return these conditions as a filter; None if there are none."""
    few = ends_among(values)
    return filter_expression(edge.arrow_schema(), few) if few else None
