"""A graph of small tables, and what upkeep left in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from omnigraph.commit.sidecar import list_sidecars
from omnigraph.graph import Graph
from omnigraph.manifest.rows import GraphCommit
from omnigraph.storage.tables.table import Table, open_table
from tests.opened import workspace_of

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
node Team { code: String @key }
edge MemberOf: Person -> Team { role: String? }
"""
PERSON, TEAM, MEMBER_OF = "node:Person", "node:Team", "edge:MemberOf"
INSERT = "query q($n: String) { insert Person { name: $n, age: 1 } }"
UPDATE = "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
EVERYBODY = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"
LIMIT = 4
"""The fragments that the tests allow a table."""


def insert(graph: Graph, name: str, branch: str = "main", **options: Any) -> GraphCommit:
    """Make Person one version and one fragment larger."""
    done = graph.mutate(INSERT, {"n": name}, branch=branch, **options).commit
    assert done is not None
    return done


def names(graph: Graph, branch: str = "main") -> set[str]:
    return {row["name"] for row in graph.query(EVERYBODY, branch=branch).rows}


def upkeeps(graph: Graph, branch: str = "main") -> list[GraphCommit]:
    """The commits of upkeep on a branch, the newest first."""
    listed = graph.commits.list(branch=branch, limit=1000)
    return [commit for commit in listed if commit.operation == "optimize"]


def table_of(graph: Graph, branch: str = "main", key: str = PERSON) -> Table:
    pin = graph.snapshot(branch=branch).tables[key]
    return open_table(workspace_of(graph).pinned(pin))


def fragments(graph: Graph, branch: str = "main", key: str = PERSON) -> int:
    return len(table_of(graph, branch, key).fragments())


def check_settled(graph: Graph) -> None:
    """Nothing is pending, and every table is where its pin says."""
    workspace = workspace_of(graph)
    for branch in graph.branches.list():
        state = workspace.manifest.state(branch)
        assert list_sidecars(workspace, state.head.graph_id) == []
        for pin in state.head.tables.values():
            table = open_table(workspace.pinned(pin))
            assert pin.table_branch != (None if branch == "main" else branch) or table.is_head()
            assert table.count_rows() == pin.row_count


@contextmanager
def held_by_another(graph: Graph, branch: str = "main") -> Iterator[None]:
    """Another thread holds the lock of Person on the branch."""
    workspace = workspace_of(graph)
    name = workspace.lock_name(graph.snapshot().tables[PERSON].location, branch)
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with workspace.locks.acquire(name):
            taken.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()
