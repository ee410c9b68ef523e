"""`omnigraph diff`."""

from __future__ import annotations

import pytest

import omnigraph as og
from tests.cli.conftest import SCHEMA


@pytest.fixture
def made(place):
    """A graph whose branch `side` has one person more and one who is older."""
    with og.init(place / "g.omni", SCHEMA) as graph:
        people = [{"type": "Person", "data": {"name": name, "age": 30}} for name in ("ann", "bob")]
        graph.load(people)
        graph.branches.create("side")
        people[0]["data"]["age"] = 31
        people[1]["data"]["name"] = "\x1b[31m\ncy"
        graph.load(people, mode="merge", branch="side")
        return graph.diff("main", "side").to_json()


def timeless(document):
    return {**document, "stats": {**document["stats"], "ms": 0, "bytes_read": 0}}


def test_people_see_each_property_that_changed(omnigraph, made):
    shown = omnigraph("diff", "main", "side", "--uri", "g.omni")
    assert shown.exit == 0
    assert shown.stdout.splitlines() == [
        "+ node Person \\x1b[31m\\ncy",
        '    name: "\\u001b[31m\\ncy"',
        "    age: 30",
        "~ node Person ann",
        "    age: 30 -> 31",
        "1 inserted, 1 updated, 0 deleted",
    ]
    same = omnigraph("diff", "main", "main", "--uri", "g.omni")
    assert same.stdout == "no differences\n"


def test_programs_get_the_document(omnigraph, made):
    shown = omnigraph("diff", "main@2", "side", "--uri", "g.omni", "--json")
    assert timeless(shown.json) == timeless(made)
    inserts = omnigraph(
        "diff", "main", "side", "--op", "insert", "--no-images", "--uri", "g.omni", "--json"
    )
    assert inserts.json["changes"] == [
        {"kind": "node", "type": "Person", "id": "\x1b[31m\ncy", "op": "insert"}
    ]


def test_a_page_token_shows_one_page(omnigraph, made, place):
    with og.open(place / "g.omni", mode="r") as graph:
        token = graph.diff("main", "side").page(1).next_page_token
    words = ("diff", "main", "side", "--limit", "1", "--uri", "g.omni", "--json")
    assert omnigraph(*words).json["changes"] == made["changes"]
    page = omnigraph(*words, "--page-token", token).json
    assert page["changes"] == made["changes"][1:]
    assert page.keys() == {"from", "to", "changes"}
    refused = omnigraph("diff", "side", "main", "--page-token", token, "--uri", "g.omni", "--json")
    assert (refused.exit, refused.json["kind"]) == (1, "cursor_rejected")


@pytest.mark.parametrize(
    ("sides", "kind"),
    [(("main", "ghost"), "branch_not_found"), (("main", "what:ever"), "bad_request")],
)
def test_a_state_that_is_not_there_is_refused(omnigraph, made, sides, kind):
    refused = omnigraph("diff", *sides, "--uri", "g.omni", "--json")
    assert (refused.exit, refused.json["kind"]) == (1, kind)
