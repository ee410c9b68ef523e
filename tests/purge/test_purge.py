"""Purge: nothing of an entity is left anywhere, everything else is, and what must keep it is named."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from pathlib import Path

import pytest

import omnigraph as og
import omnigraph.maintenance.purge.purge
from omnigraph import failpoints
from omnigraph.errors import (
    BadRequest,
    ChangeFeedGap,
    HistoryReclaimed,
    PurgeBlocked,
)
from omnigraph.storage.tables.table import open_table
from tests.commit.synthetic import Died
from tests.opened import workspace_of
from tests.purge.world import (
    build,
    cities_in,
    entries_of,
    hits,
    listing,
    people_in,
    person,
    rows_of,
    secrets,
    slug,
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    place = tmp_path_factory.mktemp("purge") / "graph"
    build(str(place))
    return place


@pytest.fixture(scope="module")
def unchanged(prepared, tmp_path_factory):
    """A graph for requests that change nothing."""
    place = shutil.copytree(prepared, tmp_path_factory.mktemp("unchanged") / "graph")
    with og.open(str(place), upkeep="off") as graph:
        yield graph


@pytest.fixture
def graph(prepared, tmp_path):
    place = shutil.copytree(prepared, tmp_path / "graph")
    with og.open(str(place), upkeep="off") as graph:
        yield graph


def test_no_byte_of_a_purged_entity_is_left(graph, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(cache))
    monkeypatch.setenv("OMNIGRAPH_DISK_CACHE_MB", "100")
    root = Path(graph.uri)
    graph.query('query s() { match { $p: Person  search($p.name, "name") } return { $p.slug } }')
    texts = [*secrets(7), *secrets(8)]
    assert {text for _, text in hits([root], texts)} >= {secrets(7)[4], secrets(8)[1]}
    others = people_in(graph) - {slug(7)}
    report = graph.purge({"Person": [slug(7), slug(8), "nobody"]}, reason="asked", actor="dpo")
    assert report.purged == {"Knows": 3, "LivesIn": 2, "Person": 2}
    assert report.not_found == 1
    assert hits([root, cache], texts) == set()
    assert people_in(graph) == others
    assert graph.status().purges_owed == ()
    assert not graph.verify(deep=True).problems
    with og.open(graph.uri) as again:
        assert people_in(again) == others


def test_what_is_kept_in_the_cache_goes_with_an_interrupted_purge(graph, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(cache))
    monkeypatch.setenv("OMNIGRAPH_DISK_CACHE_MB", "100")
    with failpoints.arm("purge.before_finish", Died()), pytest.raises(Died):
        graph.purge({"Person": [slug(7)]})
    kept = cache / "text" / "old" / "index"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(slug(7).encode())
    with og.open(graph.uri) as again:
        assert again.status().purges_owed == ()
    assert hits([Path(graph.uri), cache], secrets(7)) == set()


def test_indexes_find_what_is_left_and_row_ids_and_stamps_stay(graph):
    def stamps():
        pin = graph.snapshot().tables["node:Person"]
        table = open_table(workspace_of(graph).pinned(pin))
        columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
        found = table.read(columns, with_row_id=True).to_pylist()
        return {row.pop("id"): row for row in found}

    before = stamps()
    graph.purge({"Person": [slug(9)]})
    assert stamps() == {key: value for key, value in before.items() if key != slug(9)}
    tables = {one.table_key: one for one in graph.status().tables}
    coverage = {(one.column, one.kind): one.coverage for one in tables["node:Person"].indexes}
    assert set(coverage.values()) == {"indexed"}
    assert {column for column, _ in coverage} == {"id", "name", "bio", "vec"}
    found = graph.query(
        'query s() { match { $p: Person  search($p.bio, "token10x") } return { $p.slug as s } }'
    ).rows
    assert found == [{"s": slug(10)}]


def test_other_tables_and_fragments_are_not_rewritten(graph):
    graph.load([person(500)])
    before = {path.name for path in Path(graph.uri).rglob("data/*.lance")}
    versions = {key: pin.table_version for key, pin in graph.snapshot().tables.items()}
    graph.purge({"Person": [slug(500)]})
    after = {path.name for path in Path(graph.uri).rglob("data/*.lance")}
    new = [name for name in after - before if "__manifest" not in name]
    pins = {key: pin.table_version for key, pin in graph.snapshot().tables.items()}
    assert {key for key in pins if pins[key] != versions[key]} == {"node:Person"}
    nodes = {path.name for path in Path(graph.uri, "nodes").rglob("data/*.lance")}
    # Its fragment held nothing else, so that nothing was left to write.
    assert not nodes & set(new)


class TestWhatStandsInTheWay:
    def refused(self, graph, ids, *wanted):
        before, commits = listing(Path(graph.uri)), graph.commits.list()
        plan = graph.purge({"Person": ids}, dry_run=True)
        with pytest.raises(PurgeBlocked) as refusal:
            graph.purge({"Person": ids})
        found = refusal.value.details["obstacles"]
        assert [
            (one["kind"], one["name"]) for one in found if one["table_key"] == "node:Person"
        ] == [*wanted]
        assert [one.to_json() for one in plan.obstacles] == found
        assert (listing(Path(graph.uri)), graph.commits.list()) == (before, commits)

    def test_a_branch_that_was_made_from_it(self, graph):
        graph.branches.create("dev")
        self.refused(graph, [slug(7)], ("branch", "dev"))
        graph.branches.delete("dev")
        assert graph.purge({"Person": [slug(7)]}).purged["Person"] == 1

    def test_a_tag(self, graph):
        graph.tags.create("v1")
        self.refused(graph, [slug(7)], ("tag", "v1"))
        graph.tags.delete("v1")
        assert graph.purge({"Person": [slug(7)]}).purged["Person"] == 1

    def test_a_tag_of_a_state_before_the_entity_came_does_not(self, graph):
        graph.tags.create("before")
        graph.load([person(600)])
        graph.purge({"Person": [slug(600)]})
        assert slug(7) in people_in(graph, tag="before")

    def test_a_version_that_lance_tags(self, graph):
        pin = graph.snapshot().tables["node:Person"]
        table = open_table(workspace_of(graph).pinned(pin))
        table.dataset.tags.create("mine", pin.table_version)
        self.refused(graph, [slug(7)], ("lance_tag", "mine"))

    def test_a_running_export(self, graph):
        class Out(io.BytesIO):
            obstacles = None

            def write(self, data):
                if self.obstacles is None:
                    with pytest.raises(PurgeBlocked) as refusal:
                        graph.purge({"Person": [slug(7)]})
                    self.obstacles = refusal.value.details["obstacles"]
                return super().write(data)

        out = Out()
        graph.export(out)
        assert {one["kind"] for one in out.obstacles} == {"lease"}
        assert slug(7).encode() in out.getvalue()
        assert graph.purge({"Person": [slug(7)]}).purged["Person"] == 1


class TestBranches:
    def test_an_entity_of_a_branch_alone(self, graph):
        graph.branches.create("run")
        graph.load([person(700)], branch="run")
        head = graph.commits.list(limit=1)[0]
        report = graph.purge({"Person": [slug(700)]})
        assert report.purged == {"Person": 1}
        assert graph.commits.list(limit=1)[0] == head
        assert slug(700) not in people_in(graph, branch="run")
        assert hits([Path(graph.uri)], [secrets(700)[1]]) == set()
        graph.branches.merge("run")

    def test_one_that_two_branches_brought_each(self, graph):
        graph.branches.create("run")
        graph.load([person(700)], branch="run")
        graph.load([person(700)])
        report = graph.purge({"Person": [slug(700)]})
        assert len(report.commits) == 2
        assert slug(700) not in people_in(graph) | people_in(graph, branch="run")
        assert hits([Path(graph.uri)], [secrets(700)[1]]) == set()

    def test_a_deleted_branch_keeps_nothing(self, graph):
        graph.branches.create("gone")
        graph.load([person(700)], branch="gone")
        graph.branches.delete("gone")
        graph.purge({"Person": [slug(700), slug(1)]})
        assert hits([Path(graph.uri)], [secrets(700)[1], secrets(1)[1]]) == set()


class TestAfterwards:
    def test_what_held_it_is_reclaimed_and_what_came_before_is_not(self, graph):
        before = graph.commits.list(limit=1)[0].graph_commit_id
        cursor = graph.changes.poll(start="now").cursor
        graph.load([person(700)])
        during = graph.commits.list(limit=1)[0].graph_commit_id
        plan = graph.purge({"Person": [slug(700)]}, dry_run=True)
        assert plan.unreadable == (during,)
        graph.purge({"Person": [slug(700)]})
        assert slug(7) in people_in(graph, snapshot=before)
        with pytest.raises(HistoryReclaimed):
            people_in(graph, snapshot=during)
        with pytest.raises(HistoryReclaimed):
            list(graph.diff(f"commit:{before}", f"commit:{during}").changes)
        assert list(graph.diff(f"commit:{before}", "main").changes) == []
        with pytest.raises(ChangeFeedGap):
            graph.changes.poll(cursor=cursor)
        with pytest.raises(og.errors.EntityNotFound):
            graph.history("node", "Person", slug(700))
        assert graph.history("node", "Person", slug(9)).entries
        graph.cleanup(keep_versions=1)
        graph.load([person(700)])
        assert slug(700) in people_in(graph)

    def test_a_reader_that_was_open_sees_the_head_and_no_state_that_is_gone(self, graph):
        held = graph.commits.list(limit=1)[0].graph_commit_id
        with og.open(graph.uri, mode="r") as reader:
            assert slug(7) in people_in(reader)
            graph.purge({"Person": [slug(7)]})
            assert slug(7) not in people_in(reader)
        # What a handle has in memory it may still show; none that reads the files can.
        with og.open(graph.uri, mode="r") as reader:
            with pytest.raises(HistoryReclaimed):
                people_in(reader, snapshot=held)
            with pytest.raises(HistoryReclaimed):
                reader.export(io.BytesIO(), snapshot=held)

    def test_a_purge_again_finds_nothing(self, graph):
        graph.purge({"Person": [slug(7)]})
        head = graph.commits.list(limit=1)[0]
        again = graph.purge({"Person": [slug(7)]})
        assert (again.purged, again.not_found, again.commits) == ({}, 1, ())
        assert graph.commits.list(limit=1)[0] == head

    def test_the_audit_proves_an_entity_to_the_holder_of_the_salt_alone(self, graph):
        report = graph.purge({"Person": [slug(7)]}, reason="asked", actor="dpo")
        (commit_id,) = report.commits
        listed = graph.commits.list(filter="operation=purge")
        assert [one.graph_commit_id for one in listed] == [commit_id]
        audit = graph.commits.show(commit_id).facts["purge"]
        assert (audit["actor_id"], audit["reason"]) == ("dpo", "asked")
        assert audit["purged"] == dict(report.purged)
        assert audit["verified"] == report.verified.to_json()
        proof = hashlib.sha256(bytes.fromhex(report.salt) + b"Person\0" + slug(7).encode())
        assert proof.hexdigest() in audit["entities"]
        assert len(audit["entities"]) == sum(report.purged.values())
        assert report.salt not in str(audit)
        assert slug(7) not in str(audit)

    def test_an_operation_id_is_answered_from_the_audit(self, graph):
        operation = "01JZZZZZZZZZZZZZZZZZZZZZZ1"
        first = graph.purge({"Person": [slug(7)]}, operation_id=operation)
        again = graph.purge({"Person": [slug(7)]}, operation_id=operation)
        assert (again.purged, again.commits) == (first.purged, first.commits)
        assert (again.salt, again.versions_removed) == (None, first.versions_removed)

    def test_marks_of_deleted_rows_no_longer_tell_which(self, graph):
        from omnigraph.manifest.history.version_marks import gone_mark

        def marks():
            manifest = workspace_of(graph).manifest
            rows = manifest.table_rows(manifest.state("main"))
            return {one for row in rows for one in row.base_objects if one.startswith("gone:")}

        assert gone_mark(slug(8)) in marks()
        graph.purge({"Person": [slug(8)]})
        assert gone_mark(slug(8)) not in marks()
        assert "gone:*" in marks()

    def test_records_of_old_commits_no_longer_name_it_and_all_their_states_stay(self, graph):
        graph.tags.create("start")
        graph.tags.delete("start")
        graph.load([{"type": "City", "data": {"slug": "rome"}}])
        graph.branches.create("other")
        graph.load([{"type": "City", "data": {"slug": "bern"}}], branch="other")
        graph.load([person(700)])
        operation = "01JZZZZZZZZZZZZZZZZZZZZZZ7"
        graph.blobs.write(
            "node", "Person", slug(700), "photo", b"PHOTO700X" * 9, operation_id=operation
        )
        # The record stays in fragments of the manifest that newer ones were merged from.
        for number in range(9):
            graph.load([{"type": "City", "data": {"slug": f"c{number}"}}])
        states = {
            one.graph_commit_id: cities_in(graph, snapshot=one.graph_commit_id)
            for one in graph.commits.list()
        }
        assert any("__manifest" in name for name, _ in hits([Path(graph.uri)], [secrets(700)[0]]))
        graph.purge({"Person": [slug(700)]})
        assert hits([Path(graph.uri)], secrets(700)) == set()
        written = [one for one in graph.commits.list() if one.operation_id == operation]
        assert written[0].facts["request"]["selector"]["id"] == "(purged)"
        assert cities_in(graph, branch="other") == {"oslo", "rome", "bern"}
        assert not graph.verify(deep=True).problems
        with og.open(graph.uri, mode="r") as again:
            for handle in (graph, again):
                found = {one: cities_in(handle, snapshot=one) for one in states}
                assert found == states

    def test_commits_that_mutations_share_no_longer_name_it(self):
        from omnigraph.maintenance.purge.purged_ids import Blur

        what = Blur({"node:Person": frozenset({"a"})}, {"table:3": frozenset({"gone:5f0a"})})
        members = [{"actor_id": None, "ids": {"node:Person": ["a", "b"], "node:City": ["a"]}}]
        commit = {"graph_commit_id": "c", "facts": {"group": {"members": members}}}
        for document in (commit, {"graph_id": "g", "commit": commit}):
            text = what.of_text(json.dumps(document))
            assert text.count('"a"') == 1
            assert '"node:City":["a"]' in text
            assert what.of_text(text) == text
        names = ["table:3", "commit:c", "gone:5f0a", "gone:77aa"]
        assert what.of_marks(names) == ["table:3", "commit:c", "gone:77aa", "gone:*"]
        assert what.of_marks(["table:4", *names[1:]]) == ["table:4", *names[1:]]


class TestEntriesOfIndexes:
    """A part of an index goes on with entries of rows that were deleted after it was built."""

    @pytest.fixture
    def cleaned(self, graph):
        """A graph in which half of the people were deleted, and no file of a table has them any more."""
        self.kept, self.gone = [9, 11, 13], [*range(14, 40)]
        graph.ensure_indices()
        for number in self.gone:
            graph.mutate(
                "query d($s: String) { delete Person where slug = $s }", params={"s": slug(number)}
            )
        graph.optimize()
        graph.cleanup(keep_versions=1)
        return graph

    def test_of_a_row_that_no_file_has(self, cleaned):
        people, root = people_in(cleaned), Path(cleaned.uri)
        texts = [*secrets(20)]
        assert hits([root / "nodes"], texts) == set()
        before = entries_of(cleaned, "node:Person")
        live = rows_of(cleaned, "node:Person")
        assert {column for column, rows in before.items() if rows - live} >= {"bio", "vec"}
        report = cleaned.purge({"Person": [slug(20)]})
        assert (report.purged, report.not_found, len(report.commits)) == ({}, 1, 1)
        after = entries_of(cleaned, "node:Person")
        assert after.keys() == before.keys()
        assert all(rows <= live for rows in after.values())
        assert people_in(cleaned) == people
        assert cleaned.purge({"Person": [slug(20)]}).commits == ()

    def test_of_others_stay_if_the_entity_never_left(self, cleaned):
        cleaned.load([person(900)])
        before = entries_of(cleaned, "node:Person")
        cleaned.purge({"Person": [slug(900)]})
        gone = before["vec"] - rows_of(cleaned, "node:Person")
        assert len(gone) > 1
        assert entries_of(cleaned, "node:Person")["vec"] & gone


class TestFilesOfFailedWrites:
    def test_of_a_load_that_failed(self, graph):
        for number, point in ((800, "load.before_locks"), (801, "load.before_phase_b")):
            with failpoints.arm(point, Died()), pytest.raises(Died):
                graph.load([person(number)])
        assert hits([Path(graph.uri)], [secrets(801)[1]])
        report = graph.purge({"Person": [slug(800), slug(801)]})
        assert hits([Path(graph.uri)], [secrets(800)[1], secrets(801)[1]]) == set()
        # No version ever had them, so that no commit was needed.
        assert (report.purged, report.commits) == ({"Person": 2}, ())


BAD = [
    ({}, "at least one"),
    ({"Person": []}, "at least one"),
    ({"Persons": ["a"]}, "no type"),
    ({"edge:Person": ["a"]}, "no type"),
    ({"Person": "ann"}, "list"),
    ({"Person": [""]}, "texts"),
    ({"Person": [None]}, "texts"),
    ({"Person": [True]}, "texts"),
    ({"Person": ["\ud800"]}, "texts"),
    ({1: ["a"]}, "named by a text"),
    (["Person"], "dict"),
    (None, "dict"),
]


@pytest.mark.parametrize(("entities", "said"), BAD)
@pytest.mark.parametrize("dry_run", [True, False])
def test_bad_requests(unchanged, entities, said, dry_run):
    before = listing(Path(unchanged.uri))
    with pytest.raises(BadRequest, match=said):
        unchanged.purge(entities, dry_run=dry_run)
    assert listing(Path(unchanged.uri)) == before


def test_other_bad_arguments(unchanged):
    graph = unchanged
    with pytest.raises(BadRequest, match="reason"):
        graph.purge({"Person": ["a"]}, reason=7)
    with pytest.raises(BadRequest, match="operation_id"):
        graph.purge({"Person": ["a"]}, operation_id="x")
    with og.open(graph.uri, mode="r") as reader:
        with pytest.raises(BadRequest, match="read-only"):
            reader.purge({"Person": [slug(7)]})
        assert reader.purge({"Person": [slug(7)]}, dry_run=True).purged["Person"] == 1


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_report_of_nothing_shows_no_operation_that_the_graph_does_not_know(unchanged, dry_run):
    report = unchanged.purge({"Person": ["nobody", "none"]}, dry_run=dry_run)
    assert repr(report).split() == ["nothing", "to", "purge", "not", "found", "2"]


def test_many_ids_of_which_most_are_nowhere(graph):
    ids = [f"missing-{number}" for number in range(1_000_000)]
    report = graph.purge({"Person": [*ids, slug(7)]})
    assert (report.purged["Person"], report.not_found) == (1, 1_000_000)
    assert hits([Path(graph.uri)], secrets(7)) == set()
    assert slug(9) in people_in(graph)
