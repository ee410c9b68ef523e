"""Graph algorithms on 2M nodes and 20M edges, beside SciPy, igraph and networkx.

    ./dev bench algorithms [--small] [--only NAME,...] [--edges N] [--rounds N]

The graph is stored; its ends are drawn by weights that fall like a power of the rank, so some nodes have very many
neighbours. `--small` is a twentieth of it. Each call is the public one, values as Arrow included, after a first
call that numbers the nodes, makes the adjacency and compiles. Modularity is compared with networkx's on a planted
graph of 20,000 nodes, because networkx takes hours on the large one. Seconds are those of the processor.

`--only spark` runs PageRank and components on the Spark session of OMNIGRAPH_SPARK_MASTER, or of this machine, beside
plain PySpark jobs of the same rounds (`contest/algorithms_spark.py`). Those seconds are of the wall.

`--only cluster --edges 50000000` runs these and a count of two hops on a standalone cluster of this machine with two
executors of 2 GB and a driver of its own, with the highest memory of each (`contest/algorithms_cluster.py`); `--rounds`
of PageRank, 20 if not given.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse
from scipy.sparse import csgraph

import omnigraph as og
from benchmarks.contest import algorithms_cluster, algorithms_spark
from benchmarks.contest.peers import peers_directory
from omnigraph.read.kernels.twins import Prices, account

Ints = npt.NDArray[np.int64]
SCHEMA = """
node Node { name: String @key  team: I32  rank: F64? }
edge Link: Node -> Node
"""
LOCK = Path(__file__).parent / "contest" / "igraph.lock"
ROUNDS = 20
TEAMS = 100
PLANTED = 20_000


class Measured(NamedTuple):
    """One line of the table; ``bar`` is the most that ``ours`` may be, in times ``theirs``."""

    name: str
    ours: float
    theirs: float
    whom: str
    bar: float

    def __str__(self) -> str:
        ratio = self.ours / self.theirs
        verdict = "met" if ratio <= self.bar else "MISSED"
        figures = f"{self.ours:9.3f} s | {self.theirs:9.3f} s {self.whom}"
        return f"{self.name:34} | {figures:38} | {ratio:5.2f} x | bar {self.bar} x | {verdict}"


def ends(nodes: int, edges: int, seed: int = 5) -> tuple[Ints, Ints]:
    """Sources spread evenly, targets by a power of their rank."""
    dice = np.random.default_rng(seed)
    weights = np.arange(1, nodes + 1) ** -0.5
    targets = np.searchsorted(np.cumsum(weights / weights.sum()), dice.random(edges))
    order = dice.permutation(nodes)
    return dice.integers(0, nodes, edges), order[np.minimum(targets, nodes - 1)]


def planted(seed: int = 7) -> tuple[Ints, Ints]:
    """Edges that mostly stay within groups of 50 nodes."""
    dice = np.random.default_rng(seed)
    src = dice.integers(0, PLANTED, PLANTED * 8)
    near = src // 50 * 50 + dice.integers(0, 50, len(src))
    dst = np.where(dice.random(len(src)) < 0.7, near, dice.integers(0, PLANTED, len(src)))
    return src, dst


def stored(place: Path, nodes: int, src: Ints, dst: Ints) -> og.Graph:
    """The graph with these edges; ids in the order of the numbers."""
    graph = og.init(place, SCHEMA, upkeep="off")
    names = pa.array(np.char.zfill(np.arange(nodes).astype(str), 8))
    teams = pa.array(np.arange(nodes) % TEAMS, pa.int32())
    graph.load_nodes("Node", pa.table({"name": names, "team": teams}), mode="append")
    columns = {"from": names.take(pa.array(src)), "to": names.take(pa.array(dst))}
    graph.load_edges("Link", pa.table(columns), mode="append")
    return graph


def seconds(call: Callable[[], Any], times: int = 3) -> float:
    """The least of some runs, in seconds of processor time: nobody here works in several threads."""
    found = []
    for _ in range(times):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found)


class Contest:
    """The stored graph, the same as matrices of SciPy, and as a graph of igraph if that is there."""

    def __init__(self, graph: og.Graph, nodes: int, src: Ints, dst: Ints) -> None:
        self.run = graph.algorithms
        self.nodes = nodes
        self.src, self.dst = src, dst
        ones = np.ones(len(src))
        matrix = sparse.csr_array((ones, (src, dst)), shape=(nodes, nodes))
        matrix.sum_duplicates()
        matrix.data[:] = 1.0
        self.out = matrix

    def igraph(self) -> Any:
        """An undirected graph of igraph without loops and repeats; None if it is not there."""
        place = peers_directory(LOCK, ("igraph",))
        if place is None:
            return None
        sys.path.append(str(place))
        upper = sparse.triu(self.out + self.out.T, 1).tocoo()
        pairs = np.stack([upper.row, upper.col], axis=1)
        return import_module("igraph").Graph(self.nodes, pairs)

    def pagerank(self) -> list[Measured]:
        """A round beside a product, and all of it with the first call."""

        def rounds(count: int) -> float:
            return seconds(lambda: self.run.pagerank("Link", tolerance=0, max_iterations=count))

        each = (rounds(ROUNDS + 5) - rounds(5)) / ROUNDS
        into = self.out.T.tocsr()
        vector = np.full(self.nodes, 1 / self.nodes)
        product = seconds(lambda: [into @ vector for _ in range(ROUNDS)]) / ROUNDS
        return [Measured("pagerank, a round", each, product, "SciPy's product", 1.2)]

    def components(self) -> list[Measured]:
        """Weak and strong components."""
        found = []
        for name in ("weak", "strong"):
            ours = seconds(partial(self.run.connected_components, "Link", strong=name == "strong"))
            theirs = seconds(
                partial(csgraph.connected_components, self.out, directed=True, connection=name)
            )
            found.append(Measured(f"components, {name}", ours, theirs, "SciPy", 1.0))
        return found

    def against_igraph(self, names: Sequence[str]) -> None:
        """What SciPy has not."""
        other = self.igraph()
        if other is None:
            print("igraph is not there, so nothing is compared with it")
            return
        calls: dict[str, tuple[Callable[[], Any], Callable[[], Any], float]] = {
            "triangles": (
                lambda: self.run.triangle_count("Link"),
                # It counts the triangles through every vertex, and divides.
                lambda: other.transitivity_local_undirected(mode="zero"),
                1.0,
            ),
            "kcore": (lambda: self.run.kcore("Link"), other.coreness, 1.0),
            "louvain": (lambda: self.run.louvain("Link"), other.community_multilevel, 2.0),
        }
        for name, (ours, theirs, bar) in calls.items():
            if name in names:
                ours()  # compiles
                times = 1 if name == "louvain" else 2
                figures = seconds(ours, times), seconds(theirs, times)
                show([Measured(name, *figures, "igraph", bar)])
        if "louvain" in names:
            mine = self.run.louvain("Link").modularity or 0.0
            print(f"modularity {mine:.4f}, igraph's {other.community_multilevel().modularity:.4f}")


def modularity(place: Path) -> None:
    """Ours beside networkx's on a graph with planted groups; the bar is 0.98 times."""
    src, dst = planted()
    with stored(place, PLANTED, src, dst) as graph:
        ours = graph.algorithms.louvain("Link").modularity or 0.0
    judge = nx.Graph(np.stack([src, dst], axis=1)[src != dst].tolist())
    judge.add_nodes_from(range(PLANTED))
    theirs = nx.community.modularity(judge, nx.community.louvain_communities(judge, seed=1))
    verdict = "met" if ours >= 0.98 * theirs else "MISSED"
    print(f"modularity of planted groups {ours:.4f}, networkx's {theirs:.4f}: {verdict}")


def written(graph: og.Graph) -> list[Measured]:
    """Writing all values back, beside a patch load of the same rows; and again when nothing differs."""
    result = graph.algorithms.pagerank("Link", tolerance=0, max_iterations=3)
    ours = seconds(lambda: result.write("rank"), 1)
    again = graph.algorithms.pagerank("Link", tolerance=0, max_iterations=3)
    nothing = seconds(lambda: again.write("rank"), 1)
    print(f"write-back where nothing differs: {nothing:.3f} s")
    table = result.to_arrow()
    rows = pa.table({"id": table["id"], "rank": pa.compute.multiply(table["rank"], 2.0)})
    theirs = seconds(lambda: graph.load_nodes("Node", rows, mode="patch", engine="local"), 1)
    return [Measured("write-back of all values", ours, theirs, "a patch load", 2.0)]


def show(found: Sequence[Measured]) -> None:
    """Print lines as they come: the whole takes minutes."""
    print(*found, sep="\n", flush=True)


def main() -> None:
    """Measure what is asked for, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--only", default="pagerank,components,triangles,kcore,louvain,modularity,write"
    )
    asked = parser.parse_args()
    names = asked.only.split(",")
    edges = asked.edges // 20 if asked.small else asked.edges
    nodes = edges // 10
    print(
        f"{nodes:,} nodes, {edges:,} edges, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory() as place:
        if "cluster" in names:
            with stored(Path(place) / "cluster", nodes, *ends(nodes, edges)) as graph:
                uri = graph.uri
            algorithms_cluster.on_a_cluster(uri, edges, asked.rounds, Path(place) / "spark")
        if set(names) - {"modularity", "cluster"}:
            src, dst = ends(nodes, edges)
            with stored(Path(place) / "large", nodes, src, dst) as graph:
                # What a long process comes to: every loop runs compiled from its first call on.
                import_module("numba")
                account.prices = Prices(0.0, 0.0, 0.0, 0.0, 0.0)
                contest = Contest(graph, nodes, src, dst)
                began = time.perf_counter()
                graph.algorithms.pagerank("Link", max_iterations=1)
                print(
                    f"first call, which numbers and compiles: {time.perf_counter() - began:.1f} s"
                )
                if "pagerank" in names:
                    show(contest.pagerank())
                if "components" in names:
                    show(contest.components())
                if {"triangles", "kcore", "louvain"} & set(names):
                    contest.against_igraph(names)
                if "write" in names:
                    show(written(graph))
                if "spark" in names:
                    for name, ours, theirs in algorithms_spark.figures(graph, edges):
                        show([Measured(name, ours, theirs, "plain PySpark", 1.0)])
        if "modularity" in names:
            modularity(Path(place) / "planted")


if __name__ == "__main__":
    main()
