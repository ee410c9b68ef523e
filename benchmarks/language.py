"""How fast the two languages go from text to catalog and from text to plan."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import omnigraph as og
from omnigraph.lang.query.check.check import check
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.lang.source import Source

SCHEMA_LINES = 500
SCHEMA_BAR = 0.2
QUERY_BAR = 0.005

QUERY = """
query colleagues($key: String, $since: Date, $limit_score: F64?) {
  match {
    $me: Type0 { key: $key, state: "active" }
    $me edge0{1,3} $friend
    $friend edge1 $place
    $friend.score >= 0.5
    $friend.created > $since
    not { $friend edge0 $me }
  }
  return { $place.title as place, count($friend) as friends, avg($friend.score) as score }
  order { friends desc, place }
  limit 20
}
"""


def generated_schema(lines: int) -> str:
    """Node and edge types with every kind of constraint, about `lines` lines of them."""
    text = ["interface Named {", "  title: String @index", "}"]
    number = 0
    while len(text) < lines:
        text += [
            f"node Type{number} implements Named {{",
            "  key: String @key",
            "  score: F64?",
            "  created: Date @index",
            "  state: enum(active, dormant, closed)",
            "  tags: [String]?",
            "  vector: Vector(64)? @embed(title) @index",
            "  @range(score, 0.0..1.0)",
            '  @check(key, "^[a-z0-9-]+$")',
            "}",
            f"edge Edge{number}: Type{number} -> Type{max(0, number - 1)} @card(0..) {{",
            "  since: Date?",
            "  @unique(src, dst)",
            "}",
        ]
        number += 1
    return "\n".join(text)


def measure(work: Callable[[], object], repeats: int) -> float:
    """The median time of one run, in seconds, after one run to warm up."""
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def report(what: str, seconds: float, bar: float) -> None:
    """One line: the time, the bar, and their ratio."""
    print(f"{what:<44}{seconds * 1000:9.2f} ms   bar {bar * 1000:6.0f} ms   {seconds / bar:5.2f}x")


def main() -> None:
    """Measure both languages."""
    schema = generated_schema(SCHEMA_LINES)
    lines = schema.count("\n") + 1
    report(
        f"schema of {lines} lines: text to catalog",
        measure(lambda: og.parse_schema(schema).catalog, repeats=15),
        SCHEMA_BAR,
    )
    catalog = og.parse_schema(schema).catalog
    source = Source(QUERY)

    def plan() -> None:
        (query,) = parse(QUERY).queries
        check(query, catalog, source)

    report("query: text to plan", measure(plan, repeats=200), QUERY_BAR)
    report("  of which: text to tree", measure(lambda: parse(QUERY), repeats=200), QUERY_BAR)


if __name__ == "__main__":
    main()
