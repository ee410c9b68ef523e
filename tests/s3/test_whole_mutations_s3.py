"""A mutation that deletes and writes rows of one table, on a graph in S3: main, and a branch that forks for it."""

import pytest

import omnigraph as og
from tests.write.writing import nodes

SCHEMA = "node Person { name: String @key  age: I32? }"
MOVE = """
($rows: [{ n: String, a: I32 }])
for $r in $rows
match { $p: Person { age: 1 } }
delete $p
upsert $q: Person { name: $r.n, age: coalesce(age, 0) + $r.a }
return { $p.name as gone, $q.name as came, $q.age as age }
"""


@pytest.mark.parametrize("branch", ["main", "side"])
def test_two_steps_of_one_table(s3_root, branch):
    rows = [{"n": "bob", "a": 1}, {"n": "eve", "a": 2}, {"n": "bob", "a": 3}]
    with og.init(s3_root.canonical, SCHEMA) as graph:
        graph.load(
            [{"type": "Person", "data": {"name": n, "age": a}} for n, a in (("ada", 1), ("bob", 2))]
        )
        if branch != "main":
            graph.branches.create(branch)
        done = graph.mutate(MOVE, {"rows": rows}, branch=branch)
        assert done.rows == [
            {"gone": "ada", "came": "bob", "age": 6},
            {"gone": "ada", "came": "eve", "age": 2},
            {"gone": "ada", "came": "bob", "age": 6},
        ]
    with og.open(s3_root.canonical) as graph:
        found = nodes(graph, "Person", branch)
        assert {name: row["age"] for name, row in found.items()} == {"bob": 6, "eve": 2}
