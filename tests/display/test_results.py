"""Results show themselves: readable in a terminal and in a notebook, cut, aligned and escaped."""

import inspect
import re

import pytest

import omnigraph as og
from omnigraph.display.panel import Shown
from omnigraph.display.text import width_of
from omnigraph.graph.facets.facet import Facet
from tests.display.html_tables import HtmlTable

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
node Draft { name: String @key }
edge Knows: Person -> Person
"""
EVIL = "<img src=x onerror=alert(1)>\n\x1b[31m"
ALL = "query all() { match { $p: Person } return { $p, $p.age } order { $p.age } }"

# One line that says it all, as in a list of them.
ONE_LINE = {
    "Advice", "BranchCreated", "Change", "CleanupRow", "DiffStats", "ExportStats", "GraphCommit",
    "MergeConflict", "MergeStats", "OptimizeRow", "Problem", "Progress", "RepairRow", "SchemaStep",
    "TableState", "TableStatus", "Tag", "Target", "VerifiedTable",
}  # fmt: skip


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What every kind of call answers, by the name of its type, on one small graph."""
    place = tmp_path_factory.mktemp("shown")
    with og.init(place / "g", SCHEMA, actor="ada") as graph:
        people = [{"type": "Person", "data": {"name": f"p{n:02}", "age": n}} for n in range(30)]
        evil = {"type": "Person", "data": {"name": EVIL, "age": 1_000_000}}
        knows = {"edge": "Knows", "from": "p00", "to": "p01"}
        found = [graph.load([*people, evil, knows])]
        found += [graph.snapshot(), graph.status(), graph.query(ALL), graph.explain(ALL)]
        found += [graph.profile(ALL), graph.branches.create("dev")]
        older = "query older() { update Person set { age: 99 } where name = 'p00' }".replace(
            "'", '"'
        )
        found += [graph.mutate(older), graph.mutate(older.replace("99", "98"), branch="dev")]
        found += [graph.branches.merge("dev", dry_run=True)]
        start = found[0].commit.parent_commit_id
        found += [graph.diff(og.at(snapshot=start), "main"), graph.commits.history()]
        found += [graph.diff("main", "dev").page()]
        found += [graph.history("node", "Person", "p00"), graph.blame("node", "Person", "p00")]
        found += found[-2].entries[:1]
        found += [graph.commits.changes(found[0].commit.graph_commit_id)]
        found += [
            graph.changes.poll(start="beginning"),
            graph.changes.baseline(place / "base.jsonl"),
        ]
        found += [graph.ensure_indices(), graph.optimize(), graph.repair(), graph.verify()]
        found += [graph.cleanup(keep_versions=1, dry_run=True), graph.export(place / "out.jsonl")]
        found += [graph.embed(), graph.blobs.write("node", "Person", "p02", "photo", iter([b"x"]))]
        found += [graph.blobs.stat("node", "Person", "p02", "photo")]
        graph.branches.delete("dev")
        smaller = SCHEMA.replace("node Draft { name: String @key }", "")
        found += [graph.schema.plan(smaller), graph.schema.apply(smaller)]
        found += [graph.schema.show(), graph.schema.diff(og.at(snapshot=start), "main")]
        found += [og.lint(og.parse_schema(SCHEMA), ALL), found[0].commit, graph.schema.catalog]
        page = next(one for one in found if isinstance(one, og.ChangePage))
        found += [page.blocks[-1], page.blocks[-1].changes[0], graph.tags.create("v1")]
        found += [graph.snapshot().tables["node:Person"], graph.nodes("Person")]
        found += [graph.algorithms.louvain("Knows"), graph.purge({"Person": ["ann"]}, dry_run=True)]
    return {type(one).__name__: one for one in found}


def test_every_exported_result_shows_itself():
    results = {name for name in og.__all__ if hasattr(getattr(og, name), "to_json")} - ONE_LINE
    assert {name for name in results if not issubclass(getattr(og, name), Shown)} == set()


def methods_of(holder):
    """The public methods and properties of a handle, those of `graph.branches` and the like included."""
    for name, member in inspect.getmembers(type(holder)):
        if name.startswith("_"):
            continue
        call = member.fget if isinstance(member, property) else member
        if inspect.isfunction(call):
            yield f"{type(holder).__name__}.{name}", call
    for part in vars(holder).values():
        if isinstance(part, Facet):
            yield from methods_of(part)


def test_the_type_of_every_answer_is_exported(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        answers = {name: call.__annotations__["return"] for name, call in methods_of(graph)}
    assert {"Graph.nodes", "Branches.merge", "Commits.list"} <= answers.keys()
    ours = {name: set(re.findall(r"\b[A-Z]\w+", answer)) for name, answer in answers.items()}
    # Of other libraries, of typing, or a set of words.
    known = {
        "Any",
        "BufferedReader",
        "DataFrame",
        "MultiDiGraph",
        "None",
        "Self",
        "Mode",
        "UpkeepMode",
        *og.__all__,
    }
    assert {name: found - known for name, found in ours.items() if found - known} == {}


def test_every_kind_of_result_is_looked_at_below(shown):
    kinds = {name for name in og.__all__ if inspect.isclass(getattr(og, name))}
    kinds = {name for name in kinds if issubclass(getattr(og, name), Shown)}
    assert kinds - shown.keys() == set()


def test_they_fit_a_screen_and_steer_no_terminal(shown, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    for name, one in shown.items():
        for text in (repr(one), str(one)):
            lines = text.split("\n")
            assert 1 <= len(lines) <= 25, name
            assert all(line.isprintable() for line in lines), name
            table = [line for line in lines if " | " in line]
            assert all(width_of(line) <= 100 for line in table), (name, table)
            assert f"{name}(" not in text, name


def test_their_html_is_a_title_and_tables_without_foreign_markup(shown):
    for name, one in shown.items():
        if isinstance(one, Shown):
            table = HtmlTable(one._repr_html_())
            assert table.lines[0], name


class TestWhatTheySay:
    def test_a_load(self, shown):
        lines = repr(shown["LoadResult"]).splitlines()
        assert lines[0] == "loaded 32 rows into main (merge, local)"
        assert lines[1].split() == ["commit", shown["LoadResult"].commit.graph_commit_id]
        assert [line.split() for line in lines[-2:]] == [
            ["edge:Knows", "|", "1"],
            ["node:Person", "|", "31"],
        ]

    def test_a_commit_is_one_line_in_a_list_and_all_its_facts_when_printed(self, shown):
        commit = shown["GraphCommit"]
        assert repr([commit]).startswith(
            f"[<omnigraph.GraphCommit {commit.graph_commit_id}: load on main"
        )
        assert "by ada, 20" in repr(commit)
        facts = dict(line.split(maxsplit=1) for line in str(commit).splitlines()[1:])
        assert facts["parent"] == commit.parent_commit_id
        assert HtmlTable(commit._repr_html_()).rows[1] == ["actor", "ada"]

    def test_a_snapshot(self, shown):
        table = HtmlTable(shown["Snapshot"]._repr_html_())
        assert table.rows[0] == ["table", "rows", "version", "stored on"]
        assert ["node:Person", "31", "2", "main"] in table.rows

    def test_a_status_with_its_advice(self, shown):
        status = shown["Status"]
        assert repr(status) == str(status)
        assert "head of main  01" in repr(status)
        assert all(one.message in repr(status) for one in status.all_advice)

    def test_a_diff_shows_its_first_changes_and_does_not_count_what_it_has_not_read(self, shown):
        diff = shown["DiffResult"]
        lines = repr(diff).splitlines()
        assert lines[0].startswith("changes from main at 01")
        assert len(lines) == 14
        assert lines[3].split(" | ")[1:3] == ["node", "Person"]
        assert lines[-1].startswith("… more")
        assert diff.stats.inserts == 32
        assert repr(diff).splitlines()[0].startswith("32 changes from main at 01")
        assert repr(diff).splitlines()[-1] == "… 22 more"
        assert len(diff.changes) == 32

    def test_a_merge_that_would_not_go_through(self, shown):
        text = repr(shown["MergeResult"])
        assert text.splitlines()[0] == "merge of dev into main (dry run): merged, 1 conflict"
        assert "divergent_update" in text
        assert "p00" in text

    def test_an_explanation_keeps_the_indentation_of_its_steps_in_html(self, shown):
        table = HtmlTable(shown["Explanation"]._repr_html_())
        assert table.rows[1][:3] == ["scan $p: Person", "node:Person", "31"]
        assert repr(shown["Explanation"]) == shown["Explanation"].text

    def test_a_profile_says_what_was_run(self, shown):
        lines = repr(shown["Profiled"]).splitlines()
        assert lines[0] == "31 rows from branch main via all"
        assert [cell.strip() for cell in lines[1].split("|")] == [
            "phase",
            "estimated",
            "rows",
            "ms",
            "bytes",
        ]

    def test_a_change_shows_data_as_it_is(self, shown):
        change = og.Change(
            "node",
            "Person",
            "ann",
            "update",
            *({"properties": {"age": age, "since": 1999}} for age in (1234, None)),
        )
        assert str(change).splitlines()[0] == "update of node Person ann"
        assert str(change).splitlines()[3:] == ["age   | 1234   | -", "since | 1999   | 1999"]
        assert repr([change]) == "[<omnigraph.Change update of node Person ann>]"


def test_a_diff_that_cannot_be_read_any_more_says_so(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.branches.create("dev")
        graph.load([{"type": "Person", "data": {"name": "ada"}}], branch="dev")
        diff = graph.diff("main", "dev")
        graph.branches.delete("dev")
        graph.cleanup(keep_versions=1)
        assert "they cannot be read: " in repr(diff)
        assert "they cannot be read: " in diff._repr_html_()


def test_parts_of_a_handle_name_their_calls(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        assert (
            repr(graph.branches) == f"<graph.branches of {graph.uri}: create, delete, list, merge>"
        )
        assert repr(graph.schema).endswith(": apply, catalog, diff, plan, show, source>")
        assert repr(graph.schema.catalog.edges) == "{'Knows': <omnigraph.EdgeType Knows {  }>}"
        assert ["edge", "Knows", "Person -> Person", ""] in HtmlTable(
            graph.schema.catalog._repr_html_()
        ).rows
        assert repr(og.at("dev", version=3)) == "<omnigraph.Target branch dev at version 3>"
        assert repr(og.parse_schema(SCHEMA)).startswith(
            "<omnigraph.Compiled 2 node types, 1 edge type"
        )


def test_what_was_only_checked_or_done_before_says_so(tmp_path):
    ada = [{"type": "Person", "data": {"name": "ada"}}]
    with og.init(tmp_path / "g", SCHEMA) as graph:
        checked = graph.load(ada, check=True)
        assert repr(checked).splitlines()[0] == "checked 1 row for main (merge, local)"
        for _ in range(2):
            loaded = graph.load(ada, operation_id="01JZZZZZZZZZZZZZZZZZZZZZZ1")
        assert loaded.replayed
        assert "made before, under this operation id" in repr(loaded)
