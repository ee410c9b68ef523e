"""States of a graph that texts name: one spelling for every call, as on the command line."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    CommitNotFound,
    PolicyDenied,
    TagNotFound,
    VersionNotFound,
)
from omnigraph.policy import Decision

NAMES = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"


def add(graph, name, branch="main"):
    return graph.load([{"type": "Person", "data": {"name": name}}], branch=branch).commit


@pytest.fixture
def graph(tmp_path):
    """ada, then bob on `main`, tagged `v1` in between; cy on `side`."""
    with og.init(tmp_path / "g", "node Person { name: String @key }") as graph:
        add(graph, "ada")
        graph.tags.create("v1")
        add(graph, "bob")
        graph.branches.create("side")
        add(graph, "cy", "side")
        yield graph


def names(graph, at):
    return [row["p.name"] for row in graph.query(NAMES, at=at)]


def shortest(graph, commit):
    """The shortest beginning of a commit's id that no other commit has."""
    others = [one.graph_commit_id for one in graph.commits.history().commits if one != commit]
    return next(
        commit.graph_commit_id[:size]
        for size in range(1, 27)
        if not any(one.startswith(commit.graph_commit_id[:size]) for one in others)
    )


def states(graph):
    """Texts for three states, and the names of the people there."""
    first = graph.commits.list()[1]
    return {
        "main": ["ada", "bob"],
        " main ": ["ada", "bob"],
        "side": ["ada", "bob", "cy"],
        "tag:v1": ["ada"],
        "tag: v1 ": ["ada"],
        f"main@{first.manifest_version}": ["ada"],
        f"commit:{first.graph_commit_id}": ["ada"],
        f"commit:{first.graph_commit_id.lower()}": ["ada"],
        f"commit:{shortest(graph, first)}": ["ada"],
    }


def test_every_reading_call_takes_them(graph, tmp_path):
    for text, people in states(graph).items():
        assert names(graph, text) == people, text
        assert graph.snapshot(at=text).tables["node:Person"].row_count == len(people)
        assert sorted(graph.nodes("Person", at=text).to_arrow()["name"].to_pylist()) == people
        assert graph.export(tmp_path / "out.jsonl", at=text).stats.records == len(people)
        assert (graph.entity("node", "Person", "cy", at=text) is not None) == ("cy" in people)
        assert graph.explain(NAMES, at=text).graph_commit_id


def test_both_sides_of_a_diff_take_them(graph):
    found = states(graph)
    for before, there in found.items():
        for after, then in found.items():
            changed = {change.id for change in graph.diff(before, after)}
            assert changed == set(there) ^ set(then), (before, after)


def test_branches_and_tags_are_made_at_them(graph):
    for number, (text, people) in enumerate(states(graph).items()):
        graph.branches.create(f"b{number}", from_=text)
        assert names(graph, f"b{number}") == people
        graph.tags.create(f"t{number}", at=text)
        assert names(graph, f"tag:t{number}") == people


WRONG = {
    "tag:none": TagNotFound,
    "tag:": BadRequest,
    "commit:": BadRequest,
    "commit:01JZZZZZZZZZZZZZZZZZZZZZZ1": CommitNotFound,
    "commit:7": CommitNotFound,
    "commit:no id!": CommitNotFound,
    "commit:" + "0" * 30: CommitNotFound,
    "main@99": VersionNotFound,
    "main@": BadRequest,
    "main@x": BadRequest,
    "none": BranchNotFound,
    "none@1": BranchNotFound,
    "state:x": BadRequest,
    "": BadRequest,
}


@pytest.mark.parametrize("text", WRONG)
def test_a_text_that_names_nothing_is_refused_alike(graph, text, tmp_path):
    for call in (
        lambda: graph.query(NAMES, at=text),
        lambda: graph.diff("main", text).page(),
        lambda: graph.branches.create("new", from_=text),
        lambda: graph.tags.create("new", at=text),
        lambda: graph.export(tmp_path / "out.jsonl", at=text),
    ):
        with pytest.raises(WRONG[text]):
            call()
    assert graph.branches.list() == ["main", "side"]
    assert [tag.name for tag in graph.tags.list()] == ["v1"]


def test_a_beginning_that_several_ids_have_says_so(graph):
    ids = [one.graph_commit_id for one in graph.commits.history().commits]
    assert {one[0] for one in ids} == {"0"}
    with pytest.raises(BadRequest, match=f"the ids of {len(ids)} commits begin with `0`"):
        graph.query(NAMES, at="commit:0")
    # A keyword takes whole ids only.
    with pytest.raises(CommitNotFound):
        graph.query(NAMES, snapshot=ids[0][:20])


def test_a_name_that_is_a_tag_or_a_commit_says_how_to_write_it(graph):
    head = graph.snapshot().graph_commit_id
    for name, said in (("v1", "there is a tag of that name: tag:v1"), (head, f"commit:{head}")):
        for call in (
            lambda given: graph.query(NAMES, at=given),
            lambda given: graph.query(NAMES, branch=given),
            lambda given: graph.diff("main", given).page(),
            lambda given: graph.branches.create("new", from_=given),
            lambda given: graph.tags.create("new", at=given),
        ):
            with pytest.raises(BranchNotFound, match=said):
                call(name)


def test_a_time_in_a_text_is_told_where_it_goes(graph):
    with pytest.raises(BadRequest, match="`time`"):
        graph.query(NAMES, at="2026-05-04T10:30:00Z")


def test_a_branch_that_has_the_name_of_a_tag_is_a_branch(graph):
    graph.branches.create("v1", from_="side")
    assert names(graph, "v1") == ["ada", "bob", "cy"]
    assert names(graph, "tag:v1") == ["ada"]


class OnlyMain:
    """A policy by which `main` can be read, and nothing else."""

    def check(self, question):
        return Decision(question.branch in (None, "main"))


def test_a_beginning_finds_no_commit_that_may_not_be_read(graph):
    on_side = graph.commits.list("side")[0]
    on_main = graph.commits.list()[0]
    with og.open(graph.uri, mode="r", policy=OnlyMain(), actor="ada") as guarded:
        with pytest.raises((CommitNotFound, PolicyDenied)):
            guarded.query(NAMES, at=f"commit:{shortest(graph, on_side)}")
        assert names(guarded, f"commit:{shortest(graph, on_main)}") == ["ada", "bob"]
        common = next(
            on_main.graph_commit_id[:size]
            for size in range(26, 0, -1)
            if on_side.graph_commit_id.startswith(on_main.graph_commit_id[:size])
        )
        readable = [one.graph_commit_id for one in graph.commits.list()]
        if sum(one.startswith(common) for one in readable) == 1:
            assert names(guarded, f"commit:{common}") == ["ada", "bob"]
