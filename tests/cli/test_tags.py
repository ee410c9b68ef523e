"""`tag`, the flags that name a state, and words that name one."""

import pytest

ADD = "query add($n: String) { insert Person { name: $n } }"
NAMES = "query names() { match { $p: Person } return { $p.name } }"


@pytest.fixture
def add(omnigraph, graph):
    def insert(name, *options):
        argv = ("mutate", "-e", ADD, "--params", f'{{"n":"{name}"}}', "--store", graph, "--json")
        return omnigraph(*argv, *options).json["commit"]

    return insert


def names(omnigraph, graph, *target):
    rows = omnigraph("query", "-e", NAMES, "--store", graph, "--json", *target).json["rows"]
    return sorted(row["p.name"] for row in rows)


def test_tags_are_made_listed_read_and_deleted(omnigraph, graph, add):
    first = add("ada")
    made = omnigraph("tag", "create", "v1", "--uri", graph, "--as", "ada", "--json").json
    assert {**made, "created_at": 0} == {
        "name": "v1",
        "graph_commit_id": first["graph_commit_id"],
        "branch": None,
        "manifest_version": first["manifest_version"],
        "actor_id": "ada",
        "created_at": 0,
    }
    add("bob")
    said = omnigraph("tag", "create", "v2", "tag:v1", "--uri", graph)
    assert said.stdout == f"created tag v2 at commit {first['graph_commit_id']}\n"
    assert omnigraph("tag", "list", "--uri", graph, "--json").json["tags"][0] == made
    assert [line.split()[0] for line in omnigraph("tag", "list", "--uri", graph).stdout.splitlines()] == [
        "tag", "v1", "v2",
    ]  # fmt: skip
    assert names(omnigraph, graph, "--tag", "v1") == ["ada"]
    assert names(omnigraph, graph, "--at-time", "2999-12-31") == ["ada", "bob"]
    gone = omnigraph("tag", "delete", "v1", "--uri", graph, "--as", "eve", "--json").json
    assert gone == {"name": "v1", "graph_commit_id": first["graph_commit_id"], "actor_id": "eve"}
    again = omnigraph("tag", "delete", "v1", "--uri", graph, "--json")
    assert (again.exit, again.json["kind"], again.json["not_found"]) == (
        1, "tag_not_found", {"tag": "v1"},
    )  # fmt: skip


def test_a_branch_begins_where_a_word_says(omnigraph, graph, add):
    first = add("ada")
    add("bob")
    omnigraph("tag", "create", "v1", f"main@{first['manifest_version']}", "--uri", graph)
    made = omnigraph("branch", "create", "a", "--from", "tag:v1", "--uri", graph, "--json").json
    assert made["head_commit_id"] == first["graph_commit_id"]
    assert names(omnigraph, graph, "--branch", "a") == ["ada"]
    for word, kind in (
        ("tag:v9", "tag_not_found"),
        ("main:3", "bad_request"),
        (f"main@{'9' * 5000}", "bad_request"),
    ):
        failed = omnigraph("branch", "create", "c", "--from", word, "--uri", graph, "--json")
        assert (failed.exit, failed.json["kind"]) == (1, kind)


@pytest.mark.parametrize(
    "flags",
    [
        ("--tag", "v1", "--branch", "main"),
        ("--tag", "v1", "--snapshot", "01X"),
        ("--snapshot", "01X", "--at-time", "2026-01-01"),
        ("--at-version", "1", "--at-time", "2026-01-01"),
    ],
)
def test_flags_that_contradict_each_other_are_a_usage_error(omnigraph, graph, flags):
    assert omnigraph("snapshot", graph, *flags).exit == 2


def test_a_tag_on_a_remote_graph_is_deleted_with_consent_only(omnigraph):
    refused = omnigraph("tag", "delete", "v1", "--uri", "s3://bucket/g", "--json")
    assert (refused.exit, "--yes" in refused.json["error"]) == (1, True)
