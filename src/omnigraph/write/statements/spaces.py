"""Entities and rows as expressions read them, with the values they have when a statement runs.

A node or edge variable has a code for each entity it stands for, whatever the number of its rows:

    ids of $p by row [ann, ben, ann]   ->   entities [ann, ben], codes [0, 1, 0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.values.column import Column, Space, one_array
from omnigraph.read.values.other_spaces import OptionalSpace
from omnigraph.types import TEXT, PropType
from omnigraph.write.pending import PendingTable

ENDPOINT_COLUMNS = {"from": "src", "to": "dst"}


def column_of(entity: Entity, name: str) -> str:
    """Return the column a statement means: `from` and `to` are the ends of an edge."""
    return ENDPOINT_COLUMNS.get(name, name) if isinstance(entity, EdgeType) else name


def property_type(entity: Entity, name: str) -> PropType:
    """Return the type of a property, of `id`, or of an end of an edge."""
    is_end = isinstance(entity, EdgeType) and name in ENDPOINT_COLUMNS
    prop = None if is_end else entity.properties.get(name)
    return TEXT if prop is None else prop.type


@dataclass(frozen=True)
class Entities:
    """The nodes or edges that a variable stands for, row by row; of several types only if it is an edge.

    ``ids`` are null where the variable is bound to nothing.
    """

    types: tuple[Entity, ...]
    ids: pa.Array
    type_names: pa.Array | None = None
    """The type of each row's entity, if there are several."""

    @cached_property
    def blocks(self) -> list[pa.Array]:
        """The distinct ids of each type."""
        return [self._ids_of(entity).unique() for entity in self.types]

    @cached_property
    def codes(self) -> Codes:
        """The code of each row's entity; one behind the last for nothing."""
        codes = np.full(len(self.ids), sum(map(len, self.blocks)), np.int32)
        start = 0
        for entity, block in zip(self.types, self.blocks, strict=True):
            place = pc.index_in(self._ids_of(entity, whole=True), block)
            here = place.is_valid().to_numpy(zero_copy_only=False)
            codes[here] = place.drop_null().to_numpy() + start
            start += len(block)
        return codes

    def _ids_of(self, entity: Entity, *, whole: bool = False) -> pa.Array:
        """The ids of one type; ``whole``: as many as there are rows, null where it is another."""
        ids = self.ids
        if self.type_names is not None:
            is_one = pc.equal(self.type_names, entity.name)
            ids = pc.if_else(is_one, ids, pa.scalar(None, pa.string()))
        return ids if whole else ids.drop_null()


class EntitySpace:
    """Distinct entities with the values they have now; those that are gone have their last ones."""

    def __init__(self, tables: Sequence[PendingTable], blocks: Sequence[pa.Array]) -> None:
        self._tables, self._blocks = tables, blocks
        self._columns: dict[str, Column] = {}

    @property
    def size(self) -> int:
        """How many there are."""
        return sum(map(len, self._blocks))

    @cached_property
    def _ids(self) -> pa.Array:
        return pa.concat_arrays([*self._blocks, pa.array([], pa.string())])

    def column(self, name: str) -> Column:
        """A property of all of them, by code."""
        if name not in self._columns:
            entity = self._tables[0].entity
            kind = property_type(entity, name)
            stored = column_of(entity, name)
            parts = [
                table.values_of(block, [stored]).column(stored)
                for table, block in zip(self._tables, self._blocks, strict=True)
            ]
            chunks = [chunk for part in parts for chunk in part.chunks]
            array = one_array(pa.chunked_array(chunks, kind.arrow_type()))
            self._columns[name] = Column(kind, array)
        return self._columns[name]

    def has_column(self, name: str) -> bool:  # noqa: ARG002 - they are few enough
        """Whether a property is to be read of all of them: always."""
        return True

    def values(self, name: str, codes: Codes) -> pa.Array:
        """A property of these entities, repeats included."""
        return self.column(name).array.take(pa.array(codes))

    def ids(self, codes: Codes) -> pa.StringArray:
        """The ids of these entities."""
        return self._ids.take(pa.array(codes))

    def type_names(self, codes: Codes) -> pa.Array:
        """The name of the type of each of these entities."""
        names = [
            pa.repeat(pa.scalar(table.entity.name), len(block))
            for table, block in zip(self._tables, self._blocks, strict=True)
        ]
        return pa.concat_arrays([*names, pa.array([], pa.string())]).take(pa.array(codes))

    def ranks(self, codes: Codes) -> npt.NDArray[np.integer]:
        """Numbers in the order of the ids of these entities."""
        return self._ranks[codes]

    @cached_property
    def _ranks(self) -> npt.NDArray[np.integer]:
        ranks = np.empty(self.size, np.int32)
        ranks[pc.sort_indices(self._ids).to_numpy()] = np.arange(self.size, dtype=np.int32)
        return ranks


class TableSpace:
    """Rows of one table by position: the targets of a statement, or the rows it runs for."""

    def __init__(self, rows: pa.Table, entity: Entity | None = None) -> None:
        self._rows, self._entity = rows, entity
        self._columns: dict[str, Column] = {}

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self._rows.num_rows)

    def column(self, name: str) -> Column:
        """A column by position."""
        if name not in self._columns:
            entity = self._entity
            kind = None if entity is None else property_type(entity, name)
            stored = name if entity is None else column_of(entity, name)
            array = one_array(self._rows.column(stored))
            self._columns[name] = Column(kind or TEXT, array)
        return self._columns[name]

    def has_column(self, name: str) -> bool:  # noqa: ARG002 - all are
        """Whether a column is in memory: all are."""
        return True

    def values(self, name: str, codes: Codes) -> pa.Array:
        """The values of a column at these positions, repeats included."""
        return self.column(name).array.take(pa.array(codes))

    def ids(self, codes: Codes) -> pa.StringArray:
        """The ids of these rows."""
        return self._rows.column("id").combine_chunks().take(pa.array(codes))

    def type_names(self, codes: Codes) -> pa.Array:
        """The name of the type, if they are entities of one."""
        name = None if self._entity is None else self._entity.name
        return pa.array([name], pa.string()).take(pa.array(np.zeros(len(codes), np.int32)))

    def ranks(self, codes: Codes) -> npt.NDArray[np.integer]:
        """Rows are in the order of their positions."""
        return codes


def optional(space: Space, *, nullable: bool) -> Space:
    """The space, with a code for nothing if a variable may be bound to it."""
    return OptionalSpace(space) if nullable else space
