"""Rows of a match on their way through the engine: columns of dense integers.

A code stands for one entity within the space of its variable (``spaces``): the ordinal of a node, or
the position of a stored edge. Properties are looked at late, by code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from omnigraph.read.columns import Column

    Codes = npt.NDArray[np.int32]
    Counts = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Mask = npt.NDArray[np.bool_]


class Space(Protocol):
    """The entities a variable ranges over, numbered from 0: the nodes of a type, or stored edges."""

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    def column(self, name: str) -> Column:
        """A property of all entities, by code. A property the table lacks is null everywhere."""
        ...

    def values(self, name: str, codes: Codes) -> pa.Array:
        """A property of these entities, repeats included; reads no more than it must."""
        ...

    def ids(self, codes: Codes) -> pa.StringArray:
        """The ids of these entities."""
        ...

    def ranks(self, codes: Codes) -> npt.NDArray[np.integer]:
        """Numbers in the order of the ids of these entities; equal only for equal ids."""
        ...


@dataclass(frozen=True, slots=True)
class Carried:
    """What an aggregate needs of a variable that was summed away, one entry a row.

    ``counts`` is how often the argument is present, over all bindings the row stands for. ``sums`` is
    set for `sum` and `avg`. ``best`` is set for `min` and `max`: the code of the value in
    ``column.dictionary``, -1 where there is none.
    """

    counts: Counts
    column: Column
    sums: Floats | None = None
    best: Codes | None = None


@dataclass(frozen=True, slots=True)
class Bindings:
    """A batch of rows: for each variable that is still needed the code of its entity.

    A row stands for ``weights`` rows of the match (None: for one), which differ only in variables
    nobody asks for. ``carried`` holds, by the position of its output column, what an aggregate over
    such a variable needs.
    """

    rows: int
    codes: Mapping[str, Codes]
    weights: Counts | None = None
    carried: Mapping[int, Carried] = field(default_factory=dict)
