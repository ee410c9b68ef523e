"""A merge and a revert stand before their locks while others write: success or an ordinary refusal.

Whatever comes in between, no table has moved and the next write needs no reopen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import omnigraph as og
from omnigraph import errors
from tests.merge.harbors import call, new_harbor, paused, pins, port, put, ship, ships
from tests.opened import workspace_of
from tests.write.writing import state

Act = Callable[[og.Graph], Any]

HARMLESS: list[Act] = [
    ships,
    lambda g: g.branches.create("other"),
    lambda g: g.tags.create("v1"),
    lambda g: put(g, "third", ship("S1", tonnage=9)),
    lambda g: g.ensure_indices("main"),
    lambda g: put(g, "side", ship("S3", tonnage=9)),
    lambda g: g.optimize(),
]
MOVES_THE_TARGET: dict[str, Act] = {
    "another table": lambda g: put(g, "main", port("ROM")),
    "the same row": lambda g: put(g, "main", ship("S1", tonnage=9)),
    "an empty load": lambda g: g.load([]),
    "a merge": lambda g: g.branches.merge("third"),
    "a revert": lambda g: g.commits.revert(_last(g)),
}


def _last(graph: og.Graph) -> str:
    return graph.commits.list(limit=1)[0].graph_commit_id


@pytest.fixture
def harbor(tmp_path):
    with new_harbor(tmp_path / "harbor") as graph:
        graph.branches.create("third")
        put(graph, "third", port("NYC"))
        graph.branches.create("side")
        put(graph, "side", ship("S1", tonnage=100), call("c2", "S2", "GOT"))
        put(graph, "main", ship("S2", tonnage=200))
        yield graph


def refused_after(harbor: og.Graph, operation: str, work: Callable[[], Any], act: Act) -> Any:
    """Run the work with somebody in between; return the error, which must have left everything alone."""
    with (
        og.open(harbor.uri) as other,
        paused(f"{operation}.before_locks", work) as running,
    ):
        act(other)
        before = state(other), other.branches.list()
        with pytest.raises(errors.OmniGraphError) as refused:
            running.go_on()
        assert (state(other), other.branches.list()) == before
        assert workspace_of(harbor).store.list("__recovery") == []
    put(harbor, "main", port("GOT", city=f"after {_last(harbor)}"))
    return refused.value


def check_target_moved(harbor: og.Graph, operation: str, work: Callable[[], Any], act: Act) -> None:
    """The target moved, and the error says from which version of the manifest to which."""
    pinned = harbor.snapshot().manifest_version
    error = refused_after(harbor, operation, work, act)
    assert error.code == "expected_version_mismatch"
    facts = error.details
    assert (facts["table_key"], facts["expected"]) == ("__manifest", pinned)
    # The write after the refusal is the last one.
    assert facts["actual"] == harbor.commits.list(limit=2)[1].manifest_version


def test_a_merge_goes_on_after_what_does_not_concern_it(harbor):
    """Among it a compaction: rows are staged again, not written over the places they had."""
    for number in range(3):
        put(harbor, "main", ship(f"T{number}", tonnage=number))
    version = pins(harbor)["node:Ship"].table_version
    with (
        og.open(harbor.uri) as other,
        paused("branch_merge.before_locks", lambda: harbor.branches.merge("side")) as merge,
    ):
        for act in HARMLESS:
            act(other)
        merged = merge.go_on()
    assert pins(harbor)["node:Ship"].table_version > version + 2
    assert (merged.outcome, merged.stats.updates, merged.stats.inserts) == ("merged", 1, 1)
    added = {f"T{number}": number for number in range(3)}
    assert ships(harbor) == {"S1": 100, "S2": 200, "S3": 3, "S4": 4, **added}
    # What the source did meanwhile is left for the next merge.
    assert harbor.branches.merge("side").stats.updates == 1
    assert ships(harbor)["S3"] == 9


def test_a_merge_is_refused_when_its_target_has_moved(harbor):
    for act in MOVES_THE_TARGET.values():
        check_target_moved(
            harbor, "branch_merge", lambda: harbor.branches.merge("side", resolve="ours"), act
        )
    assert harbor.branches.merge("side", resolve="ours").outcome == "merged"


def test_a_merge_is_refused_when_a_side_is_gone_or_another(harbor):
    def merge() -> Any:
        return harbor.branches.merge("side")

    def make_again(graph: og.Graph) -> None:
        graph.branches.delete("side")
        graph.branches.create("side")

    again = refused_after(harbor, "branch_merge", merge, make_again)
    assert again.code == "expected_version_mismatch"
    put(harbor, "side", ship("S1", tonnage=5))
    gone = refused_after(harbor, "branch_merge", merge, lambda g: g.branches.delete("side"))
    assert gone.code == "branch_not_found"
    assert ships(harbor) == {"S1": 1, "S2": 200, "S3": 3, "S4": 4}


def test_a_revert_meets_other_writers(harbor):
    wanted = _last(harbor)

    def revert() -> Any:
        return harbor.commits.revert(wanted)

    for name in ("another table", "an empty load"):
        check_target_moved(harbor, "revert", revert, MOVES_THE_TARGET[name])
    with og.open(harbor.uri) as other, paused("revert.before_locks", revert) as running:
        other.branches.create("other")
        other.ensure_indices("main")
        reverted = running.go_on()
    assert reverted.outcome == "reverted"
    assert ships(harbor) == {"S1": 1, "S2": 2, "S3": 3, "S4": 4}


def test_a_net_zero_merge_rests_on_the_exact_head_too(harbor):
    put(harbor, "side", ship("S1", tonnage=1))
    harbor.mutate('query d() { delete CallsAt where from = "S2" }', branch="side")
    act = MOVES_THE_TARGET["another table"]
    check_target_moved(harbor, "branch_merge", lambda: harbor.branches.merge("side"), act)
    before = pins(harbor)
    assert harbor.branches.merge("side").outcome == "merged"
    assert pins(harbor) == before
