"""Decides after each commit of a handle whether upkeep is due, and has it done, in a thread if writers do not wait.

Upkeep is best effort: the commit is durable and its locks are free before it starts, and whatever
goes wrong in it is logged and left for a later commit.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Literal

from omnigraph import settings
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace, Written
from omnigraph.storage.tables.table import Table

Job = Callable[[], object]


class Background:
    """Runs jobs one after the other, in a daemon thread that ends when there are none.

    A job replaces one of the same name that has not begun.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a finalizer may close it at any moment, in any thread
        self._jobs: dict[Hashable, Job] = {}
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def ask(self, name: Hashable, job: Job) -> None:
        """Have the job done soon; after ``close`` it is dropped."""
        if self._pid != os.getpid():
            self._begin()  # a forked child has no threads of its parent
        with self._lock:
            if self._is_closed:
                return
            self._jobs[name] = job
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Let the job in hand finish, and drop the others."""
        if self._pid != os.getpid():
            return
        with self._lock:
            self._is_closed = True
            self._jobs.clear()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._thread = None
                    return
                name = next(iter(self._jobs))
                job = self._jobs.pop(name)
            job()


logger = logging.getLogger(__name__)

UpkeepMode = Literal["inline", "background", "off"]

AFTER_SKIPPING = 8
"""A handle that could not begin because others were at work tries again this many versions later."""

Lineage = tuple[int, str | None, str | None]


class Keeper:
    """The upkeep of one handle: which tables it tried when, and the thread it may have."""

    def __init__(self, mode: UpkeepMode) -> None:
        self.mode: UpkeepMode = mode
        self._not_before: dict[Lineage, int] = {}
        self._large: dict[Lineage, int] = {}
        self._lock = threading.Lock()
        self._background = Background()

    def after_commit(
        self, workspace: Workspace, branch: str, written: Sequence[Written]
    ) -> Callable[[], object] | None:
        """Return what to do once the locks of the commit are free; None if nothing is due.

        Almost every commit ends here, so all it costs is a look at what the commit has in memory.
        """
        if self.mode == "off":
            return None
        try:
            due = self._find_due(written)
        except Exception:
            logger.warning("upkeep of branch `%s` was left out", branch, exc_info=True)
            return None
        if not due:
            return None
        job = partial(self._keep, workspace, branch, due)
        if self.mode == "background":
            return partial(self._background.ask, (branch, *map(_lineage, due)), job)
        return job

    def close(self) -> None:
        """Let upkeep in the background finish the commit in hand; begin no other."""
        self._background.close()

    def _find_due(self, written: Sequence[Written]) -> list[TableState]:
        """Return the pins of the tables that are due, and note that they will be tried."""
        from omnigraph.maintenance.upkeep import versions_between

        if not settings.UPKEEP.get():
            return []
        limit = settings.UPKEEP_FRAGMENTS.get()
        due = [pin for pin, table in written if self._is_due(pin, table, limit)]
        self._wait(due, versions_between(limit))
        return due

    def _is_due(self, pin: TableState, table: Table, limit: int) -> bool:
        from omnigraph.maintenance.upkeep import glance, is_due, shape_of

        seen, lineage = glance(table), _lineage(pin)
        with self._lock:
            before, self._large[lineage] = self._large.get(lineage), seen.large
            not_before = self._not_before.get(lineage)
        if seen.fragments <= limit and seen.large == before:
            return False  # few fragments, and none of many rows came
        return is_due(shape_of(table), pin.table_version, pin.maintained_at, not_before, limit)

    def _wait(self, pins: Sequence[TableState], versions: int) -> None:
        with self._lock:
            for pin in pins:
                self._not_before[_lineage(pin)] = pin.table_version + versions

    def _keep(self, workspace: Workspace, branch: str, due: Sequence[TableState]) -> None:
        """Put tables in shape; what goes wrong is logged."""
        from omnigraph.maintenance.upkeep import OthersAtWork, keep_in_shape

        try:
            keep_in_shape(workspace, branch, due)
        except OthersAtWork as others:
            self._wait(due, AFTER_SKIPPING)
            logger.info("upkeep of branch `%s` waits for a later commit: %s", branch, others)
        except Exception:
            logger.warning("upkeep of branch `%s` was left out", branch, exc_info=True)


def _lineage(pin: TableState) -> Lineage:
    return pin.incarnation, pin.table_branch, pin.table_branch_id
