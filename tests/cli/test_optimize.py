"""`omnigraph optimize` and `omnigraph ensure-indices`: documents, lines and exit codes."""

from __future__ import annotations

import omnigraph as og
from omnigraph.storage.tables.lance_import import lance

SCHEMA = "node Person { name: String @key  age: I32? @index  at: Vector(2)? @index }"


def three_writes(place):
    """The place of a table with three fragments and no index."""
    with og.init(place / "g.omni", SCHEMA) as graph:
        for name in ("ada", "bob", "eve"):
            graph.load([{"type": "Person", "data": {"name": name, "age": 1}}])
        return str(place / "g.omni" / graph.snapshot().tables["node:Person"].location)


def test_optimize_merges_completes_and_tells_of_what_it_left_alone(omnigraph, place):
    where = three_writes(place)
    done = omnigraph("optimize", "g.omni", "--json")
    assert done.exit == 0, done.stderr
    (table,) = done.json["tables"]
    version = table["manifest_version"]
    assert done.json == {"uri": done.json["uri"], "tables": [table]}
    assert table == {
        "table_key": "node:Person",
        "fragments_removed": 3,
        "fragments_added": 1,
        "committed": True,
        "skipped": None,
        "manifest_version": version,
        "lance_head_version": version,
        "pending_indexes": ["at"],
        "error": None,
    }
    again = omnigraph("optimize", "g.omni")
    assert again.exit == 0
    assert again.stdout.splitlines()[1].split() == (
        ["node:Person", "0", "0", str(version), "-", "at", "-"]
    )
    listed = omnigraph("commit", "list", "g.omni", "--filter", "operation=optimize", "--json")
    assert [one["actor_id"] for one in listed.json["commits"]] == ["omnigraph:maintenance"]

    lance().dataset(where).delete("id = 'bob'")
    left = omnigraph("optimize", "g.omni", "--json")
    assert left.exit == 0
    (table,) = left.json["tables"]
    assert (table["skipped"], table["lance_head_version"]) == ("drift_needs_repair", version + 1)
    assert "omnigraph repair" in left.stderr


def test_ensure_indices_builds_and_completes(omnigraph, place):
    three_writes(place)
    built = omnigraph("ensure-indices", "g.omni", "--json")
    assert (built.exit, set(built.json)) == (0, {"uri", "branch", "built", "failed", "commit"})
    assert built.json["built"] == [["node:Person", "id"], ["node:Person", "age"]]
    assert built.json["commit"]["operation"] == "ensure_indices"
    with og.open(place / "g.omni") as graph:
        graph.load([{"type": "Person", "data": {"name": "late"}}])
    completed = omnigraph("ensure-indices", "g.omni", "--branch", "main")
    assert completed.stdout.splitlines() == [
        "completed node:Person id",
        "completed node:Person age",
        "nothing to build on yet: node:Person at",
    ]
    assert omnigraph("ensure-indices", "g.omni", "--json").json["commit"] is None
    assert omnigraph("ensure-indices", "g.omni", "--branch", "nowhere").exit == 1
