"""Rows that many writers want at once, and what must be true when all are through."""

from __future__ import annotations

from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import drifted
from tests.faults.queue_workers import (
    Told,
)
from tests.opened import workspace_of
from tests.write.writing import nodes

LIMIT = 600.0


SCHEMA = """
node Item { name: String @key  n: I64?  owner: String? }
edge Next: Item -> Item
"""


def put_tokens(graph: Graph, turns: int) -> None:
    """Rows that all writers want, one for each turn."""
    records = [
        {"type": "Item", "data": {"name": f"token-{at}", "owner": f"free-{at}"}}
        for at in range(turns)
    ]
    graph.load(records)


def check(graph: Graph, told: dict[str, Told], turns: int, loaded: dict[str, int]) -> None:
    """Every row that was acknowledged is there and no other; every token has one owner."""
    with open_graph(graph.uri) as fresh:
        found = nodes(fresh, "Item")
        assert workspace_of(fresh).store.list("__recovery") == []
        assert drifted(fresh) == []
    owners = {f"token-{turn}": name for name, one in told.items() for turn in one.claimed}
    assert sum(len(one.claimed) for one in told.values()) == len(owners) == turns
    assert {key: row["owner"] for key, row in found.items() if "owner" in row} == owners
    rows = {key: row["n"] for key, row in found.items() if "owner" not in row}
    assert rows == {key: n for one in told.values() for key, n in one.left.items()} | loaded
