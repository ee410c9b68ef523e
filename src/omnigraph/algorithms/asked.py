"""What the caller asks an algorithm to run on: edge types, nodes and weights, checked against the schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from omnigraph.errors import BadRequest
from omnigraph.lang.query.ir import ReadPlan
from omnigraph.lang.schema.catalog import Catalog, EdgeType
from omnigraph.spelling import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

_NAME = re.compile(r"\w+")


def edge_types(catalog: Catalog, edges: object) -> list[EdgeType]:
    """Return the edge types that a caller names, one or a list; all join nodes of one type."""
    named = [edges] if isinstance(edges, str) else edges
    if not isinstance(named, Iterable) or isinstance(named, bytes):
        raise BadRequest(f"edges is {edges!r}; give an edge type, or a list of edge types")
    found = list({one.name: one for one in (_edge_type(catalog, name) for name in named)}.values())
    if not found:
        raise BadRequest("edges is an empty list; name at least one edge type")
    for one in found:
        if one.from_type != one.to_type:
            raise BadRequest(
                f"{one.name} leads from {one.from_type} to {one.to_type}; algorithms run on edges between nodes of "
                "one type",
                type=one.name,
            )
        if one.from_type != found[0].from_type:
            raise BadRequest(
                f"{found[0].name} joins nodes of type {found[0].from_type}, and {one.name} those of type "
                f"{one.from_type}; name edge types that join nodes of the same type",
                type=one.name,
            )
    return found


def _edge_type(catalog: Catalog, name: object) -> EdgeType:
    if not isinstance(name, str):
        raise BadRequest(f"an edge type is {name!r}; give its name, a text")
    found = catalog.edge(name)
    if found is None:
        hint = did_you_mean(name, catalog.edges)
        if hint is None:
            hint = f"the schema has {', '.join(catalog.edges) or 'none'}"
        raise BadRequest(f"there is no edge type `{name}`; {hint}", type=name)
    return found


def check_weights(edges: Sequence[EdgeType], weight: str | None) -> None:
    """Refuse a weight that is no numeric property of every edge type."""
    if weight is None:
        return
    for one in edges:
        prop = one.properties.get(weight)
        if prop is None:
            hint = did_you_mean(weight, one.properties)
            hint = hint or f"its properties are {', '.join(one.properties) or 'none'}"
            raise BadRequest(f"{one.name} has no property `{weight}`; {hint}", property=weight)
        if not prop.type.is_numeric:
            raise BadRequest(
                f"{one.name}.{weight} is of type {prop.type}; a weight is a number", property=weight
            )


def check_node_type(catalog: Catalog, name: str, type_name: str) -> None:
    """Refuse another node type than the one that the edges join."""
    if name not in catalog.nodes:
        hint = did_you_mean(name, catalog.nodes) or f"give {type_name}, or a query"
        raise BadRequest(f"there is no node type `{name}`; {hint}", type=name)
    if name != type_name:
        raise BadRequest(
            f"nodes names the type {name}, and the edges join nodes of type {type_name}; leave nodes out, or "
            f"give {type_name} or a query for some of them",
            type=name,
        )


def is_type_name(nodes: str) -> bool:
    """Whether this is the name of a type rather than a query."""
    return _NAME.fullmatch(nodes) is not None


def check_nodes_query(plan: ReadPlan, type_name: str) -> None:
    """Refuse a query that returns anything but one column, the nodes of the type that the edges join."""
    names = ", ".join(column.name for column in plan.columns)
    if len(plan.columns) != 1:
        raise BadRequest(
            f"the query for the nodes returns {len(plan.columns)} columns ({names}); return one node variable"
        )
    found = plan.node_types.get(plan.columns[0].name)
    if found is None:
        raise BadRequest(
            f"the query for the nodes returns {names}, which is no node; return one node variable"
        )
    if found != type_name:
        raise BadRequest(
            f"the query for the nodes returns nodes of type {found}, and the edges join nodes of type {type_name}; "
            "return those"
        )


def check_known(given: Sequence[str], ordinals: Sequence[int], what: str) -> None:
    """Refuse ids that no node of the graph has."""
    unknown = [one for one, at in zip(given, ordinals, strict=True) if at < 0]
    if unknown:
        more = f" and {len(unknown) - 1:,} more" if len(unknown) > 1 else ""
        raise BadRequest(
            f"{what} has the id `{unknown[0]}`{more}, which no node of the graph has; check the ids",
            ids=unknown[:10],
        )


def ids_column(table: pa.Table) -> pa.Array:
    """The distinct ids that a query for nodes returned."""
    return table.column(0).drop_null().unique()
