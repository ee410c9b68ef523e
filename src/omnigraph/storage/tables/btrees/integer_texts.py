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


def in_order_of_texts(integers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ascending integers from 0 to below 10^16, in the order of their texts: `10` comes before `9`.

    Texts of one length sort as their integers do. Filled up with zeros behind, all have one length; those
    that become equal by it sort by their own length.
    """
    import numpy as np

    powers = 10 ** np.arange(17, dtype=np.int64)
    ends = np.searchsorted(integers, powers[1:]).tolist()
    longest = next(at for at, end in enumerate(ends) if end == len(integers))
    keys = np.empty(len(integers), np.int64)
    start = 0
    for length, end in enumerate(ends[: longest + 1]):
        keys[start:end] = integers[start:end] * powers[longest - length] << 5 | length
        start = end
    keys.sort()
    in_order: NDArray[np.int64] = (keys >> 5) // powers[longest - (keys & 31)]
    return in_order
