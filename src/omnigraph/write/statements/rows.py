"""The rows for which the statements of a mutation run: those of its match, in their order, or one.

Statements add variables to them, with what they insert. The ids of a row stay, the values are current.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.embeddings.embedder import Embedder
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.read.execute import run_read
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.values.column import Column, Space, one_array
from omnigraph.read.values.operands import OperandRows, Supply
from omnigraph.read.values.other_spaces import RowSpace
from omnigraph.read.view.view import View
from omnigraph.write.pending import PendingTable
from omnigraph.write.statements.asked import ELEMENT, ROWS, Asked, type_column
from omnigraph.write.statements.spaces import Entities, EntitySpace, optional

Places = npt.NDArray[np.int64]
TableOf = Callable[[Entity], PendingTable]


@dataclass(slots=True)
class SourceRows:
    """Rows of a mutation. ``elements`` is the place of each one's element in the list of `for`, if there is one."""

    length: int
    answer: RowSpace
    columns: Mapping[str, pa.Array]
    elements: Places | None
    variables: tuple[ir.Variable, ...]
    entities: dict[str, Entities] = field(default_factory=dict)

    def is_nullable(self, name: str) -> bool:
        """Whether a variable may be bound to nothing."""
        return any(one.name == name and one.nullable for one in self.variables)

    def bind(self, name: str, entity: Entity, ids: pa.Array) -> None:
        """Name what a statement inserted for each row."""
        self.entities[name] = Entities((entity,), ids)

    def space(self, name: str, table_of: TableOf) -> Space:
        """What a variable stands for, with the values of now."""
        if name == ROWS:
            return self.answer
        found = self.entities[name]
        space = EntitySpace([table_of(one) for one in found.types], found.blocks)
        return optional(space, nullable=self.is_nullable(name))

    def codes(self, name: str) -> Codes:
        """The code of a variable in each row."""
        if name == ROWS:
            return np.arange(self.length, dtype=np.int32)
        return self.entities[name].codes

    def operands(
        self,
        names: Iterable[str],
        table_of: TableOf,
        params: Mapping[str, Any],
        at: Places | None = None,
        supply: Supply | None = None,
    ) -> OperandRows:
        """What expressions over these variables are computed from, at all rows or at some places."""
        names = set(names)
        spaces = {name: self.space(name, table_of) for name in names}
        codes = {name: self.codes(name) for name in names}
        if at is not None:
            codes = {name: by[at] for name, by in codes.items()}
        return OperandRows(
            spaces, codes, params, self.length if at is None else len(at), supply=supply
        )


def source_rows(
    asked: Asked,
    catalog: Catalog,
    params: Mapping[str, Any],
    view: Callable[[], View],
    embedder: Embedder | None,
) -> SourceRows:
    """Solve the match of a mutation; without one there is one row."""
    variables = asked.plan.variables
    if not asked.plan.steps:
        return SourceRows(1, RowSpace(pa.table({}), {}), {}, None, variables)
    plan = asked.read_plan()
    table = run_read(view(), plan, params, embedder=embedder)
    columns = {name: one_array(table.column(name)) for name in table.column_names}
    elements = None
    if asked.plan.each is not None:
        elements = columns[ELEMENT].to_numpy(zero_copy_only=False).astype(np.int64)
    rows = SourceRows(int(table.num_rows), _Answer(plan, columns), columns, elements, variables)
    for one in asked.matched:
        if one.kind in ("node", "edge"):
            types = _types(catalog, one)
            names = columns.get(type_column(one.name))
            rows.entities[one.name] = Entities(types, columns[one.name], names)
    return rows


def _types(catalog: Catalog, variable: ir.Variable) -> tuple[Entity, ...]:
    if variable.kind == "node":
        return (catalog.nodes[variable.type_name],)
    return tuple(catalog.edges[name] for name in (variable.type_name, *variable.other_types))


class _Answer(RowSpace):
    """The columns of the answer by their names."""

    def __init__(self, plan: ir.ReadPlan, columns: Mapping[str, pa.Array]) -> None:
        super().__init__(pa.table(dict(columns)), {})
        self._made = {
            one.name: Column(one.type, columns[one.name])  # type: ignore[arg-type]
            for one in plan.columns
        }

    def column(self, name: str) -> Column:
        """A column by its name."""
        return self._made[name]

    def values(self, name: str, codes: Codes) -> pa.Array:
        """The values of a column at these positions, repeats included."""
        return self._made[name].array.take(pa.array(codes))
