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
    stored: Callable[[str], TableRef | None],
    spool: VectorSpool,
) -> int:
    """Fill the vectors of all tables, and return how many stay null although their text is there.

    ``stored`` gives the table whose rows the new ones replace, or None where there is nothing to keep.
    """
    tables = [rows for rows in incoming if rows.unfilled]
    for rows in tables:
        rows.want_vectors(runner, stored(rows.entity.table_key), spool)
    spool.flush()
    return sum(rows.fill_vectors(runner, spool) for rows in tables)
