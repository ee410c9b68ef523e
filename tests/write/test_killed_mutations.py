"""A mutation that deletes and writes rows of one table is killed around its two steps: all of it stands, or nothing."""

from __future__ import annotations

import os
import signal

import pytest

from omnigraph import failpoints
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import drifted
from tests.storage.processes import context
from tests.stored import read_back

SCHEMA = "node Person { name: String @key  age: I64? }"
TEXT = """
for $r in $rows
match { $p: Person { name: $r.old } }
delete $p
upsert Person { name: $r.new, age: $p.age + 1 }
"""
ROWS = [{"old": "ann", "new": "eve"}, {"old": "ben", "new": "ben"}]
BEFORE = {"ann": 40, "ben": 30, "cat": 20}
AFTER = {"ben": 31, "cat": 20, "eve": 41}
# One table: it deletes Ann, then it writes Ben and Eve. Where it is killed, how often that was passed, what stands.
KILLS = [
    ("mutation.before_table_commit", 0, BEFORE),
    ("mutation.after_table_commit", 0, BEFORE),
    ("mutation.before_table_commit", 1, BEFORE),
    ("mutation.after_table_commit", 1, AFTER),
    ("mutation.after_phase_b_before_phase_c", 0, AFTER),
]


def change(graph, branch):
    return graph.mutate(
        f"($rows: [{{ old: String, new: String }}]) {TEXT}", {"rows": ROWS}, branch=branch
    )


def die(uri, branch, point, skip):
    """Run the mutation, and be killed at the point."""
    with open_graph(uri) as graph:
        failpoints.arm(point, lambda _: os.kill(os.getpid(), signal.SIGKILL), skip=skip)
        change(graph, branch)


def ages(graph, branch):
    return {
        name: row["age"] for name, row in sorted(read_back(graph, branch).nodes["Person"].items())
    }


@pytest.mark.sampled(6)
@pytest.mark.parametrize("branch", ["main", "lazy"])
@pytest.mark.parametrize(("point", "skip", "stands"), KILLS, ids=lambda one: str(one)[:40])
def test_a_killed_mutation_stands_whole_or_not_at_all(tmp_path, branch, point, skip, stands):
    uri = str(tmp_path / "g")
    with init(uri, SCHEMA) as graph:
        inserts = " ".join(
            f'insert Person {{ name: "{name}", age: {age} }}' for name, age in BEFORE.items()
        )
        graph.mutate(inserts)
        if branch != "main":
            graph.branches.create(branch)
    process = context.Process(target=die, args=(uri, branch, point, skip))
    process.start()
    process.join(600)
    assert process.exitcode == -signal.SIGKILL
    with open_graph(uri, mode="r") as graph:
        assert ages(graph, branch) == BEFORE  # nothing is published
    with open_graph(uri) as graph:
        assert ages(graph, branch) == stands
        assert drifted(graph, branch) == []
        if stands == BEFORE:
            assert change(graph, branch).affected_nodes == 4
        assert ages(graph, branch) == AFTER
        if branch != "main":
            assert ages(graph, "main") == BEFORE
