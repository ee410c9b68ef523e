"""Readers beside a writer: every answer is that of the snapshot it names."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

import omnigraph
from tests.sampling import runs_all

SCHEMA = """
    node Person { name: String @key  age: I32?  bio: String? @index }
    edge Knows: Person -> Person { since: I32? }
"""
READS = [
    "query q() { match { $p: Person } return { count($p) as n, sum($p.age) as s } }",
    "query q() { match { $a knows $b } return { $b.name, count($a) as n } order { n desc } limit 5 }",
    "query q() { match { $a knows $b  $b knows $c } return { count($c) as n } }",
    'query q() { match { $a: Person { name: "p1" }  $a knows{1,3} $b } return { $b.name } order { $b.name } }',
    "query q() { match { $a knows $b  $b knows $c  $a knows $c } return { count($c) as n } }",
    "query q() { match { $a $e:knows $b  $e.since > 3 } return { $a, $b, $e.since } order { $e.since } }",
    'query q() { match { $p: Person  search($p.bio, "running") } return { $p.name } order { $p.name } }',
    "query q() { match { $p: Person  not { $p knows $_ } } return { $p } order { $p.age desc } limit 7 }",
]
ADD = """query add($name: String, $age: I32, $bio: String) {
    insert Person { name: $name, age: $age, bio: $bio }
}"""
JOIN = """query join($from: String, $to: String, $since: I32) {
    insert Knows { from: $from, to: $to, since: $since }
}"""
LEAVE = "query leave($name: String) { delete Person where name = $name }"


READERS, COMMITS = (8, 25) if runs_all() else (4, 15)


def write_some(
    graph: omnigraph.Graph,
    rng: random.Random,
    commits: int,
    between: Callable[[], None] = lambda: None,
) -> None:
    """Insert, update, join and delete persons, one commit each; do something after every third."""
    names = [f"p{at}" for at in range(12)]
    for at in range(commits):
        kind = rng.random()
        if kind < 0.5:
            bio = rng.choice(["he runs", "she ran", "running late", "sits"])
            graph.mutate(ADD, params={"name": rng.choice(names), "age": at, "bio": bio})
        elif kind < 0.9:
            try:
                ends = {"from": rng.choice(names), "to": rng.choice(names)}
                graph.mutate(JOIN, params={**ends, "since": at % 9})
            except omnigraph.errors.ConstraintError:
                pass  # One of the two is not there at the moment.
        else:
            graph.mutate(LEAVE, params={"name": rng.choice(names)})
        if at % 3 == 2:
            between()


@pytest.mark.parametrize("mode", ["auto", "csr", "indexed"])
def test_answers_are_those_of_their_snapshots(tmp_path, monkeypatch, mode):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    seen: list[tuple[str, str, list[Any]]] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def read(graph: omnigraph.Graph, seed: int) -> None:
        rng = random.Random(seed)
        try:
            while not done.is_set():
                text = rng.choice(READS)
                result = graph.query(text)
                seen.append((text, result.graph_commit_id, result.rows))
        except BaseException as error:  # noqa: BLE001 - judged by the test
            failures.append(error)

    def see() -> None:
        """Wait until somebody has read what is there now: all but one may have begun before."""
        wanted = len(seen) + READERS + 1
        while len(seen) < wanted and not failures:
            done.wait(0.001)

    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        write_some(graph, random.Random(1), 15)
        readers = [threading.Thread(target=read, args=(graph, seed)) for seed in range(READERS)]
        for reader in readers:
            reader.start()
        try:
            write_some(graph, random.Random(2), COMMITS, see)
        finally:
            done.set()
            for reader in readers:
                reader.join()
        assert not failures, failures[0]
        assert len({commit for _, commit, _ in seen}) > 3
        with omnigraph.open(tmp_path / "graph", mode="r") as fresh:
            checked: dict[tuple[str, str], list[Any]] = {}
            for text, commit, rows in seen:
                if (text, commit) not in checked:
                    checked[text, commit] = fresh.query(text, snapshot=commit).rows
                assert rows == checked[text, commit], (text, commit)
