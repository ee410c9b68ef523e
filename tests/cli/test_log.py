"""`omnigraph log`: the drawing, and the command."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.cli.commands.history.commit_lanes import DRAWN, TYPED, draw
from tests.cli.screen import Terminal

MERGED = [("M2", ["M1", "X1"]), ("X1", ["G"]), ("M1", ["G"]), ("G", [])]
CRISS_CROSS = [
    ("A2", ["A1", "B1"]), ("B2", ["B1", "A1"]), ("A1", ["G"]), ("B1", ["G"]), ("G", []),
]  # fmt: skip
ACROSS = [
    ("M", ["A"]), ("X", ["B"]), ("Y", ["C"]), ("A", ["G", "C"]), ("B", ["G"]), ("C", ["G"]), ("G", []),
]  # fmt: skip
TO_THE_LEFT = [("M", ["G"]), ("X", ["B", "G"]), ("B", ["G"]), ("G", [])]
TWO_ROOTS = [("A", []), ("B", [])]
SHAPES = {
    "merged": (MERGED, """
● M2
├─╮
│ ● X1
● │ M1
├─╯
● G"""),
    "criss-cross": (CRISS_CROSS, """
● A2
├─╮
│ │ ● B2
├─┼─┤
● │ │ A1
│ ├─╯
│ ● B1
├─╯
● G"""),
    "across": (ACROSS, """
● M
│ ● X
│ │ ● Y
● │ │ A
├─┼─┤
│ ● │ B
│ │ ● C
├─╯ │
├───╯
● G"""),
    "to the left": (TO_THE_LEFT, """
● M
│ ● X
├─┤
│ ● B
├─╯
● G"""),
    "two roots": (TWO_ROOTS, """
● A
● B"""),
}  # fmt: skip


def drawn(commits, signs=DRAWN) -> str:
    lines = draw(commits, signs)
    return "\n".join(f"{line.signs.rstrip()} {line.commit or ''}".rstrip() for line in lines)


@pytest.mark.parametrize("shape", SHAPES)
def test_drawings(shape):
    commits, expected = SHAPES[shape]
    assert drawn(commits) == expected.strip("\n")


def test_where_the_signs_cannot_be_written_others_are():
    assert drawn(MERGED, TYPED).splitlines() == ["* M2", "|-\\", "| * X1", "* | M1", "|-/", "* G"]


def test_every_character_has_the_lane_of_its_colour():
    for line in draw(CRISS_CROSS):
        assert len(line.signs) == len(line.lanes)
        if line.commit is not None:
            at = line.signs.index("●")
            assert line.lanes[at] == at // 2


@pytest.fixture
def graph(place):
    """The URI of an empty graph."""
    og.init(place / "g.omni", place / "people.pg").close()
    return "g.omni"


@pytest.fixture
def two_branches(graph, place):
    """One commit on each of two branches; their ids, `main` first."""
    with og.open(place / graph) as opened:
        opened.branches.create("side")
        person = [{"type": "Person", "data": {"name": "a"}}]
        theirs = opened.load(person, branch="side", actor="act\nada").commit
        opened.tags.create("v1")
        return [opened.load(person, actor="bob").commit.graph_commit_id, theirs.graph_commit_id]


def test_people_see_lanes(omnigraph, graph, two_branches):
    ours, theirs = two_branches
    result = omnigraph("log", graph)
    first, second, joined, last = result.stdout.splitlines()
    assert [line[:5].rstrip() for line in (first, second, joined, last)] == ["●", "│ ●", "├─╯", "●"]
    assert (ours in first, " bob " in first, first.endswith("  load  main")) == (True, True, True)
    assert (theirs in second, second.endswith("  load  side")) == (True, True)
    assert r" act\nada " in second, "a name cannot break the drawing"
    assert last.endswith("  init  tag:v1")


def test_output_that_cannot_express_them_gets_other_signs(fresh, graph, two_branches):
    result = fresh("log", graph, env={"PYTHONIOENCODING": "ascii"})
    assert [line[:3] for line in result.stdout.splitlines()] == ["*  ", "| *", "|-/", "*  "]


def test_a_line_fits_the_screen_and_names_that_do_not_stand_below(graph, two_branches, place):
    with og.open(place / graph) as opened:
        person = [{"type": "Person", "data": {"name": "b"}}]
        last = opened.load(person, actor="an-actor-with-a-long-name").commit.graph_commit_id
        opened.tags.create("the-first-release-of-all")
    with Terminal(("log", graph), place, size=(84, 20)) as terminal:
        assert terminal.wait_for_end() == 0
        lines = terminal.text.splitlines()
    assert [line[:4].rstrip() for line in lines] == ["●", "│", "●", "│ ●", "├─╯", "●"]
    assert lines[0].startswith(f"●    {last}  ")
    assert " an-acto…  load" in lines[0]
    assert lines[1].split() == ["│", "main,", "tag:the-first-release-of-all"]
    assert [name in line for name, line in zip(two_branches, lines[2:4], strict=True)] == [True] * 2
    assert lines[5].endswith("  init  tag:v1")


def test_flat_pages_and_json(omnigraph, graph, two_branches):
    ours, theirs = two_branches
    flat = omnigraph("log", graph, "--flat").stdout.splitlines()
    assert flat[0].split() == ["commit", "time", "actor", "operation", "names"]
    assert [line.split()[0] for line in flat[1:3]] == [ours, theirs]
    page = omnigraph("log", graph, "--limit", "1", "--json")
    assert (page.json["next"], page.stderr) == (ours, "")
    assert [one["graph_commit_id"] for one in page.json["commits"]] == [ours]
    assert page.json["commits"][0]["branches"] == ["main"]
    rest = omnigraph("log", graph, "--before", ours, "--limit", "1")
    assert theirs in rest.stdout
    assert rest.stderr == f"there is more: --before {theirs}\n"
    only = omnigraph("log", graph, "--branch", "side", "--json").json
    assert only["heads"] == [{"branch": "side", "graph_commit_id": theirs}]
    assert len(only["commits"]) == 2


def test_refusals(omnigraph, graph):
    for argv, code in (
        (("--branch", "ghost"), "not_found"),
        (("--before", "ghost"), "bad_request"),
        (("--limit", "1001"), "bad_request"),
    ):
        result = omnigraph("log", graph, *argv, "--json")
        assert (result.exit, result.json["code"]) == (1, code)
    assert omnigraph("log", graph, "--limit", "0").exit == 2
