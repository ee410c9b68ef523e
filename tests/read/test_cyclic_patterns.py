"""Random patterns with cycles, on graphs where a few nodes have most of the edges, judged by SQL.

Three to six variables stand in a circle, often with chords across it; edges go either way or both, and
tests, comparisons of variables and negated blocks come on top. What is wrong with the order of the steps, an
intersection or a check shows here, because the answer is the same in whatever order DuckDB joins.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

import omnigraph
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import NOW_PARAM, ReadPlan
from omnigraph.lang.schema import compile_schema
from omnigraph.read.execute import run_read
from omnigraph.read.match.pattern import Pattern, pattern_of
from omnigraph.read.thresholds import MatchThresholds, Thresholds
from omnigraph.read.view.view import Reader
from tests.opened import workspace_of
from tests.oracle.graph import Graph
from tests.read.sql_helpers import compared, database, sql_of
from tests.stored import fill

SCHEMA = """
    node Person { name: String @key  age: I32? }
    node Tag { name: String @key  level: I32? }
    edge Knows: Person -> Person { since: I32? }
    edge Follows: Person -> Person
    edge Likes: Person -> Tag
    node City { name: String @key  size: I32? }
    node Country { name: String @key  size: I32? }
    edge LivesIn: Person -> City
    edge PartOf: City -> Country
"""
CATALOG = compile_schema(SCHEMA).catalog
MOST_ROWS = 20_000


def skewed_graph(rng: random.Random, persons: int, edges: int) -> Graph:
    """Ends are drawn from the front far more often than from the back; loops and parallel edges are left in."""
    graph = Graph({name: {} for name in CATALOG.nodes}, {name: [] for name in CATALOG.edges})
    names = {"Person": persons, "Tag": max(3, persons // 8)}
    for kind, count in names.items():
        number = "age" if kind == "Person" else "level"
        for at in range(count):
            value = None if rng.random() < 0.1 else rng.randint(0, 9)
            name = f"{kind[0].lower()}{at:03d}"
            graph.nodes[kind][name] = {"name": name, number: value}
    for word, right in (("Knows", "Person"), ("Follows", "Person"), ("Likes", "Tag")):
        sources, targets = list(graph.nodes["Person"]), list(graph.nodes[right])
        rng.shuffle(sources)
        for at in range(edges):
            src = sources[int(len(sources) * rng.random() ** 2.5)]
            dst = targets[int(len(targets) * rng.random() ** 1.5)]
            values = {"since": rng.randint(0, 9)} if word == "Knows" else {}
            graph.edges[word].append((f"{word}{at:04d}", src, dst, values))
    # One city at most for each person, and one country at most for each city.
    for word, left, right, count in (
        ("LivesIn", "Person", "City", 12),
        ("PartOf", "City", "Country", 4),
    ):
        for at in range(count):
            name = f"{right.lower()}{at:02d}"
            graph.nodes[right][name] = {"name": name, "size": rng.randint(0, 9)}
        targets = list(graph.nodes[right])
        for at, src in enumerate(graph.nodes[left]):
            if rng.random() < 0.9:
                dst = targets[int(len(targets) * rng.random() ** 2)]
                graph.edges[word].append((f"{word}{at:04d}", src, dst, {}))
    return graph


class Circle:
    """One random pattern of so many variables."""

    def __init__(self, rng: random.Random, variables: int) -> None:
        self.rng = rng
        self.names = [f"v{at}" for at in range(variables)]
        # Tags stand between persons, never beside each other.
        self.tags = {name for name in self.names[1:-1:2] if rng.random() < 0.2}
        self.edges: list[str] = []
        persons = [name for name in self.names if name not in self.tags]
        pairs = [(name, self.names[(at + 1) % variables]) for at, name in enumerate(self.names)]
        pairs += [tuple(rng.sample(persons, 2)) for _ in range(rng.choice([0, 0, 1, 2, 3]))]
        traversals = [self.traversal(*pair) for pair in pairs]
        homes = self.homes(persons) if rng.random() < 0.4 else []
        traversals += [one for one in homes if ":" not in one]
        tests = [self.test(persons) for _ in range(rng.choice([0, 1, 1, 2]))]
        tests += [self.negation(persons) for _ in range(rng.choice([0, 0, 1, 2]))]
        rng.shuffle(traversals)
        rng.shuffle(tests)
        bound = [f"${one}: {self.type_of(one)}" for one in self.names]
        bound += [one for one in homes if ":" in one]
        self.clauses = [*bound, *traversals, *tests]

    def homes(self, persons: list[str]) -> list[str]:
        """Some of the persons live in one city, or in cities of one country."""
        chosen = self.rng.sample(persons, self.rng.randint(2, len(persons)))
        if self.rng.random() < 0.3:
            return ["$k: City", *(f"${one} livesIn $k" for one in chosen)]
        made = ["$k: Country"]
        for one in chosen:
            made += [f"$c{one}: City", f"${one} livesIn $c{one}", f"$c{one} partOf $k"]
        if self.rng.random() < 0.3:
            made += [f"$l{chosen[0]}: City {{ size: {self.rng.randint(0, 9)} }}"]
            made += [f"$l{chosen[0]} partOf $k"]
        return made

    def type_of(self, name: str) -> str:
        return "Tag" if name in self.tags else "Person"

    def traversal(self, one: str, two: str) -> str:
        if one in self.tags or two in self.tags:
            person, tag = (two, one) if one in self.tags else (one, two)
            return f"${person} likes ${tag}"
        one, two = self.rng.sample([one, two], 2)
        word = self.rng.choice(["knows", "knows", "follows", "<knows>", "<follows>"])
        if word == "knows" and self.rng.random() < 0.2:
            edge = f"e{len(self.edges)}"
            self.edges.append(edge)
            word = f"${edge}:knows"
        return f"${one} {word} ${two}"

    def test(self, persons: list[str]) -> str:
        one, two = self.rng.sample(persons, 2)
        op, number = self.rng.choice(["<", ">=", "!="]), self.rng.randint(1, 8)
        choices = [
            f"${one}.age {op} {number}",
            f"${one}.age {op} ${two}.age",
            f"${one}.age = ${two}.age",
            f"${one}.name {self.rng.choice(['<', '!='])} ${two}.name",
            *(f"${edge}.since {op} {number}" for edge in self.edges),
            *(f"${edge}.since {op} ${one}.age" for edge in self.edges),
            *(f"${tag}.level {op} {number}" for tag in sorted(self.tags)),
        ]
        return self.rng.choice(choices)

    def negation(self, persons: list[str]) -> str:
        one, two = self.rng.sample(persons, 2)
        word = self.rng.choice(["knows", "follows", "<knows>"])
        choices = [
            f"${one} {word} ${two}",
            f"${one} {word} $x  $x follows ${two}",
            f"$x: Tag  ${one} likes $x  ${two} likes $x",
            f"${one} {word} $x  $x.age > ${two}.age",
            f"$x: Person  $x {word} ${one}  $x.age < 3",
        ]
        return f"not {{ {self.rng.choice(choices)} }}"

    def plans(self) -> tuple[str, ReadPlan, ReadPlan, ReadPlan]:
        """Its text; counted as one number, counted by groups, and listed."""
        shown = self.rng.sample(self.names, self.rng.randint(1, 3))
        items = ", ".join(f"${name}" for name in shown)
        body = "  ".join(self.clauses)
        made = []
        for output in (f"count(${shown[0]}) as n", f"{items}, count(${shown[0]}) as n", items):
            text = f"query q() {{ match {{ {body} }} return {{ {output} }} }}"
            plan = compile_query(CATALOG, text)
            assert isinstance(plan, ReadPlan)
            made.append(plan)
        return text, *made


def sql_with_anti_joins(pattern: Pattern, shown: list[str]) -> str:
    """The groups of a match. Edges are joined before anything is compared, negated blocks come last.

    As one block with subqueries, DuckDB would pair all nodes with all others first.
    """
    every = {**pattern.nodes, **pattern.edges}
    ids = ", ".join(f'"{name}".id AS "{name}"' for name in every)
    found = sql_of(replace(pattern, negations=(), tests={}, joins=()), ids)
    tests = [one for tests in pattern.tests.values() for one in tests]
    conditions = [f"coalesce({compared(one)}, false)" for one in [*tests, *pattern.joins]]
    tables = "".join(
        f' JOIN "{kind}" AS "{name}" ON "{name}".id = found."{name}"'
        for name, kind in every.items()
    )
    rows = f"SELECT found.* FROM found{tables} WHERE {' AND '.join(conditions) or 'true'}"
    joins = ""
    for at, negation in enumerate(pattern.negations):
        outer = ", ".join(f'"{name}".id AS "{name}"' for name in sorted(negation.outer))
        inner = negation.pattern
        unused = inner.given - negation.outer
        nodes = {name: kind for name, kind in inner.nodes.items() if name not in unused}
        alone = replace(inner, nodes=nodes, given=frozenset())
        block = sql_of(alone, f"DISTINCT {outer}")
        names = ", ".join(f'"{name}"' for name in sorted(negation.outer))
        joins += f" ANTI JOIN ({block}) AS n{at} USING ({names})"
    items = ", ".join(f'"{name}"' for name in shown)
    return (
        f"WITH found AS MATERIALIZED ({found}), matched AS MATERIALIZED ({rows})"
        f" SELECT {items}, count(*) FROM matched{joins} GROUP BY ALL"
    )


@pytest.mark.parametrize(
    ("variables", "persons", "edges"), [((3, 4), 200, 500), ((4, 5), 60, 120), ((6,), 50, 80)]
)
def test_answers_are_those_of_sql(tmp_path, variables, persons, edges):
    rng = random.Random(f"{variables} {persons}")
    plain = skewed_graph(rng, persons, edges)
    connection = database(CATALOG, plain)
    small = Thresholds(match=MatchThresholds(batch_rows=50, few_rows=0, many_nodes=1))
    answered = 0
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        fill(graph, plain)
        views = [
            Reader(workspace_of(graph), *given).view(graph.snapshot(), CATALOG)
            for given in ((), (small,))
        ]
        for number in range(30):
            text, counted, grouped, listed = Circle(rng, rng.choice(variables)).plans()
            shown = [column.name for column in listed.columns]
            sql = sql_with_anti_joins(pattern_of(grouped.steps), shown)
            groups = connection.execute(sql).fetchall()
            expected = {row[:-1]: row[-1] for row in groups}
            rows = sum(expected.values())
            answered += bool(rows)
            view = views[number % 2]
            assert answer(view, counted) == [(rows,)], text
            assert {row[:-1]: row[-1] for row in answer(view, grouped)} == expected, text
            if rows <= MOST_ROWS:
                assert Counter(answer(view, listed)) == Counter(expected), text
    assert answered > 10


def answer(view, plan):
    return [tuple(row.values()) for row in run_read(view, plan, {NOW_PARAM: 0}).to_pylist()]
