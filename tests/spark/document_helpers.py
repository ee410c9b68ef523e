"""A graph of documents with an index of every kind, for tests of index builds and compactions."""

from __future__ import annotations

from omnigraph.storage.tables.indexing.table_indexes import list_indexes
from omnigraph.storage.tables.table import open_table
from tests.opened import workspace_of

SCHEMA = """
node Doc {
  ref: String @key
  year: I32? @index
  body: String? @index
  place: Vector(4)? @index
}
edge Cites: Doc -> Doc { since: Date? @index }
"""
QUERIES = """
query by_year($y: I32) {
  match { $d: Doc  $d.year = $y }
  return { $d.ref as ref }
  order { ref }
}
query by_words($q: String) {
  match { $d: Doc  search($d.body, $q) }
  return { $d.ref as ref }
  order { ref }
}
query near($at: Vector(4)) {
  match { $d: Doc }
  return { $d.ref as ref }
  order { nearest($d.place, $at) }
  limit 5
}
query cited($ref: String) {
  match { $a: Doc { ref: $ref }  $a cites{1,2} $b }
  return { $b.ref as ref }
  order { ref }
}
"""
WORDS = ["solar", "wind", "running", "runs", "towers", "networks", "résumé", "happy"]
DOCS = {"id": "btree", "year": "btree", "body": "fts", "place": "vector"}
CITES = {"id": "btree", "src": "btree", "dst": "btree", "since": "btree"}
PARTS = 3
DOCS_IN_PART = 120


def doc(rng, number, *, placed=True):
    place = [round(rng.uniform(-1, 1), 3) for _ in range(4)]
    return {
        "type": "Doc",
        "data": {
            "ref": f"d{number:04d}",
            "year": 1990 + rng.randrange(30),
            "body": " ".join(rng.choices(WORDS, k=4)),
            "place": place if placed else None,
        },
    }


def cite(rng, known):
    ends = {"from": f"d{rng.randrange(known):04d}", "to": f"d{rng.randrange(known):04d}"}
    return {"edge": "Cites", **ends, "data": {"since": "2024-05-01"}}


def fill(graph, rng, parts=PARTS, **options):
    """Every load adds a fragment to each table."""
    for part in range(parts):
        first = part * DOCS_IN_PART
        records = [doc(rng, first + number) for number in range(DOCS_IN_PART)]
        records += [cite(rng, first + DOCS_IN_PART) for _ in range(200)]
        graph.load(records, mode="append", **options)


def table_of(graph, table_key="node:Doc", branch="main"):
    return open_table(workspace_of(graph).pinned(graph.snapshot(branch=branch).tables[table_key]))


def answers(graph, branch="main"):
    """What a few questions are answered, through each kind of index."""
    asked = [("by_year", {"y": year}) for year in (1990, 2003, 2019, 1950)]
    asked += [("by_words", {"q": words}) for words in ("run", "tower resume", "nothing")]
    asked += [("near", {"at": [0.5, x, -x, 0.0]}) for x in (0.0, 0.3, 0.9)]
    asked += [("cited", {"ref": ref}) for ref in ("d0000", "d0200")]
    return [graph.query(QUERIES, name, given, branch=branch).rows for name, given in asked]


def row_ids(table):
    rows = table.read(["id"], with_row_id=True)
    return dict(zip(rows["id"].to_pylist(), rows["_rowid"].to_pylist(), strict=True))


def check_whole(table, wanted):
    """Lance's own statistics say that each index answers for every row."""
    kinds = {state.column: state for state in list_indexes(table)}
    assert {column: state.kind for column, state in kinds.items()} == wanted
    for state in kinds.values():
        facts = table.dataset.stats.index_stats(state.name)
        assert (facts["num_unindexed_fragments"], facts["num_unindexed_rows"]) == (0, 0), state
        assert facts["num_indexed_rows"] == table.count_rows(), state
    return {column: state.segments for column, state in kinds.items()}


def fill_branch(graph, rng, parts=PARTS):
    """The branch `dev` with documents and citations of its own, in fragments of its own."""
    graph.branches.create("dev")
    for part in range(parts):
        first = 1000 + part * DOCS_IN_PART
        records = [doc(rng, first + number) for number in range(DOCS_IN_PART)]
        records += [cite(rng, DOCS_IN_PART) for _ in range(200)]
        graph.load(records, mode="append", branch="dev")
