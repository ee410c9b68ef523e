"""Questions about the values of columns, which set rules come down to, and the tasks that answer them.

Do values repeat? Is one of them among others? Is one missing among others? A question names where the
values are: in files that executors wrote and no version refers to yet, or in fragments of a table.
A task reads the columns from there and asks DuckDB. For the last two kinds it gets a share of
the values, and reads all the others: that costs less than moving both sides to where they
meet, as long as the others are not too many (`SparkSizes.shared_bytes`).

For example, with 3M edges to check against 3M nodes, each of two tasks puts 3M ids into a hash table in
0.2 s and looks up 1.5M ends in it in as much time again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.spark.one_pass.fingerprints import fingerprint_batch
from omnigraph.runner.local_runner import LocalFrame, LocalRunner
from omnigraph.runner.spark_tasks import Batches, executor_task
from omnigraph.storage.fragment_groups import scan_windows
from omnigraph.storage.tables.loose_files import read_data_file
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.types import as_integers

MEMORY_LIMIT = "512MB"
"""What a task holds of hash tables at most; what is more goes to its disk."""
ROW_BYTES = 16
"""About what a value takes besides its own bytes."""
PART_ROWS = 1_000_000
"""Tasks that look for repeated values get about this number of values each, as long as there are cores."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a table: one file that was written, or one fragment of a version of the table."""

    ref: TableRef
    rows: int
    file: str | None = None
    fragment_id: int | None = None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read some columns."""
        if self.file is not None:
            return read_data_file(self.ref, self.file, columns)
        assert self.fragment_id is not None
        return scan_windows(open_table(self.ref), columns, [self.fragment_id])


class Asked(Protocol):
    """Incoming rows whose columns are in files."""

    @property
    def entity(self) -> Entity:
        """The type of the rows."""

    @property
    def may_repeat(self) -> bool:
        """Whether two rows may have one id."""

    @property
    def pieces(self) -> Sequence[Piece]:
        """The files with the columns that set rules look at."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of columns in a piece, of which rows with a null are left out."""

    piece: Piece
    columns: tuple[str, ...]

    def arrays(self) -> Iterator[list[pa.Array]]:
        """Read the columns of one batch after another, times as integers."""
        for batch in self.piece.batches(self.columns):
            yield [as_integers(batch.column(name)) for name in self.columns]


@dataclass(frozen=True, slots=True)
class Question:
    """Asks whether something is wrong with values; all of its columns have the same types.

    ``repeated``: some value comes more than ``most`` times. The answer may be yes although that is not
    so, but never the other way round; ``part`` and ``parts`` say which of the values are compared.
    ``shared``: some value is among the others. ``missing``: some value is not among the others.
    ``by_hash`` says whether fingerprints of the values are equal where they are.
    """

    kind: Literal["repeated", "shared", "missing"]
    values: tuple[Values, ...]
    others: tuple[Values, ...] = ()
    most: int = 1
    by_hash: bool = True
    part: int = 0
    parts: int = 1

    @property
    def rows(self) -> int:
        """How many values there are."""
        return sum(one.piece.rows for one in self.values)

    def swapped(self) -> Question:
        """Return the same question about the others, which only ``shared`` has."""
        return replace(self, values=self.others, others=self.values)

    def divided(self, cores: int) -> list[Question]:
        """Divide the work among tasks, so that no task does much more than is its own."""
        if self.kind == "repeated":
            parts = max(1, min(cores, self.rows // PART_ROWS))
            return [replace(self, part=part, parts=parts) for part in range(parts)]
        others = sum(one.piece.rows for one in self.others)
        ways = max(1, min(cores, len(self.values), 4 * self.rows // max(1, others)))
        shares: list[list[Values]] = [[] for _ in range(ways)]
        held = [0] * ways
        for one in sorted(self.values, key=lambda value: -value.piece.rows):
            least = held.index(min(held))
            shares[least].append(one)
            held[least] += one.piece.rows
        return [replace(self, values=tuple(share)) for share in shares if share]


def bytes_of(values: Sequence[Values]) -> int:
    """Estimate the size of values from a few of them."""
    rows = sum(one.piece.rows for one in values)
    for one in values:
        for arrays in one.arrays():
            if len(arrays[0]):
                wide = sum(array.nbytes for array in arrays) / len(arrays[0])
                return int(rows * (wide + ROW_BYTES))
    return 0


def answer(question: Question) -> bool:
    """Answer a question, on an executor."""
    with contextlib.closing(LocalRunner(MEMORY_LIMIT, threads=1)) as runner:
        if question.kind == "repeated":
            return _repeats(runner, question)
        names = [f"v{at}" for at in range(len(question.values[0].columns))]
        same = " AND ".join(f"o.{name} = v.{name}" for name in names)
        how = "SEMI" if question.kind == "shared" else "ANTI"
        text = f"SELECT 1 AS found FROM v {how} JOIN o ON {same} WHERE {_given(names)} LIMIT 1"  # noqa: S608
        mine, others = (_frame(runner, some) for some in (question.values, question.others))
        if mine is None or others is None:
            return mine is not None and question.kind == "missing"
        return bool(runner.ask(text, {"v": mine, "o": others}).num_rows)


def _repeats(runner: LocalRunner, question: Question) -> bool:
    """Compare hashes: where all of them differ, so do the values, and numbers are quick to sort."""
    names = [f"v{at}" for at in range(len(question.values[0].columns))]
    mine = f"hash({', '.join(f'v.{name}' for name in names)})"
    text = f"SELECT {mine} AS h FROM v WHERE {_given(names)}"  # noqa: S608
    if question.parts > 1:
        text += f" AND {mine} % {question.parts} = {question.part}"
    frame = _frame(runner, question.values)
    if frame is None:
        return False
    hashed = runner.ask(text, {"v": frame}).column("h")
    ordered = np.sort(hashed.to_numpy())
    if len(ordered) <= question.most:
        return False
    return bool((ordered[question.most :] == ordered[: len(ordered) - question.most]).any())


def _given(names: Sequence[str]) -> str:
    return " AND ".join(f"v.{name} IS NOT NULL" for name in names)


def _frame(runner: LocalRunner, values: Iterable[Values]) -> LocalFrame | None:
    """Return values as rows of columns `v0`, `v1` and so on, read as they are asked for; None: no rows."""
    batches = (
        pa.RecordBatch.from_arrays(arrays, [f"v{at}" for at in range(len(arrays))])
        for one in values
        for arrays in one.arrays()
    )
    first = next(batches, None)
    if first is None:
        return None
    stream = (batch for some in ([first], batches) for batch in some)
    return runner.once(pa.RecordBatchReader.from_batches(first.schema, stream))


@executor_task
def read_fingerprints(values: Sequence[Values], *, salt: str) -> Batches:
    """Yield the fingerprints of values, for those that are too many for one task."""
    for one in values:
        for arrays in one.arrays():
            yield fingerprint_batch(arrays, salt)
