"""Cycles, missing edges and reachability in a power-law graph, against Kùzu and DuckDB.

    ./dev bench patterns [--small] [--json] [--engines NAME,...] [--circles COUNT]

The graph has a million edges without loops and repeats; `--small` is a twentieth of it. Variables may
meet in one node, in every engine; what is reached is counted once per start, the start itself not.
`--circles` asks so many random patterns with circles instead, of us and of DuckDB, on a smaller graph
(`contest/circles.py`).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from benchmarks.contest.circles import circles, skewed
from benchmarks.contest.dataset import write_dataset
from benchmarks.contest.engines import Question, Row
from benchmarks.contest.referee import Contest, as_json, table, totals, verdict

Ints = npt.NDArray[np.int64]
ENGINES = ("omnigraph", "kuzu", "duckdb")
FEW, MANY = 99, 98  # the ages of 64 and of 1,024 persons; everybody else is younger
SKEW = 0.5
SLOWEST = 3.0  # times DuckDB's, for any random pattern


def graph(edges: int, seed: int = 11) -> tuple[Ints, Ints]:
    """Ages, and pairs whose ends are drawn by weights that fall like a power of the rank."""
    random = np.random.default_rng(seed)
    size = edges // 10
    weights = np.arange(1, size + 1) ** -SKEW
    rank = random.permutation(size)
    pairs: Ints = np.empty(0, np.int64)
    while len(pairs) < edges:
        ends = rank[random.choice(size, (2, edges // 2), p=weights / weights.sum())]
        keys = ends[0] * size + ends[1]
        pairs = np.unique(np.concatenate([pairs, keys[ends[0] != ends[1]]]))
    pairs = np.sort(random.choice(pairs, edges, replace=False))
    age = random.integers(18, 66, size)
    chosen = random.permutation(size)
    age[chosen[:64]] = FEW
    age[chosen[64 : 64 + 1024]] = MANY
    return age, np.stack([pairs // size, pairs % size])


def answers(age: Ints, pairs: Ints) -> dict[str, list[Row]]:
    """Every question answered with products of the adjacency matrix."""
    size = len(age)
    ones = np.ones(pairs.shape[1], np.int64)
    one = sparse.csr_array((ones, (pairs[0], pairs[1])), shape=(size, size))
    two = one @ one
    near = (one + two).astype(bool)
    return {
        "triangles": [[int(two.multiply(one.T).sum())]],
        "squares": [[int(two.multiply(two.T).sum())]],
        "strangers": [[int(two.sum() - two.multiply(one).sum())]],
        "reach_64": [[reached(one, np.flatnonzero(age == FEW))]],
        "reach_1024": [[reached(one, np.flatnonzero(age == MANY))]],
        "reach_all": [[int(near.nnz - near.diagonal().sum())]],
    }


def reached(one: sparse.csr_array, starts: Ints) -> int:
    """Pairs of a start and another node within three hops."""
    total = 0
    for part in np.array_split(starts, max(1, len(starts) // 64)):
        seen = np.zeros((one.shape[0], len(part)), np.float32)
        seen[part, np.arange(len(part))] = 1
        back = one.T.astype(np.float32)
        for _ in range(3):
            seen = ((back @ seen + seen) > 0).astype(np.float32)
        total += int(seen.sum()) - len(part)
    return total


REACH = """WITH h0 AS (SELECT number AS a, number AS b FROM Person WHERE age = $age),
           h1 AS (SELECT a, dst AS b FROM h0 JOIN Knows ON src = b),
           h2 AS (SELECT DISTINCT a, dst AS b FROM h1 JOIN Knows ON src = b),
           h3 AS (SELECT DISTINCT a, dst AS b FROM h2 JOIN Knows ON src = b)
           SELECT count(*) FROM (SELECT * FROM h1 UNION SELECT * FROM h2 UNION SELECT * FROM h3)
           WHERE a <> b"""


def reach(name: str, title: str, age: int) -> Question:
    """How many others the persons of that age reach within three hops."""
    return Question(
        name,
        title,
        """query q($age: I32) { match { $a: Person { age: $age }  $a knows{1,3} $b }
           return { count($b) as n } }""",
        """MATCH (a:Person)-[:Knows* SHORTEST 1..3]->(b:Person) WHERE a.age = $age
           AND a.number <> b.number RETURN count(*)""",
        REACH,
        {"age": age},
    )


QUESTIONS = (
    Question(
        "triangles",
        "triangles a->b->c->a",
        """query q() { match { $a: Person  $a knows $b  $b knows $c  $c knows $a }
           return { count($a) as n } }""",
        """MATCH (a:Person)-[:Knows]->(b:Person)-[:Knows]->(c:Person), (c)-[:Knows]->(a)
           RETURN count(*)""",
        """SELECT count(*) FROM Knows x JOIN Knows y ON y.src = x.dst
           JOIN Knows z ON z.src = y.dst AND z.dst = x.src""",
    ),
    Question(
        "squares",
        "squares a->b->c->d->a",
        """query q() { match { $a: Person  $a knows $b  $b knows $c  $c knows $d  $d knows $a }
           return { count($a) as n } }""",
        """MATCH (a:Person)-[:Knows]->(b:Person)-[:Knows]->(c:Person)-[:Knows]->(d:Person),
           (d)-[:Knows]->(a) RETURN count(*)""",
        """WITH two AS (SELECT x.src AS a, y.dst AS c, count(*) AS n
           FROM Knows x JOIN Knows y ON y.src = x.dst GROUP BY ALL)
           SELECT sum(l.n * r.n)::BIGINT FROM two l JOIN two r ON r.a = l.c AND r.c = l.a""",
    ),
    Question(
        "strangers",
        "friends of friends who are no friends",
        """query q() { match { $a: Person  $a knows $b  $b knows $c  not { $a knows $c } }
           return { count($a) as n } }""",
        """MATCH (a:Person)-[:Knows]->(b:Person)-[:Knows]->(c:Person)
           WHERE NOT EXISTS { MATCH (a)-[:Knows]->(c) } RETURN count(*)""",
        """SELECT count(*) FROM Knows x JOIN Knows y ON y.src = x.dst
           ANTI JOIN Knows z ON z.src = x.src AND z.dst = y.dst""",
    ),
    reach("reach_64", "within 3 hops of 64 persons", FEW),
    reach("reach_1024", "within 3 hops of 1,024 persons", MANY),
    Question(
        "reach_all",
        "within 2 hops of everybody",
        "query q() { match { $a: Person  $a knows{1,2} $b } return { count($b) as n } }",
        """MATCH (a:Person)-[:Knows* SHORTEST 1..2]->(b:Person)
           WHERE a.number <> b.number RETURN count(*)""",
        """SELECT count(*) FROM (SELECT src, dst FROM Knows UNION
           SELECT x.src, y.dst FROM Knows x JOIN Knows y ON y.src = x.dst) WHERE src <> dst""",
    ),
)


def ask_circles(count: int, in_json: bool) -> None:
    """Random patterns, ours beside DuckDB; the worst are shown."""
    nodes, edges = skewed()
    questions, expected = circles(nodes, edges, count)
    with tempfile.TemporaryDirectory() as name:
        write_dataset(Path(name), nodes, edges)
        engines = ["omnigraph", "duckdb"]
        contest = Contest(Path(name), questions, expected, engines, budget=0.5, samples=7)
        scores = contest.run(cold=False)
    if in_json:
        print(as_json(scores))
        return
    ours, duckdb = scores["omnigraph"], scores["duckdb"]
    ratios = {one.name: ours.warm[one.name] / duckdb.warm[one.name] for one in questions}
    worst = sorted(questions, key=lambda one: -ratios[one.name])
    table(f"the worst of {count} patterns, warm medians, ms", scores, worst[:10], "warm")
    slower = [one for one in questions if ratios[one.name] > 1]
    print(
        f"\nslower than DuckDB: {len(slower)} of {count}; the worst by {max(ratios.values()):.2f}"
    )
    print(f"median ratio {statistics.median(ratios.values()):.3f}; faults {ours.faults or 'none'}")
    print("\n".join(one.ours for one in worst[:3]))
    print("pass" if max(ratios.values()) <= SLOWEST and not ours.faults else "FAIL")


def main() -> None:
    """Make the graph, ask everybody, print the table."""
    parser = argparse.ArgumentParser(prog="./dev bench patterns")
    parser.add_argument("--small", action="store_true", help="a twentieth of the size")
    parser.add_argument("--json", action="store_true", help="everything measured as JSON")
    parser.add_argument("--engines", default=",".join(ENGINES), help="names, with commas")
    parser.add_argument("--circles", type=int, default=0, help="random patterns to ask instead")
    chosen = parser.parse_args()
    if chosen.circles:
        ask_circles(chosen.circles, chosen.json)
        return
    age, pairs = graph(50_000 if chosen.small else 1_000_000)
    nodes = {"Person": pa.table({"number": np.arange(len(age)), "age": pa.array(age, pa.int32())})}
    edges = {"Knows": ("Person", "Person", pa.table({"src": pairs[0], "dst": pairs[1]}))}
    with tempfile.TemporaryDirectory() as name:
        write_dataset(Path(name), nodes, edges)
        expected = answers(age, pairs)
        contest = Contest(Path(name), QUESTIONS, expected, chosen.engines.split(","))
        scores = contest.run(cold=False)
    if chosen.json:
        print(as_json(scores))
        return
    print(f"\n{len(age):,} persons, {pairs.shape[1]:,} edges; ratio = omnigraph / fastest peer")
    table("warm medians, ms", scores, QUESTIONS, "warm")
    table("warm, the fastest run, ms", scores, QUESTIONS, "best")
    totals(scores)
    print()
    for question in QUESTIONS:
        found = expected[question.name][0][0]
        print(f"{verdict(scores, question)}; {found:,} found")


if __name__ == "__main__":
    main()
