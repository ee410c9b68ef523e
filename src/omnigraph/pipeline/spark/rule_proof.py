"""Prove that no set rule is broken, where executors wrote the rows already.

Most loads break no rule, and that can be seen from the columns that rules compare: no id or unique
tuple comes twice, none is one of a committed row, every end is a node, and no node has too many edges. These are three
questions about values. Do some repeat? Is one of them among others? Is one missing among others? A
question names where the values are: in files that executors wrote and no version refers to yet, or in fragments
of a table. A task reads the columns from there and asks DuckDB. For the last two kinds it gets a share
of the values, and reads all the others: that costs less than moving both sides to where they meet, as
long as the others are not too many (`SparkSizes.shared_bytes`).

For example, with 3M edges to check against 3M nodes, each of two tasks puts 3M ids into a hash table in
0.2 s and looks up 1.5M ends in it in as much time again.

Whatever looks broken, or is too large for a task, is left to the rules themselves (`validate/`), which know
what to tell.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from omnigraph.lang.schema.catalog import Catalog, EdgeType
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.written.written_rows import WrittenRows
from omnigraph.runner.local_runner import LocalFrame, LocalRunner
from omnigraph.runner.spark_tasks import run_tasks
from omnigraph.storage.fragment_groups import fragment_sizes, scan_windows
from omnigraph.storage.tables.loose_files import read_data_file
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.types import as_integers
from omnigraph.validate.committed import Committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


HASH_BYTES = 8
"""What a task that looks for repeated values holds of each."""


MEMORY_LIMIT = "512MB"
"""What a task holds of hash tables at most; what is more goes to its disk."""
ROW_BYTES = 16
"""About what a value takes besides its own bytes."""
PART_ROWS = 1_000_000
"""Tasks that look for repeated values get about this number of values each, as long as there are cores."""


@dataclass(slots=True)
class RuleProof:
    """The set rules of one load on one state of the branch."""

    session: SparkSession
    catalog: Catalog
    incoming: Mapping[str, WrittenRows]
    mode: LoadMode
    committed: Committed
    cores: int
    shared_bytes: int

    def holds(self) -> bool:
        """Say whether all rules hold for certain, in one job."""
        if any(self._needs_edges(rows) for rows in self.incoming.values()):
            return False
        divided: list[ValueQuestion] = []
        for question in self._questions():
            fitting = self._fitting(question)
            if fitting is None or (question.kind == "missing" and not question.others):
                return False
            divided += fitting.divided(self.cores)
        outcomes = run_tasks(
            self.session, answer, divided, at_once=len(divided), weight=lambda one: one.rows
        )
        return not any(outcome.get() for outcome in outcomes)

    def _questions(self) -> Iterator[ValueQuestion]:
        asked = [
            self._repeated(),
            self._taken(),
            self._missing(),
            self._stranded(),
            self._crowded(),
        ]
        return (question for some in asked for question in some if question.values)

    def _fitting(self, question: ValueQuestion) -> ValueQuestion | None:
        """Return the question so that every task can read what it must; None where it cannot."""
        if question.kind == "repeated":
            fits = question.rows * HASH_BYTES <= self.shared_bytes
            return question if fits else None
        if bytes_of(question.others) <= self.shared_bytes:
            return question
        if question.kind == "shared" and bytes_of(question.values) <= self.shared_bytes:
            return question.swapped()
        return None

    # -- where values are

    def _written(self, key: str, *columns: str) -> list[ColumnValues]:
        """The values of incoming rows."""
        rows = self.incoming[key]
        pieces = (
            RowsPiece(rows.destination.ref, count, file=name) for name, count in rows.rule_files()
        )
        return [ColumnValues(piece, columns) for piece in pieces]

    def _stored(self, key: str, *columns: str) -> list[ColumnValues]:
        """The values of committed rows that stay."""
        self.committed.relied_on.add(key)
        pin = self.committed.pins[key]
        if pin.row_count == 0 or (self.mode == "overwrite" and key in self.incoming):
            return []
        ref = self.committed.locate(pin)
        return [
            ColumnValues(RowsPiece(ref, rows, fragment_id=number), columns)
            for number, rows in fragment_sizes(open_table(ref))
        ]

    def _nodes(self, name: str) -> list[ColumnValues]:
        """The ids of all nodes of a type after the load."""
        key = self.catalog.nodes[name].table_key
        new = self._written(key, "id") if key in self.incoming else []
        return [*new, *self._stored(key, "id")]

    # -- rules

    def _compared(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The columns of which no two rows may have the same values. Ids that were made are unlike others."""
        for key, rows in self.incoming.items():
            if rows.may_repeat:
                yield key, ("id",)
            yield from ((key, tuple(group)) for group in rows.entity.unique)

    def _compared_with_stored(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The same against committed rows: an id made of a tuple may be that of an edge that had it once."""
        yield from self._compared()
        for key, rows in self.incoming.items():
            edge = rows.entity
            if isinstance(edge, EdgeType) and edge.identity is not None and not rows.may_repeat:
                yield key, ("id",)

    def _repeated(self) -> Iterator[ValueQuestion]:
        """Ask for ids and unique tuples that two incoming rows have."""
        for key, columns in self._compared():
            yield ValueQuestion("repeated", tuple(self._written(key, *columns)))

    def _taken(self) -> Iterator[ValueQuestion]:
        """Ask for ids and unique tuples that a committed row has."""
        for key, columns in self._compared_with_stored() if self.mode == "append" else ():
            mine, stored = self._written(key, *columns), self._stored(key, *columns)
            if stored:
                yield ValueQuestion("shared", tuple(mine), tuple(stored))

    def _missing(self) -> Iterator[ValueQuestion]:
        """Ask for ends of incoming edges that are no nodes."""
        ends: dict[str, list[ColumnValues]] = {}
        for key, rows in self.incoming.items():
            if isinstance(rows.entity, EdgeType):
                ends.setdefault(rows.entity.from_type, []).extend(self._written(key, "src"))
                ends.setdefault(rows.entity.to_type, []).extend(self._written(key, "dst"))
        for name, values in ends.items():
            yield ValueQuestion("missing", tuple(values), tuple(self._nodes(name)))

    def _stranded(self) -> Iterator[ValueQuestion]:
        """Ask for committed edges that lose a node because its table is overwritten."""
        for edge in self.catalog.edges.values() if self.mode == "overwrite" else ():
            for side, name in (("src", edge.from_type), ("dst", edge.to_type)):
                is_replaced = self.catalog.nodes[name].table_key in self.incoming
                if is_replaced and edge.table_key not in self.incoming:
                    stored = self._stored(edge.table_key, side)
                    yield ValueQuestion("missing", tuple(stored), tuple(self._nodes(name)))

    def _crowded(self) -> Iterator[ValueQuestion]:
        """Ask for nodes with more edges than they may have."""
        for key, rows in self.incoming.items():
            if isinstance(rows.entity, EdgeType) and rows.entity.cardinality.max is not None:
                values = [*self._written(key, "src"), *self._stored(key, "src")]
                yield ValueQuestion("repeated", tuple(values), most=rows.entity.cardinality.max)

    def _needs_edges(self, rows: WrittenRows) -> bool:
        """Say whether nodes may have too few edges.

        Only nodes that gain or lose edges are looked at, so it needs a bound above 1, or edges that go.
        """
        if not isinstance(rows.entity, EdgeType):
            return False
        low = rows.entity.cardinality.min
        replaces = self.mode == "overwrite" and self.committed.pins[rows.entity.table_key].row_count
        return low > 1 or (low == 1 and bool(replaces))


@dataclass(frozen=True, slots=True)
class RowsPiece:
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


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """The values of columns in a piece, of which rows with a null are left out."""

    piece: RowsPiece
    columns: tuple[str, ...]

    def arrays(self) -> Iterator[list[pa.Array]]:
        """Read the columns of one batch after another, times as integers."""
        for batch in self.piece.batches(self.columns):
            yield [as_integers(batch.column(name)) for name in self.columns]


@dataclass(frozen=True, slots=True)
class ValueQuestion:
    """Asks whether something is wrong with values; all of its columns have the same types.

    ``repeated``: some value comes more than ``most`` times. The answer may be yes although that is not
    so, but never the other way round; ``part`` and ``parts`` say which of the values are compared.
    ``shared``: some value is among the others. ``missing``: some value is not among the others.
    """

    kind: Literal["repeated", "shared", "missing"]
    values: tuple[ColumnValues, ...]
    others: tuple[ColumnValues, ...] = ()
    most: int = 1
    part: int = 0
    parts: int = 1

    @property
    def rows(self) -> int:
        """How many values there are."""
        return sum(one.piece.rows for one in self.values)

    def swapped(self) -> ValueQuestion:
        """Return the same question about the others, which only ``shared`` has."""
        return replace(self, values=self.others, others=self.values)

    def divided(self, cores: int) -> list[ValueQuestion]:
        """Divide the work among tasks, so that no task does much more than is its own."""
        if self.kind == "repeated":
            parts = max(1, min(cores, self.rows // PART_ROWS))
            return [replace(self, part=part, parts=parts) for part in range(parts)]
        others = sum(one.piece.rows for one in self.others)
        ways = max(1, min(cores, len(self.values), 4 * self.rows // max(1, others)))
        shares: list[list[ColumnValues]] = [[] for _ in range(ways)]
        held = [0] * ways
        for one in sorted(self.values, key=lambda value: -value.piece.rows):
            least = held.index(min(held))
            shares[least].append(one)
            held[least] += one.piece.rows
        return [replace(self, values=tuple(share)) for share in shares if share]


def bytes_of(values: Sequence[ColumnValues]) -> int:
    """Estimate the size of values from a few of them."""
    rows = sum(one.piece.rows for one in values)
    for one in values:
        for arrays in one.arrays():
            if len(arrays[0]):
                wide = sum(array.nbytes for array in arrays) / len(arrays[0])
                return int(rows * (wide + ROW_BYTES))
    return 0


def answer(question: ValueQuestion) -> bool:
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


def _repeats(runner: LocalRunner, question: ValueQuestion) -> bool:
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


def _frame(runner: LocalRunner, values: Iterable[ColumnValues]) -> LocalFrame | None:
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
