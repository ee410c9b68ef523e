"""Repair judges what other programs committed to a table, and pins it again where it may."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.errors import BadRequest, Drift, OmniGraphError, RecoveryRequired
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from omnigraph.maintenance.reports import RepairRow, choose_action, classify_drift
from omnigraph.storage.tables.lance_import import lance
from omnigraph.storage.tables.table import manifest_path
from omnigraph.storage.tables.transactions import TransactionKind
from tests.commit.synthetic import dying_at, foreign_append
from tests.maintenance.cleaning import PERSON, SCHEMA, age, ages, all_content, fill
from tests.opened import workspace_of

TEAM = "node:Team"
CLEAN = ("no_drift", "no_op", None)


@pytest.fixture(params=["main", "side"])
def branch(request):
    return request.param


@pytest.fixture
def graph(tmp_path, branch):
    with init(tmp_path / "graph", SCHEMA) as graph:
        fill(graph)
        if branch != "main":
            graph.branches.create(branch)
        for n in (2, 3, 4):
            age(graph, n, branch)
        graph.load([{"type": "Team", "data": {"code": "u"}}], branch=branch, mode="append")
        age(graph, 5, branch)
        yield graph


def raw(graph, branch, key=PERSON):
    """The newest version of a table, as a program sees it that knows Lance alone."""
    pin = graph.snapshot(branch=branch).tables[key]
    return lance().dataset(workspace_of(graph).ref(pin.location).on(pin.table_branch).dataset_uri)


def compact(graph, branch, key=PERSON) -> None:
    raw(graph, branch, key).optimize.compact_files()


def row(report, branch, key=PERSON) -> RepairRow:
    place = None if branch == "main" else branch
    (found,) = (one for one in report if (one.table_key, one.table_branch) == (key, place))
    return found


def seen(report, branch, key=PERSON):
    found = row(report, branch, key)
    return found.classification, found.action, found.error


def heads(graph) -> list[str]:
    return [graph.snapshot(branch=name).graph_commit_id for name in graph.branches.list()]


class TestJudgement:
    @pytest.mark.parametrize(
        ("operations", "expected"),
        [
            ([], "no_drift"),
            (["ReserveFragments", "Rewrite"], "verified_maintenance"),
            (["CreateIndex"], "verified_maintenance"),
            *(
                (["Rewrite", name, "CreateIndex"], "suspicious")
                for name in ("Append", "Delete", "Update", "Merge", "Overwrite", "Restore",
                             "Project", "UpdateConfig", "DataReplacement")
            ),
            (["Append", None], "unverifiable"),
            (["Rewrite", "Unknown"], "unverifiable"),
        ],
    )  # fmt: skip
    def test_by_the_kinds_of_the_transactions(self, operations, expected):
        kinds = [None if name is None else TransactionKind(name) for name in operations]
        assert classify_drift(kinds) == expected

    def test_every_kind_of_transaction_has_a_judgement(self):
        """A kind that Lance gets later is not taken for maintenance."""
        harmless = {
            kind for kind in TransactionKind if classify_drift([kind]) == "verified_maintenance"
        }
        assert harmless == {
            TransactionKind.REWRITE,
            TransactionKind.RESERVE_FRAGMENTS,
            TransactionKind.CREATE_INDEX,
        }

    @pytest.mark.parametrize(
        ("classification", "error", "actions"),
        [
            ("no_drift", None, ("no_op", "no_op", "no_op")),
            ("verified_maintenance", None, ("preview", "healed", "healed")),
            ("suspicious", None, ("preview", "refused", "forced")),
            ("unverifiable", None, ("preview", "refused", "forced")),
            ("verified_maintenance", "broken", ("preview", "refused", "refused")),
            ("unverifiable", "broken", ("preview", "refused", "refused")),
        ],
    )
    def test_what_is_done_about_it(self, classification, error, actions):
        one = RepairRow("node:T", None, 1, 2, classification, error=error)
        asked = [(False, False), (True, False), (True, True)]
        assert actions == tuple(
            choose_action(one, confirm=confirm, force=force) for confirm, force in asked
        )


class TestMaintenanceOfOthers:
    def test_it_is_shown_then_taken_over(self, graph, branch):
        # Of an indexed table pylance cannot read back the compaction.
        raw(graph, branch).create_scalar_index("id", "BTREE", name="theirs")
        graph.repair(confirm=True)
        content, before = all_content(graph), graph.snapshot(branch=branch)
        compact(graph, branch)
        with pytest.raises(Drift, match="omnigraph repair"):
            age(graph, 9, branch)
        with open_graph(graph.uri, mode="r") as reader:
            shown = reader.repair()
        pin = before.tables[PERSON].table_version
        found = row(shown, branch)
        assert (found.classification, found.action) == ("verified_maintenance", "preview")
        assert found.operations == ("ReserveFragments", "Rewrite")
        assert (found.manifest_version, found.lance_head_version) == (pin, pin + 2)
        assert shown.drifted == (found,)
        assert shown.to_json()["manifest_version"] is None
        assert graph.snapshot(branch=branch).graph_commit_id == before.graph_commit_id

        done = graph.repair(confirm=True)
        assert row(done, branch).action == "healed"
        (commit,) = done.commits
        assert (commit.operation, commit.actor_id) == ("repair", "omnigraph:maintenance")
        assert commit.parent_commit_id == before.graph_commit_id
        now = graph.snapshot(branch=branch)
        assert now.graph_commit_id == commit.graph_commit_id
        assert now.tables[PERSON].table_version == pin + 2
        assert now.manifest_version == done.to_json()["manifest_version"]
        others = [key for key in now.tables if key != PERSON]
        assert all(now.tables[key] == before.tables[key] for key in others)
        assert all_content(graph) == content
        age(graph, 9, branch)
        assert ages(graph, branch=branch)["ada"] == 9
        assert ages(graph, snapshot=before.graph_commit_id)["ada"] == 5

    def test_an_index_that_cannot_be_opened_stops_nothing(self, tmp_path):
        """Lance's own compaction of a branch leaves an inherited BTREE without its files."""
        with init(tmp_path / "graph", SCHEMA) as graph:
            fill(graph)
            graph.ensure_indices()
            graph.branches.create("side")
            age(graph, 2, "side")
            age(graph, 3, "side")
            content = all_content(graph)
            compact(graph, "side")
            found = row(graph.repair(confirm=True), "side")
            assert (found.classification, found.action) == ("verified_maintenance", "healed")
            assert all_content(graph) == content
            age(graph, 4, "side")
            assert ages(graph, branch="side")["ada"] == 4

    def test_without_drift_nothing_happens(self, graph, branch):
        before = heads(graph)
        for options in ({}, {"confirm": True}, {"confirm": True, "force": True}):
            report = graph.repair(**options)
            assert {(one.classification, one.action, one.error) for one in report} == {CLEAN}
            assert report.commits == ()
        assert heads(graph) == before
        of_main = [one.table_key for one in report if one.table_branch is None]
        assert of_main == sorted(graph.snapshot().tables)
        if branch != "main":
            # MemberOf was never written on the branch: it is the parent's to look after.
            assert [one.table_key for one in report if one.table_branch == branch] == [PERSON, TEAM]

    def test_a_parent_that_is_ahead_is_no_drift_of_its_branch(self, graph, branch):
        graph.branches.create("child", from_=branch)
        compact(graph, branch)
        report = graph.repair()
        assert [one.table_branch for one in report.drifted] == [
            None if branch == "main" else branch
        ]


class TestChangesOfOthers:
    def test_rows_are_taken_over_only_by_force(self, graph, branch):
        before = ages(graph, branch=branch)
        foreign_append(graph, PERSON, ["alien"], branch)
        compact(graph, branch, TEAM)
        first = graph.repair(confirm=True)
        assert seen(first, branch) == ("suspicious", "refused", None)
        assert row(first, branch).operations == ("Append",)
        # One that is refused does not keep another from being repaired.
        assert seen(first, branch, TEAM) == ("verified_maintenance", "healed", None)
        assert [one.table_key for one in first.refused] == [PERSON]
        assert ages(graph, branch=branch) == before
        with pytest.raises(Drift):
            age(graph, 9, branch)

        second = graph.repair(confirm=True, force=True)
        assert seen(second, branch) == ("suspicious", "forced", None)
        (commit,) = second.commits
        assert ages(graph, branch=branch) == {**before, "alien": None}
        changes = graph.commits.changes(commit.graph_commit_id).changes
        assert [(one.op, one.type, one.id) for one in changes] == [("insert", "Person", "alien")]
        graph.commits.revert(commit.graph_commit_id, branch=branch)
        assert ages(graph, branch=branch) == before

    def test_a_delete_and_an_update_are_told(self, graph, branch):
        raw(graph, branch).delete("id = 'bob'")
        raw(graph, branch).update({"age": "70"}, "id = 'ada'")
        graph.repair(confirm=True, force=True)
        assert ages(graph, branch=branch) == {"ada": 70}
        told = graph.changes.poll(branch=branch, start="beginning", limit=1000)
        last = told.blocks[-1]
        assert [(one.op, one.id) for one in last.changes] == [("update", "ada"), ("delete", "bob")]

    def test_other_columns_are_refused_until_they_are_restored(self, graph, branch):
        content, pin = all_content(graph), graph.snapshot(branch=branch).tables[PERSON]
        raw(graph, branch).drop_columns(["age"])
        done = graph.repair(confirm=True, force=True)
        found = row(done, branch)
        assert (found.classification, found.action) == ("suspicious", "refused")
        assert f"restores version {pin.table_version}" in (found.error or "")
        assert all_content(graph) == content
        table = raw(graph, branch)
        table.checkout_version(pin.table_version).restore()
        again = graph.repair(confirm=True, force=True)
        assert row(again, branch).operations == ("Project", "Restore")
        assert all_content(graph) == content
        age(graph, 9, branch)

    def test_all_of_it_can_be_undone(self, graph, branch):
        content = all_content(graph)
        foreign_append(graph, PERSON, ["alien"], branch)
        raw(graph, branch, TEAM).delete("id = 'u'")
        done = graph.repair(confirm=True, undo=True)
        assert seen(done, branch) == ("suspicious", "undone", None)
        assert seen(done, branch, TEAM) == ("suspicious", "undone", None)
        (commit,) = done.commits
        assert graph.commits.changes(commit.graph_commit_id).changes == ()
        assert graph.repair().drifted == ()
        assert all_content(graph) == content
        age(graph, 9, branch)
        assert ages(graph, branch=branch)["ada"] == 9

    @pytest.mark.parametrize("point", ["publish.before_write", "publish.after_write"])
    def test_undoing_may_stop_half_way(self, graph, branch, point):
        content = all_content(graph)
        foreign_append(graph, PERSON, ["alien"], branch)
        with dying_at(point):
            graph.repair(confirm=True, undo=True)
        with open_graph(graph.uri) as fresh:
            assert all_content(fresh) == content
            fresh.repair(confirm=True, undo=True)
            assert fresh.repair().drifted == ()
            assert all_content(fresh) == content
            age(fresh, 9, branch)

    def test_what_is_gone_cannot_be_put_back(self, graph, branch):
        pin = graph.snapshot(branch=branch).tables[PERSON]
        foreign_append(graph, PERSON, ["alien"], branch)
        versions = Path(workspace_of(graph).ref(pin.location).on(pin.table_branch).dataset_uri)
        (versions / manifest_path(pin.table_version)).unlink()
        done = graph.repair(confirm=True, undo=True)
        assert row(done, branch).action == "refused"
        assert "cannot be read" in (row(done, branch).error or "")

    def test_a_history_that_cannot_be_read(self, graph, branch):
        """Another program cleaned up, the pinned version included: only force gets out of it."""
        pin = graph.snapshot(branch=branch).tables[PERSON]
        place = Path(workspace_of(graph).pinned(pin).dataset_uri)
        for name in ("alien", "other"):
            foreign_append(graph, PERSON, [name], branch)
        for version in (pin.table_version, pin.table_version + 1):
            (place / manifest_path(version)).unlink()
        with open_graph(graph.uri) as fresh:
            with pytest.raises(OmniGraphError):
                ages(fresh, branch=branch)
            refused = fresh.repair(confirm=True)
            assert seen(refused, branch) == ("unverifiable", "refused", None)
            assert row(refused, branch).operations == ("unreadable", "Append")
            assert seen(fresh.repair(confirm=True, force=True), branch)[1] == "forced"
            assert set(ages(fresh, branch=branch)) == {"ada", "bob", "alien", "other"}
            age(fresh, 9, branch)

    def test_a_table_that_lost_its_newest_version_is_not_moved_back(self, graph, branch):
        pin = graph.snapshot(branch=branch).tables[PERSON]
        place = Path(workspace_of(graph).pinned(pin).dataset_uri)
        (place / manifest_path(pin.table_version)).unlink()
        with open_graph(graph.uri) as fresh:
            before = heads(fresh)
            found = row(fresh.repair(confirm=True, force=True), branch)
            assert (found.classification, found.action) == ("unverifiable", "refused")
            assert found.lance_head_version == pin.table_version - 1
            assert "restore the table from a copy" in (found.error or "")
            assert heads(fresh) == before


class TestBesideWriters:
    @pytest.mark.parametrize(
        ("point", "forward"),
        [("mutation.after_phase_b_before_phase_c", True), ("mutation.before_phase_b", False)],
    )
    def test_a_dead_writers_operation_comes_first(self, graph, branch, point, forward):
        with dying_at(point):
            age(graph, 9, branch)
        foreign_append(graph, TEAM, ["alien"], branch)
        with (
            open_graph(graph.uri, mode="r") as reader,
            pytest.raises(RecoveryRequired, match="read-write"),
        ):
            reader.repair()
        if not forward:
            with pytest.raises(RecoveryRequired, match="read-write"):
                graph.repair(confirm=True, force=True)
            open_graph(graph.uri).close()
        done = graph.repair(confirm=True)
        assert seen(done, branch) == CLEAN
        assert seen(done, branch, TEAM) == ("suspicious", "refused", None)
        assert ages(graph, branch=branch)["ada"] == (9 if forward else 5)

    @pytest.mark.parametrize("ends_meanwhile", [False, True])
    def test_a_live_writers_commit_is_no_drift(self, graph, branch, ends_meanwhile):
        pause = failpoints.Pause()
        with (
            failpoints.arm("mutation.after_phase_b_before_phase_c", pause),
            open_graph(graph.uri, mode="r") as reader,
        ):
            writer = threading.Thread(target=age, args=(graph, 9, branch))
            writer.start()
            pause.wait_until_reached()

            def end(_: str) -> None:
                pause.resume()
                writer.join()

            # Listed first for dead writers, and again once a table looked drifted.
            meanwhile = end if ends_meanwhile else lambda _: None
            try:
                with failpoints.arm("recovery.sidecar_list", meanwhile, skip=1, times=1):
                    shown = reader.repair()
            finally:
                end("")
        assert shown.drifted == ()
        assert graph.repair(confirm=True).drifted == ()
        assert ages(graph, branch=branch)["ada"] == 9

    @pytest.mark.parametrize("point", ["publish.before_write", "publish.after_write"])
    def test_a_crash_leaves_all_or_nothing(self, graph, branch, point):
        content = all_content(graph)
        for key in (PERSON, TEAM):
            compact(graph, branch, key)
        with dying_at(point):
            graph.repair(confirm=True)
        assert workspace_of(graph).store.list("__recovery") == []
        with open_graph(graph.uri) as fresh:
            left = {one.table_key for one in fresh.repair().drifted}
            assert left == ({PERSON, TEAM} if point == "publish.before_write" else set())
            fresh.repair(confirm=True)
            assert fresh.repair().drifted == ()
            listed = fresh.commits.list(branch=branch, filter="operation=repair")
            assert len(listed) == 1
            assert all_content(fresh) == content
            age(fresh, 9, branch)


def test_arguments(graph):
    with pytest.raises(BadRequest, match="confirm=True"):
        graph.repair(force=True)
    with pytest.raises(BadRequest, match="confirm=True"):
        graph.repair(undo=True)
    with pytest.raises(BadRequest, match="give one"):
        graph.repair(confirm=True, force=True, undo=True)
    with pytest.raises(BadRequest, match="True or False"):
        graph.repair(confirm="yes")
    with open_graph(graph.uri, mode="r") as reader, pytest.raises(OmniGraphError, match="read"):
        reader.repair(confirm=True)
