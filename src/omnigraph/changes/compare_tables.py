"""Compare two states of one table: the entities whose images differ, in order of their ids.

Where few rows changed, they are looked up by id on both sides. Where many did, or any may have, both
sides are read in order of ids and laid side by side, or joined on executors.

An executor writes every row as one text, from which Spark leaves out the rows that are the same on both
sides. The others are fetched by row id and compared here by the one equality, so the answer does not
depend on the engine: rows with equal texts are equal, and it does not matter if a few others are, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import look
from omnigraph.changes.images import equal_across, equal_rows
from omnigraph.changes.may_differ import find_candidates
from omnigraph.changes.row_pairs import ROW_ID, AlignedRows, ChangedRows
from omnigraph.changes.schemas.type_pairs import Compared
from omnigraph.changes.table_side import CHUNK_BYTES, CHUNK_ROWS, TableSide
from omnigraph.manifest.rows import TableState
from omnigraph.runner.runner import Through
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.blobs.carry import is_external
from omnigraph.types import TEXT, PropType, column_to_json_text

if TYPE_CHECKING:
    from omnigraph.runner.runner import Frame
    from omnigraph.runner.spark_runner import SparkRunner


_SCHEMA = pa.schema([("id", pa.utf8()), ("place", pa.int64()), ("image", pa.utf8())])

_PAIRS = """
SELECT COALESCE(a.id, b.id) AS id, a.place AS was, b.place AS now,
    CASE WHEN a.image = b.image THEN 1 ELSE 0 END AS same
FROM a FULL OUTER JOIN b ON a.id = b.id
"""


@dataclass(frozen=True, slots=True)
class RowTexts:
    """Turns batches of one side into texts. It is sent to executors, so it holds plain values only.

    ``side`` stands for every blob in the table: whether two of them have the same bytes is not known
    here, so they never look equal.
    """

    columns: tuple[tuple[str | None, PropType], ...]
    side: str

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the ids, the row ids and the texts of a batch."""
        texts: list[Any] = []
        for column, kind in self.columns:
            if column is None:
                texts.append("null")
            elif kind.is_blob:
                texts.append(self._blobs(batch.column(column)))
            else:
                # A past state may have the numbers in a smaller type.
                values, wanted = batch.column(column), kind.arrow_type()
                values = values if values.type == wanted else values.cast(wanted)
                texts.append(column_to_json_text(kind, values))
        ids = batch.column("id")
        joined = pc.binary_join_element_wise(pa.array([""] * len(ids), pa.utf8()), *texts, ",")
        places = batch.column(ROW_ID).cast(pa.int64())
        return pa.RecordBatch.from_arrays([ids, places, joined], schema=_SCHEMA)

    def _blobs(self, described: pa.Array) -> pa.Array:
        if isinstance(described, pa.ExtensionArray):
            described = described.storage
        address = column_to_json_text(TEXT, pc.struct_field(described, "blob_uri"))
        part = [pc.struct_field(described, name).cast(pa.utf8()) for name in ("position", "size")]
        external = pc.binary_join_element_wise(address, *(pc.fill_null(p, "") for p in part), " ")
        known = pc.if_else(is_external(described), external, self.side)
        return pc.if_else(pc.is_valid(described), known, "null")


def pairs_on_spark(
    runner: SparkRunner,
    before: TableSide,
    after: TableSide,
    after_id: str | None,
    chunk_rows: int,
    compared: Compared | None = None,
) -> Iterator[tuple[AlignedRows, AlignedRows]]:
    """Yield rows of both sides with the same ids, which include every one that differs, in order."""
    sides = ((before, after), compared)
    frames = {name: _texts(runner, at, sides, after_id) for at, name in enumerate("ab")}
    pairs = runner.sql(_PAIRS, frames)
    after.meter.candidates += runner.count(pairs)
    differing = runner.sql("SELECT id, was, now FROM p WHERE same = 0", {"p": pairs})
    for batch in runner.stream(differing, chunk_rows, order_by="id"):
        ids = batch.column("id")
        yield _rows_at(before, ids, batch.column("was")), _rows_at(after, ids, batch.column("now"))


def _texts(
    runner: SparkRunner,
    at: int,
    sides: tuple[tuple[TableSide, TableSide], Compared | None],
    after_id: str | None,
) -> Frame:
    """The rows of one side as texts: the first is 0, the second 1."""
    side = sides[0][at]
    if side.row_count == 0:
        return runner.frame(_SCHEMA.empty_table())
    listed = _text_columns(at, *sides)
    columns = [column for column, _ in listed]
    where = None
    if after_id is not None:
        where = filter_expression(side.table.schema, [Condition("id", ">", after_id)])
    with side.reading():
        return runner.scan_fragments(
            side.table,
            ["id", *(column for column in columns if column is not None)],
            where,
            Through(RowTexts(listed, "ab"[at]), _SCHEMA),
            with_row_id=True,
        )


def _text_columns(
    at: int, sides: tuple[TableSide, TableSide], compared: Compared | None
) -> tuple[tuple[str | None, PropType], ...]:
    """The columns of one side, with their types, in an order that both sides have.

    A property that only one side has is null on the other.
    """
    side = sides[at]
    entity = side.entity
    found: list[tuple[str | None, PropType]] = [
        (side.column_of(name), TEXT) for name in entity.implicit_columns[1:]
    ]
    if compared is None:
        own = entity.properties.items()
        return (*found, *((side.column_of(name), prop.type) for name, prop in own))
    for name in compared.shared:
        kinds = [one.entity.properties[name].type for one in sides]
        # Whole numbers of any width have one text; fractions have it in the wider type.
        kind = max(kinds, key=str) if kinds[0].is_float else kinds[at]
        found.append((side.column_of(name), kind))
    for owner, names in enumerate((compared.added_before, compared.added_after)):
        for name in names:
            kind = sides[owner].entity.properties[name].type
            found.append((side.column_of(name) if owner == at else None, kind))
    return tuple(found)


def _rows_at(side: TableSide, ids: pa.Array, places: pa.Array) -> AlignedRows:
    return side.align(side.rows_at(places.cast(pa.uint64()), ids, sure=True), ids)


SparkFor = Callable[[TableState | None, TableState | None], "SparkRunner | None"]
"""Says where the states of a table are compared that have to be read as a whole; None: here."""

_FEW: Final = 10_000
"""Up to this many candidates are always looked up by id."""

_SHARE: Final = 8
"""More candidates than one row in this many: reading everything in order is quicker."""


def nothing_on_spark(_before: TableState | None, _after: TableState | None) -> None:
    """Compare every table in this process."""


def compare(
    before: TableSide,
    after: TableSide,
    *,
    after_id: str | None = None,
    chunk_rows: int = CHUNK_ROWS,
    spark: SparkRunner | None = None,
    compared: Compared | None = None,
    every_row: bool = False,
) -> Iterator[ChangedRows]:
    """Yield what differs between two states of a table, in chunks of at most ``chunk_rows``.

    Both sides have the same type, of which either may have no table. ``compared`` says by which properties,
    where the sides do not declare the same ones. With ``after_id`` only ids that come after it count.
    Where everything must be compared, ``spark`` does it on executors; with ``every_row`` everything is.
    """
    sides = (before, after)
    for was, now in _pairs(before, after, after_id, chunk_rows, spark, compared, every_row):
        look()
        if compared is None:
            same = equal_rows(before.entity, was, now, sides)
        else:
            same = equal_across(compared, was, now, sides)
        differs = pc.invert(same)
        if not differs.true_count:
            continue
        left, right = (
            AlignedRows(r.present.filter(differs), r.table.filter(differs)) for r in (was, now)
        )
        ids = pc.coalesce(right.table.column("id"), left.table.column("id")).combine_chunks()
        yield ChangedRows(ids, left, right)


def same_state(before: TableSide, after: TableSide) -> bool:
    """Whether both sides pin the same state of the table, or neither has one: nothing can differ."""
    if before.state is None or after.state is None:
        return before.state is after.state
    return before.state.identity == after.state.identity


def may_tell_apart(before: TableSide, after: TableSide, compared: Compared | None) -> bool:
    """Whether the versions of the table may tell which rows differ: it is one table, with rows on both sides."""
    if not (before.row_count and after.row_count and before.is_lineage_of(after)):
        return False
    if compared is None:
        # The sides are read as one type, and either may lack a property of it.
        names = tuple(before.entity.properties)
        return not (before.was_filled(names, after) or after.was_filled(names, before))
    return not (
        compared.any_row
        or before.was_filled(compared.added_before, after)
        or after.was_filled(compared.added_after, before)
    )


def _pairs(
    before: TableSide,
    after: TableSide,
    after_id: str | None,
    chunk_rows: int,
    spark: SparkRunner | None,
    compared: Compared | None,
    every_row: bool,
) -> Iterator[tuple[AlignedRows, AlignedRows]]:
    """Rows of both sides with the same ids, which include every one that differs."""
    meter = after.meter
    if same_state(before, after):
        meter.tables_skipped += 1
        return
    found = None
    if not every_row and may_tell_apart(before, after, compared):
        limit = max(_FEW, (before.row_count + after.row_count) // _SHARE)
        with before.reading(), after.reading():
            found = find_candidates(before, after, limit, CHUNK_BYTES)
    if found is None and spark is not None:
        yield from pairs_on_spark(spark, before, after, after_id, chunk_rows, compared)
        return
    if found is None:
        for was, now in _side_by_side(before, after, after_id, chunk_rows):
            meter.candidates += len(now.present)
            yield was, now
        return
    meter.candidates += len(found.ids)
    start = 0
    if after_id is not None:
        start = pc.sum(pc.less_equal(found.ids, after_id)).as_py() or 0
    for at in range(start, len(found.ids), chunk_rows):
        ids, old, new = (column.slice(at, chunk_rows) for column in found[:3])
        yield (
            _rows(before, ids, old, found.rows_before, sure=found.starts_before),
            _rows(after, ids, new, found.rows_after, sure=found.starts_after),
        )


def _rows(
    side: TableSide, ids: pa.Array, row_ids: pa.Array, known: pa.Table, *, sure: bool
) -> AlignedRows:
    """The rows of candidates, of which some are known already and some are known to be absent."""
    given = known.filter(pc.is_in(known.column("id"), value_set=ids))
    places = pc.and_(pc.is_valid(row_ids), pc.invert(pc.is_in(ids, value_set=given.column("id"))))
    wanted, at = ids.filter(places), row_ids.filter(places)
    if not len(wanted):
        return side.align(given, ids)
    if sure:
        return side.align(pa.concat_tables([given, side.rows_at(at, wanted, sure=True)]), ids)
    asked = side.aligned(wanted, at)
    return side.align(pa.concat_tables([given, asked.table.filter(asked.present)]), ids)


def _side_by_side(
    before: TableSide, after: TableSide, after_id: str | None, chunk_rows: int
) -> Iterator[tuple[AlignedRows, AlignedRows]]:
    """All rows of both sides in order of ids."""
    sides = (before, after)
    streams = [side.in_order(after_id) for side in sides]
    held = [_next(side, stream) for side, stream in zip(sides, streams, strict=True)]
    while any(rows.num_rows for rows in held):
        # Everything up to here has been read from both: what one side lacks, it really lacks.
        known = min(_last_id(rows) for rows in held if rows.num_rows)
        parts = []
        for at, side in enumerate(sides):
            count = pc.sum(pc.less_equal(held[at].column("id"), known)).as_py() or 0
            parts.append(held[at].slice(0, count))
            held[at] = held[at].slice(count)
            if not held[at].num_rows:
                held[at] = _next(side, streams[at])
        ids = pa.chunked_array([c for part in parts for c in part.column("id").chunks]).unique()
        ids = ids.take(pc.array_sort_indices(ids))
        for start in range(0, len(ids), chunk_rows):
            chunk = ids.slice(start, chunk_rows)
            yield before.align(parts[0], chunk), after.align(parts[1], chunk)


def _next(side: TableSide, stream: Iterator[pa.Table]) -> pa.Table:
    for rows in stream:
        if rows.num_rows:
            return rows
    return side.schema.empty_table()


def _last_id(rows: pa.Table) -> str:
    last: str = rows.column("id")[rows.num_rows - 1].as_py()
    return last
