"""Lance's own cleanup, which other tools may have switched on for a table.

It deletes old versions while it commits, and knows nothing of those that the graph still needs.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.storage.tables.lance_import import lance
from omnigraph.storage.tables.staging import RowCounts, Staged
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_errors import lance_errors
from omnigraph.storage.tables.transactions import Operation

PREFIX = "lance.auto_cleanup"


def find_auto_cleanup(table: Table) -> tuple[str, ...]:
    """Return the names of the settings that switch it on; none as a rule."""
    with lance_errors(f"reading the settings of {table.ref}"):
        return tuple(sorted(name for name in table.dataset.config() if name.startswith(PREFIX)))


def stage_unset(table: Table, names: Iterable[str]) -> Staged:
    """Stage the removal of settings of a table."""
    operation = lance().LanceOperation
    change = operation.UpdateConfig(operation.UpdateMap(dict.fromkeys(names)))
    transaction = lance().Transaction(table.version, change)
    return Staged(table.ref, transaction, Operation.UPDATE_CONFIG, RowCounts())
