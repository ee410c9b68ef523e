"""The validation graphs of LDBC Graphalytics: what every implementation must give (`graphalytics/README.md`)."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import omnigraph as og
from tests.algorithms.random_graphs import values
from tests.graphs import graph_of

DATA = Path(__file__).parent / "graphalytics"
FOLDERS = ("bfs", "cdlp", "lcc", "pr", "sssp", "wcc")
WAYS = ("dir", "undir")
SCHEMA = "\n".join(
    f"""node N_{name} {{ name: String @key }}
edge E_{name}: N_{name} -> N_{name} {{ w: F64? }}"""
    for name in (f"{folder}_{way}" for folder in FOLDERS for way in WAYS)
)
NOWHERE = 9223372036854775807


def padded(number):
    """Ids are texts here, so that the least text is the least number."""
    return f"{int(number):04}"


def edges_of(folder, way):
    """The stored edges of a graph and its vertices: an undirected one has each edge in both directions."""
    base = DATA / folder / f"{way}-input"
    if not base.exists():
        vertices = [padded(line) for line in base.with_suffix(".v").read_text().split()]
        edges = [line.split() for line in base.with_suffix(".e").read_text().splitlines()]
        pairs = [(padded(a), padded(b), float(weight)) for a, b, weight in edges]
        back = [(b, a, weight) for a, b, weight in pairs] if way == "undir" else []
        return vertices, pairs + back
    lines = [line.split() for line in base.read_text().splitlines() if line.strip()]
    pairs = [(padded(one), padded(other), None) for one, *others in lines for other in others]
    return [padded(one) for one, *_ in lines], pairs


def output_of(folder, way):
    lines = (DATA / folder / f"{way}-output").read_text().splitlines()
    return {padded(line.split()[0]): line.split()[1] for line in lines if line.strip()}


def fill(graph: og.Graph) -> None:
    records = []
    for folder in FOLDERS:
        for way in WAYS:
            name, (vertices, edges) = f"{folder}_{way}", edges_of(folder, way)
            # A vertex without a line of its own stands in the output.
            every = sorted({*vertices, *output_of(folder, way)})
            records += [{"type": f"N_{name}", "data": {"name": one}} for one in every]
            for a, b, weight in edges:
                data = {} if weight is None else {"w": weight}
                records.append({"edge": f"E_{name}", "from": a, "to": b, "data": data})
    graph.load(records)


graph = graph_of(SCHEMA, fill, scope="module", upkeep="off")
pytestmark = pytest.mark.parametrize("way", WAYS)


def test_pagerank(graph, way):
    rounds = {"dir": 14, "undir": 26}[way]
    found = graph.algorithms.pagerank(f"E_pr_{way}", tolerance=0, max_iterations=rounds)
    assert (found.iterations, found.converged) == (rounds, False)
    wanted = {one: float(value) for one, value in output_of("pr", way).items()}
    # The benchmark asks for four digits: its directed output is where the rounds lead, not the fourteenth.
    assert values(found) == pytest.approx(wanted, rel=1e-4)
    if way == "dir":
        found = graph.algorithms.pagerank("E_pr_dir", tolerance=1e-12)
    assert values(found) == pytest.approx(wanted, abs=1e-9, rel=0)


def test_components(graph, way):
    found = values(graph.algorithms.connected_components(f"E_wcc_{way}"))
    assert groups(found) == groups(output_of("wcc", way))


def groups(labels):
    """The partition that labels make, whatever they are called."""
    found = {}
    for name, label in labels.items():
        found.setdefault(label, set()).add(name)
    return {frozenset(group) for group in found.values()}


def test_label_propagation(graph, way):
    found = graph.algorithms.label_propagation(
        f"E_cdlp_{way}", max_iterations=5, directed=way == "dir"
    )
    wanted = {one: padded(value) for one, value in output_of("cdlp", way).items()}
    assert values(found) == wanted


def test_clustering(graph, way):
    found = graph.algorithms.clustering(f"E_lcc_{way}", directed=way == "dir")
    wanted = {one: float(value) for one, value in output_of("lcc", way).items()}
    assert values(found) == pytest.approx(wanted, abs=1e-9)


def test_hops_are_in_the_language(graph, way):
    rows = graph.query(
        f"""match {{ $a: N_bfs_{way} {{ name: "0001" }}  $b: N_bfs_{way}  $a $p:e_bfs_{way}{{0,}} $b }}
        return {{ $b.name as name, length($p) as hops }}"""
    ).rows
    found = {row["name"]: row["hops"] for row in rows}
    wanted = {one: int(value) for one, value in output_of("bfs", way).items()}
    assert found == {one: hops for one, hops in wanted.items() if hops != NOWHERE}
    assert len(wanted) > len(found)


def test_shortest_weights_are_in_the_language(graph, way):
    rows = graph.query(
        f"""match {{ $a: N_sssp_{way} {{ name: "0001" }}  $a $p:e_sssp_{way} by w $b }}
        return {{ $b.name as name, cost($p) as far }}"""
    ).rows
    # A way leads to another node; the start is no row.
    found = {"0001": 0.0} | {row["name"]: row["far"] for row in rows}
    wanted = {one: float(value) for one, value in output_of("sssp", way).items()}
    assert found == pytest.approx(
        {one: far for one, far in wanted.items() if not math.isinf(far)}, abs=1e-9
    )
