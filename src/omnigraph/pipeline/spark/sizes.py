"""How much a load on Spark does at a time, and from which size on executors do it."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.pipeline.spark.executors import LARGE_TABLE_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSizes:
    """The sizes of a load on Spark; none of them changes what is stored."""

    fetched_rows: int = 200_000
    """Of at most this many rows, the columns that rules look at are fetched without a query."""
    here_rows: int = 100_000
    """So few rows are brought to this process, where all rules are checked and the rows are written."""
    here_table_rows: int = 20_000_000
    """That is done only where no table has more rows: executors scan larger ones."""
    looked_up_ids: int = 10_000
    """At most this many ids are looked up through the index of a table; for more it is scanned."""
    rows_per_task: int = 100_000
    """A task that writes gets at least this number of rows: fewer are not worth a task of their own."""
    shared_bytes: int = 256 << 20
    """Ids, or other values, of at most this number of bytes are read whole by every task that looks
    for some of them; more are sent between executors as fingerprints."""
    sent_bytes: int = 32 << 20
    """Rows that this process checked are sent to executors in parts of about this number of bytes."""
    indexed_rows: int = LARGE_TABLE_ROWS
    """Executors build the indexes of a table of at least this number of rows, this process the others."""
