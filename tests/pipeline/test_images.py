"""Images of rows that a merge replaces: how ids are looked up where a table is scanned."""

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.pipeline.rows import row_images
from omnigraph.storage.tables.table import open_table
from tests.opened import workspace_of


@pytest.mark.parametrize("sizes", [[3] * 10, [20], [7, 1, 9], []])
def test_small_batches_are_compared_together(sizes):
    """For every comparison the ids that are looked for are hashed anew."""
    schema = pa.schema({"id": pa.int64()})
    numbers = iter(range(100))
    batches = [pa.record_batch({"id": [next(numbers) for _ in range(size)]}) for size in sizes]
    parts = list(row_images._gather(batches, schema, 8))
    assert [value for part in parts for value in part["id"].to_pylist()] == list(range(sum(sizes)))
    assert all(part.num_rows >= 8 for part in parts[:-1])
    assert len(parts) <= max(1, sum(sizes) // 8 + 1)


def test_a_scan_finds_what_look_ups_find(tmp_path):
    with og.init(tmp_path / "g", "node P { k: String @key }") as graph:
        for start in range(0, 60, 20):
            graph.load_nodes("P", pa.table({"k": [f"p{n}" for n in range(start, start + 20)]}))
        table = open_table(workspace_of(graph).pinned(graph.snapshot().tables["node:P"]))
    wanted = pa.array(["p3", "p25", "p59", "nobody"])
    found = []
    for far_larger in (0, 10**9):
        places = row_images.find_places(table, wanted, row_images.ImageSizes(far_larger=far_larger))
        found.append(sorted(places.to_pylist(), key=lambda row: row["id"]))
    assert found[0] == found[1]
    assert [row["id"] for row in found[0]] == ["p25", "p3", "p59"]
