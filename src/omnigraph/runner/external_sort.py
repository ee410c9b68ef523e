"""Sort batches of any number by one column, in bounded memory.

DuckDB's sort pins some 120,000 whole rows for each thread when it merges, which wide rows (vectors, long
texts) take beyond any memory limit. Here memory is counted in bytes. Rows are gathered up to a
limit, sorted, and written to a file: a run. Then the runs are merged, a piece of each at a time:

    run 1   a c | f …        Everything up to c, the smallest end of a piece, is complete: nothing that
    run 2   b e | g …        was not read yet can come before it. So a, b, c are sorted and given out,
                             the next piece of run 1 is read, and so on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.cancel import look
from omnigraph.storage.scratch import scratch_directory

if TYPE_CHECKING:
    import pyarrow as pa

RUN_BYTES = 32 << 20
"""The size of the rows that are sorted in memory at once; sorting takes as much again."""
PIECE_BYTES = 1 << 20
FAN_IN = 64
"""How many runs are merged at once."""


def external_sort(
    batches: Iterable[pa.RecordBatch],
    by: str,
    batch_rows: int,
    *,
    run_bytes: int = RUN_BYTES,
    piece_bytes: int = PIECE_BYTES,
    fan_in: int = FAN_IN,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in ascending order of a column, nulls last, at most ``batch_rows`` at a time.

    Texts are ordered by code point. Rows with equal values come in no particular order.
    """
    with ExitStack() as held:
        runs: list[Path] = []
        names: Iterator[Path] | None = None
        for table in _gathered(batches, run_bytes):
            if names is None:
                if table.nbytes < run_bytes:
                    yield from sorted_rows(table, by).to_batches(max_chunksize=batch_rows)
                    return
                directory = Path(held.enter_context(scratch_directory()))
                names = (directory / str(number) for number in itertools.count())
            path = next(names)
            _write(path, [sorted_rows(table, by)], piece_bytes)
            runs.append(path)
        while len(runs) > fan_in:
            assert names is not None
            some, runs = runs[:fan_in], runs[fan_in:]
            path = next(names)
            _write(path, _merged(some, by), piece_bytes)
            runs.append(path)
            for merged in some:
                merged.unlink()
        for table in _merged(runs, by):
            yield from table.to_batches(max_chunksize=batch_rows)


def sorted_rows(table: pa.Table, by: str) -> pa.Table:
    """Return the rows of a table in ascending order of a column, nulls last."""
    import pyarrow.compute as pc

    column = table.column(by)
    if column.null_count == 0 and _is_ascending(column):
        return table
    return table.take(pc.sort_indices(column))


def _is_ascending(column: Any) -> bool:
    import pyarrow.compute as pc

    in_order = pc.less_equal(column.slice(0, max(0, len(column) - 1)), column.slice(1))
    return bool(pc.all(in_order, min_count=0).as_py())


def _gathered(batches: Iterable[pa.RecordBatch], run_bytes: int) -> Iterator[pa.Table]:
    """Yield the rows in tables of at least ``run_bytes``; the last one is smaller."""
    import pyarrow as pa

    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        look()
        pending.append(batch)
        size += batch.nbytes
        if size >= run_bytes:
            yield pa.Table.from_batches(pending)
            pending, size = [], 0
    if pending:
        yield pa.Table.from_batches(pending)


def _write(path: Path, tables: Iterable[pa.Table], piece_bytes: int) -> None:
    """Write sorted tables to a file, in pieces that are small enough to hold many of them."""
    import pyarrow as pa

    writer: Any = None
    with ExitStack() as held:
        for table in tables:
            if writer is None:
                writer = held.enter_context(pa.ipc.new_stream(str(path), table.schema))
            rows = max(1, table.num_rows * piece_bytes // max(1, table.nbytes))
            writer.write_table(table.combine_chunks(), max_chunksize=rows)


class _Run:
    """A sorted file that is being merged: the rows that were read of it and not given out."""

    def __init__(self, path: Path, by: str, held: ExitStack) -> None:
        import pyarrow as pa

        self._reader = held.enter_context(
            pa.ipc.open_stream(held.enter_context(pa.OSFile(str(path))))
        )
        self._by = by
        self.rows: pa.RecordBatch | None = None
        self.read()

    def read(self) -> None:
        """Read the next piece, once all rows of the last one were given out."""
        self.rows = next((batch for batch in self._reader if batch.num_rows), None)

    def last(self) -> tuple[bool, Any]:
        """Return the greatest value of the piece, to be compared; null is greater than any other."""
        assert self.rows is not None
        return self._value(self.rows.num_rows - 1)

    def take_up_to(self, bound: tuple[bool, Any]) -> pa.RecordBatch:
        """Give out the rows up to a value."""
        assert self.rows is not None
        low, high = 0, self.rows.num_rows
        while low < high:
            middle = (low + high) // 2
            if self._value(middle) <= bound:
                low = middle + 1
            else:
                high = middle
        taken = self.rows.slice(0, low)
        self.rows = self.rows.slice(low)
        if not self.rows.num_rows:
            self.read()
        return taken

    def _value(self, row: int) -> tuple[bool, Any]:
        assert self.rows is not None
        value = self.rows.column(self._by)[row].as_py()
        return (True, 0) if value is None else (False, value)


def _merged(paths: Iterable[Path], by: str) -> Iterator[pa.Table]:
    import pyarrow as pa

    with ExitStack() as held:
        runs = [_Run(path, by, held) for path in paths]
        while live := [run for run in runs if run.rows is not None]:
            look()
            bound = min(run.last() for run in live)
            parts = [run.take_up_to(bound) for run in live]
            yield sorted_rows(pa.Table.from_batches([part for part in parts if part.num_rows]), by)
