"""Spaces beside nodes and edges: entities that may be missing, and the rows of a table.

An optional variable may be bound to nothing. Nothing has a code of its own, the one behind the last entity, and a
null in every column: 3 persons have the codes 0, 1 and 2, and 3 is nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.values.column import Column, Space, one_array
from omnigraph.types import PropType, to_arrow


class OptionalSpace:
    """A space with one code more, for nothing."""

    def __init__(self, inner: Space) -> None:
        self.inner = inner
        self._columns: dict[str, Column] = {}

    @property
    def size(self) -> int:
        """How many codes there are: all entities and nothing."""
        return self.inner.size + 1

    @property
    def nothing(self) -> int:
        """The code of nothing."""
        return self.inner.size

    def column(self, name: str) -> Column:
        """A property by code; nothing has none."""
        if name not in self._columns:
            inner = self.inner.column(name)
            array = pa.chunked_array([inner.array, pa.nulls(1, inner.kind)])
            self._columns[name] = Column(inner.type.as_nullable(), one_array(array))
        return self._columns[name]

    def has_column(self, name: str) -> bool:
        """Whether that property of all entities is kept in memory now."""
        return self.inner.has_column(name)

    def values(self, name: str, codes: Codes) -> pa.Array:
        """A property of these entities, repeats included."""
        return self._present(codes, lambda some: self.inner.values(name, some))

    def ids(self, codes: Codes) -> pa.StringArray:
        """The ids of these entities; nothing has none."""
        return self._present(codes, self.inner.ids)

    def type_names(self, codes: Codes) -> pa.Array:
        """The name of the type of each of these entities; nothing has none."""
        return self._present(codes, self.inner.type_names)

    def ranks(self, codes: Codes) -> npt.NDArray[np.integer]:
        """Numbers in the order of the ids of these entities; nothing comes first."""
        there = codes != self.nothing
        ranks = np.full(len(codes), -1, np.int64)
        ranks[there] = self.inner.ranks(codes[there])
        return ranks

    def is_there(self, codes: Codes) -> Mask:
        """Which codes are entities."""
        there: Mask = codes != self.nothing
        return there

    def _present(self, codes: Codes, read: Callable[[Codes], pa.Array]) -> pa.Array:
        there = codes != self.nothing
        if there.all():
            return read(codes)
        places = np.cumsum(there) - 1
        return read(codes[there]).take(pa.array(places, mask=~there))


class RowSpace:
    """The rows of a table: the answer of another query, or the elements of a list."""

    def __init__(self, table: pa.Table, types: Mapping[str, PropType]) -> None:
        self._table = table
        self._types = types
        self._columns: dict[str, Column] = {}

    @property
    def size(self) -> int:
        """How many rows there are."""
        return int(self._table.num_rows)

    def column(self, name: str) -> Column:
        """A column by position."""
        if name not in self._columns:
            self._columns[name] = Column(self._types[name], one_array(self._table.column(name)))
        return self._columns[name]

    def has_column(self, name: str) -> bool:  # noqa: ARG002 - all are
        """Whether a column is in memory: all are."""
        return True

    def values(self, name: str, codes: Codes) -> pa.Array:
        """The values of a column at these positions, repeats included; also those of objects."""
        held = name in self._types
        array = self.column(name).array if held else one_array(self._table.column(name))
        return array.take(pa.array(codes))

    def ids(self, codes: Codes) -> pa.StringArray:
        """Rows have no ids; their positions stand for them."""
        return pa.array(codes).cast(pa.string())

    def type_names(self, codes: Codes) -> pa.Array:
        """Rows have no type."""
        return pa.nulls(len(codes), pa.string())

    def ranks(self, codes: Codes) -> npt.NDArray[np.integer]:
        """Rows are in the order of their positions."""
        return codes


class ElementSpace:
    """The elements of a list property of all entities of a space, one after the other."""

    def __init__(self, lists: Column) -> None:
        self._lists = lists

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where the elements of each entity begin, and the end of the last."""
        array = self._lists.array
        lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])

    @cached_property
    def elements(self) -> Column:
        """All elements."""
        return Column(self._lists.type.element, self._lists.array.flatten())

    @property
    def size(self) -> int:
        """How many elements there are."""
        return int(self.offsets[-1])

    def column(self, name: str) -> Column:  # noqa: ARG002 - there is one
        """The elements by position."""
        return self.elements

    def has_column(self, name: str) -> bool:  # noqa: ARG002 - there is one
        """Whether the elements are in memory: they are."""
        return True

    def values(self, name: str, codes: Codes) -> pa.Array:  # noqa: ARG002 - there is one
        """The elements at these positions, repeats included."""
        return self.elements.array.take(pa.array(codes))

    def ids(self, codes: Codes) -> pa.StringArray:
        """Elements have no ids; their positions stand for them."""
        return pa.array(codes).cast(pa.string())

    def type_names(self, codes: Codes) -> pa.Array:
        """Elements have no type."""
        return pa.nulls(len(codes), pa.string())

    def ranks(self, codes: Codes) -> npt.NDArray[np.integer]:
        """The position of each element within its own list."""
        owners = np.searchsorted(self.offsets, codes, side="right") - 1
        ranks: npt.NDArray[np.integer] = codes - self.offsets[owners]
        return ranks


def elements_of(source: ir.Elements, params: Mapping[str, Any]) -> RowSpace:
    """The elements of a list parameter: plain values, or records by their fields."""
    given = params[source.param.name] or []
    if isinstance(source.param, ir.ParamRef):
        kind = source.param.type.element
        table = pa.table({ir.ELEMENT: to_arrow(kind.as_nullable(), given)})
        return RowSpace(table, {ir.ELEMENT: kind})
    types = dict(source.param.type.fields)
    columns = {
        name: to_arrow(kind.as_nullable(), [record[name] for record in given])
        for name, kind in types.items()
    }
    return RowSpace(pa.table(columns), types)
