"""Sets of row ids: those of whole fragments as ranges, and what of an index is about some of them.

A part of an index keeps the entries of rows that were deleted after it was built, also when the rows are long
gone from the data: Lance leaves such entries out of its answers. The words and vectors of such a row are then in
the index alone, and only the id of the row tells whose they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from omnigraph.maintenance.purge.file_scan import ADDRESSES, ROW_IDS, Columns
from omnigraph.storage.tables.staging import row_ids_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class RowRanges:
    """Row ids as half-open ranges. For example, {4, 5, 6, 9} is [4, 7) and [9, 10)."""

    def __init__(self, begins: npt.NDArray[np.uint64], ends: npt.NDArray[np.uint64]) -> None:
        self._begins, self._ends = begins, ends

    @staticmethod
    def of(ids: npt.NDArray[np.uint64]) -> RowRanges:
        """Return the ranges of some row ids, in any order."""
        import numpy as np

        ids = np.unique(ids)
        starts = np.flatnonzero(np.diff(ids, prepend=ids[:1]) != 1)
        begins = ids[starts]
        ends = ids[np.append(starts[1:], len(ids)) - 1] + np.uint64(1) if len(ids) else ids
        return RowRanges(begins, ends)

    @staticmethod
    def union(several: Iterable[RowRanges]) -> RowRanges:
        """Return the ranges that have all ids of several ones."""
        import numpy as np

        none = np.array([], np.uint64)
        listed = list(several)
        begins = np.concatenate([none, *(one._begins for one in listed)])  # noqa: SLF001 - its own class
        ends = np.concatenate([none, *(one._ends for one in listed)])  # noqa: SLF001 - its own class
        order = np.argsort(begins)
        # Ranges may overlap: where one begins at 4, nothing before the furthest end so far is missing.
        return RowRanges(begins[order], np.maximum.accumulate(ends[order]) if len(ends) else ends)

    def __bool__(self) -> bool:
        return bool(len(self._begins))

    def has(self, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Return which ids are in the ranges."""
        import numpy as np

        if not self:
            return np.zeros(len(ids), bool)
        at = np.searchsorted(self._begins, ids, side="right")
        found: npt.NDArray[np.bool_] = (at > 0) & (ids < self._ends[np.maximum(at, 1) - 1])
        return found


_FRAGMENT_BITS: Final = 32


class RowNumbers:
    """Some rows of one branch of a table by both numbers that indexes use: row ids, and addresses."""

    def __init__(self, row_ids: RowRanges, addresses: RowRanges) -> None:
        self._by_column = {ROW_IDS: row_ids, ADDRESSES: addresses}

    @staticmethod
    def of_fragments(fragments: Mapping[int, Any]) -> RowNumbers:
        """Return all rows of some fragments, deleted ones included."""
        import numpy as np

        begins = np.array(sorted(fragments), np.uint64) << np.uint64(_FRAGMENT_BITS)
        sizes = [fragments[number].physical_rows for number in sorted(fragments)]
        return RowNumbers(
            RowRanges.union(RowRanges.of(_row_ids_of(one)) for one in fragments.values()),
            RowRanges(begins, begins + np.array(sizes, np.uint64)),
        )

    @staticmethod
    def at(fragments: Mapping[int, Any], addresses: npt.NDArray[np.uint64]) -> RowNumbers:
        """Return the rows at some addresses. Of those in other fragments the row ids are not known."""
        import numpy as np

        row_ids = [np.array([], np.uint64)]
        numbers = addresses >> np.uint64(_FRAGMENT_BITS)
        for number in np.unique(numbers).tolist():
            if number in fragments:
                places = addresses[numbers == number] & np.uint64((1 << _FRAGMENT_BITS) - 1)
                row_ids.append(_row_ids_of(fragments[number])[places])
        return RowNumbers(RowRanges.of(np.concatenate(row_ids)), RowRanges.of(addresses))

    def __or__(self, other: RowNumbers) -> RowNumbers:
        row_ids, addresses = (
            RowRanges.union([ranges, other._by_column[column]])
            for column, ranges in self._by_column.items()
        )
        return RowNumbers(row_ids, addresses)

    def __bool__(self) -> bool:
        return any(self._by_column.values())

    def has(self, entries: Columns) -> npt.NDArray[np.bool_]:
        """Return which entries of an index are of these rows."""
        ((column, numbers),) = entries.items()
        return self._by_column[column].has(numbers.to_numpy(zero_copy_only=False))


def addresses_of(number: int, places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return the addresses of the rows at these places of a fragment."""
    import numpy as np

    return places.astype(np.uint64) + np.uint64(number << _FRAGMENT_BITS)


def _row_ids_of(fragment: Any) -> npt.NDArray[np.uint64]:
    """Return the row ids of a fragment in the order of its rows, deleted ones included."""
    ids: npt.NDArray[np.uint64] = row_ids_of(fragment).to_numpy(zero_copy_only=False)
    return ids
