"""The protocol between a pipeline and the engine that it runs on.

The same SQL texts and the same functions run on every engine. Names of columns are encoded there, because engines
treat two that differ only in case as one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from omnigraph.storage.filters import Pushdown
from omnigraph.storage.tables.table_ref import TableRef

if TYPE_CHECKING:
    import pyarrow as pa


BatchFunction = Callable[["pa.RecordBatch"], "pa.RecordBatch"]

BATCH_ROWS = 65_536
"""The rows of a batch at most, unless a caller asks for fewer."""


class Through(NamedTuple):
    """A function for batches and the schema of what it returns; executors get a copy of it."""

    function: BatchFunction
    schema: pa.Schema


class Frame(Protocol):
    """Rows in memory, on disk or on a cluster; only the runner that made the frame knows where."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of its columns."""
        ...


class Runner(Protocol):
    """An engine for frames. SQL texts keep to what DuckDB and Spark SQL understand alike.

    In a text, property names stand in backticks, where their case counts. All other names are
    lower-case.
    """

    @property
    def name(self) -> str:
        """`local` or `spark`, as results name the engine that ran."""
        ...

    def frame(self, data: pa.Table | pa.RecordBatchReader) -> Frame:
        """Return rows of this process as a frame."""
        ...

    def scan(self, ref: TableRef, columns: Sequence[str], where: Pushdown | None = None) -> Frame:
        """Return columns of a table at a version, of the rows that satisfy the filter."""
        ...

    def scan_among(
        self, ref: TableRef, columns: Sequence[str], column: str, values: pa.ChunkedArray
    ) -> Frame | None:
        """Return columns of the rows with one of these values, too many to look each of them up.

        None where reading all rows is the better way. ``column`` is one of ``columns``.
        """
        ...

    def sorted_scan(
        self, ref: TableRef, columns: Sequence[str], order_by: str, through: Through | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of a whole table in the order of one of them, as ``stream`` does.

        With ``through`` every batch passes a function where it is read, before it is sorted.
        """
        ...

    def map(self, frame: Frame, function: BatchFunction, schema: pa.Schema) -> Frame:
        """Pass every batch through a function that returns batches of the given schema."""
        ...

    def sql(self, text: str, frames: Mapping[str, Frame]) -> Frame:
        """Return the rows of a query over named frames, as a frame."""
        ...

    def ask(self, text: str, frames: Mapping[str, Frame]) -> pa.Table:
        """Return the rows of a query over named frames, when they are few: `sql` and `collect` in one."""
        ...

    def in_memory(self, frame: Frame) -> pa.Table | None:
        """Return the rows of a small frame that is in this process already; None for all others."""
        ...

    def may_repeat(self, frame: Frame, column: str) -> bool:
        """False: the column has no duplicates. True: it may have; nothing cheap could rule it out."""
        ...

    def collect(self, frame: Frame, limit: int | None = None) -> pa.Table:
        """Return the rows of a small frame, at most ``limit`` of them."""
        ...

    def stream(
        self, frame: Frame, batch_rows: int = BATCH_ROWS, *, order_by: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a frame of any size in batches, in the order of a column if one is given.

        Texts are ordered by code point, nulls come last. Sorting spills to disk beyond the engine's
        memory, and this process holds a few batches at a time.
        """
        ...

    def count(self, frame: Frame) -> int:
        """Return the number of rows."""
        ...

    def close(self) -> None:
        """Free the memory, the files and the executors' storage that frames hold."""
        ...


def distinct(runner: Runner, frame: Frame, column: str, limit: int) -> list[Any] | None:
    """Return the distinct non-null values of a column, or None when there are more than `limit`."""
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


def encoded(name: str) -> str:
    """Return a name as the engine sees it."""
    if name.islower():
        return name
    return re.sub("[A-Z]", lambda found: "^" + found[0].lower(), name)


def decoded(name: str) -> str:
    """Return a name as the caller wrote it."""
    return re.sub(r"\^([a-z])", lambda found: found[1].upper(), name) if "^" in name else name


def encoded_text(text: str) -> str:
    """Return a query with the names in backticks as the engine sees them."""
    return re.sub("`([^`]*)`", lambda found: f"`{encoded(found[1])}`", text)


def renamed(data: Any, change: Callable[[str], str]) -> Any:
    """Return a table or batch with every column name passed through ``change``."""
    names = data.schema.names
    changed = [change(name) for name in names]
    return data if changed == names else data.rename_columns(changed)
