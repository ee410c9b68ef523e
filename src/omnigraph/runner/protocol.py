"""What a pipeline may ask of the engine under it. The same texts and functions run on each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from omnigraph.storage.filters.pushdown import Pushdown
from omnigraph.storage.tables.table_ref import TableRef

if TYPE_CHECKING:
    import pyarrow as pa

BatchFunction = Callable[["pa.RecordBatch"], "pa.RecordBatch"]


class Frame(Protocol):
    """Rows somewhere: in memory, on disk, on a cluster. Only its runner knows."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of its columns."""
        ...


class Runner(Protocol):
    """An engine for frames. SQL texts keep to what DuckDB and Spark SQL read alike.

    In a text every property name stands in backticks, where its case counts; the other names are in
    small letters.
    """

    @property
    def name(self) -> str:
        """`local` or `spark`; results say which ran."""
        ...

    def frame(self, data: pa.Table | pa.RecordBatchReader) -> Frame:
        """Rows of this process as a frame."""
        ...

    def scan(self, ref: TableRef, columns: Sequence[str], where: Pushdown | None = None) -> Frame:
        """Columns of a table at a version."""
        ...

    def map(self, frame: Frame, function: BatchFunction, schema: pa.Schema) -> Frame:
        """Every batch through a function that gives batches of that schema."""
        ...

    def sql(self, text: str, frames: Mapping[str, Frame]) -> Frame:
        """The rows of a query over named frames."""
        ...

    def ask(self, text: str, frames: Mapping[str, Frame]) -> pa.Table:
        """The few rows of a query over named frames, here: `collect` of `sql` in one go."""
        ...

    def in_memory(self, frame: Frame) -> pa.Table | None:
        """The few rows of a frame that is in this process already; None of all others."""
        ...

    def may_repeat(self, frame: Frame, column: str) -> bool:
        """Whether a value may come twice; no is certain, yes only that a look did not settle it."""
        ...

    def collect(self, frame: Frame, limit: int | None = None) -> pa.Table:
        """A small result, here."""
        ...

    def count(self, frame: Frame) -> int:
        """How many rows there are."""
        ...

    def close(self) -> None:
        """Free what the frames hold."""
        ...


def distinct(runner: Runner, frame: Frame, column: str, limit: int) -> list[Any] | None:
    """The distinct non-null values of a column, or None when there are more than `limit`."""
    import pyarrow.compute as pc

    here = runner.in_memory(frame)
    if here is not None:
        found = pc.unique(here.column(column)).drop_null()
    else:
        text = (
            f"SELECT DISTINCT `{column}` AS v FROM f WHERE `{column}` IS NOT NULL LIMIT {limit + 1}"
        )
        found = runner.ask(text, {"f": frame}).column("v")
    return None if len(found) > limit else list(found.to_pylist())
