"""Adjacency that differs in few entries from another one, whose arrays it does not copy before somebody needs them whole.

    a row that is as it was               read from the other adjacency
    a row of which something changed,     read from arrays of its own, which are made then and kept
    or all rows

Reading a row of the other one takes a look at what changed. When such looks have cost as much as a copy, the copy is
made: then no way to ask is ever much dearer than the best one for it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np

from omnigraph.read.kernels.arrays import Codes, Counts, Floats, Index, Mask
from omnigraph.read.kernels.csr import Csr, Entries, Keys, MultiCsr

_FEW_CODES: Final = 32
"""Up to this number of codes are looked up one by one."""
LOOK: Final = 4096
"""Entries that are copied in the time of a look at what changed."""


class _Late:
    """What all such adjacency does; ``base`` is what it differs from, by one entry less or more in some rows."""

    base: Any
    indptr: Index
    indices: Codes

    def _differ(self, base: Csr | MultiCsr, lost: Codes, came: Codes) -> None:
        rows, which = np.unique(np.concatenate([lost, came]), return_inverse=True)
        steps = np.repeat([-1, 1], [len(lost), len(came)])
        own = base.degrees.take(rows) + np.bincount(which, steps, len(rows)).astype(np.int64)
        # Fields of a frozen class are set like this.
        self.__dict__.update(
            base=base,
            shape=base.shape,
            looks=0,
            _entries=base.entries + len(came) - len(lost),
            _rows=rows,
            _row_set=frozenset(rows.tolist()),
            _row_degrees=own,
        )

    @property
    def entries(self) -> int:
        """How many entries there are."""
        found: int = self.__dict__["_entries"]
        return found

    def at(self, rows: Codes, look: int = LOOK) -> Any:
        """Adjacency in which these rows are as they are here: the other one, if nothing changed in them."""
        known = self.__dict__
        if "_whole" in known:
            return self
        known["looks"] += 1
        if len(rows) * 8 > self.entries or known["looks"] * look > self.entries:
            return self
        if len(rows) <= _FEW_CODES:
            is_same = known["_row_set"].isdisjoint(rows.tolist())
        else:
            is_same = not np.isin(rows, known["_rows"]).any()
        return self.base if is_same else self

    @cached_property
    def degrees(self) -> Counts:
        """How many entries each row has."""
        made: Counts = self.base.degrees.copy()
        made[self.__dict__["_rows"]] = self.__dict__["_row_degrees"]
        return made

    @cached_property
    def most(self) -> int:
        """How many entries a row has at most; a bound, where the longest row lost one."""
        own: int = self.__dict__["_row_degrees"].max(initial=0)
        return max(int(self.base.most), int(own))

    @cached_property
    def some_degrees(self) -> Floats:
        """The degrees of some rows, about."""
        found: Floats = self.base.some_degrees
        return found

    @cached_property
    def is_filled(self) -> Mask:
        """Which rows have an entry."""
        rows, own = self.__dict__["_rows"], self.__dict__["_row_degrees"] > 0
        found: Mask = self.base.is_filled
        if not np.array_equal(found.take(rows), own):
            found = found.copy()
            found[rows] = own
        return found

    @cached_property
    def filled(self) -> Codes:
        """The rows that have an entry, ascending."""
        if self.is_filled is self.base.is_filled:
            found: Codes = self.base.filled
            return found
        return np.flatnonzero(self.is_filled).astype(np.int32)

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far, and of what it differs from."""
        made = (one for one in list(self.__dict__.values()) if isinstance(one, np.ndarray))
        total: int = self.base.nbytes + sum(one.nbytes for one in made)
        return total


class LateCsr(_Late, Csr):
    """The distinct pairs of a list of which few pairs, given as in ``pair_keys``, went and few came."""

    def __init__(self, base: Csr, repeats: Keys, gone: Keys, new: Keys) -> None:
        self.__dict__["_repeats"] = repeats
        difference = base.difference(repeats, gone, new)
        self.__dict__["_difference"] = difference
        self._differ(base, difference.lost, difference.came)

    @property
    def whole(self) -> tuple[Csr, Keys] | None:
        """The arrays with the repeats of the list, if they were made."""
        return self.__dict__.get("_whole")

    @cached_property
    def _whole(self) -> tuple[Csr, Keys]:
        made: tuple[Csr, Keys] = self.base.changed(
            self.__dict__["_repeats"], self.__dict__["_difference"]
        )
        return made

    @cached_property
    def indptr(self) -> Index:  # type: ignore[override] # made when it is needed
        """Where each row begins, and the end of the last."""
        return self._whole[0].indptr

    @cached_property
    def indices(self) -> Codes:  # type: ignore[override]
        """The columns."""
        return self._whole[0].indices


class LateMultiCsr(_Late, MultiCsr):
    """Adjacency by stored edge, without few entries and with few others."""

    def __init__(self, base: MultiCsr, gone: Entries, new: Entries) -> None:
        self.__dict__.update(_gone=gone, _new=new)
        self._differ(base, gone[0], new[0])

    @property
    def whole(self) -> MultiCsr | None:
        """The arrays, if they were made."""
        return self.__dict__.get("_whole")

    @cached_property
    def _whole(self) -> MultiCsr:
        made: MultiCsr = self.base.changed(self.__dict__["_gone"], self.__dict__["_new"])
        return made

    @cached_property
    def indptr(self) -> Index:  # type: ignore[override]
        """Where each row begins, and the end of the last."""
        return self._whole.indptr

    @cached_property
    def indices(self) -> Codes:  # type: ignore[override]
        """The columns."""
        return self._whole.indices

    @cached_property
    def positions(self) -> Codes:
        """The positions of the edges."""
        return self._whole.positions
