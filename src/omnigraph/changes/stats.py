"""What an operation did and what it cost: the ``stats`` of merges, reverts, diffs and exports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from omnigraph.changes.change_filter import Op
from omnigraph.errors import StorageError
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.tables.table import open_table


@dataclass(frozen=True, slots=True)
class Stats:
    """What an operation did and what it cost.

    ``inserts``, ``updates`` and ``deletes`` count entities, net; ``candidates`` the ids that were
    compared. ``rows_read`` and ``bytes_read`` came from storage. ``tables_skipped`` were not opened,
    because both sides pin the same state of them; of ``tables_adopted`` a pin was taken over.
    """

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    candidates: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    tables_skipped: int = 0
    tables_adopted: int = 0
    ms: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in Stats.__slots__}


class Meter:
    """Counts while an operation runs. The counters are updated by the code that does the work.

    Bytes are those that Lance read for this process meanwhile: of two operations at the same time,
    each is charged with both. Without a workspace nothing is read.
    """

    def __init__(self, workspace: Workspace | None) -> None:
        self._counted = [] if workspace is None else _counted(workspace)
        self.inserts = 0
        self.updates = 0
        self.deletes = 0
        self.candidates = 0
        self.rows_read = 0
        self.tables_skipped = 0
        self.tables_adopted = 0
        self._bytes_read = 0
        self._seconds = 0.0
        self._began: tuple[float, int] | None = None

    def count(self, op: Op) -> None:
        """Count one entity that was inserted, updated or deleted."""
        match op:
            case "insert":
                self.inserts += 1
            case "update":
                self.updates += 1
            case "delete":
                self.deletes += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Charge the time and the bytes read inside; what a caller does between pages is free."""
        self._began = perf_counter(), self._read_so_far()
        try:
            yield
        finally:
            self._charge()
            self._began = None

    def _charge(self) -> None:
        """Charge what was used since the block began, or since it was charged last."""
        if self._began is not None:
            began, read = self._began
            self._began = perf_counter(), self._read_so_far()
            self._seconds += self._began[0] - began
            self._bytes_read += self._began[1] - read

    def _read_so_far(self) -> int:
        return sum(dataset.io_stats_snapshot().read_bytes for dataset in self._counted)

    def stats(self) -> Stats:
        """Return the counts so far."""
        self._charge()
        return Stats(
            inserts=self.inserts,
            updates=self.updates,
            deletes=self.deletes,
            candidates=self.candidates,
            rows_read=self.rows_read,
            bytes_read=self._bytes_read,
            tables_skipped=self.tables_skipped,
            tables_adopted=self.tables_adopted,
            ms=round(self._seconds * 1000),
        )


def _counted(workspace: Workspace) -> list[Any]:
    """Lance counts per session: that of manifests, and that of all tables."""
    state = workspace.manifest.state(MAIN)
    found = [state.table.dataset]
    for pin in list(state.head.tables.values())[:1]:
        with suppress(StorageError):  # whoever needs that table is told
            found.append(open_table(workspace.pinned(pin)).dataset)
    return found
