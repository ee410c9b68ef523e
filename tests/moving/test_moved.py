"""A graph works wherever its directory lies; a copy is a graph of its own."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import CursorRejected, GraphMoved
from omnigraph.storage.uris import Root
from tests.commit.synthetic import foreign_append
from tests.graphs import person
from tests.moving.places import SCHEMA, bases, copy, files, knows, move, names, seen
from tests.opened import workspace_of


def relocations(graph):
    return [one for one in graph.commits.list() if one.operation == "relocate"]


class TestMoved:
    @pytest.mark.parametrize("name", ["elsewhere", "sub/far away", "ünï#codé", "g"])
    def test_all_of_it_is_read_and_written_at_another_place(self, made, tmp_path, name):
        uri, before = made
        there = str(tmp_path / name)
        Path(there).parent.mkdir(exist_ok=True)
        move(uri, there)
        with og.open(there) as graph:
            assert seen(graph) == before
            assert names(graph, tag="old") == ["ann", "bob", "max", "sue"]
            assert graph.blobs.read("node", "Person", "ann", "face", branch="deep/er") == b"\0\1\2"
            found = graph.query(
                "query q() { match { $p: Person { age: 9 } } return { $p.name } }", branch="deep/er"
            )
            assert [row["p.name"] for row in found.rows] == ["sue"]
            below = Root.parse(there).child("")
            assert all(path.startswith(below) for path in bases(graph))
            for branch in ("main", "lazy", "side", "deep/er"):
                graph.load([person(f"new {branch}")], branch=branch)
            graph.branches.merge("deep/er", "side")
            graph.branches.merge("side")
            assert names(graph)[-1] == "tom"
            graph.optimize("side")
            graph.cleanup(keep_versions=1)
            after = seen(graph)
        with og.open(there, mode="r") as again:
            assert seen(again) == after
        assert not Path(uri).exists()

    @pytest.mark.parametrize("branch", ["feature/__manifest-tidy", "x/__manifest"])
    def test_branches_may_be_called_like_a_table(self, tmp_path, branch):
        places = [str(tmp_path / name) for name in ("a", "b", "a")]
        with og.init(places[0], SCHEMA) as graph:
            graph.load([person("ann")])
            graph.branches.create(branch)
            graph.load([person("bob")], branch=branch)
            graph.branches.create("child", from_=branch)
            graph.load([person("cy")], branch="child")
        for before, after in itertools.pairwise(places):
            move(before, after)
            with og.open(after) as graph:
                assert names(graph, branch="child") == ["ann", "bob", "cy"]
                assert graph.commits.list("child")
                graph.load([person("ann")], branch="child")

    def test_it_may_move_on_and_back(self, made, tmp_path):
        uri, before = made
        way = [uri, str(tmp_path / "one"), str(tmp_path / "two"), uri]
        ids = set()
        for last, place in itertools.pairwise(way):
            move(last, place)
            with og.open(place) as graph:
                assert seen(graph) == before
                ids.add(graph.status().graph_id)
        assert len(ids) == 3

    def test_a_graph_without_branches_gets_its_first_one_where_it_lies(self, tmp_path):
        with og.init(tmp_path / "graph", SCHEMA) as graph:
            graph.load([person("ann")])
        move(str(tmp_path / "graph"), str(tmp_path / "there"))
        with og.open(tmp_path / "there") as graph:
            graph.branches.create("x")
            graph.load([person("bob")], branch="x")
        with og.open(tmp_path / "there", mode="r") as graph:
            assert (names(graph), names(graph, "x")) == (["ann"], ["ann", "bob"])
            assert len(relocations(graph)) == 1

    @pytest.mark.parametrize("spelling", ["{}/", "file://{}", "{}/../graph", "link"])
    def test_other_spellings_are_the_same_place(self, made, tmp_path, spelling):
        uri, before = made
        (tmp_path / "link").symlink_to(uri)
        was = files(uri)
        address = str(tmp_path / "link") if spelling == "link" else spelling.format(uri)
        with og.open(address) as graph:
            assert seen(graph) == before
            assert graph.uri == uri
        assert {name: data for name, data in files(uri).items() if "__locks" not in name} == {
            name: data for name, data in was.items() if "__locks" not in name
        }

    def test_a_directory_with_a_second_name_is_one_place(self, made, tmp_path, monkeypatch):
        """As for a directory that is mounted twice, which a test cannot do without being root."""
        uri, before = made
        (tmp_path / "mounted").symlink_to(uri)
        monkeypatch.setattr("os.path.realpath", str)  # does not see the link
        with og.open(tmp_path / "mounted") as graph:
            assert (graph.uri, relocations(graph)) == (uri, [])
            assert seen(graph) == before
            graph.branches.create("new", "side")
            graph.load([person("eve")], branch="new")
            assert all(path.startswith(f"{uri}/") for path in bases(graph))


class TestReadOnly:
    def test_a_reader_answers_for_what_needs_no_fork_and_changes_nothing(self, made, tmp_path):
        uri, before = made
        there = str(tmp_path / "there")
        copy(uri, there)
        was = files(there)
        with og.open(there, mode="r") as graph:
            assert names(graph) == ["ann", "bob"]
            assert graph.branches.list() == ["main", "deep/er", "lazy", "side"]
            assert [one.operation for one in graph.commits.list()][-1] == "init"
            assert graph.export(tmp_path / "out.jsonl").stats.records == 3
            (advice,) = [one for one in graph.status().all_advice if one.code == "moved"]
            assert uri in advice.message
            assert advice.command == f"omnigraph repair {there}"
            for call in (
                lambda: names(graph, "side"),
                lambda: names(graph, "lazy"),
                lambda: names(graph, tag="old"),
                lambda: graph.diff("main", "side").changes,
                lambda: graph.commits.list("deep/er"),
                graph.repair,
            ):
                with pytest.raises(GraphMoved, match="repair --moved") as caught:
                    call()
                assert caught.value.details == {"recorded": uri, "actual": there}
            assert files(there) == was
            with og.open(there) as writer:
                assert seen(writer) == before
            # Somebody has settled it: now this handle reads all of it.
            assert names(graph, "side") == ["ann", "bob", "max", "sue"]
            assert seen(graph) == before


class TestCopy:
    def test_a_copy_is_a_graph_of_its_own(self, made, tmp_path):
        uri, _ = made
        there = str(tmp_path / "copy")
        copy(uri, there)
        with og.open(uri) as original, og.open(there) as graph:
            old, new = original.status().graph_id, graph.status().graph_id
            assert old != new
            (commit,) = relocations(graph)
            assert commit.actor_id == "omnigraph:maintenance"
            assert commit.facts == {
                "graph_id": new, "former_graph_id": old, "from": uri, "to": there,
            }  # fmt: skip
            assert relocations(original) == []
            for branch in graph.branches.list():
                assert graph.snapshot(branch=branch).graph_id == new
                for one in graph.commits.list(branch):
                    assert graph.snapshot(snapshot=one.graph_commit_id).graph_id == new
            graph.load([person("copied")], branch="side")
            original.load([person("original")], branch="side")
            assert names(graph, "side") == ["ann", "bob", "copied", "max", "sue"]
            assert names(original, "side") == ["ann", "bob", "max", "original", "sue"]
            assert names(original, "deep/er") == names(graph, "deep/er")
        shutil.rmtree(uri)
        with og.open(there) as graph:
            assert names(graph, "side") == ["ann", "bob", "copied", "max", "sue"]
            assert len(relocations(graph)) == 1

    def test_cursors_of_the_original_are_refused_and_say_why(self, made, tmp_path):
        uri, _ = made
        with og.open(uri) as original:
            cursors = {
                branch: original.changes.poll(branch, start="beginning").cursor
                for branch in ("main", "side")
            }
            page = original.diff("main", "side").page(limit=1).next_page_token
        there = str(tmp_path / "copy")
        copy(uri, there)
        with og.open(there) as graph:
            for branch, cursor in cursors.items():
                with pytest.raises(CursorRejected, match="copied from"):
                    graph.changes.poll(branch, cursor=cursor)
            with pytest.raises(CursorRejected, match="copied from"):
                graph.diff("main", "side").page(page_token=page)
            assert graph.repair(moved=True) is not None
            for branch, cursor in cursors.items():
                graph.changes.poll(branch, cursor=cursor)

    def test_a_graph_whose_original_is_gone_keeps_its_id(self, made, tmp_path):
        uri, before = made
        with og.open(uri) as graph:
            old = graph.status().graph_id
            cursor = graph.changes.poll("side", start="beginning").cursor
        there = str(tmp_path / "there")
        move(uri, there)
        with og.open(there, moved=True) as graph:
            assert (graph.status().graph_id, seen(graph)) == (old, before)
            assert graph.changes.poll("side", cursor=cursor).blocks == ()
            (commit,) = relocations(graph)
            assert commit.facts == {"graph_id": old, "from": uri, "to": there}
            graph.repair(moved=True)  # it has its id already
            assert len(relocations(graph)) == 1

    def test_a_copy_may_take_the_id_of_its_original_once(self, made, tmp_path):
        uri, before = made
        with og.open(uri) as graph:
            old = graph.status().graph_id
        there = str(tmp_path / "there")
        move(uri, there)
        with og.open(there) as graph:
            copied = graph.status().graph_id
            graph.repair(moved=True)
            assert graph.status().graph_id == old
            graph.repair(moved=True)
            assert graph.status().graph_id == old
            assert (seen(graph), copied != old) == (before, True)
        copy(there, str(tmp_path / "third"))
        with og.open(tmp_path / "third") as graph:
            assert workspace_of(graph).manifest.state("main").head.former_ids == (copied, old)

    def test_other_handles_go_on_when_a_copy_takes_the_id_back(self, made, tmp_path):
        uri, _ = made
        copy(uri, str(tmp_path / "copy"))
        with og.open(tmp_path / "copy") as one, og.open(tmp_path / "copy") as other:
            assert names(other, branch="side") == names(one, branch="side")
            one.repair(moved=True)
            other.load([person("new")])
            other.load([person("new")], branch="side")
            assert "new" in names(one)
            assert "new" in names(one, branch="side")
            assert other.status().graph_id == one.status().graph_id

    def test_merges_and_conditions_take_a_copy_for_what_it_is_a_copy_of(self, made, tmp_path):
        uri, _ = made
        with og.open(uri) as graph:
            head = graph.snapshot().graph_commit_id
        copy(uri, str(tmp_path / "copy"))
        with og.open(tmp_path / "copy") as graph:
            assert graph.branches.merge("side").outcome == "fast_forward"
        copy(uri, str(tmp_path / "second"))
        with og.open(tmp_path / "second") as graph:
            graph.mutate('query q() { insert Person { name: "new" } }', if_commit=head)

    @pytest.mark.parametrize("moved", [True, False])
    def test_a_branch_may_begin_before_the_copy(self, made, tmp_path, moved):
        """Its head row is of that time, with the id and the place of then."""
        uri, _ = made
        with og.open(uri) as graph:
            past = graph.snapshot().graph_commit_id
        there = str(tmp_path / "there")
        copy(uri, there)
        with og.open(there, moved=moved) as graph:
            graph.load([person("later")])
            graph.branches.create("past", og.at(snapshot=past))
            assert names(graph, "past") == ["ann", "bob"]
            graph.load([person("new")], branch="past")
        with og.open(there) as graph:
            assert names(graph, "past") == ["ann", "bob", "new"]
            assert graph.snapshot(branch="past").graph_id == graph.status().graph_id


class TestCameAlong:
    """What lay in the directory of the original when it was copied."""

    @pytest.mark.parametrize(
        ("point", "there"),
        [
            ("load.after_table_commit", False),
            ("load.after_phase_b_before_phase_c", True),
            ("load.after_phase_c_before_phase_d", True),
        ],
    )
    @pytest.mark.parametrize("branch", ["main", "side", "lazy"])
    def test_an_operation_of_the_original_is_settled_in_the_copy(
        self, made, tmp_path, point, there, branch
    ):
        uri, _ = made
        new = [person("half"), knows("half", "ann")]
        with (
            og.open(uri) as graph,
            failpoints.arm(point, lambda _: copy(uri, str(tmp_path / "copy")), times=1),
        ):
            graph.load(new, branch=branch)
        with og.open(tmp_path / "copy") as graph:
            assert ("half" in names(graph, branch)) is there
            assert graph.status().pending_recoveries == 0
            graph.load([person("next")], branch=branch)
            assert "next" in names(graph, branch)

    def test_a_merge_that_was_all_but_published_is_there(self, made, tmp_path):
        """It rests on the exact head, so it is settled before the copy makes a commit of its own."""
        uri, _ = made
        at = "branch_merge.after_phase_b_before_phase_c"
        with (
            og.open(uri) as graph,
            failpoints.arm(at, lambda _: copy(uri, str(tmp_path / "copy")), times=1),
        ):
            graph.load([person("new")])
            graph.branches.merge("side")
            merged = names(graph)
        with og.open(tmp_path / "copy") as graph:
            assert names(graph) == merged

    def test_a_schema_change_that_was_all_but_published_is_there(self, tmp_path):
        uri = str(tmp_path / "graph")
        at = "schema_apply.after_phase_b_before_phase_c"
        with (
            og.init(uri, SCHEMA) as graph,
            failpoints.arm(at, lambda _: copy(uri, str(tmp_path / "copy")), times=1),
        ):
            graph.load([person("ann")])
            graph.schema.apply(SCHEMA + "node City { name: String @key }")
        with og.open(tmp_path / "copy") as graph:
            assert "City" in graph.schema.catalog.nodes
            assert names(graph) == ["ann"]

    @pytest.mark.parametrize("branch", ["main", "side", "lazy"])
    def test_what_is_not_in_the_history_of_the_copy_is_undone(self, made, tmp_path, branch):
        """The manifest is copied first and the tables later, when writers have gone on."""
        uri, before = made
        there = tmp_path / "copy"
        there.mkdir()
        copy(f"{uri}/__manifest", str(there / "__manifest"))
        with og.open(uri) as graph:
            for name in ("later", "latest"):
                graph.load([person(name), knows(name, "ann")], branch=branch)
            graph.mutate('query q() { delete Person where name = "bob" }', branch=branch)
        for place in ("nodes", "edges"):
            copy(f"{uri}/{place}", str(there / place))
        with og.open(there) as graph:
            assert seen(graph) == before
            graph.load([person("own"), knows("own", "ann")], branch=branch)
            assert names(graph, branch) == sorted([*_people(before, branch), "own"])
            assert [row.classification for row in graph.repair().drifted] == []
            graph.cleanup(keep_versions=1)
            assert names(graph, branch) == sorted([*_people(before, branch), "own"])
        with og.open(uri) as original:
            assert "latest" in names(original, branch)

    def test_a_graph_that_was_moved_keeps_what_another_program_wrote(self, made, tmp_path):
        """It is no copy: what nobody explains is for `repair`, as before."""
        uri, before = made
        with og.open(uri) as graph:
            foreign_append(graph, "node:Person", ["foreign"])
        there = str(tmp_path / "there")
        move(uri, there)
        with og.open(there, moved=True) as graph:
            assert seen(graph) == before
            assert [row.table_key for row in graph.repair().drifted] == ["node:Person"]
            graph.repair(confirm=True, force=True)
            assert "foreign" in names(graph)


def _people(shown, branch):
    return [row["name"] for row in shown[f"branch {branch}"]["node:Person"]]
