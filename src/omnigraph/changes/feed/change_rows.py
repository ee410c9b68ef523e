"""The changes of a commit as Arrow columns: one row for each change, made without a loop over rows.

Either with the images as JSON texts, for changes of any type:

    op      kind  type    id   before  after                                   from  to    …
    update  node  Person  ann  null    {"properties":{"name":"ann","age":31}}  null  null

or, for one type, with its properties as columns: the row as it is after the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, get_args

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.change_filter import ChangeFilter
from omnigraph.changes.compare_tables import compare, may_tell_apart, same_state
from omnigraph.changes.differing_types import shown_changes, shown_mask
from omnigraph.changes.feed.commit_changes import ChangeReader, TablePair
from omnigraph.changes.images import image_texts
from omnigraph.changes.may_differ import ChangeCandidates, find_candidates
from omnigraph.changes.row_pairs import ROW_ID, AlignedRows, ChangedRows, with_few_blobs
from omnigraph.changes.table_side import TableSide
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.manifest.rows import GraphCommit
from omnigraph.storage.tables.blobs.reading import read_at

Images = Literal["after", "both", "none"]
IMAGES: Final[tuple[Images, ...]] = get_args(Images)

Columns = dict[str | int, pa.Array]
"""Columns by their names; those of properties by the ids of the properties."""

_INSTANT: Final = pa.timestamp("us", "UTC")


def change_columns(
    reader: ChangeReader, commit: GraphCommit, parent: GraphCommit, images: Images
) -> Iterator[Columns]:
    """Yield the changes of a commit in chunks: what happened to which entity, images, and the cause.

    ``images`` are those after the change, those on both sides, or none; the ends of an edge are
    always there.
    """

    def columns(pair: TablePair, changes: ChangedRows) -> Columns:
        before, after = changes.before, changes.after
        absent = pa.nulls(len(changes.ids), pa.utf8())
        return {
            "kind": _same(pair.kind, changes),
            "type": _same(pair.after.entity.name, changes),
            "before": image_texts(pair.before, before) if images == "both" else absent,
            "after": absent if images == "none" else image_texts(pair.after, after),
            "from": _end("src", pair, after, before),
            "to": _end("dst", pair, after, before),
            "actor_id": pa.array([commit.actor_id], pa.utf8()).take(_zeros(changes)),
            "authored_at": pa.array([commit.created_us], _INSTANT).take(_zeros(changes)),
        }

    return _chunks(reader, commit, parent, columns, blobs=images != "none")


def typed_columns(
    reader: ChangeReader, commit: GraphCommit, parent: GraphCommit, properties: Iterable[int]
) -> Iterator[Columns]:
    """Yield the changes of a commit in chunks, with properties as columns; null for a delete.

    ``properties`` are ids. One that the type did not have at that commit is left out.
    """
    wanted = set(properties)

    def columns(pair: TablePair, changes: ChangedRows) -> Columns:
        found: Columns = {
            "from": _end("src", pair, changes.after),
            "to": _end("dst", pair, changes.after),
        }
        declared = {
            number: name
            for name, prop in pair.after.entity.properties.items()
            for number in (prop.property_id, *prop.joined_ids)
        }
        for number in wanted & declared.keys():
            found[number] = _values(pair.after, declared[number], changes.after)
        return found

    return _chunks(reader, commit, parent, columns, blobs=True)


def _chunks(
    reader: ChangeReader,
    commit: GraphCommit,
    parent: GraphCommit,
    columns: Callable[[TablePair, ChangedRows], Columns],
    *,
    blobs: bool,
) -> Iterator[Columns]:
    for pair in reader.tables(commit, parent):
        names = (pair.before.entity.blob_properties, pair.after.entity.blob_properties)
        read: tuple[Sequence[str], Sequence[str]] = names if blobs else ((), ())
        for found in compare(pair.before, pair.after, compared=pair.compared):
            shown = shown_changes(found, reader.filter)
            for changes in with_few_blobs(shown, read) if len(shown.ids) else ():
                yield {
                    "op": _ops(changes),
                    "id": changes.ids,
                    "graph_commit_id": _same(commit.graph_commit_id, changes),
                    **columns(pair, changes),
                }


def _ops(changes: ChangedRows) -> pa.StringArray:
    was, now = changes.before.present, changes.after.present
    return pc.if_else(was, pc.if_else(now, "update", "delete"), "insert")


def _zeros(changes: ChangedRows) -> pa.Array:
    return pa.nulls(len(changes.ids), pa.int32()).fill_null(0)


def _same(text: str, changes: ChangedRows) -> pa.StringArray:
    return pa.array([text], pa.utf8()).take(_zeros(changes))


def _end(column: str, pair: TablePair, *sides: AlignedRows) -> pa.StringArray:
    """The ids of one end of edges, of the first side that has the edge; null for nodes."""
    if not isinstance(pair.after.entity, EdgeType):
        return pa.nulls(sides[0].table.num_rows, pa.utf8())
    return pc.coalesce(*(rows.table.column(column).combine_chunks() for rows in sides))


def _values(side: TableSide, name: str, rows: AlignedRows) -> pa.Array:
    """The values of a property; of blobs their bytes."""
    values = rows.table.column(name).combine_chunks()
    if not side.entity.properties[name].type.is_blob:
        return values
    held: list[bytes | None] = [None] * len(values)
    there = pc.indices_nonzero(pc.is_valid(values))
    column = side.pinned.column_of(name) if side.state is not None else None
    if len(there) and column is not None:
        addresses = side.addresses(rows.table.column(ROW_ID).take(there))
        with side.reading():
            found = read_at(side.table, column, addresses)
        for place, data in zip(there.to_pylist(), found, strict=True):
            held[place] = data
    return pa.array(held, pa.binary())


_SAMPLE_BYTES: Final = 1 << 20
"""This many bytes of rows are kept, to see how large rows are."""

_ROW_BYTES: Final = 128
"""The bytes that a row is assumed to have where none was read."""


class Weight(NamedTuple):
    """At most this many changes, of about this many bytes."""

    rows: int
    bytes: int


def weigh(reader: ChangeReader, commit: GraphCommit, parent: GraphCommit, most_rows: int) -> Weight:
    """Return what a commit weighs; raises what reading its changes would raise.

    An entity that was written again as it was counts too. Not more than ``most_rows`` rows are read:
    a table that changed more is taken as if all its rows had, before and after.
    """
    rows = size = 0
    for pair in reader.tables(commit, parent):
        of_table = _weigh_table(pair, reader.filter, max(0, most_rows - rows))
        rows += of_table.rows
        size += of_table.bytes
    return Weight(rows, size)


def _weigh_table(pair: TablePair, filter: ChangeFilter, most_rows: int) -> Weight:
    before, after = pair.before, pair.after
    if same_state(before, after):
        return Weight(0, 0)
    found = None
    with before.reading(), after.reading():
        for side in (before, after):
            if side.state is not None:
                _ = side.table  # so that a version that is gone is found out
        if may_tell_apart(before, after, pair.compared):
            found = find_candidates(before, after, most_rows, _SAMPLE_BYTES)
    if found is None:
        rows = before.row_count + after.row_count
        return Weight(rows, rows * _ROW_BYTES)
    rows = _shown(found, filter)
    return Weight(rows, rows * _bytes_of_a_row(found))


def _shown(found: ChangeCandidates, filter: ChangeFilter) -> int:
    if not filter.ops:
        return len(found.ids)
    mask = shown_mask(pc.is_valid(found.before), pc.is_valid(found.after), filter)
    return int(mask.true_count)


def _bytes_of_a_row(found: ChangeCandidates) -> int:
    read = [rows for rows in (found.rows_before, found.rows_after) if rows.num_rows]
    if not read:
        return _ROW_BYTES
    size, count = sum(rows.nbytes for rows in read), sum(rows.num_rows for rows in read)
    return 1 + int(size // count)
