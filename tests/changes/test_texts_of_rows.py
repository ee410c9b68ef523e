"""Rows as texts, by which executors compare the two sides of a diff."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.changes.compare_tables import RowTexts
from omnigraph.changes.row_pairs import ROW_ID
from omnigraph.types import PropType, Scalar


def texts(kind, values):
    rows = {"id": pa.array(["a", "b"]), ROW_ID: pa.array([1, 2], pa.uint64()), "x": values}
    return (
        RowTexts((("x", kind),), "before")(pa.RecordBatch.from_pydict(rows)).column(2).to_pylist()
    )


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (PropType(Scalar.F64, nullable=True), pa.array([0.1, None], pa.float32())),
        (PropType(Scalar.I64), pa.array([7, -7], pa.int32())),
        (PropType(Scalar.I64, is_list=True), pa.array([[7, None], []], pa.list_(pa.uint32()))),
    ],
    ids=str,
)
def test_a_number_of_a_smaller_type_has_the_text_of_the_larger_one(kind, values):
    assert texts(kind, values) == texts(kind, values.cast(kind.arrow_type()))
    assert texts(kind, values)[0] != texts(kind, values)[1]
