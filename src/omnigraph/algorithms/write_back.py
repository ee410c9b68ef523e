"""Storing the values of an algorithm: those that differ, as a patch of the nodes, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.algorithms.definitions import Definition
from omnigraph.commit.attempts import check_precondition
from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import Catalog, NodeType, Property
from omnigraph.manifest.history.equal_content import check_unchanged
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.pipeline.load import load
from omnigraph.pipeline.load_input import LoadInput
from omnigraph.pipeline.load_options import LoadOptions
from omnigraph.pipeline.load_plan import LoadPlan
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.view.view import View
from omnigraph.spelling import did_you_mean
from omnigraph.types import Scalar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FITTING = {
    Scalar.F64: (Scalar.F64, Scalar.F32),
    Scalar.I64: (Scalar.I64, Scalar.I32),
    Scalar.STRING: (Scalar.STRING,),
}
"""The types of properties that take values of a type."""


class Storable(Protocol):
    """Values that can be stored: of which algorithm, of nodes of which type, and from which states of tables."""

    @property
    def definition(self) -> Definition:
        """The algorithm."""

    @property
    def type_name(self) -> str:
        """The type of the nodes."""

    @property
    def read(self) -> Sequence[TableState]:
        """The states of the tables that the values come from."""

    def differing(
        self, view: View, node: NodeType, prop: Property
    ) -> AbstractContextManager[pa.Table | DataFrame | None]:
        """Give the ids of the nodes whose stored value is another one, and the new values; None if there are none."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of an algorithm by node: their type, the numbers of the nodes among all of it, and what was read.

    ``read`` are the states of the tables that they come from.
    """

    definition: Definition
    type_name: str
    ordinals: Codes
    values: pa.Array
    read: Sequence[TableState]

    @contextmanager
    def differing(self, view: View, node: NodeType, prop: Property) -> Iterator[pa.Table | None]:
        """Give the ids of the nodes whose stored value is another one, and the new values; None if there are none."""
        nodes = view.nodes(node.name)
        with view.reading():
            stored = nodes.column(prop.name).array.take(pa.array(self.ordinals))
        values = self.values.cast(pa.int64()) if prop.type.is_integer else self.values
        # A value that does not fit into the smaller type differs from all that do; the load refuses it.
        kept = values.cast(prop.type.arrow_type(), safe=False) if prop.type.is_float else values
        same = pc.equal(stored.cast(kept.type), kept).fill_null(False)
        places = np.flatnonzero(~same.to_numpy(zero_copy_only=False))
        ids = nodes.ids(self.ordinals.take(places))
        rows = pa.table({"id": ids, prop.name: kept.take(pa.array(places))})
        yield rows if rows.num_rows else None


def write_values(
    workspace: Workspace,
    accepted: Callable[[], tuple[str, Catalog]],
    view_of: Callable[[BranchState], View],
    found: Storable,
    property_name: str,
    request: Callable[[LoadInput, LoadOptions], LoadPlan],
    options: LoadOptions,
) -> GraphCommit | None:
    """Store the values that differ from those stored at the head of a branch; None if none does."""
    _, catalog = accepted()
    node = catalog.nodes.get(found.type_name)
    if node is None:
        raise BadRequest(
            f"branch `{options.branch}` has no node type {found.type_name}; name a branch that has it"
        )
    prop = _checked(node, property_name, found.definition)
    state = workspace.manifest.state(options.branch)
    check_precondition(workspace, state, options.if_commit)
    check_unchanged(workspace.manifest, state, found.read)
    with found.differing(view_of(state), node, prop) as rows:
        if rows is None:
            return None
        if not isinstance(rows, pa.Table):
            options = replace(options, engine="spark")
        with LoadInput(catalog, workspace.root.options) as inputs:
            inputs.nodes(node.name, rows)
            return load(workspace, accepted, request(inputs, options)).commit


def _checked(node: NodeType, name: object, definition: Definition) -> Property:
    """Return the property that takes the values."""
    if not isinstance(name, str):
        raise BadRequest(f"property is {name!r}; give the name of a property of {node.name}")
    prop = node.properties.get(name)
    if prop is None:
        hint = did_you_mean(name, node.properties) or "add it to the schema first"
        raise BadRequest(f"{node.name} has no property `{name}`; {hint}")
    kind, fitting = prop.type, _FITTING[definition.kind.scalar]
    is_plain = not (kind.is_list or kind.is_vector or kind.is_enum)
    if kind.scalar not in fitting or not is_plain:
        raise BadRequest(
            f"{node.name}.{name} is of type {kind}, and {definition.name} gives {definition.kind} values; name a "
            f"property of type {' or '.join(fitting)}"
        )
    if node.key is not None and name in node.key:
        raise BadRequest(
            f"{node.name}.{name} belongs to the key, which says which node it is; name another property"
        )
    return prop
