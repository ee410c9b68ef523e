"""A diff on Spark's executors finds what the local engine finds."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.changes import spark_compare

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
    monkeypatch.setattr("omnigraph.changes.compare._FEW", 0)
    asked = []
    run = spark_compare.pairs_on_spark
    monkeypatch.setattr(
        "omnigraph.changes.compare.pairs_on_spark", lambda *a: asked.append(a) or run(*a)
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
