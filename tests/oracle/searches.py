"""Searches of the oracle: neighbours, breadth-first searches, least paths, cheapest paths, distances of vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace

from omnigraph.lang.query import ir
from omnigraph.lang.query.ir import Direction
from tests.oracle.analysis import round_f32
from tests.oracle.bound import Entity, Path, Step
from tests.oracle.graph import Graph

Passes = Callable[[Entity], bool]
FLIPPED = {Direction.IN: Direction.OUT, Direction.OUT: Direction.IN, Direction.BOTH: Direction.BOTH}


class RefusedError(Exception):
    """The plan is sound but a parameter or a stored value makes it impossible to answer."""


def reached(
    graph: Graph, step: ir.Expand, start: str, passes: Passes, through: Passes
) -> list[tuple[Entity, Entity | Path | None]]:
    """The nodes that an expansion reaches from a node, each with its edge or its path where one is asked for.

    Ways follow edges that pass, and lead through nodes for which ``through`` is true.
    """
    if step.inverse:
        forth = replace(step, inverse=False, direction=FLIPPED[step.direction])
        forth = replace(forth, src_type=step.dst_type, dst_type=step.src_type)
        found = []
        for node, values in graph.nodes[step.dst_type].items():
            for there, by in reached(graph, forth, node, passes, through):
                if there.id == start:
                    found.append((Entity(node, values, step.dst_type), by))
        return found
    if step.edge_var is not None:
        return [(node, way.edge) for way, node in _neighbours(graph, step, start, passes)]
    origin = Path((Entity(start, graph.nodes[step.src_type][start], step.src_type),))
    if step.weight is not None:
        ways = _cheapest(graph, step, origin, passes, through)
    elif step.src_type == step.dst_type:
        ways = _breadth_first(graph, step, origin, passes, through)
    else:
        ways = _breadth_first(graph, replace(step, max_hops=1), origin, passes, through)
    return [(way.nodes[-1], way if step.path_var is not None else None) for way in ways]


def _neighbours(
    graph: Graph, step: ir.Expand, node: str, passes: Passes
) -> Iterator[tuple[Step, Entity]]:
    """Every stored edge at a node with the node at its other end, a self-loop once."""
    nodes = graph.nodes[step.dst_type]
    for type_name in step.edge_types:
        for edge, src, dst, values in graph.edges[type_name]:
            along = step.direction is not Direction.IN and src == node
            against = step.direction is not Direction.OUT and dst == node
            entity = Entity(edge, values, type_name)
            if (along or against) and passes(entity):
                other = dst if along else src
                yield Step(entity, src, dst), Entity(other, nodes[other], step.dst_type)


def _breadth_first(
    graph: Graph, step: ir.Expand, origin: Path, passes: Passes, through: Passes
) -> list[Path]:
    start = origin.nodes[0].id
    best, frontier = {start: origin}, [origin]
    emitted = {start: origin} if step.min_hops == 0 else {}
    hop = 0
    while frontier and (step.max_hops is None or hop < step.max_hops):
        hop += 1
        news: dict[str, Path] = {}
        loops: dict[str, Path] = {}
        for way in frontier:
            if hop > 1 and not through(way.nodes[-1]):
                continue
            here = way.nodes[-1].id
            for edge, node in _neighbours(graph, step, here, passes):
                onward = way.onward(edge, node)
                if node.id == here:
                    _keep_least(loops, node.id, onward)
                elif node.id not in best:
                    _keep_least(news, node.id, onward)
        best |= news
        frontier = list(news.values())
        if hop >= step.min_hops:
            for node, way in (*news.items(), *loops.items()):
                emitted.setdefault(node, way)
    return list(emitted.values())


def _keep_least(ways: dict[str, Path], node: str, way: Path) -> None:
    if node not in ways or way.rank < ways[node].rank:
        ways[node] = way


def _weights(graph: Graph, step: ir.Expand, passes: Passes) -> Iterator[tuple[str, float]]:
    assert step.weight is not None
    for type_name in step.edge_types:
        for edge, _, _, values in graph.edges[type_name]:
            weight = values[step.weight]
            if weight is not None and passes(Entity(edge, values, type_name)):
                yield edge, float(weight)


def weighed_steps(tree: object) -> Iterator[ir.Expand]:
    """The expansions by a weight in a plan and its blocks; those of sources are refused with their own plans."""
    if isinstance(tree, ir.Expand) and tree.weight is not None:
        yield tree
    if isinstance(tree, tuple):
        for part in tree:
            yield from weighed_steps(part)
    elif is_dataclass(tree) and not isinstance(tree, ir.Rows):
        for one in fields(tree):
            yield from weighed_steps(getattr(tree, one.name))


def refuse_weights(graph: Graph, step: ir.Expand, passes: Passes) -> None:
    for edge, weight in _weights(graph, step, passes):
        if math.isnan(weight) or weight < 0:
            raise RefusedError(f"negative: {step.weight} of {edge} is {weight}")


def _cheapest(
    graph: Graph, step: ir.Expand, origin: Path, passes: Passes, through: Passes
) -> list[Path]:
    """All ways are tried until none gets better: slow, and plainly the definition."""
    assert step.weight is not None

    def rank(way: Path) -> tuple[float, int, object]:
        return way.cost, len(way.edges), way.rank

    best = {origin.nodes[0].id: origin}
    pending = [origin]
    while pending:
        way = pending.pop()
        if best[way.nodes[-1].id] is not way or (way.edges and not through(way.nodes[-1])):
            continue
        for edge, node in _neighbours(graph, step, way.nodes[-1].id, passes):
            weight = edge.edge.values[step.weight]
            if weight is None:
                continue
            onward = way.onward(edge, node, float(weight))
            if node.id not in best or rank(onward) < rank(best[node.id]):
                best[node.id] = onward
                pending.append(onward)
    del best[origin.nodes[0].id]
    return list(best.values())


def apart(metric: str, vector: list[float], query: list[float]) -> float:
    """How far two vectors are apart; products are rounded to float32 before they are taken from 1."""
    if metric == "l2":
        return sum((a - b) ** 2 for a, b in zip(vector, query, strict=True))
    product = sum(a * b for a, b in zip(vector, query, strict=True))
    if metric == "cosine":
        product /= math.hypot(*vector) * math.hypot(*query)
    return 1 - round_f32(product)
