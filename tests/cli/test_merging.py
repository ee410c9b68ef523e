"""`branch merge` and `commit revert`."""

import json

import pytest

import omnigraph as og
from tests.merge.harbors import files_of
from tests.stored import read_back


@pytest.fixture
def forked(omnigraph, graph, place):
    """A graph whose branch `side` has another age of ada than `main`, and eve."""
    with og.open(place / graph) as opened:
        opened.load([person("ada", 36), person("bob", 40)])
        opened.branches.create("side")
        opened.load([person("ada", 37), person("eve", 20)], branch="side")
        yield graph


def person(name, age):
    return {"type": "Person", "data": {"name": name, "age": age}}


def ages(place, graph):
    with og.open(place / graph, mode="r") as opened:
        return {name: row["age"] for name, row in read_back(opened).nodes["Person"].items()}


def test_a_branch_is_merged_and_deleted(omnigraph, forked, place):
    argv = ("branch", "merge", "side", "--delete-branch", "--as", "ada", "--uri", forked)
    result = omnigraph(*argv)
    assert result.exit == 0, result.stderr
    first, *facts = result.stdout.splitlines()
    assert first == "merged side into main: fast_forward"
    assert [line.split() for line in facts[:3]] == [
        ["inserts:", "1"],
        ["updates:", "1"],
        ["deletes:", "0"],
    ]
    assert omnigraph("branch", "list", "--uri", forked).stdout.split() == ["main"]
    assert ages(place, forked) == {"ada": 37, "bob": 40, "eve": 20}


def test_the_document_of_a_merge(omnigraph, forked):
    document = omnigraph("branch", "merge", "side", "--as", "ada", "--json", "--uri", forked).json
    assert document.keys() == {
        "source", "target", "outcome", "base_commit_id", "actor_id", "commit", "stats",
    }  # fmt: skip
    assert (document["source"], document["target"]) == ("side", "main")
    assert document["actor_id"] == document["commit"]["actor_id"] == "ada"
    assert document["commit"]["facts"]["merge"]["outcome"] == "fast_forward"
    assert document["stats"].keys() == {
        "inserts", "updates", "deletes", "candidates", "rows_read", "bytes_read", "tables_skipped",
        "tables_adopted", "ms", "resolved", "embeddings_pending",
    }  # fmt: skip
    again = omnigraph("branch", "merge", "side", "--json", "--uri", forked).json
    assert (again["outcome"], again["commit"]) == ("already_up_to_date", None)


def test_a_refused_delete_is_a_warning(omnigraph, forked):
    omnigraph("branch", "create", "kid", "--from", "side", "--uri", forked)
    result = omnigraph("branch", "merge", "side", "--delete-branch", "--json", "--uri", forked)
    assert result.exit == 0
    assert "side was not deleted" in result.stderr
    assert result.json["branch_deleted"] is False
    assert "kid" in result.json["branch_delete_error"]


def test_conflicts_are_all_listed_and_decided(omnigraph, forked, place):
    more = "\n".join(json.dumps(person(name, 99)) for name in ("ada", "eve"))
    omnigraph("load", "--data", "-", "--mode", "merge", forked, stdin=more)
    with og.open(place / forked, mode="r") as opened:
        files = files_of(opened)
        plan = omnigraph(
            "branch", "merge", "side", "--dry-run", "--images", "--json", "--uri", forked
        )
        assert files_of(opened) == files
    assert plan.exit == 0
    assert (plan.json["dry_run"], plan.json["commit"], plan.json["conflict_count"]) == (
        True,
        None,
        2,
    )
    assert [one["kind"] for one in plan.json["conflicts"]] == [
        "divergent_update",
        "divergent_insert",
    ]
    assert plan.json["conflicts"][0]["detail"]["source"] == {
        "properties": {"name": "ada", "age": 37}
    }
    shown = omnigraph("branch", "merge", "side", "--dry-run", "--uri", forked)
    assert shown.exit == 0
    assert shown.stdout.startswith("would merge side into main: merged\n")
    assert shown.stdout.count("divergent_") == 2
    assert "->" not in shown.stderr  # it does not write
    refused = omnigraph("branch", "merge", "side", "--uri", forked)
    assert refused.exit == 1
    assert refused.stderr.count("divergent_") == 2
    body = omnigraph("branch", "merge", "side", "--json", "--uri", forked)
    assert (body.exit, body.json["kind"]) == (1, "merge_conflicts")
    assert [one["row_id"] for one in body.json["merge_conflicts"]] == ["ada", "eve"]
    decisions = {
        "resolutions": [
            {"table_key": "node:Person", "row_id": "ada", "take": "theirs"},
            {
                "table_key": "node:Person",
                "row_id": "eve",
                "image": {"properties": {"name": "eve", "age": 21}},
            },
        ]
    }
    (place / "decide.json").write_text(json.dumps(decisions), "utf-8")
    argv = ("branch", "merge", "side", "--resolve", "decide.json", "--json", "--uri", forked)
    assert omnigraph(*argv).json["stats"]["resolved"] == 2
    assert ages(place, forked) == {"ada": 37, "bob": 40, "eve": 21}


def test_a_commit_is_reverted(omnigraph, forked, place):
    merged = omnigraph("branch", "merge", "side", "--json", "--uri", forked).json
    commit_id = merged["commit"]["graph_commit_id"]
    plan = omnigraph("commit", "revert", commit_id, "--dry-run", "--json", "--uri", forked).json
    assert (plan["outcome"], plan["commit"], plan["conflicts"]) == ("reverted", None, [])
    result = omnigraph("commit", "revert", commit_id, "--as", "bob", "--json", "--uri", forked)
    assert result.exit == 0, result.stderr
    assert result.json.keys() == {
        "reverted", "target", "outcome", "base_commit_id", "actor_id", "commit", "stats",
    }  # fmt: skip
    assert (result.json["reverted"], result.json["commit"]["operation"]) == (commit_id, "revert")
    assert ages(place, forked) == {"ada": 36, "bob": 40}
    again = omnigraph("commit", "revert", commit_id, "--uri", forked)
    assert again.stdout.startswith(f"nothing of {commit_id} to revert on main")


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("branch", "merge", "side", "--dry-run", "--delete-branch"), 2),
        (("branch", "merge", "side", "--granularity", "row"), 2),
        (("branch", "merge", "main"), 1),
        (("branch", "merge", "ghost"), 1),
        (("branch", "merge", "side", "--resolve", "mine"), 1),
        (("commit", "revert", "01ARZ3NDEKTSV4RRFFQ69G5FAV"), 1),
    ],
)
def test_wrong_calls(omnigraph, graph, argv, code):
    result = omnigraph(*argv, "--uri", graph)
    assert result.exit == code
    assert result.stdout == ""


def test_a_conflict_of_schemas_says_which_option_decides_it(omnigraph, forked, place):
    """A person reads the option as it is typed; a program reads the name that the API has."""
    with og.open(place / forked) as opened:
        wider = opened.schema.source.replace("age: I32?", "age: I32?  rank: I32?")
        opened.schema.apply(wider)
        opened.branches.create("less")
        opened.schema.apply(wider.replace("  rank: I32?", ""), branch="less")
        opened.mutate('query q() { update Person set { rank: 1 } where name = "ada" }')
    argv = ("branch", "merge", "less", "--uri", forked)
    typed = "keep it with --resolve-schema node:Person.rank=ours, or drop it with =theirs"
    failed = omnigraph(*argv)
    assert failed.exit == 1
    note, error = failed.stderr.splitlines()[-2:]
    assert note.startswith("schema_drop_vs_change  node:Person.rank was dropped in less")
    assert note.endswith(typed)
    assert error.endswith(typed)
    assert typed in omnigraph(*argv, "--dry-run").stdout
    planned = omnigraph(*argv, "--dry-run", "--json").json["conflicts"][0]["message"]
    assert planned.endswith(typed.replace("--resolve-schema", "resolve_schema"))
    kept = omnigraph(*argv, "--resolve-schema", "node:Person.rank=ours", "--json").json
    assert kept["commit"]["facts"]["merge"]["resolved_schema"] == ["node:Person.rank"]
    assert "schema" not in kept
    again = omnigraph(*argv, "--resolve-schema", "node:Person.rank=ours")
    assert again.exit == 1
    assert "not in conflict" in again.stderr
