"""Few rows that executors read, brought to this process."""

from __future__ import annotations

from pathlib import Path

from omnigraph.pipeline.engine import Incoming
from omnigraph.pipeline.formats.typed_batch import no_rows
from omnigraph.pipeline.local.spooled_rows import SpooledRows
from omnigraph.pipeline.rows.row_rules import Aliases, RowRules
from omnigraph.pipeline.rows.stored_rows import spellings_of
from omnigraph.pipeline.spark.found_records import FoundRecords
from omnigraph.pipeline.spark.payloads import ROWS, joined, values_of
from omnigraph.runner.local_runner import FEW_ROWS


def fetched_rows(
    rules: RowRules, found: FoundRecords, aliases: Aliases, directory: Path
) -> dict[str, Incoming]:
    """Fetch all payloads, and return their rows as those of the local engine, in the input's order."""
    wanted = found.told.where(f"kind = '{ROWS}'").orderBy("task", "seq")
    data = wanted.select("key", "narrow", "wide").toArrow().combine_chunks()
    incoming: dict[str, SpooledRows] = {}
    for key in found.rows:
        path = directory / f"here-{len(incoming)}.arrow"
        incoming[key] = SpooledRows(rules.catalog.entity(key), path, FEW_ROWS)
    for batch in data.to_batches():
        columns = (values_of(batch.column(name)) for name in ("narrow", "wide"))
        for key, narrow, wide in zip(batch.column("key").to_pylist(), *columns, strict=True):
            incoming[key].add(joined(narrow, wide))
    for key, rows in incoming.items():
        rows.unfilled = found.unfilled.get(key, 0)
        rows.any_named = found.named.get(key, 0) > 0
        rows.any_made = found.named.get(key, 0) < found.rows[key]
        if not rows.rows:
            for judged in rules.judge(no_rows(rows.entity)).rows:
                rows.add(judged.batch)
        rows.finish()
        spellings = spellings_of(rows.entity, aliases)
        if spellings:
            rows.replace_text(spellings)
    return dict(incoming)
