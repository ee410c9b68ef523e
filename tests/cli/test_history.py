"""`omnigraph history` and `omnigraph blame`."""

from __future__ import annotations

import shutil

import pytest

import omnigraph as og
from tests.cli.conftest import SCHEMA

ANN = ("node", "Person", "ann")
AGE = 'query age($a: I32) { update Person set { age: $a } where name = "ann" }'
PEOPLE = [
    {"type": "Person", "data": {"name": "ann", "age": 30}},
    {"type": "Person", "data": {"name": "bob"}},
    {"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "k1"}},
]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A graph with three changes of a node, one of them on a branch; the ids of their commits and of the merge."""
    uri = tmp_path_factory.mktemp("history") / "g.omni"
    with og.init(uri, schema=SCHEMA, actor="ada") as opened:
        load = opened.load(PEOPLE, mode="append").commit
        opened.branches.create("side")
        aged = opened.mutate(AGE, params={"a": 31}, branch="side", actor="bea").commit
        opened.mutate('query b() { update Person set { age: 5 } where name = "bob" }')
        merge = opened.branches.merge("side", "main").commit
        last = opened.mutate(AGE, params={"a": 32}).commit
    return str(uri), [one.graph_commit_id for one in (load, aged, merge, last)]


@pytest.fixture
def graph(world):
    """The graph, which tests only look at."""
    return world[0]


@pytest.fixture
def made(world):
    """The ids of the commits: the load, the change on the branch, the merge, and the last change."""
    return world[1]


@pytest.fixture
def copy(graph, tmp_path):
    """A copy of the graph to change."""
    return str(shutil.copytree(graph, tmp_path / "copy.omni"))


def test_people_see_each_change_with_its_commit_and_actor(omnigraph, graph, made):
    load, aged, merge, last = made
    done = omnigraph("history", graph, *ANN)
    assert (done.exit, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"commit {last} on main by ada, ")
    assert lines[1:3] == ["  ~ node Person ann", "      age: 31 -> 32"]
    assert lines[3].startswith(f"commit {aged} on side by bea, ")
    assert lines[3].endswith(f", merged by {merge}")
    assert lines[4:6] == ["  ~ node Person ann", "      age: 30 -> 31"]
    assert lines[6].startswith(f"commit {load} on main by ada, ")
    assert lines[7:] == ["  + node Person ann", '      name: "ann"', "      age: 30"]


def test_the_document_is_that_of_the_graph(omnigraph, graph, made):
    with og.open(graph, mode="r") as opened:
        whole = opened.history(*ANN, edges=True).to_json()
        past = opened.history(*ANN, snapshot=made[0]).to_json()
        blamed = opened.blame(*ANN, edges=True).to_json()
    assert omnigraph("history", graph, *ANN, "--edges", "--json").json == whole
    assert omnigraph("history", graph, *ANN, "--snapshot", made[0], "--json").json == past
    assert omnigraph("blame", graph, *ANN, "--edges", "--json").json == blamed


def test_pages_follow_each_other(omnigraph, graph, made):
    first = omnigraph("history", graph, *ANN, "--limit", "1")
    assert first.stderr == f"there is more: --before {made[3]}\n"
    rest = omnigraph("history", graph, *ANN, "--before", made[3], "--json").json
    assert [one["graph_commit_id"] for one in rest["entries"]] == [made[1], made[0]]


def test_the_entries_of_one_commit_stand_below_each_other(omnigraph, graph, made):
    lines = omnigraph("history", graph, *ANN, "--edges", "--snapshot", made[0]).stdout.splitlines()
    assert [line for line in lines if line.startswith("commit")] == lines[:1]
    assert [line for line in lines if line.startswith("  +")] == [
        "  + node Person ann",
        "  + edge Knows k1",
    ]


def test_what_a_deleted_branch_did_is_told_of_its_merge(omnigraph, copy, made):
    with og.open(copy) as opened:
        opened.branches.delete("side")
    shown = omnigraph("history", copy, *ANN).stdout
    assert f"commit {made[2]} on main by ada, " in shown
    assert "    (the merge brought 1 commit of side by bea)\n" in shown
    blamed = omnigraph("blame", copy, *ANN, "--snapshot", made[2]).stdout
    (age,) = (line for line in blamed.splitlines() if line.startswith("age"))
    assert made[2] in age
    assert "ada for bea" in age


def test_what_is_no_longer_known_is_said(omnigraph, copy, made):
    with og.open(copy) as opened:
        opened.branches.delete("side")
        opened.cleanup(keep_versions=1)
    shown = omnigraph("history", copy, *ANN)
    title, change, unknown = shown.stdout.splitlines()
    assert title.startswith(f"commit {made[3]} on main by ada, ")
    assert change == "  ~ node Person ann"
    assert unknown == "      (earlier states are gone; with this commit at the latest)"
    assert " or earlier" in omnigraph("blame", copy, *ANN).stdout


def test_blame_names_the_commit_of_each_property(omnigraph, graph, made):
    done = omnigraph("blame", graph, *ANN, "--edges")
    assert (done.exit, done.stderr) == (0, "")
    title, _, name, age, edge, _, ends = done.stdout.splitlines()
    assert (title, edge) == ("node Person ann", "edge Knows k1")
    assert name.split()[:4] == ["name", "ann", made[0], "main"]
    assert age.split()[:4] == ["age", "32", made[3], "main"]
    assert ends.split()[:3] == ["(ends)", '{"from":"ann","to":"bob"}', made[0]]


@pytest.mark.parametrize(
    "line",
    [
        ("history", "tree", "Person", "ann"),
        ("blame", "tree", "Person", "ann"),
        ("history", *ANN, "--limit", "0"),
    ],
)
def test_what_is_no_request_is_misuse(omnigraph, graph, line):
    assert omnigraph(*line, "--store", graph).exit == 2


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (("history", "node", "Person", "ghost"), "entity_not_found"),
        (("blame", "node", "Person", "ghost"), "entity_not_found"),
        (("history", "node", "Town", "ann"), "bad_request"),
        (("history", "edge", "Knows", "k1", "--edges"), "bad_request"),
        (("history", *ANN, "--limit", "201"), "resource_limit"),
        (("history", *ANN, "--before", "01JZZZZZZZZZZZZZZZZZZZZZZ1"), "bad_request"),
        (("blame", *ANN, "--branch", "ghost"), "branch_not_found"),
    ],
)
def test_refusals_say_why(omnigraph, graph, made, line, kind):
    done = omnigraph(*line, "--store", graph, "--json")
    assert (done.exit, done.json["kind"]) == (1, kind)
