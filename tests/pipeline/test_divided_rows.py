"""Many rows are written as several fragments at once, and are the same rows in the same order."""

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import StorageError
from omnigraph.pipeline.local import spooled_rows
from omnigraph.pipeline.local.spooled_rows import divided
from omnigraph.storage.tables import staging

FULL, LEAST = spooled_rows.FULL_PART_ROWS, spooled_rows.LEAST_PART_ROWS


@pytest.mark.parametrize("cores", [1, 2, 3, 64])
@pytest.mark.parametrize(
    "sizes",
    [[], [0], [5], [FULL], [1] * 10, [65_536] * 37, [65_536] * 300, [1, FULL * 2, 1], [LEAST] * 7],
    ids=len,
)
def test_parts_have_every_batch_once_and_are_neither_large_nor_small(sizes, cores):
    parts = divided(sizes, cores)
    assert [at for part in parts for at in part] == list(range(len(sizes)))
    rows = sum(sizes)
    if rows <= FULL:
        assert len(parts) == 1
        return
    largest = max(sizes)
    for part in parts:
        size = sum(sizes[at] for at in part)
        assert size <= FULL + largest
        assert len(sizes) < 10 or size >= LEAST - largest
    if largest <= 65_536 and cores == 2:
        assert len(parts) % 2 == 0


@pytest.fixture
def few_rows_in_a_part(monkeypatch):
    monkeypatch.setattr(spooled_rows, "FULL_PART_ROWS", 1000)
    monkeypatch.setattr(spooled_rows, "LEAST_PART_ROWS", 500)


ROWS = 5000


def batches():
    # Batches of 300 rows, so that no part ends at a round number.
    numbers = pa.table({"number": range(ROWS), "text": [f"text {at}" for at in range(ROWS)]})
    return numbers.to_reader(300)


@pytest.mark.usefixtures("few_rows_in_a_part")
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_the_rows_of_a_divided_load_are_all_there_in_order(tmp_path, mode):
    with omnigraph.init(tmp_path / "graph", "node A { number: I64  text: String }") as graph:
        done = graph.load_nodes("A", batches(), mode=mode)
        assert done.tables[0]["rows_loaded"] == ROWS
        stored = graph.query(
            "query q() { match { $a: A } return { $a, $a.number as n, $a.text as text } }"
        ).rows
        assert sorted(row["n"] for row in stored) == list(range(ROWS))
        assert all(row["text"] == f"text {row['n']}" for row in stored)
        # Made ids are in the order of the records.
        assert [row["n"] for row in sorted(stored, key=lambda row: row["a"])] == list(range(ROWS))
    (data,) = (path for path in (tmp_path / "graph").glob("nodes/*/data"))
    assert len(list(data.iterdir())) >= ROWS // 1000


@pytest.mark.usefixtures("few_rows_in_a_part")
def test_a_part_that_cannot_be_written_ends_the_load(tmp_path, monkeypatch):
    written = []

    def breaks(table, rows, *args, **options):
        written.append(1)
        if len(written) == 3:
            raise StorageError("the disk is full")
        return staging.write_fragments(table, rows, *args, **options)

    with omnigraph.init(tmp_path / "graph", "node A { number: I64  text: String }") as graph:
        monkeypatch.setattr(spooled_rows, "write_fragments", breaks)
        with pytest.raises(StorageError, match="the disk is full"):
            graph.load_nodes("A", batches(), mode="append")
        assert graph.query("query q() { match { $a: A } return { count($a) as n } }").rows == [
            {"n": 0}
        ]
        monkeypatch.undo()
        graph.load_nodes("A", batches(), mode="append")
        assert graph.query("query q() { match { $a: A } return { count($a) as n } }").rows == [
            {"n": ROWS}
        ]
