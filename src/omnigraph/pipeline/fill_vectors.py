"""Fill the vectors of a load, once its rows are known to be good and before they are written.

Vectors cost time and money, so none is made for a load with a bad record, nor for a record that a later
one of the same id replaces. All tables say first which texts they need, and are filled afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from omnigraph.pipeline.engine import Incoming
from omnigraph.pipeline.rows.vector_spool import VectorSpool
from omnigraph.runner.protocol import Runner
from omnigraph.storage.tables.table_ref import TableRef


def fill_vectors(
    incoming: Iterable[Incoming],
    runner: Runner,
    stored: Callable[[Incoming], tuple[TableRef, bool]],
    spool: VectorSpool,
) -> int:
    """Fill the vectors of all tables, and return how many stay null although their text is there.

    ``stored`` gives the table of the rows, and whether they may replace some that it has.
    """
    tables = [rows for rows in incoming if rows.unfilled]
    for rows in tables:
        ref, keep = stored(rows)
        rows.want_vectors(runner, ref, spool, keep=keep)
    spool.flush()
    return sum(rows.fill_vectors(runner, spool) for rows in tables)
