"""Where many texts stand among the ids of a table: a hash table that is made once and asked many times.

Texts are compared as words of eight bytes, so no answer depends on the hashes: those only say where to look.

    ids a, b, c   ->   find [c, x, null, a]  =  [2, -1, -1, 0]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Codes, Index, Mask

Words = npt.NDArray[np.uint64]

_BYTES: Final = 8
# Longer ids, in bytes, are not indexed: each takes as much room here.
_LONGEST: Final = 63
# Texts looked up at a time: what is made on the way stays near the processor.
_PIECE: Final = 1 << 16
# A table with longer ways than this has ids that were made to collide.
_MOST_STEPS: Final = 1000
# The bytes of a word that belong to a text, by their number.
_KEPT: Final = np.array([(1 << 8 * count) - 1 for count in range(_BYTES + 1)], np.uint64)
_MIXING: Final = np.uint64(0x9E3779B97F4A7C15)


class IdIndex:
    """The places of distinct ids. Several threads may ask at once."""

    def __init__(self, count: int, longest: int, piece: int) -> None:
        self._piece = piece
        # The length of a text is in the last byte of its last word.
        words = longest // _BYTES + 1
        # Drawn anew, so that nobody can choose ids that are all looked for in one place.
        self._seeds = np.random.default_rng().integers(1 << 63, size=words, dtype=np.uint64) | 1
        self._bits = max(1, (2 * count - 1).bit_length())
        self._places = np.full(1 << self._bits, -1, np.int32)
        self._words = [np.zeros(max(1, count), np.uint64) for _ in range(words)]

    @staticmethod
    def of(ids: pa.Array, piece: int = _PIECE) -> IdIndex | None:
        """An index of distinct ids without nulls, which works on ``piece`` texts at a time.

        None where there is no good one: ids are too long.
        """
        texts = _Texts(ids)
        if texts.longest > _LONGEST:
            return None
        index = IdIndex(len(ids), texts.longest, piece)
        for part in _pieces(len(ids), piece):
            look()
            words = texts.words(part, len(index._words))
            for stored, one in zip(index._words, words, strict=True):
                stored[part] = one
            if not index._put(part, index._slots(words)):
                return None
        return index

    def _put(self, part: slice, slots: Index) -> bool:
        """Put ids in the first free slot from their own on; False when one finds none soon."""
        waiting = np.arange(part.start, part.stop, dtype=np.int32)
        for _ in range(_MOST_STEPS):
            free = self._places.take(slots) < 0
            self._places[slots[free]] = waiting[free]
            # Of several with the same slot one has got it.
            left = np.flatnonzero(self._places.take(slots) != waiting)
            if not left.size:
                return True
            waiting, slots = waiting.take(left), self._next(slots.take(left))
        return False

    @property
    def nbytes(self) -> int:
        """The bytes it takes."""
        return self._places.nbytes + sum(one.nbytes for one in self._words)

    def find(self, texts: pa.Array | pa.ChunkedArray) -> Codes:
        """The places of these texts; -1 for null and for one that is not there."""
        if isinstance(texts, pa.ChunkedArray):
            return np.concatenate([np.empty(0, np.int32), *map(self.find, texts.chunks)])
        asked = _Texts(texts)
        found = np.empty(len(texts), np.int32)
        for part in _pieces(len(texts), self._piece):
            look()
            found[part] = self._find(asked.words(part, len(self._words)))
        if texts.null_count:
            found[texts.is_null().to_numpy(zero_copy_only=False)] = -1
        return found

    def _find(self, words: list[Words]) -> Codes:
        slots = self._slots(words)
        found = self._places.take(slots)
        rows = other = np.flatnonzero(self._is_other(words, found))
        while rows.size:
            words = [one.take(other) for one in words]
            slots = self._next(slots.take(other))
            there = self._places.take(slots)
            found[rows] = there
            other = np.flatnonzero(self._is_other(words, there))
            rows = rows.take(other)
        return found

    def _is_other(self, words: list[Words], places: Codes) -> Mask:
        """Whether another id is at a place; False where there is none."""
        different: Mask = self._words[0].take(places) != words[0]
        for stored, one in zip(self._words[1:], words[1:], strict=True):
            different |= stored.take(places) != one
        different &= places >= 0
        return different

    def _slots(self, words: list[Words]) -> Index:
        mixed = words[0] * self._seeds[0]
        for one, seed in zip(words[1:], self._seeds[1:], strict=True):
            mixed += one * seed
        mixed ^= mixed >> np.uint64(32)
        mixed *= _MIXING
        slots: Index = (mixed >> np.uint64(64 - self._bits)).view(np.int64)
        return slots

    def _next(self, slots: Index) -> Index:
        slots += 1
        slots &= len(self._places) - 1
        return slots


class _Texts:
    """The bytes of an array of text."""

    def __init__(self, texts: pa.Array) -> None:
        if not pa.types.is_string(texts.type) and not pa.types.is_large_string(texts.type):
            texts = texts.cast(pa.large_string())
        _, offsets, data = texts.buffers()
        width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
        if offsets is None or not len(texts):
            self._offsets = np.zeros(1, width)
        else:
            known = np.frombuffer(offsets, width, offset=texts.offset * width().itemsize)
            self._offsets = known[: len(texts) + 1]
        first, last = int(self._offsets[0]), int(self._offsets[-1])
        # A word may be read from where the last text begins, and beyond its end.
        copied = np.zeros(last - first + _BYTES, np.uint8)
        if last > first:
            copied[: last - first] = np.frombuffer(data, np.uint8)[first:last]
        self._first = first
        self._every: Words = np.ndarray((last - first + 1,), "<u8", copied, strides=(1,))

    @property
    def longest(self) -> int:
        """The bytes of the longest one."""
        return int(np.diff(self._offsets).max(initial=0))

    def words(self, part: slice, count: int) -> list[Words]:
        """So many words of each text, with its length in the last byte of the last; what is too long has 255."""
        offsets = self._offsets[part.start : part.stop + 1].astype(np.int64)
        starts, lengths = offsets[:-1] - self._first, np.diff(offsets)
        found = []
        for at in range(count):
            begins = starts if not at else np.minimum(starts + at * _BYTES, len(self._every) - 1)
            inside = lengths - at * _BYTES
            word = self._every[begins]
            word &= _KEPT.take(inside, mode="clip")
            found.append(word)
        found[-1] |= np.minimum(lengths, 255).view(np.uint64) << np.uint64(56)
        return found


def _pieces(count: int, piece: int) -> Iterator[slice]:
    for start in range(0, count, piece):
        yield slice(start, min(start + piece, count))
