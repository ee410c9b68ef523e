"""What expressions are computed from: values that are the same for all rows, and columns read by code.

$a.age > $limit   ->   Read(ages, codes of $a) and Given(30)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.values.column import Column, Part, Space
from omnigraph.types import PropType

Judge = Callable[["ir.TextMatch | ir.Exists", "OperandRows"], Mask]
Supply = Callable[["ir.Expr", "OperandRows"], Column]


@dataclass(frozen=True, slots=True)
class OperandRows:
    """What operands are read from. ``codes`` of a variable may be None: all of its space, in order.

    ``params`` are stored values by name, `now()` among them. What is not read off an entity is asked
    of two others: ``judge`` says for which rows a text predicate or a block has a match, and ``supply``
    gives, row by row, the values of aggregates, output columns, paths and rows of sources.
    """

    spaces: Mapping[str, Space]
    codes: Mapping[str, Codes | None]
    params: Mapping[str, Any]
    length: int
    judge: Judge | None = None
    supply: Supply | None = None

    def codes_of(self, var: str) -> Codes:
        """The code of a variable in each row."""
        codes = self.codes[var]
        return np.arange(self.spaces[var].size, dtype=np.int32) if codes is None else codes


@dataclass(frozen=True, slots=True)
class Given:
    """A value that is the same for all rows."""

    value: Any
    type: PropType

    def beside(self, column: Column) -> Any:
        """The value as it is compared with a column: a float against F32 is rounded to it first."""
        rounded = column.type.scalar.traits.round
        if rounded is None or not self.type.scalar.is_float:
            return self.value
        if isinstance(self.value, list):
            return [rounded(item) for item in self.value if item is not None]
        return rounded(self.value)


@dataclass(frozen=True, slots=True)
class Read:
    """A value of each row: ``column`` by code, or by row where ``codes`` is None."""

    column: Column
    codes: Codes | None = None

    def spread(self, test: Callable[[Column], Mask]) -> Mask:
        """A test of single values, made once per value where rows repeat them."""
        if self.codes is None:
            return test(self.column)
        if len(self.column) <= len(self.codes):
            held: Mask = test(self.column)[self.codes]
            return held
        return test(self.by_row())

    def by_row(self) -> Column:
        """The column with one value per row."""
        return self.column if self.codes is None else Part(self.column, self.codes)

    @property
    def numbers(self) -> npt.NDArray[Any]:
        """The numbers of the rows; 0 where null."""
        numbers = self.column.numbers
        return numbers if self.codes is None else numbers[self.codes]

    @property
    def valid(self) -> Mask | None:
        """Which rows have a value; None when all do."""
        valid = self.column.valid
        return valid if valid is None or self.codes is None else valid[self.codes]

    @property
    def ranks(self) -> Codes:
        """The ranks of the rows' values among those of the column; null is -1."""
        ranks = self.column.codes
        return ranks if self.codes is None else ranks[self.codes]


Operand = Given | Read


def is_worth_all(rows: int, size: int) -> bool:
    """Whether this number of rows justifies looking at a property of all entities of a space."""
    return rows * 8 >= size
