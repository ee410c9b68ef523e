"""The made-up network of the demo, and the questions that it is asked."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

from omnigraph.runner.session import spark_problem, spark_session

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
# For a Java that lives for seconds: its thorough compiler would take longer than what it speeds up.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
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
query way($from: String, $to: String) {
  match { $a: Person { handle: $from }  $b: Person { handle: $to }  optional { $a $p:<knows>{1,} $b } }
  return { length($p) as steps, nodes($p.name) as people }
}
query silent() {
  match { $p: Person  optional { $p wrote $a } }
  return {
    $p.level as level, count(distinct $p) as people, count($a) as articles,
    round(count($a) / count(distinct $p), 2) as each
  }
  order { level }
}
query joined() {
  match { $p: Person  $p.level = "admin" or $p.age >= 65 and not exists { $p wrote $_ } }
  return { part($p.joined, "year") as year, count(*) as people, min($p.name) as first }
  having { people > 1 }
  order { year desc }
  limit 3
}
"""
QUESTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("Which companies write the most?", "busiest", {}),
    ("Where do most colleagues know each other?", "insiders", {}),
    ("Whom does p7 reach in up to three steps, by level?", "reach", {"handle": "p7"}),
    ("Which articles are about clusters of sparks?", "about", {"words": "spark cluster"}),
    ("What is the shortest way from p7 to p99?", "way", {"from": "p7", "to": "p99"}),
    ("How much does each level write, those who write nothing included?", "silent", {}),
    ("In which years did admins join, and elders who never wrote?", "joined", {}),
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


def chosen(engine: Any) -> tuple[Any, list[str]]:
    """Spark, with its session started, or this process and the reason."""
    if engine != "spark":
        return engine, []
    problem = spark_problem()
    if problem is None:
        spark_session(conf={"spark.driver.extraJavaOptions": SHORT_LIVED})
        return engine, []
    return "local", [f"without Spark, on the local engine: {problem}"]


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
