"""A lost or damaged index file slows a query down, and stops neither reads nor writes."""

import io
import logging
from pathlib import Path
from random import Random

import pytest

from omnigraph.errors import BadRequest
from omnigraph.graph import open as open_graph
from omnigraph.storage.tables.indexing.index_health import index_parts
from omnigraph.storage.tables.lance_import import forget_sessions
from omnigraph.storage.tables.table import open_table
from tests.maintenance.damage.damaging import (
    Restorable,
    answers,
    break_footer,
    build,
    garble,
    people,
    remove,
    truncate,
)
from tests.opened import workspace_of
from tests.sampling import seed


def everything(graph):
    """Every read and write there is, and what they leave; equal whatever the indexes are like."""
    found = {"before": [answers(graph, **state) for state in ({}, {"branch": "side"})]}
    graph.load_nodes("Person", people(390, 20), mode="merge")
    graph.load([{"type": "Person", "data": {"name": "p0031", "age": 9}}], mode="patch")
    graph.load_nodes("Person", people(1_000, 5), mode="append")
    graph.mutate('query m() { update Person set { age: 33 } where name = "p0020" }')
    graph.mutate("query m() { update Person set { age: 33 } where age = 13 }")
    graph.mutate('query m() { delete Person where name = "p0021" }')
    graph.mutate('query m() { delete Knows where from = "p0022" }')
    graph.mutate(
        'query m() { update Person set { bio: "running" } where name = "p0023" }', branch="side"
    )
    undone = graph.mutate('query m() { update Person set { age: 1 } where name = "p0024" }')
    graph.commits.revert(undone.commit.graph_commit_id)
    found["difference"] = sorted((one.type, one.op) for one in graph.diff("main", "side"))
    graph.branches.merge("side", "main")
    found["after"] = answers(graph)
    graph.optimize()
    found["optimized"] = answers(graph)
    found["lines"] = exported(graph)
    return found


def exported(graph):
    """Its nodes; the ids of edges are random."""
    lines = io.StringIO()
    graph.export(lines, types=["Person"])
    return sorted(lines.getvalue().splitlines())


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """What a graph without any index says."""
    root = tmp_path_factory.mktemp("plain") / "graph"
    build(root, indexes=False)
    with open_graph(root, upkeep="off") as graph:
        return everything(graph)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    root = tmp_path_factory.mktemp("indexed") / "graph"
    build(root)
    return Restorable(root)


@pytest.fixture(autouse=True)
def whole(request):
    yield
    if "indexed" in request.fixturenames:
        request.getfixturevalue("indexed").restore()


def index_files(graph):
    return [path for path in graph.files() if "_indices" in path.parts]


class TestEveryFile:
    def test_the_graph_has_every_kind_of_index(self, indexed):
        names = {path.name for path in index_files(indexed)}
        assert {"page_data.lance", "page_lookup.lance", "index.idx", "auxiliary.idx"} <= names
        assert {
            "metadata.lance",
            "part_0_docs.lance",
            "part_0_tokens.lance",
            "part_0_invert.lance",
        } <= names

    def test_with_whole_indexes(self, indexed, plain):
        with indexed.open() as graph:
            assert everything(graph) == plain

    def test_without_any_index_file(self, indexed, plain):
        for path in index_files(indexed):
            remove(path)
        with indexed.open() as graph:
            assert everything(graph) == plain

    @pytest.mark.sampled(1, every=())
    @pytest.mark.parametrize("damage", [remove, truncate, break_footer])
    def test_each_file_alone(self, indexed, plain, damage):
        """Reads of every file; each answer is that of a graph without an index."""
        for path in index_files(indexed):
            name = path.relative_to(indexed.root)
            damage(path)
            with indexed.open() as graph:
                found = [answers(graph, **state) for state in ({}, {"branch": "side"})]
            assert found == plain["before"], name
            indexed.restore()

    def test_writes_with_each_kind_of_file_lost(self, indexed, plain):
        files = index_files(indexed)
        kinds = {path.name: path for path in Random(f"{seed()} index").sample(files, len(files))}
        for name in sorted(kinds):
            remove(kinds[name])
            with indexed.open() as graph:
                assert everything(graph) == plain, kinds[name]
            indexed.restore()


def of_column(graph, column, name):
    """The file of that name of the index of `main`'s persons on a column."""
    for part in index_parts(*_opened(graph)):
        if part.column == column:
            return Path(part.place, name)
    raise AssertionError(column)


def _opened(graph):
    pin = graph.snapshot().tables["node:Person"]
    table = open_table(workspace_of(graph).pinned(pin))
    return table.ref, table.dataset


class TestWhatIsSaid:
    def test_a_lost_index_is_told_once_and_built_anew(self, indexed, plain, caplog):
        with indexed.open() as graph:
            remove(of_column(graph, "bio", "part_0_docs.lance"))
        forget_sessions()
        with indexed.open() as graph, caplog.at_level(logging.WARNING):
            assert answers(graph) == plain["before"][0]
            assert answers(graph) == plain["before"][0]
            messages = [one.getMessage() for one in caplog.records]
            told = [one for one in messages if "is not used" in one and str(indexed.root) in one]
            assert len(told) == 1
            assert "on bio of" in told[0]
            assert "omnigraph ensure-indices" in told[0]
            query = 'query q() { match { $p: Person  search($p.bio, "maps") } return { $p.name } }'
            assert "node:Person.bio (fts): damaged" in graph.explain(query).text
            (row,) = [one for one in graph.status().tables if one.table_key == "node:Person"]
            assert {one.column: one.coverage for one in row.indexes}["bio"] == "damaged"
            advice = [one for one in row.advice if one.code == "index_damaged"]
            assert [one.command for one in advice] == [f"omnigraph ensure-indices {indexed.root}"]
            report = graph.ensure_indices()
            assert (report.built, report.failed) == ([("node:Person", "bio")], [])
            assert answers(graph) == plain["before"][0]
            assert "node:Person.bio (fts): indexed" in graph.explain(query).text
            (row,) = [one for one in graph.status().tables if one.table_key == "node:Person"]
            assert not [one for one in row.advice if one.code == "index_damaged"]
            assert graph.ensure_indices().built == []

    def test_ensure_indices_looks_by_itself(self, indexed):
        """A process that has not used the index finds a lost file, and so does one after another."""
        with indexed.open() as graph:
            remove(of_column(graph, "age", "page_lookup.lance"))
            remove(of_column(graph, "face", "auxiliary.idx"))
            assert graph.ensure_indices().built == [("node:Person", "age"), ("node:Person", "face")]

    @pytest.mark.parametrize(
        ("column", "name"), [("id", "page_data.lance"), ("bio", "part_0_docs.lance")]
    )
    def test_files_that_do_not_decode(self, indexed, plain, column, name):
        """Size and footer are right, so that only reading it tells; the second failure settles it."""
        with indexed.open() as graph:
            path = of_column(graph, column, name)
        if name == "part_0_docs.lance":
            data = path.read_bytes()
            path.write_bytes(b"\xff" * 64 + data[64:-600] + b"\xff" * 400 + data[-200:])
        else:
            garble(path)
        forget_sessions()
        with indexed.open() as graph:
            assert everything(graph) == plain

    def test_the_index_of_the_parent_serves_no_branch_when_it_is_lost(self, indexed, plain):
        with indexed.open() as graph:
            remove(of_column(graph, "id", "page_data.lance"))
        forget_sessions()
        with indexed.open() as graph:
            assert answers(graph, branch="side") == plain["before"][1]
            graph.mutate('query m() { delete Person where name = "p0030" }', branch="side")
            assert ("node:Person", "id") in graph.ensure_indices("side").built
            found = answers(graph, branch="side")
            assert found["by_name 0"] == plain["before"][1]["by_name 0"]

    def test_what_is_put_back_is_used_again(self, indexed, plain):
        with indexed.open() as graph:
            path = of_column(graph, "bio", "part_0_docs.lance")
            kept = path.read_bytes()
            remove(path)
            forget_sessions()
            assert answers(graph) == plain["before"][0]
            path.write_bytes(kept)
            graph.refresh()
            (row,) = [one for one in graph.status().tables if one.table_key == "node:Person"]
            assert {one.column: one.coverage for one in row.indexes}["bio"] != "damaged"


class TestRebuild:
    def uuids(self, graph):
        return {part.column: part.uuid for part in index_parts(*_opened(graph))}

    @pytest.mark.parametrize(
        ("asked", "columns"),
        [
            (True, {"id", "age", "bio", "face"}),
            ("Person", {"id", "age", "bio", "face"}),
            ("node:Person", {"id", "age", "bio", "face"}),
            ("Person.bio", {"bio"}),
            ("Person.name", {"id"}),
            (["Person.id", "Person.face"], {"id", "face"}),
            ("Knows.src", set()),
        ],
    )
    def test_those_named_are_made_anew(self, indexed, plain, asked, columns):
        with indexed.open() as graph:
            graph.ensure_indices()  # which extends them to all rows
            before = self.uuids(graph)
            report = graph.ensure_indices(rebuild=asked)
            after = self.uuids(graph)
            assert {name for name in before if before[name] != after[name]} == columns
            assert {name for key, name in report.built if key == "node:Person"} == columns
            assert before.keys() == after.keys()
            assert report.commit is not None
            assert answers(graph) == plain["before"][0]

    @pytest.mark.parametrize(
        ("asked", "text"),
        [
            ("Persn", "did you mean `Person`?"),
            ("Person.nam", "indexes are on: id, age, bio, face"),
            (7, "rebuild is True"),
        ],
    )
    def test_what_there_is_not_is_refused(self, indexed, asked, text):
        with indexed.open() as graph, pytest.raises(BadRequest, match=text.replace("?", r"\?")):
            graph.ensure_indices(rebuild=asked)
