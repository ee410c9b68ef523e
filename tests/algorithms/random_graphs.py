"""One stored graph with many random edge types among the same nodes, and each type as networkx has it."""

from __future__ import annotations

import random
from typing import Any

import networkx as nx

import omnigraph as og

SIZE = 40
NAMES = tuple(f"n{at:02}" for at in range(SIZE))
# Edges per type: none, one, sparse ones with several components, denser ones.
COUNTS = (0, 1, 12, 25, 40, 60, 90, 140, 220, 400)
TYPES = tuple(f"E{at}" for at in range(len(COUNTS)))
SCHEMA = "node Node { name: String @key  mark: F64?  label: String? }\n" + "\n".join(
    f"edge {name}: Node -> Node {{ w: F64?  n: I32? }}" for name in TYPES
)


def edges_of(at: int) -> list[tuple[str, str, float | None]]:
    """Random edges with repeats, loops and weights, some without one; the last fifth of the nodes has none."""
    dice = random.Random(at)
    among = NAMES[: SIZE * 4 // 5]
    found = []
    for _ in range(COUNTS[at]):
        ends = dice.choice(among), dice.choice(among)
        if dice.random() < 0.1:
            ends = ends[0], ends[0]
        weight = None if dice.random() < 0.2 else dice.choice([0.0, 0.5, 1.0, 2.5, 7.0])
        found += [(*ends, weight)] * (2 if dice.random() < 0.2 else 1)
    return found


def fill(graph: og.Graph) -> None:
    """Load all nodes and edges."""
    records: list[dict[str, Any]] = [{"type": "Node", "data": {"name": name}} for name in NAMES]
    for at, name in enumerate(TYPES):
        for src, dst, weight in edges_of(at):
            data = {} if weight is None else {"w": weight}
            records.append({"edge": name, "from": src, "to": dst, "data": data})
    graph.load(records)


def directed(at: int, *, loops: bool = True) -> nx.DiGraph:
    """Every pair once."""
    found = nx.DiGraph()
    found.add_nodes_from(NAMES)
    found.add_edges_from((a, b) for a, b, _ in edges_of(at) if loops or a != b)
    return found


def undirected(at: int) -> nx.Graph:
    """Every pair once, either way, without loops."""
    return directed(at, loops=False).to_undirected()


def weighted(at: int, *, loops: bool = True) -> nx.DiGraph:
    """Parallel weights added up; what has none is no edge."""
    found = nx.DiGraph()
    found.add_nodes_from(NAMES)
    for a, b, weight in edges_of(at):
        if weight is not None and (loops or a != b):
            before = found.get_edge_data(a, b, {"weight": 0.0})["weight"]
            found.add_edge(a, b, weight=before + weight)
    return found


def weighted_undirected(at: int) -> nx.Graph:
    """The weights of both directions added up, without loops."""
    found = nx.Graph()
    found.add_nodes_from(NAMES)
    for a, b, data in weighted(at, loops=False).edges(data=True):
        before = found.get_edge_data(a, b, {"weight": 0.0})["weight"]
        found.add_edge(a, b, weight=before + data["weight"])
    return found


def values(result: og.AlgorithmResult) -> dict[str, Any]:
    """The values by id."""
    table = result.to_arrow()
    return dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
