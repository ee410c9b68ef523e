"""Batches of rows cut into pieces that are small once they are decoded.

The bytes of a batch say little about what becomes of it: a dictionary has a text once, however many rows
hold it, and views and runs repeat values in the same way. So pieces are measured by what their rows hold,
before anything is decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

PIECE_ROWS = 1 << 16
"""Rows of a frame or a file that are read at a time, at most."""
PIECE_BYTES = 32 << 20
"""About how many bytes they have, once decoded; a larger row is a piece of its own."""

_REFERENCE = 8

Sizes = NDArray[np.int64]


def arrow_pieces(
    batch: pa.RecordBatch, rows: int = PIECE_ROWS, size: int = PIECE_BYTES
) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, in pieces of at most that many rows and about that many decoded bytes."""
    if batch.num_rows <= rows and _surely_holds(batch, size):
        yield batch
        return
    for start in range(0, batch.num_rows, rows):
        part = batch.slice(start, rows)
        if _surely_holds(part, size):
            yield part
            continue
        sizes = np.sum([row_bytes(column) for column in part.columns], axis=0)
        for begin, end in cuts(sizes, size):
            yield part.slice(begin, end - begin)


def cuts(sizes: Sizes, size: int) -> Iterator[tuple[int, int]]:
    """The bounds of pieces of rows that have these sizes; a row that is too large comes alone."""
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + size, side="right")))
        yield begin, end
        begin = end


def _surely_holds(batch: pa.RecordBatch, size: int) -> bool:
    """Whether the rows have fewer bytes, as far as that can be told without looking at them."""
    if not batch.num_rows:
        return True
    return batch.nbytes <= size and all(_is_as_stored(one.type) for one in batch.schema)


def _is_as_stored(kind: pa.DataType) -> bool:
    """Whether a column takes as many bytes decoded as it takes now."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _is_as_stored(kind.storage_type)
    if types.is_struct(kind) or types.is_map(kind) or types.is_union(kind):
        return all(_is_as_stored(kind.field(place).type) for place in range(kind.num_fields))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_as_stored(kind.value_type)
    return not (
        types.is_dictionary(kind)
        or types.is_run_end_encoded(kind)
        or types.is_string_view(kind)
        or types.is_binary_view(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def row_bytes(array: pa.Array) -> Sizes:
    """The bytes that each row of a column has once it is decoded."""
    types, kind = pa.types, array.type
    if isinstance(array, pa.ExtensionArray):
        return row_bytes(array.storage)
    if types.is_dictionary(kind):
        return _chosen(row_bytes(array.dictionary), array.indices)
    if types.is_run_end_encoded(kind):
        return _run_bytes(array)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return _view_bytes(array)
    if _has_length(kind):
        lengths = pc.binary_length(array).cast(pa.int64())
        found: Sizes = lengths.fill_null(0).to_numpy(zero_copy_only=False) + _REFERENCE
        return found
    if _is_lists(kind):
        lengths = pc.list_value_length(array).cast(pa.int64()).fill_null(0)
        return _sums(row_bytes(array.flatten()), lengths.to_numpy(zero_copy_only=False))
    if types.is_struct(kind):
        none = np.zeros(len(array), np.int64)
        return sum((row_bytes(field) for field in array.flatten()), none)
    return np.full(len(array), -(-array.nbytes // max(1, len(array))), np.int64)


def _has_length(kind: pa.DataType) -> bool:
    types = pa.types
    tests: Sequence[Callable[[Any], bool]] = (
        types.is_string,
        types.is_binary,
        types.is_large_string,
        types.is_large_binary,
    )
    return any(test(kind) for test in tests)


def _view_bytes(array: pa.Array) -> Sizes:
    # Arrow has no function for it: each view is four 32-bit numbers, the first of which is the length.
    views = np.frombuffer(array.buffers()[1], np.int32).reshape(-1, 4)
    lengths = views[array.offset : array.offset + len(array), 0].astype(np.int64)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return np.where(valid, lengths, 0) + _REFERENCE


def _is_lists(kind: pa.DataType) -> bool:
    types = pa.types
    tests: Sequence[Callable[[Any], bool]] = (
        types.is_list,
        types.is_large_list,
        types.is_fixed_size_list,
        types.is_list_view,
        types.is_large_list_view,
    )
    return any(test(kind) for test in tests)


def _chosen(sizes: Sizes, indices: pa.Array) -> Sizes:
    if not len(sizes):
        return np.zeros(len(indices), np.int64)
    places = indices.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    # A damaged file may point anywhere; whoever decodes the column says so.
    found: Sizes = sizes[np.clip(places, 0, len(sizes) - 1)]
    return found


def _run_bytes(array: pa.Array) -> Sizes:
    ends = array.run_ends.to_numpy(zero_copy_only=False).astype(np.int64)
    rows = np.arange(array.offset, array.offset + len(array))
    sizes = row_bytes(array.values)
    if not len(sizes):
        return np.zeros(len(array), np.int64)
    return sizes[np.clip(np.searchsorted(ends, rows, side="right"), 0, len(sizes) - 1)]


def _sums(sizes: Sizes, lengths: Sizes) -> Sizes:
    """The sum of the sizes in each of consecutive stretches of these lengths."""
    totals = np.concatenate([[0], np.cumsum(sizes)])
    bounds = np.minimum(np.concatenate([[0], np.cumsum(lengths)]), len(sizes))
    found: Sizes = np.diff(totals[bounds]) + _REFERENCE
    return found
