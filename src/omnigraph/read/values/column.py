"""One property of many entities, by code, in the forms that operators want it in.

For example:

    values ["b", null, "a", "b"]   ->   dictionary ["a", "b"], codes [1, -1, 0, 1], valid [T, F, T, T]

A ``Space`` is what a variable ranges over: entities numbered from 0, each property of which is a column.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import aside
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.types import PropType, as_integers, from_integers

_MAX_TEXT_BYTES = 2**31 - 1
CALL_ROWS = 16_384
"""The fixed cost of a comparison, in rows."""


class Column:
    """The values of one property by code. Other forms than the array are made on first use.

    Two threads may both make a form; each sees a whole one.
    """

    def __init__(self, type: PropType, array: pa.Array) -> None:
        self.type = type
        self._array = array
        self._valid: Mask | None = None
        self._numbers: npt.NDArray[Any] | None = None
        self._ranked: tuple[Codes, pa.Array] | None = None
        self._span: tuple[int, int] | None = None
        self._compared = 0

    def __len__(self) -> int:
        return len(self.array)

    @property
    def array(self) -> pa.Array:
        """The values as they are stored."""
        return self._array

    @property
    def kind(self) -> pa.DataType:
        """The type of the array."""
        return self._array.type

    @property
    def valid(self) -> Mask | None:
        """Which values are not null; None when all are there."""
        if self.array.null_count == 0:
            return None
        if self._valid is None:
            self._valid = self.array.is_valid().to_numpy(zero_copy_only=False)
        return self._valid

    @property
    def numbers(self) -> npt.NDArray[Any]:
        """Numbers, truth values, days and milliseconds as a NumPy array; 0 where null."""
        if self._numbers is None:
            self._numbers = _numbers(self.array)
        return self._numbers

    @property
    def span(self) -> tuple[int, int]:
        """The smallest and the largest of the integers and 0."""
        if self._span is None:
            numbers = self.numbers
            self._span = int(numbers.min(initial=0)), int(numbers.max(initial=0))
        return self._span

    @property
    def codes(self) -> Codes:
        """Per entity the rank of its value among the distinct ones (``dictionary``); null is -1.

        So codes serve equality, grouping, order, minimum and maximum.
        """
        return self._coded()[0]

    @property
    def dictionary(self) -> pa.Array:
        """The distinct values ascending: text by UTF-8 bytes, NaN last, lists item by item."""
        return self._coded()[1]

    @property
    def has_codes(self) -> bool:
        """Whether ``codes`` and ``dictionary`` are there already."""
        return self._ranked is not None

    def is_worth_codes(self, rows: int | None = None) -> bool:
        """Whether to compare text by codes: yes once the whole column was compared before.

        Making the codes costs as much as some tens of comparisons, which are of integers afterwards.
        ``rows`` are compared now, by default all.
        """
        again = self._compared >= len(self)
        self._compared += CALL_ROWS + (len(self) if rows is None else rows)
        return again or self.has_codes

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        total = int(self.array.get_total_buffer_size())
        for made in (self._valid, self._numbers):
            total += 0 if made is None else made.nbytes
        ranked = self._ranked
        if ranked is not None:
            total += ranked[0].nbytes + int(ranked[1].get_total_buffer_size())
        return total

    def _coded(self) -> tuple[Codes, pa.Array]:
        if self._ranked is None:
            self._ranked = aside(lambda: _ranked(self), items=len(self))
        return self._ranked


class Part(Column):
    """A column's values at some codes, in the forms the whole has: ``dictionary`` is the whole's."""

    def __init__(self, whole: Column, codes: Codes) -> None:
        super().__init__(whole.type, None)
        self._whole = whole
        self._at = codes

    def __len__(self) -> int:
        return len(self._at)

    @property
    def array(self) -> pa.Array:
        """The values as they are stored."""
        if self._array is None:
            self._array = self._whole.array.take(self._at)
        return self._array

    @property
    def kind(self) -> pa.DataType:
        """The type of the array."""
        return self._whole.kind

    @property
    def valid(self) -> Mask | None:
        """Which values are not null; None when all are there."""
        valid = self._whole.valid
        return None if valid is None else valid[self._at]

    @property
    def numbers(self) -> npt.NDArray[Any]:
        """Numbers, truth values, days and milliseconds as a NumPy array; 0 where null."""
        return self._whole.numbers[self._at]

    def is_worth_codes(self, rows: int | None = None) -> bool:
        """Whether a comparison of text had better go by codes, which are those of the whole."""
        return self._whole.is_worth_codes(len(self) if rows is None else rows)

    def _coded(self) -> tuple[Codes, pa.Array]:
        return self._whole.codes[self._at], self._whole.dictionary


def one_array(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The chunks as one array; text beyond 2 GB gets the wider offsets it needs then."""
    if isinstance(values, pa.Array):
        return values
    if pa.types.is_string(values.type) and values.nbytes > _MAX_TEXT_BYTES:
        values = values.cast(pa.large_string())
    combined = values.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    array = as_integers(array)
    if array.null_count:
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    numbers: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers


def _ranked(column: Column) -> tuple[Codes, pa.Array]:
    kind = column.array.type
    valid = column.valid
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _ranked_text(column.array)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _ranked_lists(column)
    numbers = column.numbers
    present = numbers if valid is None else numbers[valid]
    distinct, ranks = _distinct(present)
    codes = _spread(ranks.astype(np.int32, copy=False), valid, len(numbers))
    return codes, from_integers(distinct, kind)


def _distinct(numbers: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The distinct numbers ascending and the rank of each; by counting where the range is narrow."""
    if numbers.size == 0 or not np.issubdtype(numbers.dtype, np.integer):
        return np.unique(numbers, return_inverse=True)
    low, high = int(numbers.min()), int(numbers.max())
    if high - low > 2 * numbers.size + 1024:
        return np.unique(numbers, return_inverse=True)
    offsets = (numbers - numbers.dtype.type(low)).astype(np.int64)
    seen = np.zeros(high - low + 1, np.bool_)
    seen[offsets] = True
    rank_of = np.cumsum(seen, dtype=np.int32) - 1
    distinct = np.flatnonzero(seen).astype(numbers.dtype) + numbers.dtype.type(low)
    return distinct, rank_of[offsets]


def _spread(ranks: Codes, valid: Mask | None, size: int) -> Codes:
    """Ranks of the present values as codes of all; null is -1."""
    if valid is None:
        return ranks
    codes = np.full(size, -1, np.int32)
    codes[valid] = ranks
    return codes


def _ranked_text(array: pa.Array) -> tuple[Codes, pa.Array]:
    encoded = array.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    # One place more, at the end: where a null (-1) looks its rank up.
    rank_of = np.full(len(order) + 1, -1, np.int32)
    rank_of[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
    codes: Codes = rank_of[encoded.indices.fill_null(-1).to_numpy()]
    return codes, encoded.dictionary.take(order)


def _ranked_lists(column: Column) -> tuple[Codes, pa.Array]:
    """Lists ranked item by item, a shorter one before what it begins."""
    valid = column.valid
    lists = column.array if valid is None else column.array.drop_null()
    lengths = pc.list_value_length(lists).to_numpy().astype(np.int64)
    items = Column(column.type.element, lists.flatten()).codes.astype(np.int64) + 2
    starts = np.cumsum(lengths) - lengths
    ranks = np.zeros(len(lists), np.int64)
    groups, base = min(len(lists), 1), int(items.max(initial=1)) + 1
    for place in range(int(lengths.max(initial=0))):
        if groups == len(lists):
            break
        here = lengths > place
        key = np.zeros(len(lists), np.int64)
        key[here] = items[starts[here] + place]
        distinct, ranks = np.unique(ranks * base + key, return_inverse=True)
        groups = len(distinct)
    _, first, ranks = np.unique(ranks, return_index=True, return_inverse=True)
    codes = _spread(ranks.astype(np.int32), valid, len(column.array))
    return codes, lists.take(pa.array(first))


class Space(Protocol):
    """The entities a variable ranges over, numbered from 0: the nodes of a type, or stored edges."""

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    def type_names(self, codes: Codes) -> pa.Array:
        """The name of the type of each of these entities."""
        ...

    def column(self, name: str) -> Column:
        """A property of all entities, by code. A property the table lacks is null everywhere."""
        ...

    def has_column(self, name: str) -> bool:
        """Whether that property of all entities is kept in memory now."""
        ...

    def values(self, name: str, codes: Codes) -> pa.Array:
        """A property of these entities, repeats included; reads no more than it must."""
        ...

    def ids(self, codes: Codes) -> pa.StringArray:
        """The ids of these entities."""
        ...

    def ranks(self, codes: Codes) -> npt.NDArray[np.integer]:
        """Numbers in the order of the ids of these entities; equal only for equal ids."""
        ...
