"""Payload rows: typed batches packed as bytes into rows of Spark.

Spark has no type for some of our columns, and would convert rows that are only written again. So a
block of input becomes a few rows of Spark: one for every table, with its typed batch as bytes in two
parts (the columns that set rules look at, and all others), and rows for bad records, for spellings of
ids and for an error that ends the load.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, NamedTuple

import pyarrow as pa

from omnigraph.errors import OmniGraphError
from omnigraph.pipeline.formats.typed_batch import Parsed
from omnigraph.pipeline.rows.bad_records import Bad
from omnigraph.pipeline.rows.row_rules import Judged, RowRules, narrow_columns
from omnigraph.runner.spark_errors import error_bytes

ROWS, BAD, ALIASES, FAILURE, COUNT, CUT = "rows", "bad", "aliases", "failure", "count", "cut"

COLUMNS = (
    "task bigint, seq bigint, kind string, key string, records bigint, named bigint, "
    "pending bigint, narrow binary, wide binary"
)
"""The columns of a payload row: ``records`` of the table ``key`` (or bad ones), by task and block."""


class Payload(NamedTuple):
    """One payload row."""

    task: int
    seq: int
    kind: str
    key: str | None
    records: int
    named: int = 0
    pending: int = 0
    narrow: Any = None
    wide: Any = None


def packed(
    task: int, blocks: Iterable[Parsed], rules: RowRules, first: int = 0
) -> Iterator[pa.RecordBatch]:
    """Check the blocks of a task and yield them as payload rows.

    An error that ends the load is a row too: if it were raised, Spark would run the task again, and
    the driver must see the errors of all tasks to report the first one in the input.
    """
    seq = first
    try:
        for parsed in blocks:
            for payload in payloads_of(task, seq, rules.judge(parsed), rules):
                yield arrow_row(payload)
            seq += 1
    except OmniGraphError as error:
        yield arrow_row(Payload(task, seq, FAILURE, None, 0, wide=error_bytes(error)))


def payloads_of(task: int, seq: int, judged: Judged, rules: RowRules) -> Iterator[Payload]:
    """Yield the payloads of a block that was judged."""
    if judged.bad:
        yield Payload(task, seq, BAD, None, len(judged.bad), wide=bad_bytes(judged.bad))
        if not rules.skip:
            # Nothing of this load will be written, so good rows of the block are not needed.
            return
    yield from cut_payloads(task, seq, judged)
    if judged.aliases:
        spelled = json.dumps(judged.aliases).encode()
        yield Payload(task, seq, ALIASES, None, 0, wide=spelled)
    for key, batch in judged.rows:
        yield rows_payload(task, seq, key, batch, judged, rules)


def cut_payloads(task: int, seq: int, judged: Judged) -> Iterator[Payload]:
    """Yield how many values of each property were finer than they are stored."""
    for name, count in judged.cut.items():
        yield Payload(task, seq, CUT, name, count)


def rows_payload(
    task: int, seq: int, key: str, batch: pa.RecordBatch, judged: Judged, rules: RowRules
) -> Payload:
    """Return the payload of the rows that a block has for one table."""
    needed = narrow_columns(rules.catalog.entity(key))
    among = set(needed)
    rest = [name for name in batch.schema.names if name not in among]
    narrow, wide = ipc_bytes(batch.select(needed)), ipc_bytes(batch.select(rest))
    named, unfilled = judged.named[key], judged.unfilled[key]
    return Payload(task, seq, ROWS, key, batch.num_rows, named, unfilled, narrow, wide)


def bad_bytes(found: Sequence[Bad]) -> pa.Buffer:
    """Return bad records as bytes, for ``bad_of``."""
    names = [field.name for field in fields(Bad)]
    kinds = {"source": pa.int32(), "offset": pa.int64()}
    schema = pa.schema([(name, kinds.get(name, pa.utf8())) for name in names])
    return ipc_bytes(pa.RecordBatch.from_pylist([asdict(bad) for bad in found], schema=schema))


def bad_of(data: bytes) -> list[Bad]:
    """Return the bad records of a payload."""
    return [Bad(**row) for row in batch_of(data).to_pylist()]


def aliases_of(data: bytes) -> Mapping[str, Mapping[str, str]]:
    """Return the spellings of ids in a payload."""
    found: Mapping[str, Mapping[str, str]] = json.loads(data)
    return found


def arrow_row(payload: Payload) -> pa.RecordBatch:
    """Return a payload as a batch of one row, without copying its bytes."""
    numbers = [pa.array([value], pa.int64()) for value in (payload.task, payload.seq)]
    texts = [pa.array([value], pa.utf8()) for value in (payload.kind, payload.key)]
    counts = [pa.array([value], pa.int64()) for value in payload[4:7]]
    data = [_binary(value) for value in (payload.narrow, payload.wide)]
    return pa.RecordBatch.from_arrays(
        [*numbers, *texts, *counts, *data], names=list(Payload._fields)
    )


def _binary(data: Any) -> pa.Array:
    if data is None:
        return pa.nulls(1, pa.binary())
    buffer = pa.py_buffer(data)
    bounds = pa.array([0, buffer.size], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [None, bounds, buffer])


def ipc_bytes(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a batch as bytes (an Arrow stream)."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def batch_of(data: Any) -> pa.RecordBatch:
    """Return the batch in such bytes, without copying them."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()


def values_of(column: pa.Array) -> Iterator[pa.Buffer]:
    """Yield the values of a binary column, without copying them."""
    for value in column:
        yield value.as_buffer()


def whole_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the typed batches of payload rows with ``narrow`` and ``wide``."""
    for batch in batches:
        pairs = zip(values_of(batch.column("narrow")), values_of(batch.column("wide")), strict=True)
        for narrow, wide in pairs:
            yield joined(narrow, wide)


def joined(narrow: Any, wide: Any) -> pa.RecordBatch:
    """Return the typed batch of two parts."""
    first, second = batch_of(narrow), batch_of(wide)
    return pa.RecordBatch.from_arrays(
        [*first.columns, *second.columns], names=[*first.schema.names, *second.schema.names]
    )
