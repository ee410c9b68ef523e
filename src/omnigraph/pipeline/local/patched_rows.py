"""The rows of a patch, made in this process: records in parts of bounded size, then row by row whole.

All records of an id must be in one part, so parts are made by a hash of the id, in files. The stored rows are
looked up once for a part and read a few thousand at a time, because they may be far wider than the
records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.local.spooled_rows import SpooledRows
from omnigraph.pipeline.rows.bad_records import Bad
from omnigraph.pipeline.rows.patches import Numbers, StoredRows, nothing_stored, plain_names
from omnigraph.pipeline.rows.row_rules import JudgedBlock, RowRules
from omnigraph.storage.tables.blobs.carry import carried_blobs
from omnigraph.storage.tables.row_places import find_places
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_ref import TableRef

MAX_PARTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchSizes:
    """How much of a patch is worked on at a time; no size changes what is stored."""

    part_bytes: int = 64 << 20
    """The records of one part: they are in memory together."""
    stored_bytes: int = 64 << 20
    """About so many bytes of stored rows are read at once, if they are as wide as the widest block so far."""
    first_ids: int = 1024
    """The first block has the rows of this number of ids, because nobody knows yet how wide they are."""
    ids: int = 16_384
    """At most the stored rows of this number of ids are read at once."""
    ids_with_blobs: int = 1024
    """The same where the type has a Blob property; each of up to 64 KiB is in memory then."""


PATCH_SIZES: Final = PatchSizes()


def complete_here(
    rules: RowRules,
    entity: Entity,
    records: Iterable[pa.RecordBatch],
    ref: TableRef,
    path: Path,
    tell: Callable[[list[Bad]], None],
    *,
    nbytes: int,
    named: bool,
    few_rows: int,
    sizes: PatchSizes = PATCH_SIZES,
) -> SpooledRows:
    """Make whole rows of the records of a patch, about ``nbytes`` of them, in the file ``path``."""
    table = open_table(ref)
    rows = SpooledRows(entity, path, few_rows)
    rows.any_named = named
    empty = None
    for part in _parts(records, min(MAX_PARTS, -(-nbytes // sizes.part_bytes)), path):
        for judged in complete_part(rules, entity, part, table, named=named, sizes=sizes):
            rows.unfilled += sum(judged.unfilled.values())
            if judged.bad:
                tell(judged.bad)
            for _, batch in judged.rows:
                rows.add(batch)
        empty = part[0].slice(0, 0) if part else empty
    if not rows.rows and empty is not None:
        none = rules.complete(entity, empty, nothing_stored(entity), named=named)
        rows.add(none.rows[0].batch)
    rows.finish()
    return rows


def complete_spooled(
    rules: RowRules,
    records: SpooledRows,
    ref: TableRef,
    path: Path,
    tell: Callable[[list[Bad]], None],
    few_rows: int,
) -> SpooledRows:
    """Make whole rows of the records of a patch that this process has in a file."""
    return complete_here(
        rules,
        records.entity,
        records.records(),
        ref,
        path,
        tell,
        nbytes=records.nbytes,
        named=records.may_repeat,
        few_rows=few_rows,
    )


def _parts(
    records: Iterable[pa.RecordBatch], count: int, path: Path
) -> Iterator[list[pa.RecordBatch]]:
    if count <= 1:
        yield list(records)
        return
    files: dict[int, Path] = {}
    with ExitStack() as stack:
        writers: dict[int, Any] = {}
        for batch in records:
            for part, mine in divide(batch, count):
                if part not in writers:
                    files[part] = path.with_suffix(f".part-{part}")
                    opened = pa.ipc.new_stream(str(files[part]), batch.schema)
                    writers[part] = stack.enter_context(opened)
                writers[part].write_batch(mine)
    for part in sorted(files):
        with pa.memory_map(str(files[part])) as file, pa.ipc.open_stream(file) as reader:
            yield list(reader)
        files[part].unlink()


def complete_part(
    rules: RowRules,
    entity: Entity,
    records: Sequence[pa.RecordBatch],
    table: Table,
    *,
    named: bool,
    sizes: PatchSizes = PATCH_SIZES,
) -> Iterator[JudgedBlock]:
    """Make the rows of the records of one part, and judge them.

    ``named``: whether a row may have the id of a row that is there.
    """
    if not records:
        return
    batch = pa.concat_batches(records)
    encoded = batch.column("id").dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    places = _places(table, encoded.dictionary, named=named)
    order = np.argsort(codes, kind="stable")
    batch, codes = batch.take(pa.array(order)), codes[order]
    most = sizes.ids_with_blobs if entity.blob_properties else sizes.ids
    first, step, width = 0, min(most, sizes.first_ids), 1
    while first < len(encoded.dictionary):
        low, high = np.searchsorted(codes, [first, first + step])
        stored = _stored(table, entity, places.among(first, step))
        yield rules.complete(entity, batch.slice(low, high - low), stored, named=named)
        width = max(width, stored.rows.nbytes // max(stored.rows.num_rows, 1))
        first, step = first + step, max(1, min(most, sizes.stored_bytes // width))


class _Places(NamedTuple):
    """Where the rows of some ids are: their row ids, -1 for ids without a row, and their addresses."""

    row_ids: Numbers
    addresses: Numbers

    def among(self, first: int, step: int) -> _Places:
        """Those of some ids that have a row."""
        there = self.row_ids[first : first + step] >= 0
        return _Places(*(numbers[first : first + step][there] for numbers in self))


def _places(table: Table, ids: pa.Array, *, named: bool) -> _Places:
    if not named or not len(ids):
        return _Places(np.full(len(ids), -1), np.full(len(ids), -1))
    found = find_places(table, ids)
    place = pc.index_in(ids, found.column("id").combine_chunks())
    columns = (found.column(name).combine_chunks().take(place) for name in ("_rowid", "_rowaddr"))
    return _Places(*(column.fill_null(2**64 - 1).to_numpy().view(np.int64) for column in columns))


def _stored(table: Table, entity: Entity, places: _Places) -> StoredRows:
    if not len(places.row_ids):
        return nothing_stored(entity)

    def carry(name: str, wanted: Numbers) -> pa.Array:
        """The blobs of some of the rows; of large ones only the places."""
        descriptors = table.take(places.row_ids[wanted].tolist(), [name]).column(name)
        return carried_blobs(table, name, descriptors, pa.array(places.addresses[wanted]))

    return StoredRows(table.take(places.row_ids.tolist(), plain_names(entity)), carry)


def divide(batch: pa.RecordBatch, parts: int) -> Iterable[tuple[int, pa.RecordBatch]]:
    """The records by part, as a hash of their id says: the same in every process."""
    numbers = (hash_texts(batch.column("id")) % np.uint64(parts)).astype(np.int64)
    for part in np.unique(numbers).tolist():
        yield part, batch.filter(pa.array(numbers == part))


def hash_texts(texts: pa.Array) -> NDArray[np.uint64]:
    """A number for each text, which depends on its bytes alone."""
    if not len(texts):
        return np.empty(0, np.uint64)
    bounds = np.frombuffer(texts.buffers()[1], np.int32)
    bounds = bounds[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[bounds[0] : bounds[-1]]
    bounds -= bounds[0]
    lengths = np.diff(bounds)
    place = np.arange(len(data)) - np.repeat(bounds[:-1], lengths)
    # Each byte times a power of an odd number; sums and products wrap around.
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, _FACTOR, np.uint64))
    terms = (data.astype(np.uint64) + np.uint64(1)) * powers[place]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    mixed = sums[bounds[1:]] - sums[bounds[:-1]]
    mixed ^= mixed >> np.uint64(32)
    hashed: NDArray[np.uint64] = mixed * _FACTOR >> np.uint64(16)
    return hashed


_FACTOR = np.uint64(0x9E3779B97F4A7C15)
