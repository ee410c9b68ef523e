"""`omnigraph diff`."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.cli.commands.history.change_text import ChangeText
from tests.cli.conftest import SCHEMA
from tests.cli.screen import Terminal


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


def test_a_terminal_shows_what_was_in_red_and_what_is_in_green(made, place):
    with Terminal(("diff", "main", "side", "--uri", "g.omni"), place) as terminal:
        assert terminal.wait_for_end() == 0
        styles = [terminal.style_of(text).fg for text in ("+ node", "~ node", "30 ->", "31")]
    assert styles == ["green", "brown", "red", "green"]
    with Terminal(("diff", "main", "side", "--uri", "g.omni"), place, {"NO_COLOR": "1"}) as plain:
        assert plain.wait_for_end() == 0
        assert plain.style_of("31").fg == "default"


def updated(old, new):
    image = {"before": {"properties": {"t": old}}, "after": {"properties": {"t": new}}}
    return {"kind": "node", "type": "T", "id": "i", "op": "update", **image}


def test_of_long_texts_the_part_is_shown_that_differs():
    same = "x" * 300
    _, line = ChangeText().lines(updated(f"{same}A{same}", f"{same}B{same}"))
    old, new = line.removeprefix("    t: ").split(" -> ")
    assert (len(old), len(new)) == (100, 100)
    assert old.replace("A", "B") == new != old
    assert old.startswith("…x")
    assert old.endswith("x…")
    _, line = ChangeText().lines(updated(same, same + "!"))
    assert line.endswith('x!"')


def test_values_too_wide_for_the_screen_stand_below_each_other():
    lines = list(ChangeText(width=60).lines(updated("a" * 40, "b" * 40)))
    assert lines[1:] == ["    t:", f'      - "{"a" * 40}"', f'      + "{"b" * 40}"']


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
