"""Diffs and merges on Spark's executors find what the local engine finds."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.changes import compare_tables

SCHEMA = """
node Doc { name: String @key
  n: U64?
  x: F64?
  y: F32?
  ok: Bool?
  on: Date?
  at: DateTime?
  tags: [String]?
  vec: Vector(3)?
  body: Blob? }
edge Cites: Doc -> Doc { why: String? }
"""
COUNTS = ("inserts", "updates", "deletes", "candidates", "tables_skipped", "types_affected")


def doc(number, **changed):
    data = {
        "name": f"d{number}",
        "n": 2**64 - 1 - number,
        "x": 0.0 if number % 4 else None,
        "y": 0.1,
        "ok": bool(number % 2),
        "on": "2026-01-02",
        "at": "2026-01-02T03:04:05Z",
        "tags": [["a", ""], [], None][number % 3],
        "vec": [0.5, float(number), 1.0],
        "body": ["base64:", "base64:YWJj", None][number % 3],
    }
    return {"type": "Doc", "data": data | changed}


def cites(number, other):
    return {
        "edge": "Cites",
        "from": f"d{number}",
        "to": f"d{other}",
        "data": {"id": f"c{number}"},
    }


@pytest.mark.usefixtures("spark")
def test_spark_compares_two_schemas_as_the_local_engine_does(tmp_path, monkeypatch):
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.load([*map(doc, range(60)), *(cites(number, 1) for number in range(30))])
    before = graph.snapshot()
    other = SCHEMA.replace("  y: F32?", "  y: F64?").replace("  ok: Bool?\n", "")
    other = other.replace("  n: U64?", '  number: U64? @rename_from("n")\n  more: I32?')
    graph.schema.apply(other)
    patched = [{"name": "d3", "more": 5}, {"name": "d4", "x": 1.5}, {"name": "d5", "more": None}]
    graph.load([{"type": "Doc", "data": data} for data in patched], mode="patch")
    monkeypatch.setattr(compare_tables, "find_candidates", lambda *_: None)
    for sides in ((before, "main"), ("main", before)):
        spark = graph.diff(*sides, engine="spark")
        local = graph.diff(*sides, engine="local")
        assert spark.changes == local.changes
        assert [change.id for change in spark.changes] == ["d3", "d4"]
        assert spark.schema == local.schema
    assert "ok" in spark.changes[1].after["properties"]
    assert "ok" not in spark.changes[1].before["properties"]


@pytest.mark.usefixtures("spark")
def test_spark_finds_the_same_changes(tmp_path, monkeypatch):
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.load([*map(doc, range(60)), *(cites(number, 1) for number in range(30))])
    before = graph.snapshot()
    changed = [
        doc(3, x=-0.0),
        doc(4, x=1.5),
        doc(5, tags=[]),
        doc(7, body="base64:YWJk"),
        doc(8, vec=None),
        doc(9, at="2026-01-02T03:04:05.001Z"),
        *map(doc, range(10, 70)),
    ]
    graph.load([*changed, *(cites(number, 12) for number in range(10, 14))], mode="overwrite")
    monkeypatch.setattr("omnigraph.changes.compare_tables._FEW", 0)
    asked = []
    run = compare_tables.pairs_on_spark
    monkeypatch.setattr(
        "omnigraph.changes.compare_tables.pairs_on_spark", lambda *a: asked.append(a) or run(*a)
    )
    here = graph.diff(before, "main", engine="local")
    assert len(here.changes) == 4 + 5 + 10 + 30
    assert not asked
    there = graph.diff(before, "main", engine="spark")
    assert there.changes == here.changes
    assert [getattr(there.stats, name) for name in COUNTS] == [
        getattr(here.stats, name) for name in COUNTS
    ]
    assert len(asked) == 2
    rest = [change for change in here if change.id > "d5" or change.kind == "edge"]
    page = here.page(len(here.changes) - len(rest))
    assert there.page(1000, page.next_page_token).changes == tuple(rest)


@pytest.mark.usefixtures("spark")
def test_a_merge_on_spark_is_the_merge_of_the_local_engine(tmp_path, monkeypatch):
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.load([*map(doc, range(60)), *(cites(number, 1) for number in range(30))])
    for name in ("ours", "theirs", "side"):
        graph.branches.create(name)
    rows = [*(doc(number, ok=None) for number in range(3, 9)), *map(doc, range(9, 70))]
    graph.load(
        [*rows, *(cites(number, 12) for number in range(10, 14))], mode="overwrite", branch="side"
    )
    for name in ("ours", "theirs"):
        graph.load([doc(3, x=2.5), doc(65, x=2.5), doc(99)], branch=name)
    monkeypatch.setattr("omnigraph.changes.compare_tables._FEW", 0)
    asked = []
    run = compare_tables.pairs_on_spark
    monkeypatch.setattr(
        "omnigraph.changes.compare_tables.pairs_on_spark", lambda *a: asked.append(a) or run(*a)
    )
    plans = [
        graph.branches.merge("side", "ours", dry_run=True, engine=engine, images=True)
        for engine in ("local", "spark")
    ]
    assert len(asked) == 2
    assert plans[0].conflicts == plans[1].conflicts
    assert [one.row_id for one in plans[0].conflicts] == ["d3", "d65"]
    options = {"granularity": "property", "resolve": "theirs"}
    here = graph.branches.merge("side", "ours", engine="local", **options)
    there = graph.branches.merge("side", "theirs", engine="spark", **options)
    counts = [*COUNTS[:4], "resolved"]
    assert [getattr(here.stats, name) for name in counts] == [
        getattr(there.stats, name) for name in counts
    ]
    exports = []
    for name in ("ours", "theirs"):
        graph.export(tmp_path / name, branch=name)
        exports.append((tmp_path / name).read_bytes())
    assert exports[0] == exports[1]
    assert exports[0].count(b"\n") == 67 + 1 + 4
