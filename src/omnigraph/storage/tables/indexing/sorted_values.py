"""A column of texts in order, with the addresses of its rows: what a BTREE is written from.

Texts that are stored in order are given as they come. Those that spell integers, and those of which the same
come again and again, such as the ends of edges, are sorted as numbers, and only the different ones are
compared as texts. Other texts are held in memory and sorted by the integers that their bytes are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.storage.tables.indexing.text_order import (
    in_order_of_texts,
    order_of_texts,
    spelled_integers,
)
from omnigraph.storage.tables.table import Table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    _Numbered = tuple[pa.Array, NDArray[np.int32]]
    """The different texts in order, and the rank of each by its number."""

BATCH_ROWS = 1 << 16
"""Rows read and written at a time."""
LONGEST_TEXT = 1 << 10
"""Texts of more bytes, on average, are left to Lance, which holds fewer of them at a time."""
NUMBERED_ROWS = 1 << 22
"""Rows whose texts are numbered together, before the numbers of all runs are brought in line."""

HELD_BYTES = 1 << 28
"""Texts of more bytes that mostly differ are left to Lance, which can spill; sorting takes as much again."""

_FIRST_ROWS = 1 << 10
_PLACE = 0xFFFF_FFFF


class OutOfOrder(Exception):
    """The values cannot be written in this way."""


@dataclass(frozen=True, slots=True)
class SortedColumn:
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
            batch_readahead=2,
            fragment_readahead=1,
        )
        for batch in reader:
            values = batch.column(self.name)
            if values.null_count:
                raise OutOfOrder
            if len(values):
                yield values, batch.column("_rowaddr")

    def first_values(self) -> pa.Array | None:
        """Some values of the first rows; None if they are not for here."""
        try:
            first, _ = next(self._batches(_FIRST_ROWS), (None, None))
        except OutOfOrder:
            return None
        return None if first is None or first.nbytes > LONGEST_TEXT * len(first) else first

    def in_order(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        """The values as they are stored, if they are in order."""
        import pyarrow.compute as pc

        last = None
        for values, addresses in self._batches():
            follows = last is None or pc.less_equal(last, values[0]).as_py()
            if not follows or not is_in_order(values):
                raise OutOfOrder
            last = values[-1]
            yield values, addresses

    def sorted(self, rows: int) -> Iterator[tuple[pa.Array, pa.Array]]:
        """The values in order."""
        import numpy as np
        import pyarrow as pa

        places = _Places.of(self.table, self.fragment_ids)
        # The number of the value, and behind it the place of the row: sorted, they are the index.
        keys = np.empty(rows, np.int64)
        numbered = self._number_integers(keys, places)
        if numbered is None and self._differ():
            yield from self._sorted_texts(rows)
            return
        texts, ranks = numbered or self._number_texts(keys, places)
        for part in _parts(rows):
            keys[part] = ranks[keys[part] >> 32].astype(np.int64) << 32 | keys[part] & _PLACE
        keys.sort()
        for part in _parts(rows):
            addresses = places.addresses(keys[part] & _PLACE)
            yield texts.take(pa.array(keys[part] >> 32)), pa.array(addresses)

    def _differ(self) -> bool:
        """Whether most of the first values differ from each other, so that it does not pay to number them."""
        import pyarrow.compute as pc

        first, _ = next(self._batches(BATCH_ROWS))
        return 2 * int(pc.count_distinct(first).as_py()) > len(first)

    def _sorted_texts(self, rows: int) -> Iterator[tuple[pa.Array, pa.Array]]:
        """The values in order, all of them held in memory."""
        import pyarrow as pa

        read, held = [], 0
        for values, addresses in self._batches():
            held += values.nbytes + addresses.nbytes
            if held > HELD_BYTES:
                raise OutOfOrder
            read.append((values, addresses))
        texts, places = (pa.concat_arrays(column) for column in zip(*read, strict=True))
        if len(texts) != rows:
            raise OutOfOrder
        read.clear()
        order = order_of_texts(texts)
        for part in _parts(rows):
            chosen = pa.array(order[part])
            yield texts.take(chosen), places.take(chosen)

    def _number_integers(self, keys: NDArray[np.int64], places: _Places) -> _Numbered | None:
        """Number texts that all spell integers close together, such as the keys of nodes.

        Each is its own number, so that none has to be looked up. None for other texts.
        """
        import numpy as np
        import pyarrow as pa

        end = 0
        is_there = np.zeros(4 * len(keys), np.bool_)
        for values, addresses in self._batches():
            spelled = spelled_integers(values)
            if spelled is None or int(spelled.max()) >= len(is_there):
                return None
            is_there[spelled] = True
            keys[end : end + len(values)] = spelled << 32 | places.of_addresses(addresses)
            end += len(values)
        self._expect(end, keys)
        there = np.flatnonzero(is_there)
        in_order = in_order_of_texts(there)
        ranks = np.empty(int(there[-1]) + 1, np.int32)
        ranks[in_order] = np.arange(len(in_order), dtype=np.int32)
        return pa.array(in_order).cast(pa.utf8()), ranks

    def _number_texts(self, keys: NDArray[np.int64], places: _Places) -> _Numbered:
        """Number the different values."""
        import pyarrow as pa

        runs: list[tuple[slice, pa.Array]] = []
        read: list[pa.Array] = []
        start = end = 0

        def number() -> None:
            """Number the values that were read last among themselves."""
            encoded, at = pa.chunked_array(read).dictionary_encode(), start
            for chunk in encoded.chunks:
                keys[at : at + len(chunk)] |= chunk.indices.to_numpy().astype("int64") << 32
                at += len(chunk)
            runs.append((slice(start, end), encoded.chunk(0).dictionary))

        for values, addresses in self._batches():
            keys[end : end + len(values)] = places.of_addresses(addresses)
            end += len(values)
            read.append(values)
            if end - start >= NUMBERED_ROWS:
                number()
                start, read = end, []
        if read:
            number()
        self._expect(end, keys)
        if len(runs) == 1:
            return _ranked(runs[0][1])
        encoded = pa.chunked_array([texts for _, texts in runs]).dictionary_encode()
        for (run, _), chunk in zip(runs, encoded.chunks, strict=True):
            numbers = chunk.indices.to_numpy().astype("int64")
            keys[run] = numbers[keys[run] >> 32] << 32 | keys[run] & _PLACE
        return _ranked(encoded.chunk(0).dictionary)

    def _expect(self, rows: int, keys: NDArray[np.int64]) -> None:
        if rows != len(keys):
            raise OutOfOrder


class _Places:
    """Rows of some fragments as numbers of 32 bits: which fragment, and which row of it."""

    def __init__(self, fragment_ids: Sequence[int], row_bits: int) -> None:
        import numpy as np

        self._fragments = np.array(sorted(fragment_ids), np.int64)
        self._row_bits = row_bits

    @classmethod
    def of(cls, table: Table, fragment_ids: Sequence[int]) -> _Places:
        """The places of all rows of the fragments; raises if there are too many."""
        chosen = set(fragment_ids)
        sizes = [one.physical_rows for one in table.fragments() if one.id in chosen]
        row_bits = max(sizes).bit_length()
        if len(sizes) << row_bits > 1 << 32:
            raise OutOfOrder
        return cls(fragment_ids, row_bits)

    def of_addresses(self, addresses: pa.Array) -> NDArray[np.int64]:
        """The places of rows."""
        import numpy as np

        known: NDArray[np.int64] = addresses.to_numpy().view(np.int64)
        which = np.searchsorted(self._fragments, known >> 32)
        places: NDArray[np.int64] = which << self._row_bits | known & 0xFFFF_FFFF
        return places

    def addresses(self, places: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The addresses of rows."""
        import numpy as np

        fragments = self._fragments[places >> self._row_bits]
        rows = places & ((1 << self._row_bits) - 1)
        addresses: NDArray[np.uint64] = (fragments << 32 | rows).view(np.uint64)
        return addresses


def is_in_order(values: pa.Array) -> bool:
    """Whether no text comes before the one in front of it."""
    import pyarrow.compute as pc

    return bool(pc.all(pc.less_equal(values[:-1], values[1:])).as_py())


def _ranked(texts: pa.Array) -> _Numbered:
    """The texts in order, and the rank of each by its number."""
    import numpy as np
    import pyarrow as pa

    order = order_of_texts(texts)
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    return texts.take(pa.array(order)), ranks


def _parts(rows: int) -> Iterator[slice]:
    return (slice(start, min(start + BATCH_ROWS, rows)) for start in range(0, rows, BATCH_ROWS))
