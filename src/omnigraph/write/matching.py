"""A comparison evaluated on rows in memory, with the same meaning as when Lance filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.storage.pushdown import Condition, settle

if TYPE_CHECKING:
    import pyarrow as pa


def matches(rows: pa.Table, condition: Condition) -> pa.ChunkedArray:
    """Which rows satisfy the condition; a null on either side never does."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = rows.column(condition.column)
    if condition.value is None:
        return pa.chunked_array([pa.array([False] * len(column), pa.bool_())])
    op: Any = condition.op
    settled = settle(column.type, op, condition.value)
    if isinstance(settled, bool):
        return pc.and_(pc.is_valid(column), pa.scalar(settled))
    exact_op, value = settled
    compare = {
        "=": pc.equal,
        "!=": pc.not_equal,
        "<": pc.less,
        "<=": pc.less_equal,
        ">": pc.greater,
        ">=": pc.greater_equal,
    }
    scalar = pa.scalar(value, _physical(column.type)).cast(column.type)
    return pc.fill_null(compare[exact_op](column, scalar), fill_value=False)


def _physical(kind: pa.DataType) -> pa.DataType:
    """Stored dates are day numbers and instants milliseconds."""
    import pyarrow as pa

    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) else kind
