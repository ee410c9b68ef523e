"""The graph of these tests, and how they read it: accounts and registers, which are tables of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from omnigraph import failpoints
from omnigraph.commit.protocol import MOMENTS
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import drifted
from tests.opened import workspace_of
from tests.stored import read_back

SCHEMA = """
node Account { name: String @key  n: I64  seen: String?  email: String? @unique }
node Register { name: String @key  n: I64  seen: String?  list: [String]? }
edge Paid: Account -> Account { amount: I64 }
edge Backs: Account -> Register @card(0..1)
"""

READ_BOTH = """query q() {
  match { $a: Account { name: "x" }  $r: Register { name: "x" } }
  return { $a.n as account, $r.n as register }
}"""
ACCOUNTS = (
    "query q() { match { $a: Account } return { $a.name as name, $a.n as n } order { name } }"
)
REGISTERS = (
    "query q() { match { $r: Register } return { $r.name as name, $r.n as n } order { name } }"
)


def put(graph: Graph, *names: str, n: int = 0) -> None:
    """An account and a register of each name."""
    graph.load(
        [
            {"type": kind, "data": {"name": name, "n": n}}
            for name in names
            for kind in ("Account", "Register")
        ]
    )


def mutation(*statements: str) -> str:
    return "query q() { " + " ".join(statements) + " }"


def set_both(n: int) -> str:
    """One transaction that writes to two tables."""
    return mutation(*(f'update {kind} set {{ n: {n} }} where name = "x"' for kind in ("Account", "Register")))  # fmt: skip


def values(graph: Graph, query: str = ACCOUNTS, **target: Any) -> dict[str, int]:
    return {row["name"]: row["n"] for row in graph.query(query, **target).rows}


def both(graph: Graph, **target: Any) -> tuple[int, int]:
    """What one query sees in the two tables."""
    (row,) = graph.query(READ_BOTH, **target).rows
    return row["account"], row["register"]


@contextmanager
def looking(look: Callable[[], Any], *, but: str = "") -> Iterator[list[Any]]:
    """Look at every step of the mutations in the block but one; the list of all that was seen."""
    seen: list[Any] = []
    points = [f"mutation.{moment}" for moment in MOMENTS if "fork" not in moment]
    points += ["publish.before_write", "publish.after_write"]
    points += ["recovery.sidecar_write", "recovery.sidecar_delete"]
    with ExitStack() as stack:
        for point in set(points) - {but}:
            stack.enter_context(failpoints.arm(point, lambda _: seen.append(look())))
        yield seen


def check_rules(graph: Graph) -> None:
    """What must hold after any race: keys, unique values, ends of edges, cardinalities, no leftovers."""
    with open_graph(graph.uri) as fresh:
        assert workspace_of(fresh).store.list("__recovery") == []
        assert drifted(fresh) == []
        found = read_back(fresh)
        for key, pin in fresh.snapshot().tables.items():
            kind, name = key.split(":")
            assert pin.row_count == len(found.nodes[name] if kind == "node" else found.edges[name])
    for rows in found.nodes.values():
        names = Counter(row["name"] for row in rows.values())
        assert set(names) == set(rows)
        assert set(names.values()) <= {1}
    emails = Counter(row["email"] for row in found.nodes["Account"].values() if row["email"])
    assert set(emails.values()) <= {1}, emails
    for name, end in (("Paid", "Account"), ("Backs", "Register")):
        for _, src, dst, _ in found.edges[name]:
            assert src in found.nodes["Account"], (name, src)
            assert dst in found.nodes[end], (name, dst)
    backs = Counter(src for _, src, _, _ in found.edges["Backs"])
    assert set(backs.values()) <= {1}, backs
