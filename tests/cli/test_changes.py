"""`omnigraph changes` and `omnigraph commit changes`."""

import pytest

import omnigraph as og
from tests.cli.conftest import SCHEMA


@pytest.fixture
def made(place):
    """A graph with two commits after the first; the ids of all."""
    with og.init(place / "g.omni", SCHEMA) as graph:
        graph.load(
            [{"type": "Person", "data": {"name": name, "age": 30}} for name in ("ann", "bob")],
            actor="ada",
        )
        graph.mutate('query q() { update Person set { age: 31 } where name = "ann" }')
        return [commit.graph_commit_id for commit in graph.commits.list()][::-1]


def test_a_consumer_polls_with_the_cursor_of_the_poll_before(omnigraph, made, place):
    first = omnigraph("changes", "poll", "--start", "beginning", "--limit", "1", "g.omni", "--json")
    assert first.exit == 0
    # The changes of one commit stay together, although one of them would fill the page.
    assert [
        (block["cause"]["graph_commit_id"], [change["id"] for change in block["changes"]])
        for block in first.json["blocks"]
    ] == [(made[1], ["ann", "bob"])]
    assert first.json.keys() == {"blocks", "cursor", "caught_up"}
    assert first.json["caught_up"] is False
    second = omnigraph("changes", "poll", "--cursor", first.json["cursor"], "g.omni", "--json")
    assert [block["changes"][0]["op"] for block in second.json["blocks"]] == ["update"]
    assert second.json["caught_up"] is True
    with og.open(place / "g.omni", mode="r") as graph:
        whole = graph.changes.poll(start="beginning").to_json()
    assert first.json["blocks"] + second.json["blocks"] == whole["blocks"]


def test_people_see_what_became_of_each_entity(omnigraph, made):
    shown = omnigraph("changes", "poll", "--start", f"after:{made[1]}", "g.omni")
    commit, entity, change, cursor, end = shown.stdout.splitlines()
    assert commit.startswith(f"commit {made[2]} on main, ")
    assert (entity, change) == ("  ~ node Person ann", "      age: 30 -> 31")
    assert cursor.startswith("cursor: ")
    assert end == "caught up"
    assert (
        f"commit {made[1]} on main by ada"
        in omnigraph("changes", "poll", "--start", "beginning", "g.omni").stdout
    )


def test_values_are_left_out_where_nobody_wants_them(omnigraph, made):
    expected = [{"kind": "node", "type": "Person", "id": "ann", "op": "update"}]
    words = ("changes", "poll", "--start", f"after:{made[1]}", "--no-images", "g.omni", "--json")
    (block,) = omnigraph(*words).json["blocks"]
    assert block["changes"] == expected
    words = ("commit", "changes", made[2], "--no-images", "--uri", "g.omni", "--json")
    assert omnigraph(*words).json["changes"] == expected


def test_filters_and_refusals(omnigraph, made):
    words = ("changes", "poll", "--start", "beginning", "--json", "g.omni")
    deleted = omnigraph(*words, "--kind", "node", "--type", "Person", "--op", "delete").json
    assert [block["changes"] for block in deleted["blocks"]] == [[], []]
    assert omnigraph(*words, "--kind", "table").exit == 2
    unknown = omnigraph(*words, "--type", "Boat")
    assert (unknown.exit, unknown.json["kind"]) == (1, "bad_request")
    both = omnigraph(*words, "--cursor", "x")
    assert (both.exit, both.json["kind"]) == (1, "bad_request")
    damaged = omnigraph("changes", "poll", "--cursor", "x", "g.omni")
    assert damaged.exit == 1
    assert damaged.stderr.startswith("error: change cursor rejected: ")


def test_the_changes_of_a_commit(omnigraph, made, place):
    words = ("commit", "changes", made[1], "--uri", "g.omni", "--limit", "1")
    whole = omnigraph(*words, "--json").json
    assert whole.keys() == {"cause", "changes"}
    assert [change["id"] for change in whole["changes"]] == ["ann", "bob"]
    with og.open(place / "g.omni", mode="r") as graph:
        token = graph.commits.changes(made[1], limit=1).next_page_token
    rest = omnigraph(*words, "--page-token", token, "--json").json
    assert [change["id"] for change in rest["changes"]] == ["bob"]
    assert "  + node Person bob\n" in omnigraph(*words, "--op", "insert").stdout
    first = omnigraph("commit", "changes", made[0], "--uri", "g.omni", "--json")
    assert (first.exit, first.json["kind"]) == (1, "no_parent")


def test_a_baseline_and_its_cursor(omnigraph, made, place):
    done = omnigraph("changes", "baseline", "--out", "all.jsonl", "g.omni", "--json")
    assert done.exit == 0
    assert done.json.keys() == {"snapshot_commit_id", "resume_cursor", "stats"}
    assert done.json["snapshot_commit_id"] == made[2]
    assert len((place / "all.jsonl").read_text("utf-8").splitlines()) == 2
    poll = omnigraph("changes", "poll", "--cursor", done.json["resume_cursor"], "g.omni", "--json")
    assert (poll.json["blocks"], poll.json["caught_up"]) == ([], True)
    assert omnigraph("changes", "baseline", "g.omni").exit == 2
    refused = omnigraph("changes", "baseline", "--out", "no/where", "g.omni")
    assert (refused.exit, refused.stdout) == (1, "")
