"""The files of a BTREE of texts, written without comparing every text with others.

A BTREE is two Lance files, which Lance's format of tables documents: ``page_data.lance`` has the values in
order, each with the address of its row; ``page_lookup.lance`` has the least and the greatest value of every
page. Lance sorts all values as texts. Here they are put in order with fewer comparisons
(`sorted_values`), and ids that a load made are in order already. That takes less time and less memory. Columns
with nulls or other types, and what is too much for memory, are left to Lance.

Lance makes the index first, without rows: its name, its version and the form of its files are Lance's
own. Where that form is not the one known here, Lance builds the whole index.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.storage.tables.encodings import for_ids
from omnigraph.storage.tables.indexing.sorted_values import OutOfOrder, SortedColumn, is_in_order
from omnigraph.storage.tables.lance_import import lance_module
from omnigraph.storage.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

FEWEST_ROWS = 20_000
"""Of fewer rows Lance is as quick."""
MOST_SORTED_ROWS = 1 << 25
"""More rows are sorted by Lance, which can spill; here each row takes 12 bytes of memory."""

_DATA, _LOOKUP = "page_data.lance", "page_lookup.lance"
_PAGE_ROWS = b"batch_size"
_RANGES = b"range_partitioned"
_CACHE_BYTES = 1 << 20


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
    source = SortedColumn(table, column, fragment_ids)
    sorts = rows <= MOST_SORTED_ROWS
    first = source.first_values()
    if first is None:
        return None
    in_order = is_in_order(first)
    if not (in_order or sorts):
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
        writer = self._open(_DATA, self.data.set(0, for_ids(self.data.field(0))))
        try:
            for values, addresses in rows:
                edges.add(values)
                writer.write_batch(pa.record_batch([values, addresses], schema=self.data))
        except OutOfOrder:
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
