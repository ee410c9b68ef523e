"""Apply the condition of a statement to pending rows, with the same meaning as a Lance filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from omnigraph.read.values.column import Column, one_array
from omnigraph.read.values.comparison import compared
from omnigraph.storage.filters.pushdown import ComparisonOp, Condition
from omnigraph.types import PropType

if TYPE_CHECKING:
    import pyarrow as pa


def matches(rows: pa.Table, condition: Condition, type: PropType) -> pa.BooleanArray:
    """Return which rows satisfy the condition on a column of that type; a null never does."""
    import pyarrow as pa

    column = Column(type, one_array(rows.column(condition.column)))
    return pa.array(compared(column, cast("ComparisonOp", condition.op), condition.value))
