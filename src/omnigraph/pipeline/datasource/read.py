"""Read a type for Spark: it is pinned and planned once, and tasks read fragments or parts of them.

A `PinnedSource` is pickled to worker processes, which open nothing but the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.clock import now_us
from omnigraph.errors import BadRequest, HistoryReclaimed, StorageError
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Catalog, Entity, Property
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.pipeline.datasource.option_values import EndOptions
from omnigraph.pipeline.datasource.options import ReadOptions, end_columns
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.values.column import Column
from omnigraph.read.values.expressions import mask_of
from omnigraph.read.values.numbers import MIRRORED
from omnigraph.read.view.pinned_table import PinnedTable
from omnigraph.spelling import did_you_mean
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.fragment_groups import FragmentPiece, split_fragments
from omnigraph.storage.tables.branch_refs import refuse_replaced
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_errors import BranchReplaced, TableMissing, VersionMissing
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.types import TEXT, PropType, Scalar

_BLOB_BATCH_ROWS = 32
"""Blobs are read whole, so a batch holds only a few of them."""


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of the source. ``stored`` is its name in the table at the pinned version.

    ``stored`` is None when the table has no such column yet; every value is null then.
    """

    name: str
    type: PropType
    stored: str | None


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The filter of a read: conditions for Lance, and others that are judged on its batches."""

    pushed: tuple[Condition, ...] = ()
    checked: tuple[ir.Condition, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    never: bool = False

    def names(self) -> list[str]:
        """Return the columns that the conditions need."""
        found: dict[str, None] = {}
        waiting: list[ir.Output | ir.Condition] = [*self.checked]
        while waiting:
            one = waiting.pop()
            if isinstance(one, ir.PropertyOf):
                found[one.property] = None
            waiting += ir.parts_of(one)
        return list(found)


@dataclass(frozen=True, slots=True)
class PinnedSource:
    """A type at one version of its table, with the filter of the read."""

    ref: TableRef
    type_name: str
    graph_commit_id: str
    columns: tuple[SourceColumn, ...]
    where: RowFilter

    def select(self, names: Sequence[str]) -> list[SourceColumn]:
        """Return the columns of these names; refuse a name that does not exist."""
        known = {column.name: column for column in self.columns}
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known) or f"it has {', '.join(known)}"
                raise BadRequest(f"{self.type_name} has no column `{name}`; {hint}", column=name)
        return [known[name] for name in names]


def pin_source(
    workspace: Workspace, snapshot: Snapshot, catalog: Catalog, entity: Entity, options: ReadOptions
) -> PinnedSource:
    """Fix what a read will see: the version of the table, and the stored names of its columns."""
    from omnigraph.read.view.view import Reader

    pinned = Reader(workspace).view(snapshot, catalog).table(entity)
    source = source_of(pinned, snapshot.graph_commit_id, options.ends)
    if options.filter is not None:
        compares = _compiled(entity, source.columns, options.filter)
        params = {ir.NOW_PARAM: now_us() // 1000}
        source = replace(source, where=row_filter(source.columns, compares, params))
    if entity.period is not None and not isinstance(options.as_of, str):
        held = _holds(entity, options.as_of)
        where = replace(source.where, checked=(*source.where.checked, held))
        source = replace(source, where=where)
    if options.columns is not None:
        source.select(options.columns)
    return source


def source_of(pinned: PinnedTable, graph_commit_id: str, ends: EndOptions) -> PinnedSource:
    """Return all rows of a table as a snapshot pins it."""
    entity = pinned.entity
    columns = tuple(_columns(pinned, ends))
    return PinnedSource(pinned.table.ref, entity.name, graph_commit_id, columns, RowFilter())


def _columns(pinned: PinnedTable, ends: EndOptions) -> list[SourceColumn]:
    first = [
        SourceColumn(shown, TEXT, stored)
        for shown, stored in end_columns(pinned.entity, ends).items()
    ]
    return first + [
        _property_column(prop, pinned.column_of(prop.name), pinned.table)
        for prop in pinned.entity.properties.values()
    ]


def _property_column(prop: Property, stored: str | None, table: Table) -> SourceColumn:
    # Rows of an older version may lack what is required today.
    may_lack = stored is None or table.schema.field(stored).nullable
    return SourceColumn(prop.name, prop.type.as_nullable(prop.type.nullable or may_lack), stored)


# ------------------------------------------------------------------ the filter


def _compiled(entity: Entity, columns: Sequence[SourceColumn], text: str) -> Sequence[ir.Compare]:
    from omnigraph.lang.query.check.check import compile_filter

    properties = {
        column.name: entity.properties.get(column.name) or Property(column.name, TEXT, 0)
        for column in columns
    }
    return compile_filter(entity.name, properties, text)


def row_filter(
    columns: Sequence[SourceColumn],
    conditions: Iterable[ir.Condition],
    params: Mapping[str, Any],
) -> RowFilter:
    """Return conditions on one variable, all to be satisfied, as a filter.

    The variable's properties are columns of the source. What Lance can test it is given, with scalar indexes
    in use; the rest is tested on its batches.
    """
    stored = {column.name: column.stored for column in columns}
    pushed: list[Condition] = []
    checked: list[ir.Condition] = []
    never = False
    for one in conditions:
        condition = _condition(one, params)
        if condition is None:
            checked.append(one)
            continue
        column = stored[condition.column]
        if column is None:
            never = True  # null satisfies nothing
        else:
            pushed.append(Condition(column, condition.op, condition.value))
    return RowFilter(tuple(pushed), tuple(checked), params, never)


def _holds(entity: Entity, moment: int) -> ir.Holds:
    """Return the test whether a row holds at a moment; never one for Lance (an index of periods is slow)."""
    from omnigraph.lang.query.check.blocks.moments import holds
    from omnigraph.lang.query.check.check import ROW

    at = ir.When(ir.Const(moment, PropType(Scalar.DATETIME)))
    test = holds(ROW, [entity], at)
    assert test is not None
    return test


def _condition(compare: ir.Condition, params: Mapping[str, Any]) -> Condition | None:
    """Return a comparison as a condition for Lance; None if it is not property against value."""
    if not isinstance(compare, ir.Compare):
        return None
    left, op, right = compare.left, compare.op, compare.right
    if not isinstance(left, ir.PropertyOf) and op in MIRRORED:
        left, op, right = right, MIRRORED[op], left
    if not isinstance(left, ir.PropertyOf) or op == "suffix":
        return None
    if not isinstance(right, ir.Value):
        return None
    return Condition(left.property, op, ir.value_of(right, params))


class _BatchRows:
    """The rows of a batch as the space of the filter's one variable."""

    def __init__(self, columns: Mapping[str, Column], size: int) -> None:
        self.columns = columns
        self.size = size

    def column(self, name: str) -> Column:
        return self.columns[name]

    def has_column(self, name: str) -> bool:
        return name in self.columns

    def values(self, name: str, codes: Codes) -> pa.Array:
        return self.columns[name].array.take(codes)

    def ids(self, codes: Codes) -> pa.StringArray:
        raise AssertionError(f"a filter knows ids as columns, and asks for {len(codes)} others")

    def type_names(self, codes: Codes) -> pa.Array:
        raise AssertionError(f"a filter is about one type, and asks for those of {len(codes)} rows")

    def ranks(self, codes: Codes) -> npt.NDArray[np.integer]:
        raise AssertionError(f"a filter knows ids as columns, and asks for {len(codes)} others")


# ------------------------------------------------------------------ partitions and rows


def plan_partitions(source: PinnedSource, max_rows: int) -> list[FragmentPiece]:
    """Return what each partition reads: about ``max_rows`` rows of neighbouring fragments, or of one."""
    if source.where.never:
        return []
    with _while_it_lives(source):
        return split_fragments(open_table(source.ref), max_rows)


def read_fragments(
    source: PinnedSource, names: Sequence[str], schema: pa.Schema, piece: FragmentPiece
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition that satisfy the filter, in batches of exactly that schema."""
    with _while_it_lives(source):
        yield from _read_fragments(source, names, schema, piece)


@contextmanager
def _while_it_lives(source: PinnedSource) -> Iterator[None]:
    """Report reads that fail because what was pinned is gone: its version, its table, its branch.

    The name of a branch may be used again meanwhile.
    """
    try:
        yield
    except StorageError as error:
        try:
            refuse_replaced(source.ref)
        except BranchReplaced:
            raise _reclaimed(
                source,
                f"branch `{source.ref.branch}`, where {source.type_name} was pinned, was deleted",
            ) from None
        if isinstance(error, VersionMissing | TableMissing):
            raise _reclaimed(
                source,
                f"the pinned version of {source.type_name} was removed, by cleanup, a purge or a "
                "schema change that removes data",
            ) from None
        raise


def _reclaimed(source: PinnedSource, what: str) -> HistoryReclaimed:
    return HistoryReclaimed(
        f"{what}; plan the read again", table_key=source.type_name, version=source.ref.version
    )


def _read_fragments(
    source: PinnedSource, names: Sequence[str], schema: pa.Schema, piece: FragmentPiece
) -> Iterator[pa.RecordBatch]:
    columns = source.select(names)
    looked_at = source.select(source.where.names())
    table = open_table(source.ref)
    wanted = {column.stored for column in (*columns, *looked_at)} - {None}
    blobs = any(column.type.is_blob for column in columns)
    options: dict[str, Any] = {"blob_handling": "all_binary"} if blobs else {}
    batches = table.scan(
        sorted(cast("set[str]", wanted)) or ["id"],
        filter_expression(table.schema, [*source.where.pushed, *_range(piece)]),
        fragment_ids=piece.fragment_ids,
        batch_size=_BLOB_BATCH_ROWS if blobs else None,
        **options,
    )
    for batch in batches:
        fitting = _fitting(batch, looked_at, source.where)
        if fitting.num_rows:
            yield _batch(fitting, columns, schema)


def _range(piece: FragmentPiece) -> Iterator[Condition]:
    """Yield the conditions that keep the rows of a piece; Lance reads no others for them."""
    if piece.start is not None:
        (number,) = piece.fragment_ids
        yield Condition("_rowaddr", ">=", (number << 32) + piece.start)
        yield Condition("_rowaddr", "<", (number << 32) + (piece.stop or 0))


def _fitting(
    batch: pa.RecordBatch, columns: Sequence[SourceColumn], where: RowFilter
) -> pa.RecordBatch:
    if not where.checked:
        return batch
    from omnigraph.read.values.column import Column

    values = {
        column.name: Column(column.type, _values(batch, column, column.type.arrow_type()))
        for column in columns
    }
    mask = mask_of(where.checked, _BatchRows(values, batch.num_rows), where.params)
    return batch.filter(pa.array(mask))


def _batch(
    batch: pa.RecordBatch, columns: Sequence[SourceColumn], schema: pa.Schema
) -> pa.RecordBatch:
    arrays = [
        _values(batch, column, wanted.type)
        for column, wanted in zip(columns, schema, strict=True)
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _values(batch: pa.RecordBatch, column: SourceColumn, wanted: pa.DataType) -> pa.Array:
    if column.stored is None:
        return pa.nulls(batch.num_rows, wanted)
    values = batch.column(column.stored)
    return values if values.type == wanted else values.cast(wanted)
