"""Committed rows of the pinned snapshot, read by the few keys a change touches where possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.manifest.rows import TableState
from omnigraph.runner.protocol import Frame, Runner, distinct
from omnigraph.storage.filters import Condition, Pushdown, filter_expression
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.types import stored_items
from omnigraph.validate.change_set import ChangeSet

if TYPE_CHECKING:
    import pyarrow as pa

KEY_LIMIT = 10_000
"""Up to this many keys are looked up through the index; for more, whole columns are scanned."""


class Committed:
    """The committed side of a validation.

    It remembers in ``relied_on`` which tables were read, because the publish relies on them.
    """

    def __init__(
        self,
        runner: Runner,
        pins: Mapping[str, TableState],
        locate: Callable[[TableState], TableRef],
    ) -> None:
        self.runner = runner
        self.pins = pins
        self.locate = locate
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
        pin = self.pins[entity.table_key]
        self.relied_on.add(entity.table_key)
        schema = entity.arrow_schema()
        if changes.delta(entity).replaced or pin.row_count == 0:
            return self._empty_rows(schema, names)
        wanted = self._few_values(keys, key_column)
        if wanted is None:
            return self._scan_among(entity, names, column, keys, key_column)
        if not wanted:
            return self._empty_rows(schema, names)
        among = stored_items(wanted, schema.field(column).type)
        where = filter_expression(schema, [Condition(column, "in", among)])
        return self.runner.scan(self.locate(pin), names, where)

    def between(self, edge: EdgeType, columns: Sequence[str], keys: Frame) -> Frame:
        """Return committed edges whose ends are among those of the keys, or all if these are many."""
        names = list(dict.fromkeys(["id", *columns]))
        pin = self.pins[edge.table_key]
        self.relied_on.add(edge.table_key)
        if pin.row_count == 0:
            return self._empty_rows(edge.arrow_schema(), names)
        where = filter_by_ends(edge, lambda side: self._few_values(keys, side))
        if where is None:
            return self._scan_among(edge, names, "src", keys, "src")
        return self.runner.scan(self.locate(pin), names, where)

    def with_ids(self, entity: Entity, columns: Sequence[str], keys: Frame) -> Frame:
        """Return the committed rows whose id is among those of the keys, or all if these are many."""
        names = list(dict.fromkeys(["id", *columns]))
        self.relied_on.add(entity.table_key)
        schema = entity.arrow_schema()
        if self.pins[entity.table_key].row_count == 0:
            return self._empty_rows(schema, names)
        wanted = self._few_values(keys, "id")
        if wanted is None:
            return self._scan_among(entity, names, "id", keys, "id")
        where = filter_expression(schema, [Condition("id", "in", wanted)])
        return self.runner.scan(self.locate(self.pins[entity.table_key]), names, where)

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
        if here is not None and _is_exact(here.column(key_column), entity, column):
            ref = self.locate(self.pins[entity.table_key])
            found = self.runner.scan_among(ref, names, column, here.column(key_column))
        return self._scan(entity, names) if found is None else found

    def _scan(self, entity: Entity, names: Sequence[str]) -> Frame:
        """Return whole columns; rules that need the same columns share one scan."""
        key = (entity.table_key, *names)
        if key not in self._scanned:
            self._scanned[key] = self.runner.scan(self.locate(self.pins[entity.table_key]), names)
        return self._scanned[key]


def _is_exact(keys: pa.ChunkedArray, entity: Entity, column: str) -> bool:
    """Say whether Arrow finds equal what SQL does: it would tell -0.0 from 0.0."""
    import pyarrow as pa

    kind = entity.arrow_schema().field(column).type
    return bool(keys.type == kind and not pa.types.is_floating(kind))


def filter_by_ends(edge: EdgeType, values: Callable[[str], list[Any] | None]) -> Pushdown | None:
    """Return a filter for edges by the values of their ends; None if these are too many.

    If only one end has too many different values, the filter is on the other end alone.
    """
    ends = [(side, values(side)) for side in ("src", "dst")]
    few = [Condition(side, "in", wanted) for side, wanted in ends if wanted is not None]
    return filter_expression(edge.arrow_schema(), few) if few else None
