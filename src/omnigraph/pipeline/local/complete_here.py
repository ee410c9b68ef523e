"""The rows of a patch, made in this process: records in files by parts of the ids, then row by row whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.local.spooled_rows import SpooledRows
from omnigraph.pipeline.rows.bad_records import Bad
from omnigraph.pipeline.rows.patched_rows import PATCH_SIZES, PatchSizes, complete_part, divide
from omnigraph.pipeline.rows.patches import nothing_stored
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_ref import TableRef

MAX_PARTS = 256


def complete_here(
    rules: RowRules,
    entity: Entity,
    records: Iterable[pa.RecordBatch],
    ref: TableRef,
    path: Path,
    tell: Callable[[list[Bad]], None],
    *,
    nbytes: int,
    named: bool,
    few_rows: int,
    sizes: PatchSizes = PATCH_SIZES,
) -> SpooledRows:
    """Make whole rows of the records of a patch, about ``nbytes`` of them, in the file ``path``."""
    table = open_table(ref)
    rows = SpooledRows(entity, path, few_rows)
    rows.any_named = named
    empty = None
    for part in _parts(records, min(MAX_PARTS, -(-nbytes // sizes.part_bytes)), path):
        for judged in complete_part(rules, entity, part, table, named=named, sizes=sizes):
            rows.unfilled += sum(judged.unfilled.values())
            if judged.bad:
                tell(judged.bad)
            for _, batch in judged.rows:
                rows.add(batch)
        empty = part[0].slice(0, 0) if part else empty
    if not rows.rows and empty is not None:
        none = rules.complete(entity, empty, nothing_stored(entity), named=named)
        rows.add(none.rows[0].batch)
    rows.finish()
    return rows


def complete_spooled(
    rules: RowRules,
    records: SpooledRows,
    ref: TableRef,
    path: Path,
    tell: Callable[[list[Bad]], None],
    few_rows: int,
) -> SpooledRows:
    """Make whole rows of the records of a patch that this process has in a file."""
    return complete_here(
        rules,
        records.entity,
        records.records(),
        ref,
        path,
        tell,
        nbytes=records.nbytes,
        named=records.may_repeat,
        few_rows=few_rows,
    )


def _parts(
    records: Iterable[pa.RecordBatch], count: int, path: Path
) -> Iterator[list[pa.RecordBatch]]:
    if count <= 1:
        yield list(records)
        return
    files: dict[int, Path] = {}
    with ExitStack() as stack:
        writers: dict[int, Any] = {}
        for batch in records:
            for part, mine in divide(batch, count):
                if part not in writers:
                    files[part] = path.with_suffix(f".part-{part}")
                    opened = pa.ipc.new_stream(str(files[part]), batch.schema)
                    writers[part] = stack.enter_context(opened)
                writers[part].write_batch(mine)
    for part in sorted(files):
        with pa.memory_map(str(files[part])) as file, pa.ipc.open_stream(file) as reader:
            yield list(reader)
        files[part].unlink()
