"""Random patterns with circles on a graph where a few nodes have most of the edges, in our language and in SQL.

Three to six variables stand in a circle, often with chords across it. Edges are of two types and go either way;
tests, a city that some of them share, and missing edges come on top. DuckDB counts every pattern once before
anything is measured: that is the right answer, and what it cannot count in time is left out.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.contest.engines import Question, Row

PERSONS, CITIES, EDGES = 3_000, 40, 12_000
WORDS = {"knows": "Knows", "follows": "Follows"}
SECONDS = 3.0  # for DuckDB to count one pattern

Nodes = dict[str, pa.Table]
Edges = dict[str, tuple[str, str, pa.Table]]


def skewed(seed: int = 3) -> tuple[Nodes, Edges]:
    """Persons who know and follow each other without repeats and loops, and live in one city each."""
    rng = np.random.default_rng(seed)
    rank = rng.permutation(PERSONS)
    edges: Edges = {}
    for name, power in (("Knows", 1.6), ("Follows", 2.4)):
        ends = rank[(PERSONS * rng.random((2, EDGES * 2)) ** power).astype(np.int64)]
        keys = np.unique((ends[0] * PERSONS + ends[1])[ends[0] != ends[1]])
        keys = np.sort(rng.choice(keys, min(EDGES, len(keys)), replace=False))
        pairs = pa.table({"src": keys // PERSONS, "dst": keys % PERSONS})
        edges[name] = ("Person", "Person", pairs)
    city = (CITIES * rng.random(PERSONS) ** 2).astype(np.int64)
    edges["LivesIn"] = ("Person", "City", pa.table({"src": np.arange(PERSONS), "dst": city}))
    age = pa.array(rng.integers(18, 80, PERSONS), pa.int32())
    nodes = {
        "Person": pa.table({"number": np.arange(PERSONS), "age": age}),
        "City": pa.table({"number": np.arange(CITIES)}),
    }
    return nodes, edges


class Circle:
    """One random pattern of so many variables."""

    def __init__(self, rng: random.Random, variables: int) -> None:
        self.rng = rng
        self.names = [f"v{at}" for at in range(variables)]
        self.ours = [f"${name}: Person" for name in self.names]
        self.tables: list[str] = []
        self.conditions: list[str] = []
        self.columns: dict[str, list[str]] = {name: [] for name in self.names}
        self.missing: list[str] = []
        pairs = [(one, self.names[(at + 1) % variables]) for at, one in enumerate(self.names)]
        pairs += [self.two() for _ in range(rng.choice([0, 0, 1, 2]))]
        for one, two in pairs:
            ends = (one, two) if rng.random() < 0.5 else (two, one)
            self.edge(*ends, rng.choice(list(WORDS)))
        for _ in range(rng.choice([0, 1, 2])):
            self.test()
        if rng.random() < 0.3:
            self.home(rng.sample(self.names, rng.randint(2, variables)))
        if rng.random() < 0.3:
            self.lack(*self.two(), rng.choice(list(WORDS)))

    def two(self) -> tuple[str, str]:
        """Two different variables."""
        one, two = self.rng.sample(self.names, 2)
        return one, two

    def edge(self, one: str, two: str, word: str) -> None:
        """An edge from one to another."""
        alias = f"e{len(self.tables)}"
        self.ours.append(f"${one} {word} ${two}")
        self.tables.append(f"{WORDS[word]} {alias}")
        self.columns[one].append(f"{alias}.src")
        self.columns[two].append(f"{alias}.dst")

    def test(self) -> None:
        """A test of one variable, or of two."""
        one, two = self.two()
        op, years = self.rng.choice(["<", ">="]), self.rng.randint(25, 70)
        right = self.rng.choice([str(years), str(years), f"${two}.age"])
        self.ours.append(f"${one}.age {op} {right}")
        self.conditions.append(f"{one}.age {op} {right.removeprefix('$')}")
        for name in (one, two) if right.startswith("$") else (one,):
            if f"Person {name}" not in self.tables:
                self.tables.append(f"Person {name}")
                self.columns[name].append(f"{name}.number")

    def home(self, chosen: list[str]) -> None:
        """Some of them live in one city."""
        for name in chosen:
            self.ours.append(f"${name} livesIn $city")
            self.tables.append(f"LivesIn home_{name}")
            self.columns[name].append(f"home_{name}.src")
            if name != chosen[0]:
                self.conditions.append(f"home_{name}.dst = home_{chosen[0]}.dst")

    def lack(self, one: str, two: str, word: str) -> None:
        """An edge that is not there."""
        self.ours.append(f"not {{ ${one} {word} ${two} }}")
        self.missing.append(f" ANTI JOIN {WORDS[word]} n ON n.src = {one} AND n.dst = {two}")

    def question(self, name: str) -> Question:
        """The pattern, to be counted."""
        body = "  ".join(self.ours)
        ours = f"query q() {{ match {{ {body} }} return {{ count($v0) as n }} }}"
        equal = [f"{first} = {one}" for first, *more in self.columns.values() for one in more]
        found = f"FROM {', '.join(self.tables)} WHERE {' AND '.join([*equal, *self.conditions])}"
        sql = f"SELECT count(*) {found}"
        if self.missing:
            names = ", ".join(f"{columns[0]} AS {one}" for one, columns in self.columns.items())
            sql = f"SELECT count(*) FROM (SELECT {names} {found}){''.join(self.missing)}"  # noqa: S608
        return Question(name, f"{name}: {len(self.names)} variables", ours, "", sql)


def circles(
    nodes: Nodes, edges: Edges, count: int, seed: int = 7
) -> tuple[list[Question], Mapping[str, list[Row]]]:
    """So many patterns and what DuckDB counts."""
    rng = random.Random(seed)
    connection = duckdb.connect()
    for name, table in {**nodes, **{name: pairs for name, (_, _, pairs) in edges.items()}}.items():
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")  # noqa: S608
        connection.unregister("given")
    questions: list[Question] = []
    answers: dict[str, list[Row]] = {}
    while len(questions) < count:
        name = f"c{len(questions)}"
        question = Circle(rng, rng.randint(3, 6)).question(name)
        alarm = threading.Timer(SECONDS, connection.interrupt)
        alarm.start()
        try:
            found = connection.execute(question.sql).fetchall()
        except duckdb.InterruptException:
            continue
        finally:
            alarm.cancel()
        questions.append(question)
        answers[name] = [list(row) for row in found]
    return questions, answers
