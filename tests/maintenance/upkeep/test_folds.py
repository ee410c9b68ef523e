"""Which parts of an index upkeep merges: about as much as was written, never all that is there."""

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.maintenance.effort import MERGED_ROWS, Effort, due_folds
from omnigraph.storage.tables.indexing.table_indexes import (
    IndexState,
    list_indexes,
    stage_create_index,
)
from omnigraph.storage.tables.inline_residual import optimize_indices
from omnigraph.storage.tables.staging import stage_upsert
from omnigraph.storage.tables.table import create_table
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_ref import TableRef


def merged(kind: IndexKind, parts: list[int], tail: int) -> int | None:
    """How many of the newest parts of these sizes are merged with a tail of that size; -1: no fold."""
    rows = dict(enumerate([*parts, tail]))
    uncovered = (len(parts),) if tail else ()
    covered = tuple(frozenset({number}) for number in range(len(parts)))
    state = IndexState("i", "x", kind, uncovered, tail, covered, 1)
    folds = due_folds([state], rows, Effort.LIGHT)
    return folds[0].merged if folds else -1


@pytest.mark.parametrize(
    ("parts", "tail", "expected"),
    [
        ([100_000], 0, -1),
        ([100_000], 64, 0),
        ([100_000, *[64] * 7], 64, 0),
        # More than 8 parts, and the newer ones hold a tenth of the rows: all are merged.
        ([100_000, *[1_600] * 7], 1_600, 8),
        ([100_000, *[1_600] * 6], 1_600, 0),
        # At 32 parts the newer ones are merged, and the large one stays.
        ([100_000, *[64] * 29], 64, 0),
        ([100_000, *[64] * 30], 64, 30),
    ],
)
def test_a_btree_gets_a_part_until_there_are_many(parts, tail, expected):
    assert merged(IndexKind.BTREE, parts, tail) == expected


@pytest.mark.parametrize(
    ("parts", "tail", "expected"),
    [
        ([100_000], 64, 0),
        ([100_000, 64], 64, 1),
        ([100_000, 5_000, 64, 64], 64, 2),
        ([100_000, 400, 190], 64, 2),
        ([64], 1_000, 0),
        ([MERGED_ROWS], 64, -1),
    ],
)
def test_the_oldest_part_of_a_vector_index_is_never_merged(parts, tail, expected):
    assert merged(IndexKind.VECTOR, parts, tail) == expected


def test_a_text_index_is_merged_while_the_table_is_not_large():
    assert merged(IndexKind.FTS, [1000, 64], 64) == 2
    assert merged(IndexKind.FTS, [MERGED_ROWS], 64) == -1


def test_a_new_part_of_a_vector_index_finds_rows_as_they_are_after_an_update(tmp_path):
    dice = np.random.default_rng(3)
    vectors = dice.random((400, 4), dtype=np.float32)
    ids = [f"{n:03}" for n in range(400)]

    def rows(numbers) -> pa.Table:
        values = pa.array(vectors[numbers].ravel())
        return pa.table(
            {
                "id": [ids[n] for n in numbers],
                "x": pa.FixedSizeListArray.from_arrays(values, 4),
            },
            pa.schema([pa.field("id", pa.string(), False), ("x", pa.list_(pa.float32(), 4))]),
        )

    every = rows(range(400))
    table = create_table(TableRef(str(tmp_path / "table")), every.schema, every)
    table = commit_staged(stage_create_index(table, "x", IndexKind.VECTOR))
    for _ in range(3):
        chosen = dice.choice(400, 40, replace=False)
        before = vectors[chosen].copy()
        vectors[chosen] = dice.random((40, 4), dtype=np.float32)
        table = commit_staged(stage_upsert(table, rows(chosen)))
        table = optimize_indices(table, ["x_vector"], 0)
        for place in (*before, *vectors[chosen]):
            asked = {"column": "x", "q": place, "k": 5, "refine_factor": 4, "ef": 400}
            found = table.read(["id"], nearest=asked).column("id").to_pylist()
            nearest = np.argsort(((vectors - place) ** 2).sum(axis=1))[:5]
            assert set(found) == {ids[n] for n in nearest}
    (state,) = list_indexes(table)
    assert (state.segments, state.tail) == (4, ())
