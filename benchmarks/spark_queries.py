"""Queries on Spark, beside the best DataFrame jobs written by hand for the same answers on the same tables.

    ./dev bench spark-queries [--small] [--edges N] [--repeat N]

1,000,000 people and 10,000,000 edges (`--small`: a twentieth); the ends are drawn by weights that fall like a power of the
rank. Three questions: the number of two-hop pairs by city, a filter with groups, and people whom nobody
of their age knows. The jobs by hand read the same Lance tables through the data source, with only the columns they use,
in the same session. Seconds are the best of the repetitions, which take turns, on the clock and of the processor (this
process, Java and the Python workers: on a busy machine that says more); bytes shuffled are those that tasks wrote.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import omnigraph as og
from benchmarks.bulk.costs import RETAINED, costs
from omnigraph.runner.session import spark_session, stop_session

SCHEMA = """
node Person { name: String @key  city: String  age: I32? }
edge Knows: Person -> Person { since: I32? }
"""
BAR = 1.5


class Question(NamedTuple):
    """A query, and the job by hand that gives the same rows."""

    name: str
    text: str
    by_hand: Callable[[Any, str], Any]


def read(session: Any, uri: str, type_name: str, columns: str, where: str | None = None) -> Any:
    """A table through the data source."""
    reader = session.read.format("omnigraph").option("graph", uri).option("type", type_name)
    reader = reader.option("columns", columns)
    return (reader if where is None else reader.option("filter", where)).load()


def two_hops(session: Any, uri: str) -> Any:
    """The pairs of two hops by city: degrees instead of pairs."""
    from pyspark.sql import functions as F  # noqa: N812

    pairs = read(session, uri, "Knows", "from,to").distinct()
    onward = pairs.groupBy("from").agg(F.count("*").alias("n"))
    onward = onward.withColumnRenamed("from", "mid")
    first = pairs.join(onward, F.col("to") == F.col("mid"))
    first = first.groupBy("from").agg(F.sum("n").alias("n"))
    people = read(session, uri, "Person", "id,city")
    joined = people.join(first, people.id == first["from"])
    return joined.groupBy("city").agg(F.sum("n").alias("n")).orderBy(F.desc("n"), "city")


def filtered_groups(session: Any, uri: str) -> Any:
    """The number of people between two ages, and their mean age, by city."""
    from pyspark.sql import functions as F  # noqa: N812

    people = read(session, uri, "Person", "city,age", "age >= 30 age < 50")
    found = people.groupBy("city").agg(F.count("*").alias("n"), F.avg("age").alias("mean"))
    return found.orderBy(F.desc("n"), "city")


def nobody_knows(session: Any, uri: str) -> Any:
    """The number of people with no edge to them since a year, by city."""
    from pyspark.sql import functions as F  # noqa: N812

    known = read(session, uri, "Knows", "to", "since > 15").select("to")
    people = read(session, uri, "Person", "id,city")
    left = people.join(known, F.col("id") == F.col("to"), "left_anti")
    return left.groupBy("city").agg(F.count("*").alias("n")).orderBy("city")


QUESTIONS = (
    Question(
        "two-hop count by city",
        "match { $a: Person  $a knows $b  $b knows $c } return { $a.city as city, count(*) as n }"
        " order { n desc }",
        two_hops,
    ),
    Question(
        "filter and group",
        "match { $a: Person  $a.age >= 30  $a.age < 50 }"
        " return { $a.city as city, count(*) as n, avg($a.age) as mean } order { n desc }",
        filtered_groups,
    ),
    Question(
        "anti join",
        "match { $a: Person  not { $b knows[since > 15] $a } }"
        " return { $a.city as city, count(*) as n } order { city }",
        nobody_knows,
    ),
)


def make(graph: og.Graph, people: int, edges: int) -> None:
    """Fill the graph."""
    rng = np.random.default_rng(7)
    names = pa.array([f"p{at:08d}" for at in range(people)])
    cities = pa.array([f"city {at:03d}" for at in range(200)])
    graph.load_nodes(
        "Person",
        pa.table(
            {
                "name": names,
                "city": cities.take(pa.array(rng.integers(0, 200, people))),
                "age": pa.array(rng.integers(0, 100, people), pa.int32()),
            }
        ),
        mode="append",
    )
    skew = (people * rng.random(edges) ** 3).astype(np.int64)
    ends = rng.integers(0, people, edges)
    graph.load_edges(
        "Knows",
        pa.table(
            {
                "from": names.take(pa.array(ends)),
                "to": names.take(pa.array(skew)),
                "since": pa.array(rng.integers(0, 20, edges), pa.int32()),
            }
        ),
        mode="append",
    )


def ask(graph: og.Graph, session: Any, question: Question, repeat: int) -> None:
    """Ask both ways in turns, check that the answers are the same, and print the ratios."""

    def ours() -> Any:
        return [tuple(row.values()) for row in graph.query(question.text, engine="spark").rows]

    def theirs() -> Any:
        return [tuple(row) for row in question.by_hand(session, graph.uri).collect()]

    runs: dict[str, list[dict[str, Any]]] = {"ours": [], "by hand": []}
    answers: dict[str, Any] = {}
    for _ in range(repeat):
        for name, call in (("ours", ours), ("by hand", theirs)):
            with costs(session) as found:
                answers[name] = call()
            found["cpu"] = found["driver cpu"] + found["JVM cpu"] + found["Python cpu"]
            runs[name].append(found)
    same = [row[:2] for row in answers["ours"]] == [row[:2] for row in answers["by hand"]]
    assert same, "both jobs have the same rows"
    least = {
        name: {what: min(one[what] for one in every) for what in ("seconds", "cpu")}
        for name, every in runs.items()
    }
    for name, every in runs.items():
        last = every[-1]
        print(
            f"{question.name:24} | {name:7} | {least[name]['seconds']:7.2f} s"
            f" | {least[name]['cpu']:7.2f} s of processor time | {last['stages']} stages"
            f" | {last['shuffle write'] / 1e6:8.1f} MB shuffled",
            flush=True,
        )
    for what in ("seconds", "cpu"):
        ratio = least["ours"][what] / least["by hand"][what]
        verdict = "met" if ratio <= BAR else "MISSED"
        print(f"{question.name:24} | {what:7} | {ratio:5.2f} x | bar {BAR} x | {verdict}")


def main() -> None:
    """Make the graph and ask everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a twentieth of everything")
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    part = 20 if given.small else 1
    session = spark_session("local[*]", RETAINED)
    with (
        tempfile.TemporaryDirectory() as directory,
        og.init(Path(directory) / "g", SCHEMA) as graph,
    ):
        people, edges = given.edges // 10 // part, given.edges // part
        make(graph, people, edges)
        print(f"{people:,} people, {edges:,} edges", flush=True)
        for question in QUESTIONS:
            ask(graph, session, question, given.repeat)
    stop_session()


if __name__ == "__main__":
    main()
