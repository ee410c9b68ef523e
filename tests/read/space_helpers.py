"""A space over Arrow arrays in memory, and rows to read from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.read.values.column import Column
from omnigraph.types import PropType, to_arrow

if TYPE_CHECKING:
    from omnigraph.read.kernels.arrays import Codes


class ArrowSpace:
    """Entities given by their ids and properties. Codes need not be in the order of the ids."""

    def __init__(
        self, ids: Sequence[str], properties: Mapping[str, tuple[PropType, Sequence[Any]]]
    ) -> None:
        self.names = list(ids)
        self.columns = {
            name: Column(kind, to_arrow(kind, list(values)))
            for name, (kind, values) in properties.items()
        }
        self.read: list[str] = []

    @property
    def size(self) -> int:
        return len(self.names)

    def type_names(self, codes: Codes) -> pa.Array:
        return pa.repeat("Thing", len(codes))

    def column(self, name: str) -> Column:
        self.read.append(f"all of {name}")
        return self.columns[name]

    def has_column(self, name: str) -> bool:
        return f"all of {name}" in self.read

    def values(self, name: str, codes: Codes) -> pa.Array:
        self.read.append(f"{len(codes)} of {name}")
        return self.columns[name].array.take(pa.array(codes, pa.int32()))

    def ids(self, codes: Codes) -> pa.StringArray:
        self.read.append(f"{len(codes)} ids")
        return pa.array([self.names[code] for code in codes], pa.utf8())

    def ranks(self, codes: Codes) -> npt.NDArray[np.integer]:
        """Ranks among the given codes only, like a space that has to fetch its ids."""
        wanted = [self.names[code].encode() for code in codes]
        places = {name: place for place, name in enumerate(sorted(set(wanted)))}
        return np.array([places[name] for name in wanted], np.int64)


def codes_of(*codes: int) -> Codes:
    """A few codes as an array."""
    return np.array(codes, np.int32)
