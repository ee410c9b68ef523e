"""Where rows are, by their ids: looked up in the index, or found by reading all ids."""

import pyarrow as pa
import pytest

from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.tables.indexing.table_indexes import stage_create_index
from omnigraph.storage.tables.row_places import LookUpSizes, find_places, in_large_parts
from omnigraph.storage.tables.staging import stage_append
from omnigraph.storage.tables.table import create_table
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_ref import TableRef


@pytest.mark.parametrize("sizes", [[3] * 10, [20], [7, 1, 9], []])
def test_small_batches_are_put_together(sizes):
    schema = pa.schema({"id": pa.int64()})
    numbers = iter(range(100))
    batches = [pa.record_batch({"id": [next(numbers) for _ in range(size)]}) for size in sizes]
    parts = list(in_large_parts(batches, schema, 8))
    assert [value for part in parts for value in part["id"].to_pylist()] == list(range(sum(sizes)))
    assert all(part.num_rows >= 8 for part in parts[:-1])
    assert len(parts) <= max(1, sum(sizes) // 8 + 1)


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("at_once", [2, 100])
def test_a_scan_finds_what_look_ups_find(tmp_path, is_indexed, at_once):
    schema = pa.schema({"id": pa.string()})
    table = create_table(TableRef(str(tmp_path / "t")), schema)
    for start in range(0, 60, 20):
        rows = pa.table({"id": [f"p{number}" for number in range(start, start + 20)]})
        table = commit_staged(stage_append(table, rows))
    if is_indexed:
        table = commit_staged(stage_create_index(table, "id", IndexKind.BTREE))
    wanted = pa.array(["p3", "p25", "p59", "nobody"])
    found = []
    for far_larger in (0, 10**9):
        sizes = LookUpSizes(far_larger=far_larger, looked_up_ids=at_once)
        found.append(
            sorted(find_places(table, wanted, sizes).to_pylist(), key=lambda row: row["id"])
        )
    assert found[0] == found[1]
    assert [row["id"] for row in found[0]] == ["p25", "p3", "p59"]
    read = {
        row["id"]: row
        for row in table.read(["id"], with_row_id=True, with_row_address=True).to_pylist()
    }
    assert found[0] == [read["p25"], read["p3"], read["p59"]]
