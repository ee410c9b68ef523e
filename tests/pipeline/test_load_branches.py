"""Loads that make their branch: with others at it, and when they fail."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import ConstraintError, InputError
from omnigraph.manifest import refs
from omnigraph.write.branches import discard_branch
from tests.graphs import graph_of, person
from tests.opened import workspace_of
from tests.stored import read_back

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"


graph = graph_of(SCHEMA)


STRAY = {"edge": "Knows", "from": "nobody", "to": "nobody"}


def names(graph, branch):
    return sorted(read_back(graph, branch).nodes["Person"])


def rival_at(phase, graph):
    """Let another handle load into the branch `b` once, when a load begins a phase: for `progress`."""
    done = []

    def act(progress):
        if progress.phase == phase and not done:
            done.append(phase)
            with og.open(graph.uri) as other:
                other.load([person("rival")], branch="b", from_branch="main")

    return act


@pytest.mark.parametrize("phase", ["reading", "validating"])
@pytest.mark.parametrize("refused", [person("a", age="x"), STRAY])
def test_a_refused_load_never_takes_away_what_others_wrote(graph, phase, refused):
    """Somebody else loads into the branch this load makes, which then fails."""
    rival = rival_at(phase, graph)
    with pytest.raises((InputError, ConstraintError)):
        graph.load([refused], branch="b", from_branch="main", progress=rival)
    if "b" in graph.branches.list():
        assert names(graph, "b") == ["rival"]
    else:
        # The rival never began: the record was bad, and the load ended before that phase.
        assert (phase, refused) == ("validating", person("a", age="x"))


def test_a_branch_made_by_another_load_meanwhile_is_used(graph):
    rival = rival_at("reading", graph)
    result = graph.load([person("a")], branch="b", from_branch=" main ", progress=rival)
    assert (result.branch_created, result.base_branch) == (False, "main")
    assert names(graph, "b") == ["a", "rival"]


def test_bad_records_make_no_branch_at_all(graph):
    with (
        failpoints.arm("branch.before_create", AssertionError("a branch was made")),
        pytest.raises(InputError),
    ):
        graph.load([person("a", age="x")], branch="b", from_branch="main")
    assert graph.branches.list() == ["main"]


def test_a_broken_rule_takes_the_new_branch_back(graph):
    with pytest.raises(ConstraintError):
        graph.load([STRAY], branch="b", from_branch="main")
    assert graph.branches.list() == ["main"]


def test_an_interrupted_load_that_can_be_finished_keeps_its_branch(graph):
    point = "load.after_phase_b_before_phase_c"
    with failpoints.arm(point, RuntimeError("stop"), times=1), pytest.raises(RuntimeError):
        graph.load([person("a")], branch="b", from_branch="main")
    with og.open(graph.uri) as reopened:
        assert names(reopened, "b") == ["a"]


def test_only_an_untouched_branch_is_discarded(graph):
    made = graph.branches.create("b")
    graph.load([person("a")], branch="b")
    assert discard_branch(workspace_of(graph), made) is False
    assert names(graph, "b") == ["a"]
    again = graph.branches.create("c")
    assert discard_branch(workspace_of(graph), again) is True
    assert refs.list_refs(workspace_of(graph).manifest) == ["main", "b"]
