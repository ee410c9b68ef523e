"""Columns that no table holds: made of numbers, or of a function of another column's distinct values.

Computed(I64, numbers [5, 0], valid [T, F])                    ->   [5, null]
Mapped(values ["ada", "bob"], codes [1, -1, 0, 1])             ->   ["bob", null, "ada", "bob"]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.values.column import Column
from omnigraph.types import PropType, from_integers


class Computed(Column):
    """Numbers, truth values, days or milliseconds. The Arrow array is made on first use."""

    def __init__(
        self, type: PropType, numbers: npt.NDArray[Any], valid: Mask | None = None
    ) -> None:
        super().__init__(type, None)
        self._known = valid if valid is not None and not valid.all() else None
        self._kind = type.arrow_type()
        # Nulls are 0 in every column, so that sums need not look at them.
        self._numbers = numbers if self._known is None else np.where(self._known, numbers, 0)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def array(self) -> pa.Array:
        """The values as they would be stored."""
        if self._array is None:
            mask = None if self._known is None else ~self._known
            numbers = self.numbers
            integers = pa.array(numbers, mask=mask)
            self._array = from_integers(integers, self._kind)
        return self._array

    @property
    def kind(self) -> pa.DataType:
        """The type of the array."""
        return self._kind

    @property
    def valid(self) -> Mask | None:
        """Which values are not null; None when all are there."""
        return self._known

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        known = 0 if self._known is None else self._known.nbytes
        return self.numbers.nbytes + known + (0 if self._array is None else super().nbytes)


class Mapped(Column):
    """A function of the distinct values of another column, looked up by that column's codes (-1: null)."""

    def __init__(self, values: Column, codes: Codes) -> None:
        super().__init__(values.type, None)
        self._values = values
        self._at = codes

    def __len__(self) -> int:
        return len(self._at)

    @property
    def array(self) -> pa.Array:
        """The values as they would be stored."""
        if self._array is None:
            places = pa.array(self._at, mask=self._at < 0)
            self._array = self._values.array.take(places)
        return self._array

    @property
    def kind(self) -> pa.DataType:
        """The type of the array."""
        return self._values.kind

    @property
    def valid(self) -> Mask | None:
        """Which values are not null; None when all are there."""
        if self._valid is None:
            inside = self._values.valid
            there = np.ones(len(self._values), np.bool_) if inside is None else inside
            self._valid = _looked_up(there, False, self._at)
        return None if self._valid.all() else self._valid

    @property
    def numbers(self) -> npt.NDArray[Any]:
        """Numbers, truth values, days and milliseconds as a NumPy array; 0 where null."""
        if self._numbers is None:
            self._numbers = _looked_up(self._values.numbers, 0, self._at)
        return self._numbers

    @property
    def has_codes(self) -> bool:
        """Whether texts are best compared by codes: yes, there are few of them."""
        return True

    def is_worth_codes(self, rows: int | None = None) -> bool:  # noqa: ARG002 - whatever is compared
        """Whether to compare text by codes: always, the distinct values are ranked, not the rows."""
        return True

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        made = sum(one.nbytes for one in (self._valid, self._numbers) if one is not None)
        return made + self._at.nbytes + self._values.nbytes

    def _coded(self) -> tuple[Codes, pa.Array]:
        if self._ranked is None:
            codes: Codes = _looked_up(self._values.codes, -1, self._at)
            self._ranked = codes, self._values.dictionary
        return self._ranked


def _looked_up(values: npt.NDArray[Any], absent: Any, codes: Codes) -> npt.NDArray[Any]:
    # One place more, at the end: where a null (-1) looks its value up.
    return np.append(values, np.array([absent], values.dtype))[codes]
