"""The files of a BTREE of texts, written without comparing every text with others.

A BTREE is two Lance files, which Lance's format of tables documents: ``page_data.lance`` has the values in
order, each with the address of its row; ``page_lookup.lance`` has the least and the greatest value of every
page of so many values. Lance sorts all values as texts. Here texts that are in order already, such as
the ids that a load makes, are written as they come. The ends of edges, of which the same come again and
again, are sorted as numbers, and only the different ones are compared as texts. That takes less time and
less memory. Everything else is left to Lance.

Lance makes the index first, without rows: its name, its version and the form of its files are Lance's
own. Where that form is not the one known here, Lance builds the whole index.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.storage.tables.lance_import import lance_module
from omnigraph.storage.tables.table import Table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

logger = logging.getLogger(__name__)

FEWEST_ROWS = 20_000
"""Of fewer rows Lance is as quick."""
MOST_SORTED_ROWS = 1 << 25
"""More rows are sorted by Lance, which can spill; here each row takes 16 bytes of memory."""
BATCH_ROWS = 1 << 16
"""Rows read and written at a time."""
LONGEST_TEXT = 1 << 10
"""Texts of more bytes, on average, are left to Lance, which holds fewer of them at a time."""

NUMBERED_ROWS = 1 << 22
"""Rows whose values are numbered together, before the numbers of all runs are brought in line."""

_DATA, _LOOKUP = "page_data.lance", "page_lookup.lance"
_PAGE_ROWS = b"batch_size"
_RANGES = b"range_partitioned"
_FIRST_ROWS = 1 << 10
_CACHE_BYTES = 4 << 20


def build_btree(
    table: Table, column: str, fragment_ids: Sequence[int], without_rows: Callable[[], Any]
) -> Any | None:
    """The index of these fragments (``lance.Index``); None if Lance should build it.

    ``without_rows`` has Lance make the index of no fragment, whose place the new one takes.
    """
    import pyarrow as pa

    if table.schema.field(column).type != pa.utf8():
        return None
    chosen = set(fragment_ids)
    rows = sum(fragment.num_rows for fragment in table.fragments() if fragment.id in chosen)
    if rows < FEWEST_ROWS:
        return None
    source = _Column(table, column, fragment_ids)
    sorts = column in {"src", "dst"} and rows <= MOST_SORTED_ROWS
    first = source.first_values()
    in_order = first is not None and _is_in_order(first)
    if first is None or not (in_order or sorts):
        return None
    files = _form(table, without_rows())
    if files is None:
        return None
    written = False
    try:
        written = in_order and files.write(source.in_order())
        if not written and sorts:
            written = files.write(source.sorted(rows))
    except (pa.ArrowInvalid, pa.ArrowCapacityError, MemoryError) as error:
        logger.debug("left to Lance: the BTREE on %s of %s: %s", column, table.ref, error)
    finally:
        if not written:
            files.discard()
    if not written:
        return None
    return replace(files.index, fragment_ids=chosen, files=files.listed)


class _OutOfOrder(Exception):
    """The values cannot be written in this way."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of texts in some fragments of a table."""

    table: Table
    name: str
    fragment_ids: Sequence[int]

    def _batches(self, limit: int | None = None) -> Iterator[tuple[pa.Array, pa.Array]]:
        """The values and the addresses of their rows."""
        reader = self.table.scan(
            [self.name],
            with_row_address=True,
            batch_size=BATCH_ROWS,
            fragment_ids=self.fragment_ids,
            limit=limit,
        )
        for batch in reader:
            values = batch.column(self.name)
            if values.null_count:
                raise _OutOfOrder
            if len(values):
                yield values, batch.column("_rowaddr")

    def first_values(self) -> pa.Array | None:
        """Some values of the first rows; None if they are not for here."""
        try:
            first, _ = next(self._batches(_FIRST_ROWS), (None, None))
        except _OutOfOrder:
            return None
        return None if first is None or first.nbytes > LONGEST_TEXT * len(first) else first

    def in_order(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        """The values as they are stored, if they are in order."""
        import pyarrow.compute as pc

        last = None
        for values, addresses in self._batches():
            follows = last is None or pc.less_equal(last, values[0]).as_py()
            if not follows or not _is_in_order(values):
                raise _OutOfOrder
            last = values[-1]
            yield values, addresses

    def sorted(self, rows: int) -> Iterator[tuple[pa.Array, pa.Array]]:
        """The values in order, if there are clearly fewer different ones than rows."""
        import numpy as np
        import pyarrow as pa

        keys, addresses = np.empty(rows, np.int64), np.empty(rows, np.uint64)
        texts = self._number(keys, addresses)
        if 2 * len(texts) > rows:
            raise _OutOfOrder
        texts, ranks = _ranked(texts)
        for part in _parts(rows):
            # The rank of the value, and behind it the place of its address.
            keys[part] = ranks[keys[part]] << 32 | np.arange(part.start, part.stop)
        keys.sort()
        for part in _parts(rows):
            places = keys[part] & 0xFFFF_FFFF
            yield texts.take(pa.array(keys[part] >> 32)), pa.array(addresses[places])

    def _number(self, numbers: NDArray[np.int64], addresses: NDArray[np.uint64]) -> pa.Array:
        """Find the different values; write the number of every row's value among them, and its address."""
        import pyarrow as pa

        runs: list[tuple[slice, pa.Array]] = []
        read: list[pa.Array] = []
        start = end = 0

        def number() -> None:
            """Number the values that were read last among themselves."""
            run, values = slice(start, end), pa.chunked_array(read)
            texts = _number_integers(values, numbers[run])
            if texts is None:
                encoded = values.dictionary_encode()
                texts, at = encoded.chunk(0).dictionary, start
                for chunk in encoded.chunks:
                    numbers[at : at + len(chunk)] = chunk.indices
                    at += len(chunk)
            runs.append((run, texts))

        for values, rows_at in self._batches():
            addresses[end : end + len(values)] = rows_at
            end += len(values)
            read.append(values)
            if end - start >= NUMBERED_ROWS:
                number()
                start, read = end, []
        if read:
            number()
        if end != len(numbers):
            raise _OutOfOrder
        if len(runs) == 1:
            return runs[0][1]
        encoded = pa.chunked_array([texts for _, texts in runs]).dictionary_encode()
        for (run, _), chunk in zip(runs, encoded.chunks, strict=True):
            numbers[run] = chunk.indices.to_numpy()[numbers[run]]
        return encoded.chunk(0).dictionary


def _number_integers(values: pa.ChunkedArray, numbers: NDArray[np.int64]) -> pa.Array | None:
    """Number texts that are all integers close together, such as the keys of nodes; None for others.

    To find out which there are takes no look-up in a table of texts.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        at = 0
        for chunk in values.chunks:
            if not pc.all(pc.ascii_is_decimal(chunk)).as_py():
                return None  # A cast also takes others, such as 0xF4240.
            numbers[at : at + len(chunk)] = pc.cast(chunk, pa.int64())
            at += len(chunk)
    except pa.ArrowInvalid:
        return None
    greatest = int(numbers.max())
    if greatest >= 4 * len(numbers):
        return None
    counts = np.bincount(numbers)
    there = np.flatnonzero(counts)
    texts = pa.array(there).cast(pa.utf8())
    lengths = pc.binary_length(texts).to_numpy()
    if int((counts[there] * lengths).sum()) != pc.sum(pc.binary_length(values)).as_py():
        return None  # Some texts are longer than their integers, such as 007.
    ranks = np.empty(greatest + 1, np.int64)
    ranks[there] = np.arange(len(there))
    numbers[:] = ranks[numbers]
    return texts


def _is_in_order(values: pa.Array) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.less_equal(values[:-1], values[1:])).as_py())


def _ranked(texts: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """The texts in order, and the rank of each by its old place."""
    import numpy as np
    import pyarrow.compute as pc

    order = pc.sort_indices(texts)
    ranks = np.empty(len(order), np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    return texts.take(order), ranks


def _parts(rows: int) -> Iterator[slice]:
    return (slice(start, min(start + BATCH_ROWS, rows)) for start in range(0, rows, BATCH_ROWS))


# ------------------------------------------------------------------ the files


@dataclass(slots=True)
class _Files:
    """The two files of an index."""

    table: Table
    index: Any
    version: str
    page_rows: int
    data: pa.Schema
    lookup: pa.Schema
    listed: Sequence[Any] = ()

    def write(self, rows: Iterator[tuple[pa.Array, pa.Array]]) -> bool:
        """Write sorted values and addresses; False if they cannot be had in this way."""
        import pyarrow as pa

        edges = _Edges(self.page_rows)
        writer = self._open(_DATA, self.data)
        try:
            for values, addresses in rows:
                edges.add(values)
                writer.write_batch(pa.record_batch([values, addresses], schema=self.data))
        except _OutOfOrder:
            return False
        writer.close()
        lookup = self._open(_LOOKUP, self.lookup)
        lookup.write_batch(edges.batch(self.lookup))
        for name, value in (self.lookup.metadata or {}).items():
            lookup.add_schema_metadata(name.decode(), value.decode())
        lookup.close()
        listed = lance_module("dataset").IndexFile
        self.listed = [listed(_DATA, writer.size_bytes), listed(_LOOKUP, lookup.size_bytes)]
        return True

    def _open(self, name: str, schema: pa.Schema) -> Any:
        return self.table.files.open_writer(
            self._path(name),
            schema=schema.remove_metadata(),
            data_cache_bytes=_CACHE_BYTES,
            version=self.version,
        )

    def _path(self, name: str) -> str:
        return f"_indices/{self.index.uuid}/{name}"

    def discard(self) -> None:
        """Remove the files, which nothing refers to."""
        for name in (_DATA, _LOOKUP):
            with contextlib.suppress(OSError):
                self.table.files.delete_file(self._path(name))


class _Edges:
    """The least and the greatest value of each page of sorted values."""

    def __init__(self, page_rows: int) -> None:
        self._page_rows = page_rows
        self._rows = 0
        self._least: list[pa.Array] = []
        self._greatest: list[pa.Array] = []
        self._last: pa.Array | None = None

    def add(self, values: pa.Array) -> None:
        """Go on with the next values."""
        import numpy as np
        import pyarrow as pa

        end = self._rows + len(values)
        starts = np.arange(
            -(-self._rows // self._page_rows) * self._page_rows, end, self._page_rows
        )
        self._least.append(values.take(pa.array(starts - self._rows)))
        ends = np.arange(self._rows // self._page_rows + 1, end // self._page_rows + 1)
        self._greatest.append(values.take(pa.array(ends * self._page_rows - 1 - self._rows)))
        self._last = None if end % self._page_rows == 0 else values[-1:]
        self._rows = end

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """All pages."""
        import pyarrow as pa

        if self._last is not None:
            self._greatest.append(self._last)
        least, greatest = pa.concat_arrays(self._least), pa.concat_arrays(self._greatest)
        pages = pa.array(range(len(least)), pa.uint32())
        nulls = pa.array([0] * len(least), pa.uint32())
        return pa.record_batch([least, greatest, nulls, pages], schema=schema)


def _form(table: Table, index: Any) -> _Files | None:
    """The files of an index that Lance made without rows, if they have the form known here."""
    import pyarrow as pa

    def described(name: str) -> Any:
        return table.files.open_reader(f"_indices/{index.uuid}/{name}").metadata()

    if sorted(file.path for file in index.files or []) != [_DATA, _LOOKUP]:
        return None
    data, lookup = described(_DATA), described(_LOOKUP)
    values = pa.field("values", pa.utf8())
    known_data = pa.schema([values, pa.field("ids", pa.uint64(), nullable=False)])
    counts = [pa.field(name, pa.uint32(), nullable=False) for name in ("null_count", "page_idx")]
    known_lookup = pa.schema([values.with_name("min"), values.with_name("max"), *counts])
    facts = dict(lookup.schema.metadata or {})
    rows = facts.pop(_PAGE_ROWS, b"")
    if (data.schema, lookup.schema, facts) != (known_data, known_lookup, {_RANGES: b"false"}):
        return None
    if not rows.isdigit() or data.schema.metadata:
        return None
    version = f"{data.major_version}.{data.minor_version}"
    return _Files(table, index, version, int(rows), data.schema, lookup.schema)
