"""A made-up network in bulk: loaded on Spark into a branch, asked a few questions, and merged."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.runner.session import spark_problem

SOCIAL = Path(__file__).parent / "social"
FIRST = [
    "Ada",
    "Bertha",
    "Carl",
    "Dora",
    "Emil",
    "Frida",
    "Gustav",
    "Hedy",
    "Ivo",
    "Johanna",
    "Konrad",
    "Lise",
    "Max",
    "Nora",
    "Otto",
]
LAST = [
    "Adler",
    "Brandt",
    "Curie",
    "Diesel",
    "Euler",
    "Fischer",
    "Gauss",
    "Hertz",
    "Jordan",
    "Kepler",
    "Lamarr",
    "Meitner",
]
TOPICS = [
    "graphs",
    "branches",
    "merges",
    "tables",
    "columns",
    "indexes",
    "queries",
    "vectors",
    "sparks",
    "clusters",
]
QUERIES = """
query busiest() {
  match { $a: Person  $a worksAt $c  $a wrote $article }
  return { $c.name as company, count($article) as articles }
  order { articles desc, company }
  limit 5
}
query insiders() {
  match { $a: Person  $a knows $b  $a worksAt $c  $b worksAt $c }
  return { $c.name as company, count($b) as acquaintances }
  order { acquaintances desc, company }
  limit 5
}
query reach($handle: String) {
  match { $me: Person { handle: $handle }  $me knows{1,3} $far }
  return { $far.level as level, count($far) as people }
  order { people desc }
}
query about($words: String) {
  match { $p: Person  $p wrote $a  search($a.title, $words) }
  return { $a.title as title, $p.name as author }
  order { bm25($a.title, $words) }
  limit 5
}
"""
QUESTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("Which companies write the most?", "busiest", {}),
    ("Where do most colleagues know each other?", "insiders", {}),
    ("Whom does p7 reach in up to three steps, by level?", "reach", {"handle": "p7"}),
    ("Which articles are about clusters of sparks?", "about", {"words": "spark cluster"}),
]


def network(total: int) -> Iterator[dict[str, Any]]:
    """About that many records: a fifth people, half of all acquaintances."""
    rng = random.Random(1815)
    people, companies, articles = total // 5, max(2, total // 600), total // 15
    for number in range(companies):
        yield node("Company", slug=f"c{number}", name=f"{rng.choice(LAST)} & Co {number}")
    for number in range(people):
        yield node(
            "Person",
            handle=f"p{number}",
            name=f"{rng.choice(FIRST)} {rng.choice(LAST)}",
            age=rng.randrange(18, 90),
            joined=f"20{rng.randrange(10, 26)}-0{rng.randrange(1, 10)}-15",
            level=rng.choice(["guest", "member", "member", "admin"]),
        )
        # The first companies are the large ones.
        company = int(companies * rng.random() ** 3)
        yield edge("WorksAt", f"p{number}", f"c{company}", role="engineer")
    for number in range(articles):
        title = f"On {rng.choice(TOPICS)} and {rng.choice(TOPICS)}, part {number}"
        yield node("Article", slug=f"a{number}", title=title, published="2025-11-03T08:00:00Z")
        yield edge("Wrote", f"p{rng.randrange(people)}", f"a{number}")
    pairs = {
        (rng.randrange(people), int(people * rng.random() ** 2)) for _ in range(total * 7 // 15)
    }
    for one, other in sorted(pairs):
        yield edge("Knows", f"p{one}", f"p{other}", since="2020-02-29")


def node(kind: str, **data: Any) -> dict[str, Any]:
    """A record of a node."""
    return {"type": kind, "data": data}


def edge(kind: str, source: str, target: str, **data: Any) -> dict[str, Any]:
    """A record of an edge."""
    return {"edge": kind, "from": source, "to": target, "data": data}


def in_bulk(total: int, engine: Any) -> Iterator[str]:
    """Load a network into a branch as one commit, question it there, and merge it."""
    with (
        tempfile.TemporaryDirectory() as place,
        og.init(f"{place}/graph", SOCIAL / "schema.pg") as g,
    ):
        clock = Clock()
        source = Path(place, "network.jsonl")
        with source.open("w", encoding="utf-8") as file:
            count = sum(bool(file.write(json.dumps(record) + "\n")) for record in network(total))
        size = source.stat().st_size / 1e6
        yield clock.told(f"made up {count:,} records, {size:.0f} MB of JSON lines")
        engine, note = chosen(engine)
        yield from note
        loaded = g.load(source, mode="append", branch="import", from_branch="main", engine=engine)
        stages = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in loaded.timings.items())
        yield clock.told(
            f"loaded {loaded.total_rows:,} rows into the new branch `import`, one commit, "
            f"{loaded.engine} engine ({stages})"
        )
        yield f"built on the way: {len(loaded.indexes_built)} indexes"
        yield from refused(g)
        clock = Clock()
        for question, name, given in QUESTIONS:
            answer = g.query(QUERIES, name, given, branch="import")
            yield clock.told(f"\n{question}")
            yield str(answer)
        before = sum(pin.row_count for pin in g.snapshot().tables.values())
        merged = g.branches.merge("import")
        after = sum(pin.row_count for pin in g.snapshot().tables.values())
        yield clock.told(
            f"\nmerged `import` into main in one commit ({merged.outcome}): {before} rows before, "
            f"{after:,} after"
        )


def chosen(engine: Any) -> tuple[Any, list[str]]:
    """Spark, or this process and the reason."""
    problem = spark_problem() if engine == "spark" else None
    if problem is None:
        return engine, []
    return "local", [f"without Spark, on the local engine: {problem}"]


def refused(graph: og.Graph) -> Iterator[str]:
    """A load that breaks a rule: every rule is checked against what is there, nothing is changed."""
    stray = [edge("Knows", "p1", "p2"), edge("WorksAt", "p1", "c1"), edge("Knows", "p1", "nobody")]
    try:
        graph.load(stray, branch="import")
    except og.errors.OmniGraphError as error:
        yield f"refused, nothing changed: {error}"


class Clock:
    """Seconds since it was last asked."""

    def __init__(self) -> None:
        self.start = time.perf_counter()

    def told(self, text: str) -> str:
        """The text with how long it took."""
        now = time.perf_counter()
        taken, self.start = now - self.start, now
        shown = f"{taken:.1f} s" if taken >= 1 else f"{taken * 1000:.0f} ms"
        return f"{text} [{shown}]"
