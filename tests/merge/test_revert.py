"""Reverts: one commit undone as a new one, whatever came after it."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph import errors
from tests.merge.harbors import (
    SCHEMA,
    call,
    drop_ship,
    files_of,
    new_harbor,
    pins,
    port,
    put,
    ship,
    ships,
)
from tests.stored import read_back
from tests.write.writing import state


@pytest.fixture
def harbor(tmp_path):
    with new_harbor(tmp_path / "harbor") as graph:
        yield graph


def test_undoing_every_commit_newest_first_ends_at_the_empty_graph(harbor):
    harbor.branches.create("side")
    put(harbor, "side", ship("S3", tonnage=300), ship("S9"), call("c2", "S9", "GOT", visits=1))
    history = [
        lambda: put(harbor, "main", ship("S1", tonnage=100), ship("S8")),
        lambda: drop_ship(harbor, "main", "S1"),
        lambda: harbor.branches.merge("side"),
        lambda: put(harbor, "main", call("c2", "S2", "OSL", visits=2)),
        lambda: harbor.load([port("ROM"), port("OSL")], mode="overwrite"),
    ]
    seen = [read_back(harbor)]
    for act in history:
        act()
        seen.append(read_back(harbor))
    commits = harbor.commits.list()
    for commit, before in zip(commits, reversed(seen[:-1]), strict=False):
        assert harbor.commits.revert(commit.graph_commit_id).outcome == "reverted"
        assert read_back(harbor) == before
    assert harbor.commits.revert(commits[-2].graph_commit_id).outcome == "reverted"
    assert not any(read_back(harbor).nodes.values())
    # And back again: undoing the reverts brings everything back, step by step.
    reverts = harbor.commits.list()[: len(seen)]
    for revert, after in zip(reverts, seen, strict=True):
        harbor.commits.revert(revert.graph_commit_id)
        assert read_back(harbor) == after


def test_a_revert_leaves_later_changes_alone_and_says_what_it_did(harbor):
    wrong = put(harbor, "main", ship("S1", tonnage=100), ship("S9"))
    later = put(harbor, "main", ship("S2", tonnage=200))
    files = files_of(harbor)
    with og.open(harbor.uri, mode="r") as reader:
        plan = reader.commits.revert(wrong.graph_commit_id, dry_run=True)
    assert files_of(harbor) == files
    reverted = harbor.commits.revert(wrong.graph_commit_id, actor="ada")
    assert plan.outcome == reverted.outcome == "reverted"
    assert (plan.stats.updates, plan.stats.deletes) == (1, 1)
    assert (reverted.stats.updates, reverted.stats.deletes) == (1, 1)
    made = reverted.commit
    assert (made.parent_commit_id, made.merged_parent_commit_id) == (later.graph_commit_id, None)
    assert (made.operation, made.actor_id) == ("revert", "ada")
    assert made.facts == {"revert": {"of": wrong.graph_commit_id, "resolved": 0}}
    assert ships(harbor) == {"S1": 1, "S2": 200, "S3": 3, "S4": 4}
    assert harbor.commits.revert(wrong.graph_commit_id).outcome == "nothing_to_revert"


def test_merging_again_does_not_bring_back_what_was_undone(harbor):
    harbor.branches.create("side")
    put(harbor, "side", ship("S1", tonnage=100))
    merged = harbor.branches.merge("side")
    undone = harbor.commits.revert(merged.commit.graph_commit_id)
    assert harbor.branches.merge("side").outcome == "already_up_to_date"
    put(harbor, "side", ship("S2", tonnage=200))
    harbor.branches.merge("side")
    assert ships(harbor) == {"S1": 1, "S2": 200, "S3": 3, "S4": 4}
    harbor.commits.revert(undone.commit.graph_commit_id)
    assert ships(harbor)["S1"] == 100


def test_a_branch_undoes_a_commit_of_main_by_pinning_the_state_before_it(harbor):
    before = pins(harbor)["node:Port"]
    made = put(harbor, "main", port("GOT", city="x"))
    harbor.branches.create("side")
    reverted = harbor.commits.revert(made.graph_commit_id, "side")
    assert (reverted.target, reverted.stats.tables_adopted) == ("side", 1)
    assert pins(harbor, "side")["node:Port"] == before
    assert read_back(harbor).nodes["Port"]["GOT"]["city"] == "x"
    assert read_back(harbor, "side").nodes["Port"]["GOT"]["city"] is None


def test_a_state_from_before_a_type_was_renamed_is_pinned_under_its_new_name(harbor):
    made = put(harbor, "main", port("GOT", city="x"))
    renamed = SCHEMA.replace("node Port {", 'node Haven @rename_from("Port") {')
    harbor.schema.apply(renamed.replace("-> Port", "-> Haven"))
    harbor.branches.create("side")
    assert harbor.commits.revert(made.graph_commit_id, "side").stats.tables_adopted == 1
    put(harbor, "side", {"type": "Haven", "data": {"code": "ROM"}})
    cities = {code: row["city"] for code, row in read_back(harbor, "side").nodes["Haven"].items()}
    assert cities == {"OSL": None, "GOT": None, "ROM": None}


def test_conflicts_of_a_revert_are_decided_like_those_of_a_merge(harbor):
    wrong = put(harbor, "main", ship("S1", tonnage=100))
    put(harbor, "main", ship("S1", tonnage=200))
    before = state(harbor)
    with pytest.raises(errors.MergeConflicts, match="revert"):
        harbor.commits.revert(wrong.graph_commit_id)
    assert state(harbor) == before
    kept = harbor.commits.revert(wrong.graph_commit_id, resolve="ours")
    assert (kept.outcome, kept.commit) == ("nothing_to_revert", None)
    taken = harbor.commits.revert(wrong.graph_commit_id, resolve="theirs")
    assert taken.commit.facts["revert"]["resolved"] == 1
    assert ships(harbor)["S1"] == 1


def test_an_edge_whose_node_is_undone_is_an_orphan(harbor):
    wrong = put(harbor, "main", ship("S9"))
    put(harbor, "main", call("c9", "S9", "OSL"))
    with pytest.raises(errors.MergeConflicts) as refused:
        harbor.commits.revert(wrong.graph_commit_id)
    (conflict,) = refused.value.details["conflicts"]
    assert (conflict["kind"], conflict["row_id"]) == ("orphan_edge", "c9")


def test_commits_that_cannot_be_undone(harbor):
    first = harbor.commits.list()[-1]
    with pytest.raises(errors.NoParent):
        harbor.commits.revert(first.graph_commit_id)
    for given in ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"):
        with pytest.raises(errors.CommitNotFound):
            harbor.commits.revert(given)
    with pytest.raises(errors.BadRequest):
        harbor.commits.revert(3)
    with pytest.raises(errors.BranchNotFound):
        harbor.commits.revert(first.graph_commit_id, "ghost")
    harbor.branches.create("side")
    made = put(harbor, "side", ship("S1", tonnage=100))
    with pytest.raises(errors.BadRequest, match="not in the history"):
        harbor.commits.revert(made.graph_commit_id)


def test_commits_from_before_a_schema_change(harbor):
    renamed = SCHEMA.replace("tonnage: I32?", 'weight: I32? @rename_from("tonnage")')
    wrong = put(harbor, "main", ship("S1", tonnage=100))
    other = put(harbor, "main", port("GOT", city="x"))
    applied = harbor.schema.apply(renamed).commit
    # A rename is undone.
    assert harbor.commits.revert(applied.graph_commit_id).outcome == "reverted"
    assert read_back(harbor).nodes["Ship"]["S1"]["tonnage"] == 100
    harbor.schema.apply(renamed)
    # A renamed property is the same one.
    assert harbor.commits.revert(wrong.graph_commit_id).stats.updates == 1
    assert read_back(harbor).nodes["Ship"]["S1"]["weight"] == 1
    # One that was added since keeps its value.
    harbor.schema.apply(renamed.replace("city: String?", "city: String? depth: I32?"))
    harbor.load([{"type": "Port", "data": {"code": "GOT", "depth": 12}}], mode="patch")
    assert harbor.commits.revert(other.graph_commit_id).outcome == "reverted"
    gothenburg = read_back(harbor).nodes["Port"]["GOT"]
    assert gothenburg["depth"] == 12
    assert gothenburg["city"] != "x"


def test_maintenance_has_nothing_to_undo(harbor):
    harbor.ensure_indices()
    made = harbor.commits.list(limit=1)[0]
    assert made.operation == "ensure_indices"
    undone = harbor.commits.revert(made.graph_commit_id)
    assert (undone.outcome, undone.commit) == ("nothing_to_revert", None)
