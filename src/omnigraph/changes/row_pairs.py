"""Rows of two states of one table, side by side: the form in which changes are found and used.

For example, when "ann" was renamed and "bob" was added, one ``ChangedRows`` holds

    ids      before                     after
    ann      present, name "Ann"        present, name "Anna"
    bob      absent (every column null) present, name "Bob"
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROW_ID = "_rowid"
"""The column of an ``AlignedRows`` table with Lance's stable row id, by which blobs are read."""


IMAGE_BLOB_BYTES: Final = 32 << 20
"""About how many bytes of blobs are read at once to show them; one blob alone may be larger."""


class AlignedRows(NamedTuple):
    """Rows of one table, one for each id that was asked for, in that order.

    ``table`` has ``id``, ``src`` and ``dst`` of edges, every property under its current name (blobs
    as descriptors), and ``ROW_ID``. Where ``present`` is false, every column is null.
    """

    present: pa.BooleanArray
    table: pa.Table


class ChangedRows(NamedTuple):
    """Entities whose images differ between two states of a table, in ascending order of their ids.

    ``before`` and ``after`` are as long as ``ids``. An entity that is absent before was inserted, one
    that is absent after was deleted, and one that is present on both sides was updated.
    """

    ids: pa.StringArray
    before: AlignedRows
    after: AlignedRows


def with_few_blobs(
    changes: ChangedRows,
    blobs: tuple[Sequence[str], Sequence[str]],
    limit: int = IMAGE_BLOB_BYTES,
) -> Iterator[ChangedRows]:
    """Cut changes into parts whose blobs have at most ``limit`` bytes on both sides.

    ``blobs`` are the properties before and after. An image holds its blobs whole. One row whose blobs are
    larger is a part of its own.
    """
    if not any(blobs):
        yield changes
        return
    sizes = np.zeros(len(changes.ids), np.uint64)
    for rows, names in zip(changes[1:], blobs, strict=True):
        for name in names:
            size = pc.struct_field(rows.table.column(name).combine_chunks(), "size")
            sizes += size.fill_null(0).to_numpy(zero_copy_only=False)
    start, total = 0, 0
    for at, size in enumerate(sizes.tolist()):
        if at > start and total + size > limit:
            yield _slice(changes, start, at - start)
            start, total = at, 0
        total += size
    yield _slice(changes, start, len(sizes) - start)


def _slice(changes: ChangedRows, start: int, length: int) -> ChangedRows:
    before, after = (
        AlignedRows(rows.present.slice(start, length), rows.table.slice(start, length))
        for rows in changes[1:]
    )
    return ChangedRows(changes.ids.slice(start, length), before, after)
