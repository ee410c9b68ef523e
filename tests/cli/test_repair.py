"""`omnigraph repair`: what it shows, what it changes, and its exit codes."""

import shutil

import omnigraph as og
from omnigraph.storage.tables.lance_import import lance


def test_what_others_wrote_is_shown_then_refused_then_forced(omnigraph, place):
    with og.init(place / "g.omni", "node Person { name: String @key }") as graph:
        graph.load([{"type": "Person", "data": {"name": name}} for name in ("ada", "bob")])
        where = graph.snapshot().tables["node:Person"].location
    lance().dataset(str(place / "g.omni" / where)).delete("id = 'bob'")

    shown = omnigraph("repair", "g.omni")
    assert shown.exit == 0
    assert shown.stdout.splitlines()[1].split() == (
        ["node:Person", "main", "2", "3", "suspicious", "preview", "Delete", "-"]
    )
    assert "--confirm" in shown.stderr
    refused = omnigraph("repair", "g.omni", "--confirm", "--json")
    assert refused.exit == 1
    assert refused.stderr.splitlines()[-1].startswith("error: refused to repair node:Person")
    assert refused.json["manifest_version"] is None
    assert set(refused.json) == {"uri", "confirm", "force", "manifest_version", "tables"}

    done = omnigraph("repair", "g.omni", "--confirm", "--force", "--json")
    assert done.exit == 0
    (table,) = done.json["tables"]
    assert table == {
        "table_key": "node:Person",
        "table_branch": None,
        "manifest_version": 2,
        "lance_head_version": 3,
        "classification": "suspicious",
        "action": "forced",
        "operations": ["Delete"],
        "error": None,
    }
    listed = omnigraph("commit", "list", "g.omni", "--filter", "operation=repair", "--json")
    (commit,) = listed.json["commits"]
    assert commit["manifest_version"] == done.json["manifest_version"]
    assert commit["actor_id"] == "omnigraph:maintenance"


def test_a_moved_graph_is_settled_and_may_keep_its_id(omnigraph, place):
    with og.init(place / "g", "node Person { name: String @key }") as graph:
        graph.load([{"type": "Person", "data": {"name": "ann"}}])
        graph.branches.create("side")
        graph.load([{"type": "Person", "data": {"name": "bob"}}], branch="side")
        was = graph.status().graph_id
    shutil.copytree(place / "g", place / "copy")
    (place / "g").rename(place / "moved")
    query = [
        "query",
        "-e",
        "query q() { match { $p: Person } return { $p.name } }",
        "--branch",
        "side",
    ]
    for name in ("copy", "moved"):
        assert omnigraph("status", name).exit == 0
        assert omnigraph("log", name).exit == 0
        assert omnigraph("export", name).exit == 0
        refused = omnigraph(*query, "--store", name)
        assert (refused.exit, "repair --moved" in refused.stderr) == (1, True)
    settled = omnigraph("repair", "copy")
    assert (settled.exit, "is settled" in settled.stderr) == (0, True)
    assert omnigraph("repair", "--moved", "moved").exit == 0
    for name, keeps in (("copy", False), ("moved", True)):
        found = omnigraph(*query, "--store", name)
        assert (found.exit, "bob" in found.stdout) == (0, True)
        with og.open(place / name, mode="r") as graph:
            assert (graph.status().graph_id == was) is keeps
