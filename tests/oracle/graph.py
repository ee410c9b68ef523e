"""A graph as plain Python rows: what the oracle reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.lang.schema.catalog import Catalog, Entity, NodeType
from omnigraph.types import derive_id, from_json

Values = Mapping[str, Any]
Edge = tuple[str, str, str, Values]
Embed = Callable[[str, int], list[float]]


@dataclass
class Graph:
    """Nodes by type and id, edges by type as `(id, src, dst, values)`; values are stored values."""

    nodes: dict[str, dict[str, Values]] = field(default_factory=dict)
    edges: dict[str, list[Edge]] = field(default_factory=dict)

    @classmethod
    def load(cls, catalog: Catalog, text: str, embed: Embed | None = None) -> Graph:
        """Read loader records, one JSON object per line; `//` lines and blank lines are skipped.

        With `embed`, a record that leaves out an `@embed` vector but has its source text gets one.
        """
        graph = cls({name: {} for name in catalog.nodes}, {name: [] for name in catalog.edges})
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("//"):
                continue
            record = json.loads(line)
            data = record.get("data") or {}
            # A fresh id of the product is a ULID: text whose order is the order of creation.
            spare = data.get("id", f"~{number:09d}")
            if "type" in record:
                node = catalog.nodes[record["type"]]
                values = _values(node, data, embed)
                graph.nodes[node.name][_node_id(node, values, spare)] = values
            else:
                edge = catalog.edge(record["edge"])
                assert edge is not None, f"line {number}: no edge type {record['edge']}"
                row = (spare, record["from"], record["to"], _values(edge, data, embed))
                graph.edges[edge.name].append(row)
        return graph


def _values(kind: Entity, data: Values, embed: Embed | None) -> Values:
    values: dict[str, Any] = {}
    for name, prop in kind.properties.items():
        given = data.get(name)
        values[name] = None if given is None else from_json(prop.type, given)
    for name, prop in kind.properties.items():
        if embed and prop.embed and prop.type.dim and values[name] is None:
            source = values[prop.embed.source]
            values[name] = None if source is None else embed(source, prop.type.dim)
    return values


def _node_id(node: NodeType, values: Values, spare: str) -> str:
    if node.key is None:
        return spare
    return derive_id((node.properties[name].type, values[name]) for name in node.key)
