"""Columns of texts that spell integers, as the ids of nodes with an integer key do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_ZERO = ord("0")


def spelled_integers(texts: pa.Array) -> NDArray[np.int64] | None:
    """The integers that texts spell; None if one is null or no integer, or is spelled in another way.

    Texts that differ then spell different integers: `7` is read, `07`, `+7` and `-7` are not.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if texts.null_count:
        return None
    if not len(texts):
        return np.empty(0, np.int64)
    _, bounds_at, data_at = texts.buffers()
    bounds = np.frombuffer(bounds_at, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    if data_at is None or bounds[0] == bounds[-1]:
        return None
    data = np.frombuffer(data_at, np.uint8)
    lengths = np.diff(bounds)
    if not lengths.min():
        return None
    # The bytes before `0` become great numbers, as those behind `9` are.
    if int((data[bounds[0] : bounds[-1]] - np.uint8(_ZERO)).max()) > 9:
        return None
    if bool(((data[bounds[:-1]] == _ZERO) & (lengths > 1)).any()):
        return None
    try:
        spelled: NDArray[np.int64] = pc.cast(texts, pa.int64()).to_numpy()
    except pa.ArrowInvalid:  # too large
        return None
    return spelled
