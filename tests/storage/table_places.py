"""Places a table can be at, and the rows the table tests put there."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.storage.tables.table import PRIMARY_KEY, create_table

SCHEMA = pa.schema(
    [
        pa.field("id", pa.utf8(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("n", pa.int64()),
        pa.field("words", pa.utf8()),
    ]
)


def rows(ids, start=0, words="word"):
    """One row per id (a string is taken as its letters), numbered from ``start``."""
    return pa.table(
        {"id": list(ids), "n": [start + i for i in range(len(ids))], "words": [words] * len(ids)},
        schema=SCHEMA,
    )


def new_table(ref, data=None):
    """A table of ``SCHEMA``, with the rows committed as version 2 when there are any."""
    from omnigraph.storage.tables.staging import stage_append
    from omnigraph.storage.tables.table_commits import commit_staged

    table = create_table(ref, SCHEMA)
    return table if data is None else commit_staged(stage_append(table, data))


def compact(table):
    """Merge what Lance would merge, in one version; indexes are not folded."""
    from lance.optimize import Compaction

    from omnigraph.storage.tables.rewriting import Merged, run_task, stage_rewritten
    from omnigraph.storage.tables.table_commits import commit_staged

    tasks = Compaction.plan(table.dataset, {}).tasks
    results = [
        Merged.of([one.id for one in task.fragments], run_task(table, task)) for task in tasks
    ]
    return commit_staged(stage_rewritten(table, results)) if results else table


def contents(table):
    """id -> n."""
    found = table.read(["id", "n"])
    return dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))
