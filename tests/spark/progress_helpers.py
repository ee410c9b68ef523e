"""Files of records, and a frame that executors give only when they are told to."""

from __future__ import annotations

import json
import time

import omnigraph as og

SCHEMA = """
node Doc { slug: String @key  body: String?  vec: Vector(2)? @embed(body) }
edge Cites: Doc -> Doc
"""


def docs(start, end, **data):
    lines = [
        json.dumps({"type": "Doc", "data": {"slug": f"d{n}", **data}}) for n in range(start, end)
    ]
    return "\n".join(lines) + "\n"


def fill(place):
    """Make a graph, and two files: what is in the second has texts without vectors."""
    og.init(place / "g", SCHEMA).close()
    (place / "a.jsonl").write_text(docs(0, 300))
    (place / "b.jsonl").write_text(docs(300, 500, body="text"))


def waiting_frame(spark, file, mark):
    """The rows of a file, which executors give only once the mark is there."""

    def wait(batches):
        deadline = time.monotonic() + 600
        while not mark.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield from batches

    rows = spark.read.json(str(file), "data struct<slug: string, body: string>").select("data.*")
    return rows.mapInArrow(wait, rows.schema)
