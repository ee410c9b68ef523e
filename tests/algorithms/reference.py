"""Slow references for the algorithms whose rules are ours: read off the rules, on graphs of networkx."""

from __future__ import annotations

from collections import Counter

import networkx as nx


def label_propagation(
    graph: nx.DiGraph, rounds: int, *, directed: bool
) -> tuple[dict[str, str], int, bool]:
    """Labels, rounds run, and whether the last one changed nothing. The graph has no loops."""
    labels = {node: node for node in graph}
    for done in range(1, rounds + 1):
        after = {}
        for node in graph:
            voters = [*graph.predecessors(node), *graph.successors(node)]
            if not directed:
                voters = list(set(voters))
            votes = Counter(labels[voter] for voter in voters)
            after[node] = min(votes, key=lambda one: (-votes[one], one)) if votes else labels[node]
        is_same, labels = after == labels, after
        if is_same:
            return labels, done, True
    return labels, rounds, False


def louvain(graph: nx.Graph, resolution: float = 1.0) -> dict[str, str]:
    """Communities by the name of their least member.

    A community is a set of names; a node of a level is one too. Gains are differences of modularity itself.
    """
    whole = sum(data.get("weight", 1.0) for _, _, data in graph.edges(data=True))
    parts = [frozenset([name]) for name in sorted(graph)]
    if not whole:
        return {name: name for name in graph}
    while True:
        communities = {part: {part} for part in parts}  # by what it began as
        is_in = {part: part for part in parts}
        moved_ever = False
        moved = True
        while moved:
            moved = False
            for part in sorted(parts, key=min):
                best = _best(graph, part, is_in, communities, whole, resolution)
                if best is not None:
                    communities[is_in[part]].remove(part)
                    communities[best].add(part)
                    is_in[part] = best
                    moved = moved_ever = True
        if not moved_ever:
            return {name: min(part) for part in parts for name in part}
        parts = [frozenset().union(*members) for members in communities.values() if members]


def _best(graph, part, is_in, communities, whole, resolution):
    """Where a node of a level gains most, or None."""
    near = {}
    for other, community in is_in.items():
        if other != part:
            between = [
                graph[a][b].get("weight", 1.0) for a in part for b in other if graph.has_edge(a, b)
            ]
            if between:
                near[community] = near.get(community, 0.0) + sum(between)
    degree = _degree(graph, part)
    stay = _gain(graph, is_in[part], part, near, communities, degree, whole, resolution)
    gains = {
        one: _gain(graph, one, part, near, communities, degree, whole, resolution) - stay
        for one in near
        if one != is_in[part]
    }
    good = {one: gain for one, gain in gains.items() if gain > 1e-12}
    if not good:
        return None
    name = {one: min(min(member) for member in communities[one]) for one in good}
    # Equal up to rounding, since these sums run in another order.
    most = max(good.values())
    return min((one for one in good if good[one] > most - 1e-15), key=lambda one: name[one])


def _gain(graph, community, part, near, communities, degree, whole, resolution):
    total = sum(_degree(graph, member) for member in communities[community] if member != part)
    return near.get(community, 0.0) / whole - resolution * degree * total / (2 * whole * whole)


def _degree(graph, part):
    return sum(degree for _, degree in graph.degree(part, weight="weight"))
