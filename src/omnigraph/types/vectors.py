"""Vector columns: from a matrix of numbers, and with some of their values replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


def vector_column(matrix: npt.NDArray[np.float32], kind: pa.DataType) -> pa.Array:
    """Return the rows of a matrix as a column of that vector type."""
    import pyarrow as pa

    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel(), kind.value_type), type=kind)


def put_values(column: pa.Array, places: npt.NDArray[np.int64], values: pa.Array) -> pa.Array:
    """Return the column with these values at these places; values may be null."""
    import numpy as np
    import pyarrow as pa

    order = np.arange(len(column))
    order[places] = np.arange(len(column), len(column) + len(values))
    return pa.concat_arrays([column, values]).take(pa.array(order))
