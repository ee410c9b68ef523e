"""The thread in which a handle does its upkeep when its writers do not wait for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable

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
