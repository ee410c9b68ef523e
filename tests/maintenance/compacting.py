"""A graph with a branch to compact, wherever it lies, and what must be true of it afterwards."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from omnigraph.graph import Graph
from omnigraph.graph import init as init_graph
from omnigraph.storage.tables.indexing.table_indexes import list_indexes
from omnigraph.storage.tables.table import Table, open_table
from tests.opened import workspace_of

SCHEMA = """
node Doc { ref: String @key  year: I32? @index  body: String? @index }
node Note { ref: String @key }
"""
DOC = "node:Doc"
YEARS = 500
QUERIES = """
query by_ref($ref: String) { match { $d: Doc { ref: $ref } } return { $d.year as year } }
query by_year($y: I32) { match { $d: Doc  $d.year = $y } return { $d.ref as ref } order { ref } }
query by_words($q: String) {
  match { $d: Doc  search($d.body, $q) } return { $d.ref as ref } order { ref }
}
"""

Model = dict[str, int]
"""The year of every document."""


def frame(years: Model) -> pa.Table:
    """The documents as rows: their words follow from their year."""
    return pa.table(
        {
            "ref": pa.array(years, pa.utf8()),
            "year": pa.array(years.values(), pa.int32()),
            "body": [f"about year{year}" for year in years.values()],
        }
    )


def numbered(first: int, count: int, shift: int = 0) -> Model:
    """Documents `d<number>`, their years spread evenly."""
    return {f"d{n:07d}": (n + shift) % YEARS for n in range(first, first + count)}


def branched(uri: Any, rows: int) -> tuple[Graph, Model, Model]:
    """A graph with an indexed table of two fragments, and a branch `dev` that wrote to it.

    Returns the documents of `main` and of the branch: of its own the branch has three fragments of
    new and one of changed rows, and it has deleted some.
    """
    graph = init_graph(uri, SCHEMA)
    main: Model = {}
    for first in (0, rows // 2):
        part = numbered(first, rows // 2)
        graph.load_nodes("Doc", frame(part), mode="append")
        main |= part
    graph.ensure_indices(engine="local")
    graph.branches.create("dev")
    dev = dict(main)
    for at in range(3):
        part = numbered(rows + at * 500, 500)
        graph.load_nodes("Doc", frame(part), mode="append", branch="dev")
        dev |= part
    changed = numbered(100, 300, shift=7)
    graph.load_nodes("Doc", frame(changed), branch="dev")
    dev |= changed
    graph.mutate("query q() { delete Doc where year = 3 }", branch="dev")
    return graph, main, {ref: year for ref, year in dev.items() if year != 3}


def table_of(graph: Graph, branch: str = "main") -> Table:
    """The documents as the branch pins them."""
    return open_table(workspace_of(graph).pinned(graph.snapshot(branch=branch).tables[DOC]))


def inherited(table: Table) -> dict[int, list[str]]:
    """The data files of fragments that lie in the directory of another branch."""
    return {
        fragment.id: [file.path for file in fragment.files]
        for fragment in table.fragments()
        if any(file.base_id is not None for file in fragment.files)
    }


def own(table: Table) -> list[int]:
    """The other fragments."""
    return [fragment.id for fragment in table.fragments() if fragment.id not in inherited(table)]


def changes_since(table: Table, version: int) -> tuple[set[str], set[str], set[int]]:
    """Ids inserted and updated, and row ids deleted, since a version of the table."""
    delta = table.delta(version)
    return (
        set(delta.inserted().read_all()["id"].to_pylist()),
        set(delta.updated().read_all()["id"].to_pylist()),
        set(delta.deleted_row_ids().read_all()["_rowid"].to_pylist()),
    )


def check_answers(graph: Graph, years: Model, branch: str = "dev") -> None:
    """Look-ups through every index give what the documents say."""

    def ask(name: str, **given: Any) -> list[dict[str, Any]]:
        return graph.query(QUERIES, name, given, branch=branch).rows

    first, last = min(years), max(years)
    for ref in (first, last, "d0000150", "d9999999"):
        wanted = [{"year": years[ref]}] if ref in years else []
        assert ask("by_ref", ref=ref) == wanted
    for year in (3, years[first], years[last], YEARS):
        wanted = sorted(ref for ref, found in years.items() if found == year)
        assert [row["ref"] for row in ask("by_year", y=year)] == wanted
        assert [row["ref"] for row in ask("by_words", q=f"year{year}")] == wanted
    assert graph.snapshot(branch=branch).tables[DOC].row_count == len(years)


def check_explained(graph: Graph, branch: str = "dev") -> None:
    """Every index serves, and covers all rows."""
    for name, given, column in (
        ("by_ref", {"ref": "d0000001"}, "id"),
        ("by_year", {"y": 1}, "year"),
        ("by_words", {"q": "year1"}, "body"),
    ):
        explained = graph.explain(QUERIES, name, given, branch=branch).to_json()
        used = [index for step in explained["steps"] for index in step["indexes"]]
        assert (column, "indexed") in {(i["column"], i["coverage"]) for i in used}, (name, used)
    assert all(not state.tail for state in list_indexes(table_of(graph, branch)))


def check_upsert(graph: Graph, years: Model, branch: str = "dev") -> Model:
    """A few old and new rows, as many as are looked up in the index; the documents after it."""
    change = {**numbered(4, 3, shift=11), "new": 1}
    result = graph.load_nodes("Doc", frame(change), branch=branch)
    assert result.commit is not None
    after = years | change
    check_answers(graph, after, branch)
    return after


def merged(report: Any) -> dict[str, tuple[int, int]]:
    """Fragments removed and added by table, of a report without errors."""
    assert report.failed == ()
    return {row.table_key: (row.fragments_removed, row.fragments_added) for row in report}
