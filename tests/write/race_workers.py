"""What the racing processes run. Each reports what it was told, so that the test can check it."""

from __future__ import annotations

import random
from typing import Any

from omnigraph.errors import ConstraintError, Contention, ExpectedVersionMismatch, OmniGraphError
from omnigraph.graph import open as open_graph
from tests.opened import workspace_of

LOST = (ExpectedVersionMismatch, Contention)
INSERT_EDGE = "query q($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
DELETE_NODE = "query q($a: String) { delete Person where name = $a }"
INSERT_ONE = 'query q() { insert Person { name: "one" } }'
INSERT_NODE = "query q($a: String, $w: I64) { insert Person { name: $a, age: $w } }"


def link(uri: str, ids: list[str], times: int, seed: int) -> list[tuple[str, str]]:
    """Insert edges between random nodes; the ends of those that were acknowledged."""
    rnd, made = random.Random(seed), []
    with open_graph(uri) as graph:
        for _ in range(times):
            a, b = rnd.choice(ids), rnd.choice(ids)
            try:
                graph.mutate(INSERT_EDGE, params={"a": a, "b": b}, retries=rnd.choice([0, 5]))
            except LOST:
                continue
            except ConstraintError as refused:
                assert refused.details["violation"] == "endpoint"
                continue
            made.append((a, b))
    return made


def unlink(uri: str, ids: list[str], seed: int) -> list[str]:
    """Delete the nodes one by one; those whose delete was acknowledged and met them."""
    rnd, gone = random.Random(seed), []
    rnd.shuffle(ids)
    with open_graph(uri) as graph:
        for name in ids:
            try:
                result = graph.mutate(DELETE_NODE, params={"a": name})
            except LOST:
                continue
            if result.affected_nodes:
                gone.append(name)
    return gone


def upsert(uri: str, name: str, times: int, worker: int) -> list[tuple[str, int]]:
    """Put one node again and again; the commit of each write that was acknowledged."""
    told = []
    with open_graph(uri) as graph:
        for at in range(times):
            value = worker * 1000 + at
            try:
                result = graph.mutate(INSERT_NODE, params={"a": name, "w": value}, retries=3)
            except LOST:
                continue
            told.append((result.commit.graph_commit_id, value))
    return told


def insert_own(uri: str, worker: int, times: int, retries: int) -> list[str]:
    """Insert nodes nobody else inserts; all must succeed within their retries."""
    names = [f"w{worker}-{at}" for at in range(times)]
    with open_graph(uri) as graph:
        for name in names:
            graph.mutate(INSERT_NODE, params={"a": name, "w": worker}, retries=retries)
    return names


def count_up(uri: str, times: int) -> int:
    """Read the age of one node, write it one higher under a condition; how often it went through."""
    done = 0
    with open_graph(uri) as graph:
        for _ in range(times):
            seen = graph.snapshot()
            age = _age(graph, seen)
            try:
                graph.mutate(
                    'query q($n: I64) { update Person set { age: $n } where name = "counter" }',
                    params={"n": age + 1},
                    if_commit=seen.graph_commit_id,
                )
            except OmniGraphError as lost:
                assert lost.code in {"precondition_failed", "contention"}, lost
                continue
            done += 1
    return done


def _age(graph: Any, seen: Any) -> int:
    from omnigraph.storage.tables.table import open_table

    rows = open_table(workspace_of(graph).pinned(seen.tables["node:Person"])).read(["name", "age"])
    return next(row["age"] for row in rows.to_pylist() if row["name"] == "counter")


def insert_once(uri: str, ids: list[str]) -> list[tuple[str, bool]]:
    """Insert a node of a new id under each operation id; its commit, and whether it was there."""
    return _send(uri, ids, lambda graph, chosen: graph.mutate(INSERT_ONE, operation_id=chosen))


def load_once(uri: str, ids: list[str]) -> list[tuple[str, bool]]:
    """Load a node of a new id under each operation id; its commit, and whether it was there."""
    one = [{"type": "Person", "data": {"name": "one"}}]
    return _send(uri, ids, lambda graph, chosen: graph.load(one, operation_id=chosen))


def _send(uri: str, ids: list[str], write: Any) -> list[tuple[str, bool]]:
    with open_graph(uri) as graph:
        answers = [write(graph, chosen) for chosen in ids]
    return [(answer.commit.graph_commit_id, answer.replayed) for answer in answers]


def succeed(
    uri: str, subjects: list[str], cities: list[str], times: int, worker: int
) -> list[list[str]]:
    """Assert a successor for many subjects at once; the sources of each write that was acknowledged."""
    text = (
        "query q($all: [{ who: String, city: String, source: String }]) { for $r in $all "
        "assert LivesIn { from: $r.who, to: $r.city, source: $r.source } }"
    )
    rnd, told = random.Random(worker), []
    with open_graph(uri) as graph:
        for at in range(times):
            given = [
                {"who": who, "city": rnd.choice(cities), "source": f"{worker}-{at}-{who}"}
                for who in rnd.sample(subjects, 12)
            ]
            try:
                graph.mutate(text, params={"all": given}, retries=20)
            except LOST:
                continue
            told.append([one["source"] for one in given])
    return told
