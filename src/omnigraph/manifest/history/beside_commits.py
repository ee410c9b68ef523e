"""Rows of `main` that are written without a commit: the locks for it, and trying again beside busy writers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from omnigraph import settings
from omnigraph.cancel import shielded
from omnigraph.errors import Contention
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.migrations import refuse_newer
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.locks.waiting import Purpose

Done = TypeVar("Done")


@contextmanager
def hold_main(workspace: Workspace, operation: str) -> Iterator[HeldLocks]:
    """Hold the graph lock and the head lock of `main`.

    The graph is looked at first, because taking a lock writes to the store.
    """
    refuse_newer(workspace.manifest.state(MAIN).table)
    locks = workspace.locks
    wanted = [locks.graph_lock(), locks.head_lock(MAIN)]
    with locks.acquire(wanted, None, Purpose(operation)) as held:
        refuse_newer(workspace.manifest.state(MAIN).table)
        yield held


def publish_patiently(held: HeldLocks, publish: Callable[[], Done]) -> Done:
    """Publish, and try again beside busy writers of `main` for as long as one waits for a lock."""
    deadline = time.monotonic() + settings.LOCK_WAIT_MS.get() / 1000
    while True:
        held.check()
        try:
            with shielded():
                return publish()
        except Contention:
            if time.monotonic() > deadline:
                raise
