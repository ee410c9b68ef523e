"""The commits of several branches in one order."""

from __future__ import annotations

import pytest
from hypothesis import given

from omnigraph.errors import BadRequest, BranchNotFound, ResourceLimit
from omnigraph.manifest.history import records
from omnigraph.manifest.history.ancestry import CommitGraph
from omnigraph.manifest.history.history import _newest_first
from tests.graphs import graph_of
from tests.manifest.dag_model import History, Recorded, commit, histories, names, state_of
from tests.manifest.publishing import PERSON, SCHEMA, TEAM, advance
from tests.opened import workspace_of


def naive_order(history: History, heads: set[str]) -> list[str]:
    """Always the youngest of those whose children are all shown already."""
    left = set().union(*(history.ancestors(head) for head in heads))
    order = []
    while left:
        with_child = {parent for name in left for parent in history.commits[name].parent_ids}
        ready = left - with_child
        order.append(max(ready, key=lambda name: (history.commits[name].created_us, name)))
        left.remove(order[-1])
    return order


def ordered(history: History, heads: list[str]) -> tuple[list[str], Recorded]:
    held = {str(at): history.holding(head) for at, head in enumerate(heads)}
    recorded = Recorded(held)
    states = [state_of(str(at), history.commits[head]) for at, head in enumerate(heads)]
    graph = CommitGraph(recorded, states)  # type: ignore[arg-type]
    return names(_newest_first(graph, states)), recorded


@given(histories())
def test_the_order_is_that_of_the_naive_model(drawn):
    history, heads = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "PAGE", 3)
        assert ordered(history, heads)[0] == naive_order(history, set(heads))


def test_a_branch_left_behind_does_not_cost_the_whole_history():
    """Its head is old, so it is not looked at before its turn comes."""
    trunk = [
        commit("G", at=0),
        *(commit(f"T{n}", f"T{n - 1}" if n else "G", at=n + 2) for n in range(3000)),
    ]
    history = History([*trunk, commit("S", "G", at=1)])
    recorded = Recorded({"main": history.commits, "old": history.holding("S")})
    states = [state_of("main", history.commits["T2999"]), state_of("old", history.commits["S"])]
    commits = _newest_first(CommitGraph(recorded, states), states)  # type: ignore[arg-type]
    assert names([next(commits) for _ in range(5)]) == [f"T{n}" for n in range(2999, 2994, -1)]
    assert len(recorded.pages) == 1
    assert list(names(commits))[-2:] == ["S", "G"]


graph = graph_of(SCHEMA)


def test_the_document(graph):
    manifest = workspace_of(graph).manifest
    (genesis,) = graph.commits.list()
    graph.branches.create("x")
    graph.branches.create("a")
    theirs = advance(manifest, PERSON, branch="x", actor="ada")
    ours = advance(manifest, TEAM)
    history = graph.commits.history()
    assert history.commits == [ours, theirs, genesis]
    assert history.to_json() == {
        "commits": [
            {**ours.to_json(), "branches": ["main"], "tags": []},
            {**theirs.to_json(), "branches": ["x"], "tags": []},
            {**genesis.to_json(), "branches": ["a"], "tags": []},
        ],
        "heads": [
            {"branch": "main", "graph_commit_id": ours.graph_commit_id},
            {"branch": "a", "graph_commit_id": genesis.graph_commit_id},
            {"branch": "x", "graph_commit_id": theirs.graph_commit_id},
        ],
    }
    only = graph.commits.history(["x", " x ", "a"])
    assert only.commits == [theirs, genesis]
    assert list(only.heads) == ["a", "x"]
    assert graph.commits.history("x").commits == [theirs, genesis]
    for name in ("v2", "v1"):
        graph.tags.create(name, at=genesis)
    tagged = graph.commits.history("x")
    assert [one["tags"] for one in tagged.to_json()["commits"]] == [[], ["v1", "v2"]]


def test_pages_join_up(graph):
    manifest = workspace_of(graph).manifest
    graph.branches.create("x")
    for at in range(6):
        advance(manifest, PERSON, branch="x" if at % 2 else "main")
    whole = graph.commits.history()
    assert (len(whole.commits), whole.next) == (7, None)
    found, before = [], None
    while True:
        page = graph.commits.history(limit=3, before=before)
        found += page.commits
        before = page.next
        if before is None:
            break
        assert before == page.commits[-1].graph_commit_id
    assert found == whole.commits
    last = graph.commits.history(before=whole.commits[-1].graph_commit_id)
    assert (last.commits, last.next) == ([], None)


def test_a_branch_deleted_meanwhile_is_left_out_unless_it_was_named(graph, monkeypatch):
    manifest = workspace_of(graph).manifest
    state_of, doomed = manifest.state, []

    def delete_first(branch):
        if branch in doomed:
            graph.branches.delete(doomed.pop())
        return state_of(branch)

    monkeypatch.setattr(manifest, "state", delete_first)
    graph.branches.create("x")
    doomed.append("x")
    assert list(graph.commits.history().heads) == ["main"]
    graph.branches.create("x")
    doomed.append("x")
    with pytest.raises(BranchNotFound):
        graph.commits.history(["main", "x"])


def test_refusals(graph):
    with pytest.raises(BranchNotFound):
        graph.commits.history(["main", "ghost"])
    with pytest.raises(ResourceLimit) as above:
        graph.commits.history(limit=1001)
    assert above.value.details == {"resource": "history_commits", "limit": 1000, "actual": 1001}
    for wrong in (
        {"limit": 0},
        {"limit": True},
        {"before": "ghost"},
        {"branches": 3},
        {"branches": [3]},
    ):
        with pytest.raises(BadRequest):
            graph.commits.history(**wrong)
