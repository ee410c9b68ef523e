"""`nearest`, `bm25` and `rrf` beside LanceDB: found documents and latency in one run.

    ./dev bench search [--small]

Vectors come in clusters, and exact neighbours are worked out in NumPy. The text collection is judged
by how it is made: a document is relevant to the queries of its own topic. Words mislead towards
one wrong topic and vectors towards another, so only both together tell. `--small` is a tenth.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import omnigraph as og
from benchmarks.contest.peers import peers_directory

Vectors = npt.NDArray[np.float32]
Answer = list[str]

DIMENSION, NEIGHBOURS, QUERIES, WARM = 128, 10, 200, 10
RECALL, SLOWER, SPARE_MS = 0.99, 1.25, 1.0
TIES = 0.002  # what documents of equal score can make of the quality, by the order they come in
LANCEDB_LOCK = Path(__file__).with_name("contest") / "lancedb.lock"

SCHEMA = f"""
node Point {{ ref: String @key
  vec: Vector({DIMENSION}) @index }}
node Doc {{ ref: String @key
  body: String @index
  vec: Vector({DIMENSION}) @index }}
"""
NEAREST = f"""query q($v: Vector({DIMENSION})) {{
  match {{ $p: Point }} return {{ $p.ref }} order {{ nearest($p.vec, $v) }} limit {NEIGHBOURS} }}"""
DOCS = f"""query vector($v: Vector({DIMENSION})) {{
  match {{ $d: Doc }} return {{ $d.ref }} order {{ nearest($d.vec, $v) }} limit {NEIGHBOURS} }}
query words($t: String) {{
  match {{ $d: Doc }} return {{ $d.ref }} order {{ bm25($d.body, $t) }} limit {NEIGHBOURS} }}
query both($v: Vector({DIMENSION}), $t: String) {{
  match {{ $d: Doc }} return {{ $d.ref }}
  order {{ rrf(nearest($d.vec, $v), bm25($d.body, $t)) }} limit {NEIGHBOURS} }}"""


@dataclass(frozen=True)
class Judged:
    """A question with its vector, its words and the documents that answer it."""

    vector: Vectors
    words: str
    relevant: frozenset[str]


@dataclass(frozen=True)
class Measured:
    """How good the answers were, from 0 to 1, and the median latency."""

    quality: float
    ms: float


def clustered(random: np.random.Generator, centres: Vectors, count: int) -> Vectors:
    """Points around the centres."""
    chosen = centres[random.integers(0, len(centres), count)]
    return (chosen + random.normal(size=chosen.shape)).astype(np.float32)


def fixed_lists(vectors: Vectors) -> pa.Array:
    """Vectors as an Arrow column."""
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])


def exact_neighbours(vectors: Vectors, query: Vectors) -> frozenset[str]:
    """The ids of the nearest points."""
    apart = vectors - query
    distances = np.einsum("ij,ij->i", apart, apart)
    best = np.argpartition(distances, NEIGHBOURS)[:NEIGHBOURS]
    return frozenset(f"p{at:06d}" for at in best)


def points(count: int) -> tuple[pa.Table, list[Judged]]:
    """Points in clusters, and questions near them."""
    random = np.random.default_rng(1)
    centres = random.normal(size=(200, DIMENSION), scale=4).astype(np.float32)
    vectors = clustered(random, centres, count)
    frame = pa.table({"ref": [f"p{at:06d}" for at in range(count)], "vec": fixed_lists(vectors)})
    asked = clustered(random, centres, QUERIES)
    return frame, [Judged(query, "", exact_neighbours(vectors, query)) for query in asked]


def documents(count: int) -> tuple[pa.Table, list[Judged]]:
    """Documents on topics that share words with one neighbour and direction with another."""
    random = np.random.default_rng(2)
    topics = 50
    # Topics 2k and 2k + 1 use the same words; topics 2k + 1 and 2k + 2 point the same way.
    vocabulary = [[f"word{topic // 2}x{at}" for at in range(12)] for topic in range(topics)]
    groups = random.normal(size=(topics // 2 + 1, DIMENSION)).astype(np.float32)
    centres = np.stack([groups[(topic + 1) // 2] for topic in range(topics)])
    centres += random.normal(size=centres.shape, scale=0.12).astype(np.float32)
    topic_of = random.integers(0, topics, count)
    noise = random.normal(size=(count, DIMENSION), scale=0.8)
    vectors = (centres[topic_of] + noise).astype(np.float32)
    common = [f"common{at}" for at in range(40)]
    bodies = [
        " ".join(
            [
                *random.choice(vocabulary[topic], random.integers(3, 12)),
                *random.choice(common, random.integers(5, 60)),
            ]
        )
        for topic in topic_of
    ]
    refs = np.array([f"d{at:06d}" for at in range(count)])
    frame = pa.table({"ref": refs, "body": bodies, "vec": fixed_lists(vectors)})
    judged = []
    for at in range(QUERIES):
        topic = at % topics
        vector = centres[topic] + random.normal(size=DIMENSION, scale=0.5)
        text = " ".join(
            [*random.choice(vocabulary[topic], 2, replace=False), random.choice(common)]
        )
        relevant = frozenset(refs[topic_of == topic].tolist())
        judged.append(Judged(vector.astype(np.float32), text, relevant))
    return frame, judged


def recall(answer: Answer, relevant: frozenset[str]) -> float:
    """The share of the wanted neighbours that was found."""
    return len(relevant.intersection(answer)) / NEIGHBOURS


def gain(answer: Answer, relevant: frozenset[str]) -> float:
    """nDCG: relevant answers count the more the earlier they come."""
    weights = 1 / np.log2(np.arange(2, NEIGHBOURS + 2))
    hits = [ref in relevant for ref in answer]
    return float(weights[: len(hits)] @ hits / weights.sum())


def measure(
    ask: dict[str, Callable[[Judged], Answer]],
    judged: Sequence[Judged],
    quality: Callable[[Answer, frozenset[str]], float],
) -> dict[str, Measured]:
    """Every engine asked every question in turn, so that all meet the same machine."""
    times: dict[str, list[float]] = {name: [] for name in ask}
    scores: dict[str, list[float]] = {name: [] for name in ask}
    for at, question in enumerate([*judged[:WARM], *judged]):
        for name, engine in ask.items():
            start = time.perf_counter()
            answer = engine(question)
            elapsed = (time.perf_counter() - start) * 1000
            if at >= WARM:
                times[name].append(elapsed)
                scores[name].append(quality(answer, question.relevant))
    return {
        name: Measured(statistics.fmean(scores[name]), statistics.median(times[name]))
        for name in ask
    }


class Ours:
    """omnigraph through its public interface, at the head of main each time."""

    def __init__(self, graph: og.Graph) -> None:
        self.graph = graph

    def _refs(self, source: str, name: str | None, **params: Any) -> Answer:
        column: Answer = self.graph.query(source, name, params).to_arrow().column(0).to_pylist()
        return column

    def point(self, question: Judged) -> Answer:
        """The nearest points."""
        return self._refs(NEAREST, None, v=question.vector.tolist())

    def vector(self, question: Judged) -> Answer:
        """The nearest documents."""
        return self._refs(DOCS, "vector", v=question.vector.tolist())

    def words(self, question: Judged) -> Answer:
        """The most relevant documents."""
        return self._refs(DOCS, "words", t=question.words)

    def both(self, question: Judged) -> Answer:
        """Both fused."""
        return self._refs(DOCS, "both", v=question.vector.tolist(), t=question.words)


class LanceDb:
    """LanceDB at the newest version each time, which is what omnigraph promises too."""

    def __init__(self, place: Path, frames: dict[str, pa.Table]) -> None:
        os.environ.setdefault("LANCEDB_LOG", "error")
        lancedb = importlib.import_module("lancedb")
        index = importlib.import_module("lancedb.index")
        db = lancedb.connect(place, read_consistency_interval=timedelta(0))
        self.tables = {name: db.create_table(name, frame) for name, frame in frames.items()}
        for name, table in self.tables.items():
            partitions = max(1, frames[name].num_rows // 8192)
            table.create_index("vec", config=index.HnswSq(num_partitions=partitions))
        self.tables["docs"].create_index("body", config=index.FTS())
        self.fusion = importlib.import_module("lancedb.rerankers").RRFReranker(K=60)

    def point(self, question: Judged, refine: int | None) -> Answer:
        """The nearest points."""
        found = self.tables["points"].search(question.vector).limit(NEIGHBOURS)
        if refine is not None:
            found = found.refine_factor(refine)
        return self._refs(found)

    def vector(self, question: Judged) -> Answer:
        """The nearest documents."""
        table = self.tables["docs"]
        return self._refs(table.search(question.vector).limit(NEIGHBOURS).refine_factor(5))

    def words(self, question: Judged) -> Answer:
        """The most relevant documents."""
        found = self.tables["docs"].search(question.words, query_type="fts")
        return self._refs(found.limit(NEIGHBOURS))

    def both(self, question: Judged) -> Answer:
        """Both fused by LanceDB's own reranker."""
        found = self.tables["docs"].search(query_type="hybrid").vector(question.vector)
        found = found.text(question.words).rerank(self.fusion).limit(NEIGHBOURS).refine_factor(5)
        return self._refs(found)

    @staticmethod
    def _refs(found: Any) -> Answer:
        column: Answer = found.select(["ref"]).to_arrow().column("ref").to_pylist()
        return column


def lancedb_at(place: Path, frames: dict[str, pa.Table]) -> LanceDb | None:
    """LanceDB with the same rows; None when it cannot be installed."""
    peers = peers_directory(LANCEDB_LOCK, ("lancedb",))
    if peers is None:
        return None
    # Last: what the project itself depends on comes from its own environment.
    sys.path.append(str(peers))
    return LanceDb(place, frames)


@contextmanager
def filled(place: Path, frames: dict[str, pa.Table]) -> Iterator[Ours]:
    """A graph with the same rows and every declared index."""
    with og.init(place / "graph", SCHEMA) as graph:
        graph.load_nodes("Point", frames["points"], mode="append")
        graph.load_nodes("Doc", frames["docs"], mode="append")
        graph.ensure_indices()
        yield Ours(graph)


def show(title: str, unit: str, results: dict[str, Measured], peer: str) -> bool:
    """Print a comparison; whether ours is at least as good and within the latency bar."""
    print(f"\n{title}")
    for name, result in results.items():
        print(f"  {name:<28} {unit} {result.quality:6.4f}   {result.ms:8.2f} ms")
    if peer not in results:
        return True
    ours, theirs = results["omnigraph"], results[peer]
    bar = max(SLOWER * theirs.ms, theirs.ms + SPARE_MS)
    kept = ours.ms <= bar and ours.quality >= theirs.quality - TIES
    print(f"  bar: {bar:.2f} ms at {unit} {theirs.quality:.4f}; ratio {ours.ms / bar:.2f}", end="")
    print("" if kept else "   MISSED")
    return kept


def run(place: Path, small: bool) -> bool:
    """Measure everything; whether every bar was kept."""
    frame, neighbours = points(10_000 if small else 100_000)
    docs, judged = documents(2_000 if small else 20_000)
    frames = {"points": frame, "docs": docs}
    kept = []
    with filled(place, frames) as ours:
        peer = lancedb_at(place / "lancedb", frames)
        ask: dict[str, Callable[[Judged], Answer]] = {"omnigraph": ours.point}
        if peer is not None:
            ask["lancedb"] = lambda question: peer.point(question, None)
            ask["lancedb, refined"] = lambda question: peer.point(question, 5)
        results = measure(ask, neighbours, recall)
        title = f"nearest {NEIGHBOURS} of {frame.num_rows:,} x {DIMENSION}"
        kept.append(show(title, "recall", results, "lancedb, refined"))
        kept.append(results["omnigraph"].quality >= RECALL)
        gains = {}
        for way in ("vector", "words", "both"):
            ask = {"omnigraph": getattr(ours, way)}
            if peer is not None:
                ask["lancedb"] = getattr(peer, way)
            results = measure(ask, judged, gain)
            gains[way] = results["omnigraph"].quality
            title = f"{way} on {docs.num_rows:,} judged documents"
            kept.append(show(title, "nDCG@10", results, "lancedb"))
    fused = gains["both"] > max(gains["vector"], gains["words"])
    print(f"\nrrf above both arms: {'yes' if fused else 'NO'}")
    return all([*kept, fused])


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a tenth of the size")
    small = parser.parse_args().small
    with tempfile.TemporaryDirectory() as scratch:
        if not run(Path(scratch), small):
            sys.exit("a bar was missed")


if __name__ == "__main__":
    main()
