"""Executors answer the questions that set rules come down to (`rule_questions`), about files that they wrote.

A task reads the columns from files that no version refers to yet, and from fragments of tables, and asks DuckDB.
For what is shared or missing it gets a share of the values, and reads all the others: that costs less than moving
both sides to where they meet, as long as the others are not too many (`SparkSizes.shared_bytes`).

For example, with 3M edges to check against 3M nodes, each of two tasks puts 3M ids into a hash table in
0.2 s and looks up 1.5M ends in it in as much time again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.pipeline.rule_questions import ColumnValues, RowsPiece, RuleQuestions, ValueQuestion
from omnigraph.pipeline.written.written_rows import WrittenRows
from omnigraph.runner.local_runner import LocalFrame, LocalRunner
from omnigraph.runner.spark_tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HASH_BYTES = 8
"""What a task that looks for repeated values holds of each."""
MEMORY_LIMIT = "512MB"
"""What a task holds of hash tables at most; what is more goes to its disk."""
ROW_BYTES = 16
"""About what a value takes besides its own bytes."""


def rules_hold(
    session: SparkSession, questions: RuleQuestions, cores: int, shared_bytes: int
) -> bool:
    """Say whether all rules hold for certain, in one job; a task reads at most ``shared_bytes`` of others."""
    if questions.any_needs_edges():
        return False
    divided: list[ValueQuestion] = []
    for question in questions.asked():
        fitting = _fitting(question, shared_bytes)
        # An end without any node of its type is missing for certain: the rules say which one.
        if fitting is None or (question.kind == "missing" and not question.others):
            return False
        divided += fitting.divided(cores)
    outcomes = run_tasks(
        session, answer, divided, at_once=len(divided), weight=lambda one: one.rows
    )
    return not any(outcome.get() for outcome in outcomes)


def written_pieces(rows: WrittenRows) -> list[RowsPiece]:
    """Return the files with the columns that set rules look at."""
    ref = rows.destination.ref
    return [RowsPiece(ref, count, file=name) for name, count in rows.rule_files()]


def _fitting(question: ValueQuestion, shared_bytes: int) -> ValueQuestion | None:
    """Return the question so that every task can read what it must; None where it cannot."""
    if question.kind == "repeated":
        return question if question.rows * HASH_BYTES <= shared_bytes else None
    if bytes_of(question.others) <= shared_bytes:
        return question
    if question.kind == "shared" and bytes_of(question.values) <= shared_bytes:
        return question.swapped()
    return None


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
    # Sorted, equal hashes are neighbours: `most` places apart they are equal only if there are more than
    # `most`.
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
