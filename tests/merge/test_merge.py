"""Merges of whole branches: what is written, what is left alone, and what a refused merge leaves."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph import errors, failpoints
from omnigraph.storage.tables.table import open_table
from omnigraph.write.merge.operation import MergeRun
from tests.commit.synthetic import dying_at, foreign_append
from tests.merge.harbors import (
    call,
    drop_ship,
    files_of,
    new_harbor,
    paused,
    pins,
    port,
    put,
    ship,
    ships,
)
from tests.opened import workspace_of
from tests.stored import read_back
from tests.write.writing import state

SHIP, PORT, CALLS = "node:Ship", "node:Port", "edge:CallsAt"


@pytest.fixture
def harbor(tmp_path):
    with new_harbor(tmp_path / "harbor") as graph:
        yield graph


# ------------------------------------------------------------------ what is written


def test_only_merged_rows_get_new_stamps_and_row_ids_stay(harbor):
    table = open_table(workspace_of(harbor).pinned(pins(harbor)[SHIP]))
    before = {row["id"]: row for row in stamps(table)}
    harbor.branches.create("side")
    put(harbor, "side", ship("S1", tonnage=100), ship("S9"))
    drop_ship(harbor, "side", "S4")
    put(harbor, "main", ship("S2", tonnage=200))
    merged = harbor.branches.merge("side")
    stats = merged.stats
    assert (merged.outcome, stats.inserts, stats.updates, stats.deletes) == ("merged", 1, 1, 1)
    pin = pins(harbor)[SHIP]
    assert pin.table_version == table.version + 2  # the patch of S2, then the merge
    after = {row["id"]: row for row in stamps(open_table(workspace_of(harbor).pinned(pin)))}
    assert after.keys() == {"S1", "S2", "S3", "S9"}
    assert after["S3"] == before["S3"]
    assert {after[imo]["_rowid"] for imo in ("S1", "S2", "S3")} == {
        before[imo]["_rowid"] for imo in ("S1", "S2", "S3")
    }
    written = "_row_last_updated_at_version"
    changed = {imo for imo, row in after.items() if row[written] == pin.table_version}
    assert changed == {"S1", "S9"}
    assert ships(harbor) == {"S1": 100, "S2": 200, "S3": 3, "S9": None}


def stamps(table):
    names = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    return table.read(names).to_pylist()


def test_a_merge_commit_has_two_parents_its_facts_and_the_records_of_the_source(harbor):
    harbor.branches.create("side")
    first = put(harbor, "side", ship("S1", tonnage=100))
    harbor.branches.create("deep", from_="side")
    deep = put(harbor, "deep", ship("S3", tonnage=300))
    harbor.branches.merge("deep", "side", actor="ada")
    base = harbor.commits.list()[0]
    target = put(harbor, "main", ship("S2", tonnage=200))
    head = harbor.snapshot(branch="side").graph_commit_id
    made = harbor.branches.merge("side", actor="bob").commit
    assert (made.parent_commit_id, made.merged_parent_commit_id) == (target.graph_commit_id, head)
    assert (made.operation, made.actor_id, made.branch) == ("branch_merge", "bob", None)
    assert made.facts == {
        "merge": {
            "outcome": "merged",
            "base_commit_id": base.graph_commit_id,
            "granularity": "entity",
            "resolved": 0,
        }
    }
    # Ancestry does not depend on the branches that were merged.
    harbor.branches.delete("deep")
    harbor.branches.delete("side")
    assert harbor.commits.show(first.graph_commit_id) == first
    assert harbor.commits.show(deep.graph_commit_id).branch == "deep"
    assert harbor.commits.show(head).actor_id == "ada"


def test_a_source_that_changed_nothing_in_the_end_makes_a_commit_and_moves_no_table(harbor):
    harbor.branches.create("side")
    put(harbor, "side", ship("S1", tonnage=100))
    put(harbor, "side", ship("S1", tonnage=1))
    put(harbor, "main", port("GOT", city="x"))
    before = pins(harbor)
    merged = harbor.branches.merge("side")
    assert (merged.outcome, merged.stats.updates, merged.stats.candidates) == ("merged", 0, 1)
    assert pins(harbor) == before
    assert harbor.commits.list()[0] == merged.commit
    assert harbor.branches.merge("side").outcome == "already_up_to_date"


def test_blobs_of_every_kind_are_carried(harbor, tmp_path):
    near, far = b"near" * 10, b"far" * 50_000  # in the data file, and in a file of blobs
    large = b"large" * 1_200_000  # in a file of its own
    harbor.branches.create("side")
    for imo, data in {"S1": near, "S2": far, "S3": large, "S4": b""}.items():
        harbor.blobs.write("node", "Ship", imo, "photo", [data], branch="side")
    harbor.blobs.write("node", "Ship", "S1", "photo", [b"old"])
    put(harbor, "side", ship("S2", tonnage=22))
    merged = harbor.branches.merge("side", resolve="theirs")
    assert (merged.stats.updates, merged.stats.resolved) == (4, 1)
    for imo, data in {"S1": near, "S2": far, "S3": large, "S4": b""}.items():
        assert harbor.blobs.read("node", "Ship", imo, "photo") == data
    assert ships(harbor)["S2"] == 22


def test_a_combined_row_takes_each_blob_from_its_side(harbor):
    data = b"far" * 50_000
    harbor.branches.create("side")
    harbor.blobs.write("node", "Ship", "S1", "photo", [data], branch="main")
    put(harbor, "side", ship("S1", tonnage=100))
    put(harbor, "main", ship("S2", tonnage=200))
    harbor.blobs.write("node", "Ship", "S2", "photo", [data * 2], branch="side")
    merged = harbor.branches.merge("side", granularity="property")
    assert merged.stats.updates == 2
    assert harbor.blobs.read("node", "Ship", "S1", "photo") == data
    assert harbor.blobs.read("node", "Ship", "S2", "photo") == data * 2
    assert ships(harbor) == {"S1": 100, "S2": 200, "S3": 3, "S4": 4}


def test_rows_that_do_not_fit_in_memory_go_through_files(harbor, monkeypatch):
    monkeypatch.setattr(MergeRun, "held_bytes", 1_000)
    many = [f"M{n:05}" for n in range(20_000)]
    harbor.branches.create("side")
    harbor.load([ship(imo, tonnage=7) for imo in many], branch="side")
    put(harbor, "side", *(ship(f"S{n}", tonnage=70) for n in (1, 2)))
    put(harbor, "main", ship("S3", tonnage=30))
    merged = harbor.branches.merge("side")
    assert (merged.stats.inserts, merged.stats.updates) == (20_000, 2)
    assert ships(harbor) == {
        **dict.fromkeys(many, 7),
        "S1": 70,
        "S2": 70,
        "S3": 30,
        "S4": 4,
    }
    # The other way, everything is deleted again.
    undone = harbor.commits.revert(merged.commit.graph_commit_id)
    assert (undone.stats.deletes, undone.stats.updates) == (20_000, 2)
    assert ships(harbor) == {"S1": 1, "S2": 2, "S3": 30, "S4": 4}


# ------------------------------------------------------------------ pins that are taken over


def test_a_branch_takes_over_states_of_main_beside_rows_that_it_writes(harbor):
    harbor.branches.create("side")
    put(harbor, "side", ship("S1", tonnage=100))
    put(harbor, "main", ship("S2", tonnage=200), port("GOT", city="x"), call("c2", "S2", "GOT"))
    main = pins(harbor)
    plan = harbor.branches.merge("main", "side", dry_run=True)
    merged = harbor.branches.merge("main", "side")
    assert merged.outcome == "merged"
    assert (merged.stats.tables_adopted, plan.stats.tables_adopted) == (2, 2)
    side = pins(harbor, "side")
    assert side[PORT] == main[PORT]
    assert side[CALLS] == main[CALLS]
    assert side[SHIP].table_branch == "side"
    assert ships(harbor, "side") == {"S1": 100, "S2": 200, "S3": 3, "S4": 4}
    # Its own first write forks what it took over.
    put(harbor, "side", port("OSL", city="y"))
    assert pins(harbor, "side")[PORT].table_branch == "side"
    assert read_back(harbor, "side").nodes["Port"] == {
        "GOT": {"code": "GOT", "city": "x"},
        "OSL": {"code": "OSL", "city": "y"},
    }
    assert pins(harbor) == main


def test_a_branch_that_forked_a_table_writes_rows(harbor):
    harbor.branches.create("side")
    put(harbor, "side", port("GOT", city="x"))
    put(harbor, "side", port("GOT", city=None))
    harbor.branches.merge("side")
    put(harbor, "main", port("GOT", city="z"))
    merged = harbor.branches.merge("main", "side")
    assert (merged.stats.tables_adopted, merged.stats.updates) == (0, 1)
    assert pins(harbor, "side")[PORT].table_branch == "side"


def test_the_head_of_main_is_undone_by_a_new_version_of_its_table(harbor):
    made = put(harbor, "main", port("GOT", city="x"))
    pin = pins(harbor)[PORT]
    reverted = harbor.commits.revert(made.graph_commit_id)
    assert reverted.stats.tables_adopted == 0
    assert pins(harbor)[PORT].table_version == pin.table_version + 1
    put(harbor, "main", port("GOT", city="y"))


def test_what_a_branch_takes_over_survives_a_crash(harbor):
    harbor.branches.create("side")
    put(harbor, "side", ship("S1", tonnage=100))
    put(harbor, "main", ship("S2", tonnage=200), port("GOT", city="x"))
    main = state(harbor)
    with dying_at("branch_merge.after_phase_b_before_phase_c"):
        harbor.branches.merge("main", "side", actor="ada")
    assert pins(harbor, "side")[PORT] != main[1][PORT]
    # The next write on that branch finishes it, on the branch that the writer was on.
    put(harbor, "side", ship("S3", tonnage=300))
    assert pins(harbor, "side")[PORT] == main[1][PORT]
    assert ships(harbor, "side") == {"S1": 100, "S2": 200, "S3": 300, "S4": 4}
    assert state(harbor) == main
    merge = harbor.commits.list("side")[1]
    assert merge.operation == "branch_merge"
    assert merge.facts["recovery"]["recovery_for_actor"] == "ada"
    assert harbor.branches.merge("main", "side").outcome == "already_up_to_date"


def test_a_fork_made_by_maintenance_meanwhile_makes_the_merge_plan_again(harbor):
    harbor.branches.create("side")
    put(harbor, "main", port("GOT", city="x"))
    with paused(
        "branch_merge.before_locks", lambda: harbor.branches.merge("main", "side")
    ) as merge:
        with og.open(harbor.uri) as other:
            other.ensure_indices("side")
        assert pins(harbor, "side")[PORT].table_branch == "side"
        merged = merge.go_on()
    assert (merged.outcome, merged.stats.tables_adopted, merged.stats.updates) == (
        "fast_forward",
        0,
        1,
    )
    assert read_back(harbor, "side").nodes["Port"]["GOT"]["city"] == "x"
    assert pins(harbor, "side")[PORT].table_branch == "side"


# ------------------------------------------------------------------ refusals


def test_a_refused_merge_changes_nothing_and_needs_no_reopen(harbor):
    harbor.branches.create("side")
    put(harbor, "side", ship("S1", tonnage=100), port("NYC"))
    put(harbor, "main", ship("S1", tonnage=200))
    before = state(harbor), state(harbor, "side"), harbor.branches.list()
    with pytest.raises(errors.MergeConflicts) as refused:
        harbor.branches.merge("side", delete_branch=True)
    (conflict,) = refused.value.details["conflicts"]
    assert (conflict["kind"], conflict["table_key"], conflict["row_id"]) == (
        "divergent_update",
        SHIP,
        "S1",
    )
    assert (state(harbor), state(harbor, "side"), harbor.branches.list()) == before
    put(harbor, "main", ship("S2", tonnage=2))
    put(harbor, "side", ship("S2", tonnage=2))


def test_a_merge_that_fails_while_it_stages_changes_nothing(harbor):
    harbor.branches.create("side")
    put(harbor, "side", ship("S1", tonnage=100))
    before = state(harbor)
    with failpoints.arm("branch_merge.before_phase_b"), pytest.raises(errors.StorageError):
        harbor.branches.merge("side")
    assert state(harbor) == before
    assert harbor.branches.merge("side").outcome == "fast_forward"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"source": "side", "into": " side "}, "bad_request"),
        ({"source": "__x"}, "bad_request"),
        ({"source": "a..b"}, "bad_request"),
        ({"source": "ghost"}, "branch_not_found"),
        ({"source": "side", "into": "ghost"}, "branch_not_found"),
        ({"source": "side", "granularity": "row"}, "bad_request"),
        ({"source": "side", "resolve": "mine"}, "bad_request"),
        ({"source": "side", "engine": "sparks"}, "bad_request"),
        ({"source": "side", "engine": ["local"]}, "bad_request"),
        ({"source": "side", "dry_run": True, "delete_branch": True}, "bad_request"),
        ({"source": "side", "dry_run": 1}, "bad_request"),
        ({"source": "side", "resolve": {(SHIP, "S1"): "ours"}}, "bad_request"),
    ],
)
def test_wrong_arguments_are_refused(shared_harbor, arguments, code):
    with pytest.raises(errors.OmniGraphError) as refused:
        shared_harbor.branches.merge(**arguments)
    assert refused.value.code == code


@pytest.fixture(scope="module")
def shared_harbor(tmp_path_factory):
    with new_harbor(tmp_path_factory.mktemp("shared") / "harbor") as graph:
        graph.branches.create("side")
        put(graph, "side", ship("S1", tonnage=100))
        yield graph


@pytest.mark.parametrize("stuck", ["main", "side"])
def test_an_operation_that_must_be_rolled_back_is_in_the_way(harbor, stuck):
    harbor.branches.create("side")
    put(harbor, "side", ship("S1", tonnage=100), port("NYC"))
    with dying_at("load.after_table_commit"):
        put(harbor, stuck, ship("S2", tonnage=1), port("ROM"))
    for dry_run in (True, False):
        with pytest.raises(errors.RecoveryRequired, match="reopen the graph read-write"):
            harbor.branches.merge("side", dry_run=dry_run)
    with og.open(harbor.uri) as reopened:
        assert reopened.branches.merge("side").commit is not None
        assert ships(reopened)["S1"] == 100


def test_a_table_that_a_foreign_program_moved_is_drift(harbor):
    harbor.branches.create("side")
    put(harbor, "side", ship("S1", tonnage=100))
    foreign_append(harbor, PORT, ["XXX"])
    with pytest.raises(errors.Drift):
        harbor.branches.merge("side")


# ------------------------------------------------------------------ dry runs


def test_a_dry_run_writes_nothing_and_says_what_the_merge_does(harbor):
    harbor.branches.create("side")
    put(harbor, "side", ship("S1", tonnage=100), ship("S9"), call("c2", "S3", "GOT"))
    drop_ship(harbor, "side", "S4")
    put(harbor, "main", ship("S2", tonnage=200))
    with og.open(harbor.uri, mode="r") as reader:
        files = files_of(harbor)
        plan = reader.branches.merge("side", dry_run=True)
        assert files_of(harbor) == files
    assert (plan.dry_run, plan.commit, plan.conflicts) == (True, None, ())
    merged = harbor.branches.merge("side")
    assert plan.outcome == merged.outcome == "merged"
    assert plan.base_commit_id == merged.base_commit_id
    counts = ("inserts", "updates", "deletes", "candidates", "tables_skipped", "tables_adopted")
    assert [getattr(plan.stats, name) for name in counts] == [2, 1, 1, 4, 1, 0]
    assert [getattr(merged.stats, name) for name in counts] == [2, 1, 1, 4, 1, 0]


def test_a_dry_run_lists_the_conflicts_of_the_merge_with_images(harbor):
    harbor.branches.create("side")
    put(harbor, "side", ship("S1", tonnage=100), ship("S2", tonnage=20))
    put(harbor, "main", ship("S1", tonnage=200))
    files = files_of(harbor)
    plan = harbor.branches.merge("side", dry_run=True, images=True)
    assert files_of(harbor) == files
    (conflict,) = plan.conflicts
    shown = {side: image["properties"]["tonnage"] for side, image in conflict.detail.items()}
    assert shown == {"base": 1, "source": 100, "target": 200}
    assert (plan.outcome, plan.stats.updates) == ("merged", 1)  # of the entities without conflict
    with pytest.raises(errors.MergeConflicts) as refused:
        harbor.branches.merge("side", images=True)
    assert refused.value.details["conflicts"] == [conflict.to_json()]


def test_a_read_only_handle_merges_nothing(harbor):
    with og.open(harbor.uri, mode="r") as reader, pytest.raises(errors.BadRequest):
        reader.branches.merge("main", "side")


# ------------------------------------------------------------------ shapes that broke others


def test_a_child_of_a_merged_branch_stays_readable(harbor):
    harbor.branches.create("side")
    put(harbor, "side", ship("S1", tonnage=100))
    harbor.branches.create("kid", from_="side")
    assert harbor.branches.merge("side").outcome == "fast_forward"
    refused = harbor.branches.merge("side", delete_branch=True)
    assert (refused.branch_deleted, refused.outcome) == (False, "already_up_to_date")
    assert "kid" in refused.branch_delete_error
    put(harbor, "main", ship("S2", tonnage=200))
    put(harbor, "kid", ship("S3", tonnage=300))
    assert ships(harbor, "kid") == {"S1": 100, "S2": 2, "S3": 300, "S4": 4}
    assert harbor.branches.merge("kid").outcome == "merged"
    assert ships(harbor) == {"S1": 100, "S2": 200, "S3": 300, "S4": 4}


def test_a_branch_that_goes_on_after_its_merge_is_not_deleted(harbor):
    harbor.branches.create("side")
    put(harbor, "side", ship("S1", tonnage=100))
    point = "branch_merge.after_phase_c_before_phase_d"
    with paused(point, lambda: harbor.branches.merge("side", delete_branch=True)) as merge:
        with og.open(harbor.uri) as other:
            put(other, "side", ship("S2", tonnage=200))
        merged = merge.go_on()
    assert (merged.outcome, merged.branch_deleted) == ("fast_forward", False)
    assert "after the merge" in merged.branch_delete_error
    assert harbor.branches.merge("side", delete_branch=True).branch_deleted
    assert ships(harbor) == {"S1": 100, "S2": 200, "S3": 3, "S4": 4}


def test_identical_changes_merge_clean_and_move_nothing(harbor):
    harbor.branches.create("side")
    for branch in ("main", "side"):
        put(harbor, branch, ship("S1", tonnage=100), ship("S9"), call("c2", "S9", "GOT"))
        drop_ship(harbor, branch, "S4")
    before = pins(harbor)
    merged = harbor.branches.merge("side")
    assert merged.outcome == "merged"
    assert pins(harbor) == before


def test_dying_merges_leave_all_or_nothing(harbor):
    harbor.branches.create("side")
    put(harbor, "side", ship("S1", tonnage=100), port("NYC"))
    put(harbor, "main", ship("S2", tonnage=200))
    before = ships(harbor)
    with dying_at("branch_merge.after_table_commit"):
        harbor.branches.merge("side")
    assert ships(harbor) == before
    with og.open(harbor.uri) as reopened:
        assert ships(reopened) == before
        merged = reopened.branches.merge("side")
        assert merged.outcome == "merged"
        assert ships(reopened) == {"S1": 100, "S2": 200, "S3": 3, "S4": 4}
