"""`result.write`: values become a property, in one commit, of nodes whose stored value differs."""

import pytest

import omnigraph as og
from omnigraph.errors import (
    BadRequest,
    ExpectedVersionMismatch,
    PolicyDenied,
    PreconditionFailed,
)
from omnigraph.policy import Decision
from omnigraph.storage.tables.table import open_table
from tests.graphs import graph_of
from tests.opened import workspace_of

SCHEMA = """
node Person {
  name: String @key
  rank: F64?
  small: F32?
  core: I64?
  few: I32?
  group: String?
  kind: enum(a, b)?
  marks: [F64]?
  age: I32?
}
node Note { text: String?  size: I64? }
edge Knows: Person -> Person
edge Cites: Note -> Note
edge Likes: Person -> Person
"""


def fill(graph):
    people = [{"type": "Person", "data": {"name": name, "age": 1}} for name in "abcd"]
    edges = [{"edge": "Knows", "from": a, "to": b} for a, b in ("ab", "bc", "ca", "cd")]
    graph.load([*people, *edges])


graph = graph_of(SCHEMA, fill)
shared = graph_of(SCHEMA, fill, scope="module")


def stored(graph, column, **target):
    table = graph.nodes("Person", ["id", column], **target).to_arrow().sort_by("id")
    return dict(zip(*(one.to_pylist() for one in table.columns), strict=True))


def row_ids(graph):
    pin = graph.snapshot().tables["node:Person"]
    rows = open_table(workspace_of(graph).pinned(pin)).read(["id"], with_row_id=True)
    return dict(zip(rows.column("id").to_pylist(), rows.column("_rowid").to_pylist(), strict=True))


def test_one_commit_with_the_values_and_the_rows_they_had(graph):
    found = graph.algorithms.pagerank("Knows")
    before, rows = len(graph.commits.list()), row_ids(graph)
    commit = found.write("rank", actor="ada")
    assert isinstance(commit, og.GraphCommit)
    assert commit.graph_commit_id == graph.snapshot().graph_commit_id
    assert commit.actor_id == "ada"
    assert len(graph.commits.list()) == before + 1
    table = found.to_arrow()
    assert stored(graph, "rank") == dict(
        zip(table["id"].to_pylist(), table["rank"].to_pylist(), strict=True)
    )
    assert set(stored(graph, "age").values()) == {1}
    assert row_ids(graph) == rows


def test_nothing_differs_and_nothing_is_committed(graph):
    graph.algorithms.pagerank("Knows").write("rank")
    head = graph.snapshot().graph_commit_id
    assert graph.algorithms.pagerank("Knows").write("rank") is None
    assert graph.snapshot().graph_commit_id == head


def test_only_nodes_that_differ_are_written(graph):
    graph.algorithms.degree("Knows").write("core")
    graph.mutate('query q() { update Person set { core: 9 } where name = "b" }')
    commit = graph.algorithms.degree("Knows").write("core")
    changes = graph.commits.changes(commit.graph_commit_id).to_json()
    assert "'b'" in str(changes)
    assert "'a'" not in str(changes)
    assert stored(graph, "core") == {"a": 1, "b": 1, "c": 2, "d": 0}


@pytest.mark.parametrize(
    ("name", "prop"),
    [
        ("pagerank", "rank"), ("pagerank", "small"), ("kcore", "core"), ("kcore", "few"),
        ("louvain", "group"), ("betweenness", "small"),
    ],
)  # fmt: skip
def test_properties_that_fit(graph, name, prop):
    found = getattr(graph.algorithms, name)("Knows")
    assert found.write(prop) is not None
    wanted = dict(zip(*(one.to_pylist() for one in found.to_arrow().columns), strict=True))
    assert stored(graph, prop) == (
        pytest.approx(wanted, rel=1e-6) if prop in {"rank", "small"} else wanted
    )
    assert getattr(graph.algorithms, name)("Knows").write(prop) is None


@pytest.mark.parametrize(
    ("name", "prop", "words"),
    [
        ("pagerank", "core", ("core", "I64", "F64")),
        ("pagerank", "group", ("group", "String", "F64")),
        ("pagerank", "marks", ("marks", "F64")),
        ("degree", "rank", ("rank", "F64", "I64")),
        ("louvain", "rank", ("rank", "String")),
        ("louvain", "kind", ("kind", "enum", "String")),
        ("louvain", "name", ("name", "key")),
        ("pagerank", "rnk", ("rnk", "rank")),
        ("pagerank", "xyz", ("xyz", "schema")),
        ("pagerank", None, ("property",)),
    ],
)
def test_properties_that_do_not_fit(shared, name, prop, words):
    head = shared.snapshot().graph_commit_id
    with pytest.raises(BadRequest) as caught:
        getattr(shared.algorithms, name)("Knows").write(prop)
    assert all(word in caught.value.message for word in words), caught.value.message
    assert shared.snapshot().graph_commit_id == head


@pytest.mark.parametrize(
    "change",
    [
        lambda g: g.load([{"edge": "Knows", "from": "d", "to": "a"}]),
        lambda g: g.load([{"type": "Person", "data": {"name": "e"}}]),
        lambda g: g.mutate('query q() { update Person set { age: 2 } where name = "a" }'),
        lambda g: g.mutate('query q() { delete Person where name = "d" }'),
    ],
)
def test_tables_that_moved(graph, change):
    found = graph.algorithms.pagerank("Knows")
    change(graph)
    head = graph.snapshot().graph_commit_id
    with pytest.raises(ExpectedVersionMismatch):
        found.write("rank")
    assert graph.snapshot().graph_commit_id == head
    assert set(stored(graph, "rank").values()) == {None}


def test_what_was_not_read_may_change(graph):
    found = graph.algorithms.pagerank("Knows")
    graph.load([{"edge": "Likes", "from": "d", "to": "a"}, {"type": "Note", "data": {"text": "x"}}])
    assert found.write("rank") is not None


def test_maintenance_and_a_new_property_change_no_row(graph):
    found = graph.algorithms.pagerank("Knows")
    graph.ensure_indices()
    graph.optimize()
    graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32?  standing: F64?"))
    assert found.write("standing") is not None
    assert None not in stored(graph, "standing").values()


def test_the_commit_that_the_caller_knows(graph):
    found = graph.algorithms.pagerank("Knows")
    known = graph.snapshot().graph_commit_id
    graph.load([{"type": "Note", "data": {"text": "x"}}])
    with pytest.raises(PreconditionFailed):
        found.write("rank", if_commit=known)
    assert found.write("rank", if_commit=graph.snapshot().graph_commit_id) is not None


def test_values_of_a_branch_go_to_the_branch(graph):
    graph.branches.create("dev")
    found = graph.algorithms.pagerank("Knows", branch="dev")
    found.write("rank", branch="dev")
    assert None in stored(graph, "rank").values()
    assert None not in stored(graph, "rank", branch="dev").values()


def test_values_of_a_state_that_two_branches_share_go_to_either(graph):
    graph.branches.create("dev")
    assert graph.algorithms.pagerank("Knows").write("rank", branch="dev") is not None
    assert None in stored(graph, "rank").values()


def test_values_of_some_nodes(graph):
    part = 'match { $p: Person  $p.name < "c" } return { $p }'
    graph.algorithms.connected_components("Knows", nodes=part).write("group")
    assert stored(graph, "group") == {"a": "a", "b": "a", "c": None, "d": None}


def test_nodes_without_a_key(graph):
    graph.load([{"type": "Note", "data": {"id": name, "text": name}} for name in ("x", "y")])
    graph.load([{"edge": "Cites", "from": "x", "to": "y"}])
    graph.algorithms.degree("Cites").write("size")
    rows = graph.query("match { $n: Note } return { $n.text as t, $n.size as s } order { t }").rows
    assert rows == [{"t": "x", "s": 1}, {"t": "y", "s": 0}]


def test_a_handle_that_only_reads(graph):
    with og.open(graph.uri, mode="r") as reader:
        found = reader.algorithms.pagerank("Knows")
        with pytest.raises(BadRequest, match="read-only"):
            found.write("rank")


def test_who_may_read_and_who_may_write(tmp_path):
    class Readers:
        def check(self, question):
            asked.append(f"{question.actor} {question.action} {question.branch}")
            return Decision(question.action == "read" or question.actor == "ada", "r", "no")

    asked = []
    with og.init(tmp_path / "g", SCHEMA, actor="ada", policy=Readers()) as graph:
        fill(graph)
        asked.clear()
        found = graph.session("bob").algorithms.pagerank("Knows")
        with pytest.raises(PolicyDenied):
            found.write("rank", branch=" main ")
        with pytest.raises(BadRequest, match="session"):
            found.write("rank", actor="ada")
        assert asked == ["bob read main", "bob change main"]
        assert graph.algorithms.pagerank("Knows").write("rank").actor_id == "ada"
