"""A quick check of rows in memory: how many of them hold at one moment at most.

It settles almost every change of few rows without a query. Rows are given by the number of their tuple or source,
and by their bounds as integers, where the least and the greatest number stand for open ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.types import as_integers

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


def most_at_once(
    tables: Sequence[pa.Table], columns: Sequence[str], bounds: tuple[str, str]
) -> int | None:
    """Return how many rows with the same values hold at one moment at most; None if that is left to SQL.

    Rows with a null among the values equal no other. Floats are left to SQL, which says when they are equal.
    """
    import numpy as np
    import pyarrow as pa

    if any(pa.types.is_floating(tables[0].schema.field(name).type) for name in columns):
        return None

    def column_of(name: str) -> pa.Array:
        chunks = [chunk for table in tables for chunk in table.column(name).chunks]
        return pa.chunked_array(chunks, tables[0].schema.field(name).type).combine_chunks()

    length = sum(table.num_rows for table in tables)
    codes = np.zeros(length, np.int64)
    whole = np.ones(length, np.bool_)
    for name in columns:
        column = column_of(name)
        encoded = column.dictionary_encode()
        whole &= column.is_valid().to_numpy(zero_copy_only=False)
        places = encoded.indices.fill_null(0).to_numpy()
        codes = np.unique(codes * max(1, len(encoded.dictionary)) + places, return_inverse=True)[1]
    since, until = (_bound(column_of(name), is_end=name == bounds[1]) for name in bounds)
    held = whole & (since < until)
    return _peak(codes[held], since[held], until[held])


def _bound(column: pa.Array, *, is_end: bool) -> NDArray[np.int64]:
    import numpy as np

    limits = np.iinfo(np.int64)
    integers: Any = as_integers(column).cast("int64")
    found: NDArray[np.int64] = integers.fill_null(limits.max if is_end else limits.min).to_numpy()
    return found


def _peak(codes: NDArray[np.int64], since: NDArray[np.int64], until: NDArray[np.int64]) -> int:
    """Count up where a row begins and down where it ends; of one moment the ends come first."""
    import numpy as np

    if not len(codes):
        return 0
    steps = np.repeat(np.array([1, -1]), len(codes))
    order = np.lexsort((steps, np.concatenate([since, until]), np.tile(codes, 2)))
    # Every row that begins ends as well, so the sum is zero again where the next number starts.
    return int(np.cumsum(steps[order]).max())
