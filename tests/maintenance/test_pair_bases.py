"""Merge bases of all pairs of branches: each pair gets what it would get if it were asked for alone."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import HistoryReclaimed
from omnigraph.maintenance.cleanup.pair_bases import pair_bases
from omnigraph.manifest.history import equal_content
from omnigraph.manifest.history.ancestry import CommitGraph
from omnigraph.manifest.history.equal_content import readable_snapshot
from tests.manifest.dag_model import Recorded, histories, state_of


@given(histories(), st.data())
def test_every_pair_reads_what_it_would_alone(drawn, data):
    history, heads = drawn
    branches = dict(zip(["main", "a", "b", "c", "lazy"], [*heads, heads[0]], strict=True))
    unreadable = data.draw(st.sets(st.sampled_from(sorted(history.commits))))
    held = {name: history.holding(head) for name, head in branches.items()}
    states = {name: state_of(name, history.commits[head]) for name, head in branches.items()}
    workspace: Any = SimpleNamespace(manifest=Recorded(held))
    asked: list[str] = []

    def read(_workspace: Any, one: Any, _pinned: Any, _needed: Any) -> Any:
        asked.append(one.graph_commit_id)
        if one.graph_commit_id in unreadable:
            raise HistoryReclaimed("gone", table_key=one.graph_commit_id, version=1)
        return SimpleNamespace(commit=one)

    def alone(first: str, second: str) -> list[str]:
        graph: Any = CommitGraph(workspace.manifest, states.values())
        pair = [history.commits[branches[name]] for name in (first, second)]
        found = []
        for base in history.merge_bases(branches[first], branches[second]):
            try:
                one = readable_snapshot(workspace, graph, history.commits[base], pair)
            except HistoryReclaimed:
                continue
            found.append(one.commit.graph_commit_id)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equal_content, "read_commit", read)
        together = {
            pair: [one.commit.graph_commit_id for one in found]
            for pair, found in pair_bases(workspace, states)
        }
        # No commit is read twice, however many pairs need it.
        assert len(asked) == len(set(asked))
        assert together == {
            f"{first}..{second}": alone(first, second)
            for first, second in combinations(branches, 2)
        }
