"""Merge bases, ancestors, records that a branch lacks, and commits of equal content."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import CommitNotFound, HistoryReclaimed
from omnigraph.manifest.history import equal_content, records
from omnigraph.manifest.history.ancestry import (
    CommitGraph,
    is_ancestor,
    merge_bases,
    unknown_records,
)
from omnigraph.manifest.history.equal_content import readable_snapshot
from omnigraph.manifest.migrations import with_depths
from omnigraph.manifest.rows import GraphCommit
from tests.manifest.dag_model import History, Recorded, commit, histories, names, state_of


def graph_of(history: History, **heads: str) -> CommitGraph:
    """The commit graph of branches at these commits, each of which holds what it reaches."""
    held = {branch: history.holding(head) for branch, head in heads.items()}
    states = [state_of(branch, history.commits[head]) for branch, head in heads.items()]
    return CommitGraph(Recorded(held), states)  # type: ignore[arg-type]


def bases(history: History, a: str, b: str) -> list[str]:
    graph = graph_of(history, main=a, other=b)
    return names(merge_bases(graph, history.commits[a], history.commits[b]))


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch):
    """So that even small graphs are read in several pages."""
    monkeypatch.setattr(records, "PAGE", 3)


@given(histories(), st.data())
def test_merge_bases_are_those_of_the_naive_model(drawn, data):
    history, heads = drawn
    pick = st.one_of(st.sampled_from(heads), st.sampled_from(sorted(history.commits)))
    a, b = data.draw(pick), data.draw(pick)
    assert bases(history, a, b) == history.merge_bases(a, b)


@given(histories(), st.data())
def test_ancestors_and_unknown_records_are_those_of_the_naive_model(drawn, data):
    history, _ = drawn
    pick = st.sampled_from(sorted(history.commits))
    source, target, asked = data.draw(pick), data.draw(pick), data.draw(pick)
    graph = graph_of(history, main=target, other=source)
    known = history.ancestors(source) | history.ancestors(target)
    assert is_ancestor(graph, asked, source) == (asked in history.ancestors(source))
    assert graph.holds(asked) == (asked in known)
    state = state_of("main", history.commits[target])
    missing = unknown_records(graph, history.commits[source], state)
    assert set(names(missing)) == history.ancestors(source) - history.ancestors(target)
    assert [one.depth for one in missing] == sorted(one.depth for one in missing)


@given(histories())
def test_depths_can_be_found_again(drawn):
    """What a migration does to records that were written without depths."""
    history, _ = drawn
    bare = [commit_without_depth(one) for one in history.commits.values()]
    assert with_depths(reversed(bare)) == history.commits


def commit_without_depth(one: GraphCommit) -> GraphCommit:
    return replace(one, depth=0)


def test_a_branch_of_an_older_format_is_read_whole():
    """Its records have no depths, and a read has no side effects."""
    history = History([commit("G"), commit("A", "G"), commit("B", "A"), commit("C", "A")])
    held = {name: commit_without_depth(one) for name, one in history.commits.items()}
    states = [state_of("main", held["B"]), state_of("other", held["C"])]
    graph = CommitGraph(Recorded({"main": held, "other": held}), states)  # type: ignore[arg-type]
    (base,) = merge_bases(graph, held["B"], held["C"])
    assert (base.graph_commit_id, base.depth) == ("A", 2)


@given(histories(), st.data())
def test_stand_ins_are_those_of_the_naive_model(drawn, data):
    """The newest readable common ancestor of equal content, else any readable one of equal content."""
    history, (a, b, third, _) = drawn
    pick = st.sampled_from(sorted(history.commits))
    unreadable = data.draw(st.sets(pick))
    base = history.commits[history.merge_bases(a, b)[0]]
    graph = graph_of(history, main=a, other=b, third=third)
    live = set().union(*(history.ancestors(head) for head in (a, b, third)))
    candidates = history.equals(base.graph_commit_id) & live - unreadable
    common = candidates & history.ancestors(a) & history.ancestors(b)

    def read(_workspace: Any, one: Any, _pinned: Any, _needed: Any) -> str:
        if one.graph_commit_id in unreadable:
            raise HistoryReclaimed("gone", table_key=one.graph_commit_id, version=1)
        return str(one.graph_commit_id)

    heads = [history.commits[a], history.commits[b]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equal_content, "read_commit", read)
        if not candidates:
            with pytest.raises(HistoryReclaimed) as refused:
                readable_snapshot(None, graph, base, heads)  # type: ignore[arg-type]
            assert refused.value.details["table_key"] == base.graph_commit_id
            return
        found: Any = readable_snapshot(None, graph, base, heads)  # type: ignore[arg-type]
    assert found in candidates
    if common:
        assert found == max(common, key=lambda name: age(history, name))


def age(history: History, name: str) -> tuple[int, int, str]:
    one = history.commits[name]
    return one.depth, one.created_us, name


# -- named shapes


def shape(*commits: Any) -> History:
    return History([commit("G"), *commits])


def test_criss_cross():
    """Both merged the other's first commit: two bases, and the nearer, younger, greater one first."""
    history = shape(
        commit("A1", "G", at=1), commit("B1", "G", at=2),
        commit("A2", "A1", "B1"), commit("B2", "B1", "A1"),
    )  # fmt: skip
    assert bases(history, "A2", "B2") == ["B1", "A1"]
    longer = History([*history.commits.values(), commit("B3", "B2"), commit("B4", "B3", "B1")])
    assert bases(longer, "A2", "B4") == ["B1", "A1"], "B1 is one step from B4"
    older = History([*history.commits.values(), commit("B3", "B2"), commit("B4", "B3", "A1")])
    assert bases(older, "A2", "B4") == ["A1", "B1"], "now the nearer one, though it is older"


def test_a_deep_base_hides_what_is_below_it_from_a_shallow_one():
    """T5 and S are bases; T1 to T4 lie between them in depth and are only ancestors of T5."""
    history = shape(
        commit("S", "G"), commit("T1", "G"), *(commit(f"T{n}", f"T{n - 1}") for n in range(2, 6)),
        commit("L", "T5", "S"), commit("R", "T5", "S"), commit("R2", "R"),
    )  # fmt: skip
    assert bases(history, "L", "R2") == ["T5", "S"]


def test_the_shortest_way_to_a_base_counts():
    """P is as near as Q, and younger, but only by the way over Z; the way over P2 is met first."""
    history = shape(
        commit("P", "G", at=2), commit("Q", "G", at=1), commit("P1", "P"), commit("P2", "P1"),
        commit("Z", "P"), commit("A1", "P2", "Z"), commit("A2", "A1", "Q"), commit("A3", "A2"),
        commit("B1", "P", "Q"), commit("B2", "B1"), commit("B3", "B2", "P"),
    )  # fmt: skip
    assert bases(history, "A3", "B3") == ["P", "Q"]


def test_nested_branches_merged_inside_out():
    """x forks from y, y from main; x goes into y, y into main: main and x then meet at x."""
    history = shape(
        commit("Y1", "G"), commit("X1", "Y1"), commit("Y2", "Y1", "X1", outcome="fast_forward"),
        commit("M1", "G", "Y2", outcome="fast_forward"), commit("X2", "X1"),
    )  # fmt: skip
    assert bases(history, "M1", "X2") == ["X1"]
    assert bases(history, "M1", "Y2") == ["Y2"]


def test_merged_back():
    """After main was merged into x and x into main, the base is the newer of the two merges."""
    history = shape(
        commit("M1", "G"), commit("X1", "G"), commit("X2", "X1", "M1"), commit("M2", "M1", "X2"),
        commit("X3", "X2"), commit("M3", "M2"),
    )  # fmt: skip
    assert bases(history, "M3", "X3") == ["X2"]


def test_maintenance_is_neither_a_base_nor_a_step():
    history = shape(
        commit("M1", "G"), commit("O1", "M1", operation="optimize"),
        commit("O2", "O1", operation="ensure_indices"), commit("X1", "O2"), commit("M2", "O1"),
        commit("O3", "M2", operation="optimize"),
    )  # fmt: skip
    assert bases(history, "O3", "X1") == ["M1"]
    assert bases(history, "O2", "O1") == ["M1"]
    assert bases(history, "O3", "M2") == ["M2"]
    graph = graph_of(history, main="O3", other="X1")
    assert graph.counts_as(history.commits["O2"]).graph_commit_id == "M1"


def test_an_old_side_branch_does_not_cost_the_whole_history():
    """A way around the base that only one side has cannot lead to another base."""
    trunk = [commit("G"), commit("S", "G")]
    trunk += [commit(f"T{n}", f"T{n - 1}" if n else "G") for n in range(60)]
    history = History([*trunk, commit("A", "T59", "S"), commit("B", "T59")])
    recorded = Recorded({"main": history.holding("A"), "other": history.holding("B")})
    states = [state_of("main", history.commits["A"]), state_of("other", history.commits["B"])]
    graph = CommitGraph(recorded, states)  # type: ignore[arg-type]
    assert names(merge_bases(graph, history.commits["A"], history.commits["B"])) == ["T59"]
    assert len(recorded.pages) <= 2
    assert min(low for low, _ in recorded.pages) > 50


def test_a_commit_of_no_branch_is_not_found():
    history = shape(commit("A", "G"))
    graph = graph_of(history, main="A")
    with pytest.raises(CommitNotFound):
        graph.record("nowhere")
    assert not is_ancestor(graph, "nowhere", "A")
    with pytest.raises(CommitNotFound):
        is_ancestor(graph, "A", "nowhere")
