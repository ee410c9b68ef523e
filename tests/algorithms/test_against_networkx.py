"""All algorithms on random graphs: networkx as the judge, and a slow reference where the rules are ours."""

import networkx as nx
import pytest

from tests.algorithms import reference
from tests.algorithms.random_graphs import (
    NAMES,
    SCHEMA,
    TYPES,
    directed,
    edges_of,
    fill,
    undirected,
    values,
    weighted,
    weighted_undirected,
)
from tests.graphs import graph_of

graph = graph_of(SCHEMA, fill, scope="module")
pytestmark = pytest.mark.parametrize("at", range(len(TYPES)), ids=TYPES)


def close(found, wanted):
    return found == pytest.approx(wanted, abs=1e-9, rel=0)


def by_least(groups):
    return {name: min(group) for group in groups for name in group}


def test_degree(graph, at):
    judge = nx.MultiDiGraph()
    judge.add_nodes_from(NAMES)
    judge.add_edges_from((a, b) for a, b, _ in edges_of(at))
    for direction, wanted in (
        ("out", judge.out_degree),
        ("in", judge.in_degree),
        ("both", judge.degree),
    ):
        found = graph.algorithms.degree(TYPES[at], direction=direction)
        assert values(found) == dict(wanted)


@pytest.mark.parametrize("damping", [0.85, 0.5])
def test_pagerank(graph, at, damping):
    found = graph.algorithms.pagerank(
        TYPES[at], damping=damping, tolerance=1e-13, max_iterations=1000
    )
    # The judge stops at n times its tolerance.
    wanted = nx.pagerank(directed(at), damping, tol=1e-14, max_iter=1000)
    assert close(values(found), wanted)
    assert sum(values(found).values()) == pytest.approx(1)
    assert found.converged


def test_pagerank_of_sources_and_weights(graph, at):
    sources = {NAMES[1]: 1, NAMES[30]: 1, NAMES[-1]: 1}
    found = graph.algorithms.pagerank(
        TYPES[at], sources=sources, weight="w", tolerance=1e-13, max_iterations=1000
    )
    judge = weighted(at)
    wanted = nx.pagerank(judge, personalization=sources, dangling=sources, tol=1e-14, max_iter=1000)
    assert close(values(found), wanted)


def test_components(graph, at):
    judge = directed(at)
    found = graph.algorithms.connected_components(TYPES[at])
    assert values(found) == by_least(nx.weakly_connected_components(judge))
    found = graph.algorithms.connected_components(TYPES[at], strong=True)
    assert values(found) == by_least(nx.strongly_connected_components(judge))


def test_triangles_and_clustering(graph, at):
    judge = undirected(at)
    assert values(graph.algorithms.triangle_count(TYPES[at])) == nx.triangles(judge)
    assert close(values(graph.algorithms.clustering(TYPES[at])), nx.clustering(judge))


def test_directed_clustering(graph, at):
    judge, wanted = directed(at, loops=False), {}
    for node in judge:
        near = {*judge.predecessors(node), *judge.successors(node)}
        edges = judge.subgraph(near).number_of_edges()
        wanted[node] = edges / (len(near) * (len(near) - 1)) if len(near) > 1 else 0.0
    assert close(values(graph.algorithms.clustering(TYPES[at], directed=True)), wanted)


def test_cores(graph, at):
    assert values(graph.algorithms.kcore(TYPES[at])) == nx.core_number(undirected(at))


def test_betweenness(graph, at):
    for direction, judge in (
        ("out", directed(at)),
        ("in", directed(at).reverse()),
        ("both", undirected(at)),
    ):
        found = graph.algorithms.betweenness(TYPES[at], direction=direction)
        assert close(values(found), nx.betweenness_centrality(judge, normalized=False))


@pytest.mark.parametrize("is_directed", [False, True])
def test_label_propagation(graph, at, is_directed):
    for rounds in (1, 2, 5, 20):
        found = graph.algorithms.label_propagation(
            TYPES[at], max_iterations=rounds, directed=is_directed
        )
        wanted = reference.label_propagation(
            directed(at, loops=False), rounds, directed=is_directed
        )
        assert (values(found), found.iterations, found.converged) == wanted


@pytest.mark.parametrize("resolution", [1.0, 0.7, 2.0])
def test_louvain(graph, at, resolution):
    found = graph.algorithms.louvain(TYPES[at], resolution=resolution)
    judge = undirected(at)
    assert values(found) == reference.louvain(judge, resolution)
    check_modularity(found, judge, resolution)


def test_louvain_with_weights(graph, at):
    found = graph.algorithms.louvain(TYPES[at], weight="w")
    judge = weighted_undirected(at)
    assert values(found) == reference.louvain(judge)
    check_modularity(found, judge, 1.0)


def check_modularity(found, judge, resolution):
    """That it is what networkx computes for these communities, and not much less than its own have."""
    if not judge.size(weight="weight"):
        assert found.modularity == 0
        return
    communities = {}
    for name, community in values(found).items():
        communities.setdefault(community, set()).add(name)
    wanted = nx.community.modularity(judge, communities.values(), resolution=resolution)
    assert found.modularity == pytest.approx(wanted, abs=1e-9)
    theirs = nx.community.louvain_communities(judge, resolution=resolution, seed=1)
    theirs = nx.community.modularity(judge, theirs, resolution=resolution)
    assert found.modularity >= theirs - 0.1 * abs(theirs) - 1e-9
