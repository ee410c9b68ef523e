"""Fingerprints: what set rules compare, as 128 bits of a keyed hash instead of texts.

Tables that are too large for one task are compared by joins of Spark, and a fixed 16 bytes for each
value are cheaper to send and to sort than texts. The hash is MD5 behind a random text of the load:
whoever writes records does not know it and so cannot construct two values that collide. By chance, two of ten
billion values collide with a probability of about 10 to the -19. Nothing rests on equality
alone where that can be avoided: values that *differ* by their fingerprints differ for certain, and
that is what a load without duplicates needs; where fingerprints say that a rule is broken, texts are
compared. Only an end that has the whole fingerprint of a node is believed to be that node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.types import as_integers

Halves: TypeAlias = "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]"

COLUMNS = "h1 bigint, h2 bigint"
"""The halves of a fingerprint as columns of a DataFrame."""


def are_comparable(kinds: Sequence[pa.DataType]) -> bool:
    """Say whether values are equal exactly when their texts are: not numbers with -0.0 and NaN."""
    is_a = pa.types
    return all(
        is_a.is_string(kind)
        or is_a.is_integer(kind)
        or is_a.is_boolean(kind)
        or is_a.is_temporal(kind)
        for kind in kinds
    )


def fingerprints(columns: Sequence[pa.Array], salt: str) -> Halves:
    """Return the two halves of the fingerprint of each row; rows with a null have none."""
    texts = [_as_text(column) for column in columns]
    text = texts[0] if len(texts) == 1 else _joined(texts)
    return _hashed(text.drop_null(), salt)


def fingerprint_batch(columns: Sequence[pa.Array], salt: str) -> pa.RecordBatch:
    """Return the fingerprints of rows as a batch of `COLUMNS`."""
    first, second = (np.ascontiguousarray(half) for half in fingerprints(columns, salt))
    return pa.RecordBatch.from_pydict({"h1": pa.array(first), "h2": pa.array(second)})


def _as_text(column: pa.Array) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    column = as_integers(column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return column if pa.types.is_string(column.type) else column.cast(pa.utf8())


def _joined(texts: Sequence[pa.Array]) -> pa.Array:
    """Put the texts of each row together, each behind its length, so that no two rows are confused."""
    parts = [part for text in texts for part in (pc.binary_length(text).cast(pa.utf8()), text)]
    return pc.binary_join_element_wise(*parts, ":")


def _hashed(texts: pa.Array, salt: str) -> Halves:
    given = pa.table({"v": texts})
    found = _duck().from_arrow(given).project(f"md5_number('{salt}' || v) AS h").to_arrow_table()
    halves = [_halves(chunk) for chunk in found.column("h").chunks]
    together = np.concatenate([np.empty((0, 2), np.int64), *halves])
    return together[:, 0], together[:, 1]


def _halves(chunk: pa.Array) -> np.ndarray[Any, Any]:
    """The 16 bytes of each value as two numbers; DuckDB gives them as a decimal, bit by bit."""
    bits = np.frombuffer(chunk.buffers()[1], np.int64).reshape(-1, 2)
    return bits[chunk.offset : chunk.offset + len(chunk)]


@cache
def _duck() -> Any:
    import duckdb

    # Every core has a task of its own.
    return duckdb.connect(":memory:", config={"threads": "1"})
