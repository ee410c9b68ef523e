"""Stage 2 of a load: typed rows get ids, and are checked against the row rules.

Judging is a pure function of one block: any engine may call it in any process, and the same block has
the same outcome each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity
from omnigraph.pipeline.formats.json_line import missing
from omnigraph.pipeline.formats.typed_batch import (
    GIVEN,
    ID,
    Parsed,
    TypedBatch,
    order_of,
    place_of,
    record_order,
)
from omnigraph.pipeline.rows.bad_records import Bad, first_of_each
from omnigraph.pipeline.rows.filled_rows import count_wanted, judgeable
from omnigraph.pipeline.rows.ids import (
    count_named_rows,
    derive_ids,
    id_aliases,
    with_tuple_defaults,
)
from omnigraph.pipeline.rows.patches import StoredRows, apply_records
from omnigraph.pipeline.rows.stored_rows import shown_rows
from omnigraph.storage.blob_policy import NO_POLICY, BlobPolicy
from omnigraph.types import Unfit
from omnigraph.validate.change_set import MADE, ORDER, needed_columns
from omnigraph.validate.column_rules import row_violations

Aliases = dict[str, dict[str, str]]
"""By node type: ids as the input spells them, and the ids that their nodes get."""


class JudgedRows(NamedTuple):
    """Rows of one table that passed the row rules, on their way into it.

    Where a ``TypedBatch`` has ``0id``, ``0source`` and ``0offset``, these rows have the ``id`` that they
    will be stored under and ``0rec``, their place in the input as one number.
    """

    table_key: str
    batch: pa.RecordBatch


def narrow_columns(entity: Entity) -> list[str]:
    """Return the columns that set rules look at, and those that decide which edge takes an id."""
    made = [MADE] if isinstance(entity, EdgeType) and entity.identity is not None else []
    return ["id", *needed_columns(entity), ORDER, *made]


@dataclass(slots=True)
class JudgedBlock:
    """The outcome of judging one block: rows of tables, or what is wrong with its records."""

    rows: list[JudgedRows] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)
    aliases: Aliases = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)
    """By table: how many rows have an id that another row may have too."""
    unfilled: dict[str, int] = field(default_factory=dict)
    """By table: how many vectors are left to be made from their texts."""
    cut: Mapping[str, int] = field(default_factory=dict)
    """By `Type.property`: how many values were finer than they are stored."""

    def leave_out(self, bad: Iterable[Bad]) -> None:
        """Leave out the rows of these records; tables without rows are left out too."""
        gone = pa.array([order_of(one.source, one.offset) for one in bad], pa.int64())
        remaining = []
        for key, batch in self.rows:
            rest = batch.filter(pc.invert(pc.is_in(batch.column(ORDER), gone)))
            if MADE in rest.schema.names:
                made = pc.sum(rest.column(MADE).cast(pa.int64())).as_py() or 0
                self.named[key] = rest.num_rows - made
            # Elsewhere it only matters whether there may be any.
            self.named[key] = min(self.named[key], rest.num_rows)
            if rest.num_rows:
                remaining.append(JudgedRows(key, rest))
        self.rows = remaining


@dataclass(frozen=True, slots=True)
class RowRules:
    """Everything that judging a block needs besides the block; it is pickled to other processes."""

    catalog: Catalog
    operation_id: str
    started_at_ms: int
    blobs: BlobPolicy = NO_POLICY
    patch: bool = False
    """Whether records give only what changes; ``complete`` makes rows of them and judges those."""
    skip: bool = False
    """Whether bad records are left out; otherwise they end the load, and no row matters any more."""
    show_rows: bool = False
    """Whether the values of bad rows are wanted."""
    folders: Mapping[int, str] = field(default_factory=dict)
    """The directories of the sources that are files on this machine, by the index of the source."""

    def judge(self, parsed: Parsed) -> JudgedBlock:
        """Judge one block: its rows as they go on to their tables, and its bad records."""
        judged = JudgedBlock(cut=parsed.cut)
        found = [Bad(**bad) for bad in parsed.bad.to_pylist()]
        for typed in parsed.batches:
            found += self._take(typed, judged)
        judged.bad = first_of_each(found)
        if self.show_rows and judged.bad:
            judged.bad = self._shown(judged)
        if self.skip and judged.bad:
            judged.leave_out(judged.bad)
        return judged

    def _shown(self, judged: JudgedBlock) -> list[Bad]:
        """The bad records of a block with their values."""
        orders = pa.array([order_of(one.source, one.offset) for one in judged.bad], pa.int64())
        values: dict[int, str] = {}
        for key, batch in judged.rows:
            values |= shown_rows(self.catalog.entity(key), [batch], orders)
        return [
            one if one.record is not None else replace(one, record=values.get(order))
            for one, order in zip(judged.bad, orders.to_pylist(), strict=True)
        ]

    def complete(
        self, entity: Entity, records: pa.RecordBatch, stored: StoredRows, *, named: bool
    ) -> JudgedBlock:
        """Apply the records of a patch to stored rows, and judge the rows that they make.

        ``named``: whether a row may have the id of a row that is there.
        """
        applied = apply_records(entity, records, stored)
        judged = JudgedBlock()
        batch = applied.rows
        judged.unfilled[entity.table_key] = count_wanted(entity, batch)
        judged.rows.append(JudgedRows(entity.table_key, batch))
        judged.named[entity.table_key] = batch.num_rows if named else 0
        rows = {order: row for row, order in enumerate(batch.column(ORDER).to_pylist())}
        found = list(_missing_ends(entity, batch, applied.givers))
        for violation in row_violations(entity, judgeable(entity, batch), None):
            name = str(violation.detail["property"])
            place = place_of(int(applied.givers[name][rows[violation.record or 0]]))
            if violation.kind == "null":
                found.append(Bad(*place, missing(entity, entity.properties[name]), None, name))
            else:
                found.append(Bad(*place, violation.message, violation.kind, name))
        judged.bad = first_of_each(found)
        return judged

    def _take(self, typed: TypedBatch, judged: JudgedBlock) -> Iterator[Bad]:
        """Add the rows of a batch to ``judged``, and yield what is wrong with them."""
        entity = self.catalog.entity(typed.table_key)
        if self.patch:
            typed = typed._replace(batch=with_tuple_defaults(entity, typed.batch))
        ids, errors = derive_ids(entity, typed.batch, self.operation_id, self.started_at_ms)
        for bad in errors.to_pylist():
            yield Bad(**bad)
        judged.named[typed.table_key] = count_named_rows(entity, typed.batch)
        aliases = id_aliases(entity, typed.batch, ids)
        if aliases:
            judged.aliases.setdefault(entity.name, {}).update(aliases)
        names = [*entity.implicit_columns[1:], *entity.properties]
        columns = [ids, *(typed.batch.column(name) for name in names), record_order(typed.batch)]
        batch = pa.RecordBatch.from_arrays(columns, names=["id", *names, ORDER])
        if isinstance(entity, EdgeType) and entity.identity is not None:
            batch = batch.append_column(MADE, typed.batch.column(ID).is_null())
        batch, blobs = check_blobs(entity, batch, self.blobs, self.folders)
        yield from blobs
        if self.patch:
            batch = batch.append_column(GIVEN, typed.batch.column(GIVEN))
            judged.rows.append(JudgedRows(typed.table_key, batch))
            judged.unfilled[typed.table_key] = 0
            return
        judged.unfilled[typed.table_key] = count_wanted(entity, batch)
        for violation in row_violations(entity, judgeable(entity, batch), None):
            source, offset = place_of(violation.record or 0)
            name = str(violation.detail["property"])
            yield Bad(source, offset, violation.message, violation.kind, name)
        judged.rows.append(JudgedRows(typed.table_key, batch))


def _missing_ends(
    entity: Entity, batch: pa.RecordBatch, givers: Mapping[str, Any]
) -> Iterator[Bad]:
    """Refuse edges that a patch would make without an end."""
    for end, column in zip(("from", "to"), entity.implicit_columns[1:], strict=False):
        for row in pc.indices_nonzero(batch.column(column).is_null()).to_pylist():
            reason = f'{entity.name} needs "{end}", the id of a node'
            yield Bad(*place_of(int(givers[column][row])), reason, None, end)


def check_blobs(
    entity: Entity, batch: pa.RecordBatch, policy: BlobPolicy, folders: Mapping[int, str]
) -> tuple[pa.RecordBatch, list[Bad]]:
    """The rows with the files to take in found and measured, and what is wrong with their blobs.

    ``folders`` are the directories of the sources that are files on this machine.
    """
    bad: list[Bad] = []
    for name in entity.blob_properties:
        at = batch.schema.get_field_index(name)
        column = batch.column(at)
        uris, positions = (pc.struct_field(column, part) for part in ("uri", "position"))
        files: dict[int, dict[str, Any]] = {}
        for row in pc.indices_nonzero(uris.is_valid()).to_pylist():
            is_file, uri = positions[row].is_valid, uris[row].as_py()
            place = place_of(batch.column(ORDER)[row].as_py())
            try:
                if is_file:
                    files[row] = _taken_in(policy, uri, folders.get(place[0]))
                elif (address := policy.allowed_address(uri)) != uri:
                    files[row] = {"uri": address}
            except Unfit as unfit:
                reason = f"{entity.name}.{name}: {unfit}"
                bad.append(Bad(*place, reason, None if is_file else "blob", name))
        if files:
            found = pa.array(list(_with(column, files)), column.type)
            batch = batch.set_column(at, batch.schema.field(at), found)
    return batch, bad


def _taken_in(policy: BlobPolicy, path: str, beside: str | None) -> dict[str, Any]:
    source = policy.find_source(path, beside)
    if not source.size:
        return {"data": b""}  # Lance takes in no empty range
    return {"uri": source.uri, "position": 0, "size": source.size}


def _with(column: pa.Array, files: dict[int, dict[str, Any]]) -> Iterator[Any]:
    for row, value in enumerate(column):
        yield files[row] if row in files else value.as_py()
