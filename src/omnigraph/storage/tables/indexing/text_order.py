"""The order of texts, found by comparing eight bytes at a time as integers.

Texts that spell integers, as the ids of nodes with an integer key do, are told apart as integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


_WORD = 8


def order_of_texts(texts: pa.Array) -> NDArray[np.intp]:
    """The rows of texts, none of them null, in the order of their bytes.

    What all texts begin with is left out. The next eight bytes of each are an integer, and those are
    sorted; only texts that are still equal are compared by the eight bytes behind them, and so on.
    """
    import numpy as np
    import pyarrow.compute as pc

    if not len(texts):
        return np.empty(0, np.intp)
    words = _Words(texts)
    if words.have_nul:
        # Such a byte could not be told from those behind the end of a text.
        return np.asarray(pc.sort_indices(texts), np.intp)
    skipped = _common_bytes(texts)
    first = words.at(skipped, slice(None))
    order = np.argsort(first)
    # The places whose texts are not told apart yet, and for each the number of its group of equals.
    places = np.arange(len(order))
    group = _numbered(first[order])
    while True:
        skipped += _WORD
        tied = _in_groups(group, words.lengths[order[places]] > skipped)
        if not len(tied):
            return order
        places, group = places[tied], group[tied]
        rows = order[places]
        next_words = words.at(skipped, rows)
        within = np.lexsort((next_words, group))
        order[places] = rows[within]
        group = _numbered(group[within], next_words[within])


class _Words:
    """The bytes of texts, eight at a time."""

    def __init__(self, texts: pa.Array) -> None:
        import numpy as np

        _, bounds_at, data_at = texts.buffers()
        bounds = np.frombuffer(bounds_at, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        held = np.frombuffer(data_at or b"", np.uint8)[bounds[0] : bounds[-1]]
        data = np.concatenate([held, np.zeros(_WORD, np.uint8)])
        self.have_nul = not held.all()
        self.lengths = np.diff(bounds)
        self._starts = bounds[:-1].astype(np.int64) - int(bounds[0])
        self._words = np.ndarray(len(held) + 1, ">u8", data, strides=(1,))
        # The bytes of a word that belong to a text, by how many they are.
        filled = [(1 << 64) - (1 << 64 - 8 * count) for count in range(_WORD + 1)]
        self._masks = np.array(filled, np.uint64)

    def at(self, skipped: int, rows: slice | NDArray[np.intp]) -> NDArray[np.uint64]:
        """The word of each text after a number of bytes; zeros follow the end of a text."""
        import numpy as np

        starts = np.minimum(self._starts[rows] + skipped, len(self._words) - 1)
        left = np.clip(self.lengths[rows] - skipped, 0, _WORD)
        words: NDArray[np.uint64] = self._words[starts].astype(np.uint64) & self._masks[left]
        return words


def _common_bytes(texts: pa.Array) -> int:
    """How many bytes all texts begin with."""
    import pyarrow.compute as pc

    ends = pc.min_max(texts).as_py()
    least, greatest = (ends[name].encode() for name in ("min", "max"))
    pairs = enumerate(zip(least, greatest, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(least), len(greatest)))


def _numbered(*columns: NDArray[np.generic]) -> NDArray[np.intp]:
    """Numbers for sorted rows: the same one for neighbours that are equal in all columns."""
    import numpy as np

    differs = np.zeros(len(columns[0]), np.bool_)
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return np.cumsum(differs)


def _in_groups(group: NDArray[np.intp], goes_on: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The members of groups of several texts, one of which at least goes on."""
    import numpy as np

    asked = (np.bincount(group) > 1) & (np.bincount(group, weights=goes_on) > 0)
    return np.flatnonzero(asked[group])


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
