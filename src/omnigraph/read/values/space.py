"""What a variable ranges over: entities numbered from 0, with their properties by number."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.values.column import Column


class Space(Protocol):
    """The entities a variable ranges over, numbered from 0: the nodes of a type, or stored edges."""

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    def column(self, name: str) -> Column:
        """A property of all entities, by code. A property the table lacks is null everywhere."""
        ...

    def has_column(self, name: str) -> bool:
        """Whether that property of all entities is kept in memory now."""
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
