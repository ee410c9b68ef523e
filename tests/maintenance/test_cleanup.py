"""A cleanup removes what nothing needs, says why the rest stays, and breaks nothing."""

from __future__ import annotations

import os
import time
import uuid
from datetime import timedelta
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.clock import now_us
from omnigraph.commit.audit import read_audit
from omnigraph.errors import BadRequest, HistoryReclaimed, MergeConflicts, RecoveryRequired
from omnigraph.graph import open as open_graph
from omnigraph.storage import layout
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.locks.read_leases import LeasedTable, put_lease
from omnigraph.storage.tables.indexing.table_indexes import list_indexes
from omnigraph.storage.tables.lance_import import lance
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.write.purges import purges_owed
from omnigraph.write.schema_apply import BEFORE_PURGE
from tests.commit.synthetic import Died, dying_at, foreign_append
from tests.graphs import graph_of
from tests.maintenance.cleaning import (
    PEOPLE,
    PERSON,
    SCHEMA,
    age,
    ages,
    all_content,
    check_report,
    files_of,
    fill,
    on_disk,
    readable,
    reasons,
)
from tests.opened import workspace_of
from tests.storage.processes import stopped_at

graph = graph_of(SCHEMA, fill)


def location(graph) -> str:
    return graph.snapshot().tables[PERSON].location


def export_slowly(pipe, uri: str, out: str, pause: str) -> None:
    """Export, standing still once the state is pinned; say how many records were written."""
    wait = failpoints.FilePause(Path(pause))
    waited = []

    def told(written: int, _: int) -> None:
        if not waited:
            waited.append(written)
            wait("export")

    with open_graph(uri) as graph:
        pipe.send(graph.export(out, progress=told).stats.records)


class TestBranches:
    def test_what_a_branch_that_never_wrote_reads_stays(self, graph):
        start = graph.snapshot().graph_commit_id
        graph.branches.create("side")
        gone = [age(graph, n) for n in (2, 3)]
        head = age(graph, 4)
        before = all_content(graph)
        report = graph.cleanup(keep_versions=1)
        check_report(graph, report)
        assert reasons(report) == {
            2: ("head:side", "merge_base:main..side"),
            5: ("head:main", "keep"),
        }
        assert all_content(graph) == before
        assert readable(graph, [start, *gone, head]) == {
            start: True, gone[0]: False, gone[1]: False, head: True
        }  # fmt: skip
        age(graph, 9, "side", "bob")
        assert ages(graph, branch="side") == {"ada": 1, "bob": 9}

    def test_forks_and_their_children_stay_readable_and_comparable(self, graph):
        graph.branches.create("side")
        for n in (2, 3, 4):
            age(graph, n, "side")
        graph.branches.create("child", "side")
        graph.branches.create("lazy", "child")
        for n in (5, 6, 7):
            age(graph, n, "child", "bob")
            age(graph, n, "side")
            age(graph, n, name="bob")
        before = all_content(graph)
        report = graph.cleanup(keep_versions=1)
        check_report(graph, report)
        assert all_content(graph) == before
        # Version 2 of main is where `side` was forked, version 5 of `side` where `child` was.
        assert reasons(report)[2] == (
            "merge_base:main..child",
            "merge_base:main..lazy",
            "merge_base:main..side",
            "fork:side",
        )
        assert set(reasons(report, PERSON, "side")) == {2, 5, 8}
        assert "fork:child" in reasons(report, PERSON, "side")[5]
        assert reasons(report, PERSON, "child")[5] == ("fork:child",)
        for branch, start in (("side", 2), ("child", 5)):
            pin = graph.snapshot(branch=branch).tables[PERSON]
            changed = open_table(workspace_of(graph).pinned(pin)).delta(start)
            assert changed.updated().read_all().num_rows == 1

    def test_a_second_run_finds_nothing_to_do(self, graph):
        graph.branches.create("side")
        for n in (2, 3):
            age(graph, n)
            age(graph, n, "side")
        first = graph.cleanup(keep_versions=1)
        again = graph.cleanup(keep_versions=1)
        assert first.old_versions_removed > 0
        assert (again.old_versions_removed, again.bytes_removed) == (0, 0)
        assert [row.why_kept for row in again] == [row.why_kept for row in first]

    def test_a_merge_whose_base_is_old_still_merges(self, graph):
        graph.branches.create("side")
        graph.branches.create("other")
        age(graph, 5, "side")
        graph.branches.merge("side", "other")
        graph.branches.merge("side")
        for n in (6, 7):
            age(graph, n, "side")
            age(graph, n, name="bob")
            age(graph, n + 10, "other", "bob")
        report = graph.cleanup(keep_versions=1)
        check_report(graph, report)
        # The base of `main` and `other` is a commit of `side`, for which a fast-forward stands in.
        why = {one for row in report if row.table_key == PERSON for one in row.why_kept.values()}
        assert any("merge_base:main..other" in reasons_ for reasons_ in why)
        with pytest.raises(MergeConflicts) as refused:
            graph.branches.merge("other")
        assert [one["row_id"] for one in refused.value.details["conflicts"]] == ["bob"]
        assert graph.branches.merge("side").outcome == "merged"
        assert graph.branches.merge("other", resolve="theirs").outcome == "merged"
        assert ages(graph) == {"ada": 7, "bob": 17}
        check_report(graph, graph.cleanup(keep_versions=1))

    @pytest.mark.parametrize("live", [False, True])
    def test_a_table_branch_that_no_branch_needs_goes_with_what_it_held(self, graph, live):
        workspace = workspace_of(graph)
        for n in (2, 3):
            age(graph, n)
        create_branch(open_table(workspace.ref(location(graph)).at(3)), "left")
        if live:
            graph.branches.create("left")
        dry = graph.cleanup(keep_versions=1, dry_run=True)
        report = graph.cleanup(keep_versions=1)
        assert [row.why_kept for row in dry] == [row.why_kept for row in report]
        check_report(graph, report)
        assert (location(graph), "left") not in on_disk(graph)
        assert 3 not in reasons(report)
        if not live:
            graph.branches.create("left")
        age(graph, 8, "left")
        assert ages(graph, branch="left") == {"ada": 8, "bob": 1}


class TestPolicy:
    def test_the_newest_versions_stay_and_with_them_as_many_commits(self, graph):
        ids = [age(graph, n) for n in range(2, 9)]
        report = graph.cleanup(keep_versions=3)
        check_report(graph, report)
        assert reasons(report) == {7: ("keep",), 8: ("keep",), 9: ("head:main", "keep")}
        assert readable(graph, ids) == {commit: place >= 4 for place, commit in enumerate(ids)}
        assert [ages(graph, snapshot=one)["ada"] for one in ids[4:]] == [6, 7, 8]

    def test_what_was_current_within_the_time_stays(self, graph):
        ids = [age(graph, n) for n in (2, 3)]
        everything = graph.cleanup(older_than=timedelta(hours=1))
        assert everything.old_versions_removed == 0
        assert reasons(everything)[3] == ("younger",)
        report = graph.cleanup(older_than=0)
        check_report(graph, report)
        assert reasons(report) == {4: ("head:main",)}
        assert readable(graph, ids) == {ids[0]: False, ids[1]: True}

    def test_few_versions_are_warned_of(self, graph):
        assert graph.cleanup(keep_versions=3, dry_run=True).warnings == ()
        (warning,) = graph.cleanup(keep_versions=2, dry_run=True).warnings
        assert "newest 2" in warning

    @pytest.mark.parametrize("flag", [None, 0, "", "no"])
    def test_a_flag_that_is_none_removes_nothing(self, graph, flag):
        with pytest.raises(BadRequest, match="give True or False"):
            graph.cleanup(keep_versions=1, dry_run=flag)

    def test_a_dry_run_says_what_a_cleanup_does_and_touches_nothing(self, graph):
        graph.branches.create("side")
        for n in (2, 3, 4):
            age(graph, n)
            age(graph, n, "side", "bob")
        with open_graph(graph.uri, mode="r") as reader:
            before = files_of(graph)
            dry = reader.cleanup(keep_versions=1, dry_run=True)
            assert files_of(graph) == before
            with pytest.raises(BadRequest):
                reader.cleanup(keep_versions=1)
        real = graph.cleanup(keep_versions=1)
        assert dry.tables == real.tables
        assert real.old_versions_removed == 8
        assert sum(before.values()) - sum(files_of(graph).values()) == real.bytes_removed

    def test_a_dry_run_looks_again_when_a_branch_goes_meanwhile(self, graph, monkeypatch):
        graph.branches.create("side")
        age(graph, 2)
        manifest = workspace_of(graph).manifest
        state_of, doomed = manifest.state, ["side"]

        def delete_first(branch):
            if branch in doomed:
                graph.branches.delete(doomed.pop())
            return state_of(branch)

        monkeypatch.setattr(manifest, "state", delete_first)
        dry = graph.cleanup(keep_versions=1, dry_run=True)
        assert not dry.failed
        assert dry.tables == graph.cleanup(keep_versions=1).tables


class TestReaders:
    def test_a_tag_keeps_its_commit_on_whatever_branch_it_was_made(self, graph):
        graph.tags.create("start")
        graph.branches.create("side")
        tagged = age(graph, 2, "side")
        graph.tags.create("there", at=og.at(branch="side"))
        gone = [age(graph, n, "side") for n in (3, 4)]
        for n in (2, 3):
            age(graph, n)
        report = graph.cleanup(keep_versions=1)
        check_report(graph, report)
        assert "tag:start" in reasons(report)[2]
        assert reasons(report, PERSON, "side")[3] == ("tag:there",)
        assert ages(graph, tag="start") == {"ada": 1, "bob": 1}
        assert ages(graph, tag="there") == {"ada": 2, "bob": 1}
        assert readable(graph, [tagged, *gone]) == {
            tagged: True, gone[0]: False, gone[1]: True
        }  # fmt: skip
        graph.branches.create("again", og.at(tag="there"))
        graph.tags.delete("there")
        graph.branches.delete("again")
        report = graph.cleanup(keep_versions=1)
        check_report(graph, report)
        assert set(reasons(report, PERSON, "side")) == {2, 5}

    def test_indexes_of_a_kept_version_stay_with_it(self, graph):
        graph.load([{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(50)])
        graph.ensure_indices()
        graph.tags.create("indexed")
        graph.branches.create("side")
        age(graph, 5, "side")
        for n in (2, 3):
            age(graph, n)
        graph.optimize()
        graph.ensure_indices()
        check_report(graph, graph.cleanup(keep_versions=1))
        for target in ({"tag": "indexed"}, {"branch": "side"}, {}):
            pin = graph.snapshot(**target).tables[PERSON]
            table = open_table(workspace_of(graph).pinned(pin))
            indexes = list_indexes(table)
            assert [index.column for index in indexes] == ["id"]
            where = filter_expression(table.schema, [Condition("id", "=", "p7")])
            assert table.read(["age"], where).to_pylist() == [{"age": 7}]

    def test_a_running_export_of_another_process_finishes(self, graph, tmp_path):
        wanted = tmp_path / "wanted.jsonl"
        graph.export(wanted)
        place = tmp_path / "pause"
        with stopped_at(place, export_slowly, (graph.uri, str(tmp_path / "got.jsonl"))) as export:
            for n in (2, 3):
                age(graph, n)
            report = graph.cleanup(keep_versions=1)
            check_report(graph, report)
            (why,) = (why for version, why in reasons(report).items() if version == 2)
            assert [reason.partition(":")[0] for reason in why] == ["lease"]
            assert export.go_on() == 4
        assert (tmp_path / "got.jsonl").read_bytes() == wanted.read_bytes()
        assert set(reasons(graph.cleanup(keep_versions=1))) == {4}

    def test_other_handles_see_the_newest_state_and_named_errors(self, graph):
        old = graph.snapshot()
        with open_graph(graph.uri, mode="r") as early, open_graph(graph.uri) as late:
            assert ages(early) == ages(late) == {"ada": 1, "bob": 1}
            ids = [age(graph, n) for n in range(2, 7)]
            assert ages(late)["ada"] == 6
            graph.cleanup(keep_versions=1)
            # `early` knows only versions of the manifest that are gone, with those after them.
            assert on_disk(graph)[layout.MANIFEST, None][0] > old.manifest_version + 1
            for handle in (early, late):
                assert ages(handle) == {"ada": 6, "bob": 1}
                for commit in (old.graph_commit_id, *ids[:-1]):
                    with pytest.raises(HistoryReclaimed):
                        handle.query(PEOPLE, snapshot=commit)
                with pytest.raises(HistoryReclaimed):
                    handle.query(PEOPLE, branch="main", version=old.manifest_version)
            age(late, 7)
            assert ages(early) == {"ada": 7, "bob": 1}
            assert len(late.commits.list()) == len(ids) + 3

    def test_a_leased_version_stays_until_the_lease_ends(self, graph):
        pin = graph.snapshot().tables[PERSON]
        for n in (2, 3):
            age(graph, n)
        workspace = workspace_of(graph)
        leased = [LeasedTable(PERSON, pin.location, pin.table_version)]
        graph_id = workspace.manifest.state("main").head.graph_id
        with put_lease(workspace.store, graph_id, "export", leased) as held:
            report = graph.cleanup(keep_versions=1)
            check_report(graph, report)
            assert reasons(report)[2] == (f"lease:{held.lease.id}",)
        assert set(reasons(graph.cleanup(keep_versions=1))) == {4}

    def test_a_lease_that_nobody_renews_is_removed(self, graph, monkeypatch):
        pin = graph.snapshot().tables[PERSON]
        age(graph, 2)
        workspace = workspace_of(graph)
        leased = [LeasedTable(PERSON, pin.location, pin.table_version)]
        graph_id = workspace.manifest.state("main").head.graph_id
        long_ago = now_us() - 16 * 60 * 1_000_000
        monkeypatch.setattr("omnigraph.storage.locks.read_leases.stamp_us", lambda: long_ago)
        with put_lease(workspace.store, graph_id, "export", leased):
            assert len(workspace.store.list(layout.LEASES_DIR)) == 1
            assert set(reasons(graph.cleanup(keep_versions=1, dry_run=True))) == {3}
            assert len(workspace.store.list(layout.LEASES_DIR)) == 1
            graph.cleanup(keep_versions=1)
            assert workspace.store.list(layout.LEASES_DIR) == []


class TestWhatIsNotOurs:
    def test_versions_tagged_with_lances_own_tools_stay(self, graph):
        for n in (2, 3, 4):
            age(graph, n)
        workspace = workspace_of(graph)
        lance().dataset(workspace.ref(location(graph)).uri).tags.create("mine", 3)
        lance().dataset(workspace.manifest.ref.uri).tags.create("his", 3)
        report = graph.cleanup(keep_versions=1)
        check_report(graph, report)
        assert reasons(report) == {3: ("lance_tag:mine",), 5: ("head:main", "keep")}
        assert reasons(report, layout.MANIFEST)[3] == ("lance_tag:his",)

    def test_what_an_unknown_writer_left_above_the_pin_stays_for_repair(self, graph):
        age(graph, 2)
        foreign_append(graph, PERSON, ["x"])
        report = graph.cleanup(keep_versions=1)
        check_report(graph, report)
        assert reasons(report) == {3: ("head:main", "keep"), 4: ("unpublished",)}

    def test_what_a_dead_writer_needs_to_be_undone_stays(self, graph):
        age(graph, 2)
        both = 'query q() { insert Person { name: "eve" } insert Team { code: "u" } }'
        with failpoints.arm("mutation.after_table_commit", Died()), pytest.raises(Died):
            graph.mutate(both)
        report = graph.cleanup(keep_versions=1)
        check_report(graph, report)
        ((claim,),) = (why for version, why in reasons(report).items() if version == 4)
        assert claim.startswith("sidecar:")
        assert reasons(report)[3] == ("head:main", "keep", claim)
        with open_graph(graph.uri) as again:
            assert ages(again) == {"ada": 2, "bob": 1}
            again.mutate(both)
            check_report(again, again.cleanup(keep_versions=1))


class TestDroppedTables:
    def test_a_dropped_type_stays_as_long_as_the_policy_says(self, graph):
        past = graph.snapshot().graph_commit_id
        place = graph.snapshot().tables["node:Team"].location
        small = "node Person { name: String @key  age: I32? }"
        graph.schema.apply(small)
        report = graph.cleanup(keep_versions=1)
        check_report(graph, report)
        assert reasons(report, "node:Team") == {2: ("keep",)}
        young = graph.cleanup(older_than=timedelta(hours=1))
        assert reasons(young, "node:Team") == {2: ("younger",)}
        dry = graph.cleanup(older_than=0, dry_run=True)
        report = graph.cleanup(older_than=0)
        check_report(graph, report)
        assert dry.tables == report.tables
        assert not any(name.startswith(place) for name in files_of(graph))
        with open_graph(graph.uri) as other, pytest.raises(HistoryReclaimed):
            other.query(PEOPLE, snapshot=past)
        graph.schema.apply(SCHEMA)
        fill(graph)
        check_report(graph, graph.cleanup(keep_versions=1))

    def test_purges_owed_are_finished(self, graph):
        with failpoints.arm("schema_apply.before_purge", Died()), pytest.raises(Died):
            graph.schema.apply(SCHEMA.replace("age: I32?", ""), allow_data_loss=True)
        assert len(purges_owed(workspace_of(graph))) == 1
        report = graph.cleanup(keep_versions=10)
        check_report(graph, report)
        assert purges_owed(workspace_of(graph)) == ()
        assert set(reasons(report)) == {graph.snapshot().tables[PERSON].table_version}

    def test_a_purge_waits_for_a_running_export(self, graph):
        workspace, pin = workspace_of(graph), graph.snapshot().tables[PERSON]
        graph_id = workspace.manifest.state("main").head.graph_id
        leased = [LeasedTable(PERSON, pin.location, pin.table_version)]
        with put_lease(workspace.store, graph_id, "export", leased):
            graph.schema.apply(SCHEMA.replace("age: I32?", ""), allow_data_loss=True)
            report = graph.cleanup(keep_versions=1)
            assert "a running export reads it" in report.warnings[-1]
            assert len(purges_owed(workspace)) == 1
            assert open_table(workspace.pinned(pin)).read(["age"]).num_rows == 2
        graph.cleanup(keep_versions=1)
        assert purges_owed(workspace) == ()
        assert workspace.is_there(pin) is False


class TestFaults:
    def test_a_table_that_fails_is_named_and_the_others_are_cleaned(self, graph):
        for n in (2, 3):
            age(graph, n)
            graph.load([{"type": "Team", "data": {"code": f"t{n}"}}])
        # Edge types come first: the third table is Team.
        with failpoints.arm("cleanup.before_table", "raise", times=1, skip=2):
            report = graph.cleanup(keep_versions=1)
        (failed,) = report.failed
        assert failed.table_key == "node:Team"
        assert "cleanup.before_table" in failed.error
        assert set(reasons(report, PERSON)) == {4}
        assert set(failed.why_kept) == {1, 2, 3, 4}
        check_report(graph, graph.cleanup(keep_versions=1))

    def test_a_table_that_cannot_be_read_is_left_alone_and_so_is_its_history(self, graph):
        ids = [age(graph, n) for n in (2, 3)]
        place = graph.snapshot().tables["node:Team"].location
        folder = workspace_of(graph).root.path
        versions = sorted(Path(folder, place, "_versions").iterdir())
        content = versions[0].read_bytes()
        versions[0].write_bytes(b"damaged")
        report = graph.cleanup(keep_versions=1)
        (failed,) = report.failed
        assert failed.table_key == "node:Team"
        assert set(reasons(report)) == {4}
        versions[0].write_bytes(content)
        assert readable(graph, ids) == {ids[0]: False, ids[1]: True}
        check_report(graph, graph.cleanup(keep_versions=1))

    def test_the_table_of_recoveries_is_trimmed(self, graph):
        for n in (2, 3):
            with (
                failpoints.arm("publish.before_write", "raise", times=1),
                pytest.raises(RecoveryRequired),
            ):
                age(graph, n)
            graph.refresh()
        report = graph.cleanup(keep_versions=1)
        check_report(graph, report)
        assert len(reasons(report, layout.RECOVERY_AUDIT)) == 1
        assert len(read_audit(workspace_of(graph))) == 2


class TestWhatFailedWritesLeft:
    def test_old_files_that_no_version_uses_go_and_young_ones_stay(self, graph):
        """Also where no version goes, and on a branch; what the graph reads stays."""
        graph.branches.create("side")
        age(graph, 2, "side")
        before, there = all_content(graph), files_of(graph)
        places = [location(graph), f"{location(graph)}/tree/side", layout.MANIFEST]
        week_ago = time.time() - 8 * 86_400
        left = {}
        for place in places:
            for name in ("data/" + "a" * 32 + ".lance", "data/" + "b" * 32 + "/1.blob",
                         "_deletions/3-9-12.arrow", "_transactions/1-" + str(uuid.UUID(int=1)) + ".txn",
                         "_indices/" + str(uuid.UUID(int=2)) + "/page_data.lance",
                         "data/" + "c" * 32 + ".lance"):  # fmt: skip
                path = Path(graph.uri, place, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"x" * 100)
                if "ccc" not in name:
                    os.utime(path, (week_ago, week_ago))
                left[f"{place}/{name}"] = 100
        young = {name: size for name, size in left.items() if "ccc" in name}
        dry = graph.cleanup(keep_versions=9, dry_run=True)
        assert files_of(graph) == {**there, **left}
        report = graph.cleanup(keep_versions=9)
        check_report(graph, report)
        assert report.tables == dry.tables
        assert {row.bytes_removed for row in report} == {0, 500}
        assert (report.bytes_removed, report.old_versions_removed) == (1_500, 0)
        assert files_of(graph) == {**there, **young}
        assert all_content(graph) == before

    def test_a_dry_run_tells_what_a_run_then_does(self, graph):
        """With branches, leftovers of branches, tags, a dropped type and data that a drop still owes."""
        graph.branches.create("side")
        for n in (2, 3, 4):
            age(graph, n, "side", "bob")
        graph.branches.delete("side")
        pin = graph.snapshot().tables[PERSON]
        create_branch(open_table(workspace_of(graph).pinned(pin)), "orphan")
        for n in range(5, 9):
            age(graph, n)
        with dying_at(BEFORE_PURGE):
            graph.schema.apply(
                "node Person { name: String @key }\nnode Team { code: String @key }",
                allow_data_loss=True,
            )
        assert graph.status().purges_owed
        graph.tags.create("v1")
        there = files_of(graph)
        dry = graph.cleanup(keep_versions=2, dry_run=True)
        assert files_of(graph) == there
        report = graph.cleanup(keep_versions=2)
        check_report(graph, report)
        assert report.tables[:-1] == dry.tables[:-1]
        # That the purge is done is recorded in one more version of the manifest.
        (done, told) = report[-1], dry[-1]
        assert (done.table_key, done.old_versions_removed, done.bytes_removed) == (
            (told.table_key, told.old_versions_removed, told.bytes_removed)
        )
        assert list(done.why_kept) == [*told.why_kept, max(told.why_kept) + 1]
