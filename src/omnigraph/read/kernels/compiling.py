"""Importing Numba and compiling loops in a background thread, so that no query has to wait for it.

A loop is compiled for the types of its arguments, by calling it with an example of each: a small graph for
adjacency, zeros for an array, everything else as it is. So a compiled loop must accept such arguments: its
arrays have one value per node or per pair, and 0 is a valid one.

The thread ends when nothing is left to compile. Numba and LLVM survive neither the end of the process nor a
fork while the thread is at work. So the thread is stopped when the process ends, and a fork waits until the
current import or compilation is done.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from time import monotonic, sleep
from typing import Any, Final, NamedTuple

import numpy as np

from omnigraph.cancel import wait_for

logger = logging.getLogger(__name__)

Compiled = Callable[..., Any]

# Nodes of the example, and targets of its first node: enough that the loops for long rows are called too.
_NODES: Final = 80
_TARGETS: Final = 70
# Seconds that the end of the process, and a fork, wait for the thread at most.
_END_WAIT: Final = 10.0
_FORK_WAIT: Final = 10.0
# Seconds after which the thread is told again to stop: Numba may have caught the exception.
_STOP_AGAIN: Final = 0.05
# Seconds between two looks of the thread whether a fork waits.
_TURN: Final = 0.001


class _Key(NamedTuple):
    """A compiled function and the types it is called with."""

    module: str
    name: str
    types: tuple[Any, ...]


class _Job:
    """A function to compile; ``made`` is None until it is compiled, and stays None if that fails."""

    def __init__(self, key: _Key, arguments: tuple[Any, ...]) -> None:
        self.key = key
        self.arguments = tuple(_example(argument) for argument in arguments)
        self.made: Compiled | None = None
        self.done = threading.Event()

    def run(self, step: Callable[[], AbstractContextManager[None]]) -> None:
        """Import the module and compile the function; if that fails, NumPy goes on doing the work."""
        try:
            with step():
                module = import_module(self.key.module)
            function: Compiled | None = getattr(module, self.key.name, None)
            with step():
                if function is not None:
                    function(*self.arguments)
            self.made = function
        except ImportError as error:
            logger.debug("loops are not compiled: %s", error)
        except Exception as error:  # whatever Numba raises, NumPy does the same work
            logger.warning("the loop %s is not compiled", self.key.name, exc_info=error)
        finally:
            self.arguments = ()
            self.done.set()


class _Stop(SystemExit):
    """Raised in the thread when the process ends; a thread may end with it at any point."""


class Compiler:
    """The compiled functions of this process, and the thread that compiles them."""

    def __init__(self) -> None:
        self._jobs: dict[_Key, _Job] = {}
        self._queue: deque[_Job] = deque()
        self._thread: threading.Thread | None = None
        self._is_off = False
        self._lock = threading.Lock()
        # Held during an import and while a function is compiled. A fork in that thread itself does not wait.
        self._busy = threading.RLock()
        self._forks_waiting = 0
        self._forking = threading.local()
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._after_fork,
            after_in_child=self._after_fork_in_child,
        )

    def get(self, module: str, name: str, *arguments: Any, waits: bool) -> Compiled | None:
        """The compiled function for such arguments; None if there is none, or if it is not ready yet.

        The first call has it compiled. One that ``waits`` returns when that is done.
        """
        types = tuple(getattr(given, "dtype", type(given)) for given in arguments)
        key = _Key(module, name, types)
        job = self._jobs.get(key) or self._start(key, arguments)
        if job is None:
            return None
        if waits and not job.done.is_set():
            self._hurry(job)
            wait_for(job.done)
        return job.made

    def ready(self) -> set[str]:
        """The names of the functions that are compiled for some arguments."""
        return {key.name for key, job in list(self._jobs.items()) if job.made is not None}

    def _start(self, key: _Key, arguments: tuple[Any, ...]) -> _Job | None:
        with self._lock:
            if self._is_off:
                return None
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = _Job(key, arguments)
                self._queue.append(job)
                if self._thread is None and not self._start_thread():
                    self._give_up()
            return job

    def _hurry(self, job: _Job) -> None:
        """Put a job before the others, because a caller waits for it."""
        with self._lock:
            if job in self._queue:
                self._queue.remove(job)
                self._queue.appendleft(job)

    def _start_thread(self) -> bool:
        # Numba imports this module, which registers a hook that releases a lock after a fork. Imported here,
        # it cannot be registered in the middle of a fork.
        import concurrent.futures.thread  # noqa: F401

        # Registered before Numba is imported, so that Numba's own exit hooks run first; they only note that
        # the process ends.
        atexit.unregister(self._end)
        atexit.register(self._end)
        thread = threading.Thread(target=self._work, name="omnigraph-compiler", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there are too many, or the process ends
            return False
        self._thread = thread
        return True

    def _give_up(self) -> None:
        """Compile nothing from now on."""
        self._is_off = True
        while self._queue:
            self._queue.popleft().done.set()

    def _work(self) -> None:
        try:
            while True:
                with self._lock:
                    if not self._queue:
                        self._thread = None
                        return
                    job = self._queue.popleft()
                job.run(self._step)
        except _Stop:
            pass

    @contextmanager
    def _step(self) -> Iterator[None]:
        """Hold the lock that forks wait for; forks that are waiting already go first."""
        while self._forks_waiting:
            sleep(_TURN)
        with self._busy:
            yield

    # -- the end of the process

    def _end(self) -> None:
        """Stop the thread and wait until it has ended: the call of LLVM that it is in cannot be stopped."""
        with self._lock:
            self._give_up()
            thread = self._thread
        if thread is None:
            return
        # LLVM calls back into Python, where it may meet the exception and could only print it.
        shown = sys.unraisablehook
        sys.unraisablehook = lambda found: None if found.exc_type is _Stop else shown(found)
        until = monotonic() + _END_WAIT
        while thread.is_alive() and monotonic() < until:
            _raise_in(thread, _Stop)
            thread.join(_STOP_AGAIN)

    # -- forks

    def _before_fork(self) -> None:
        with self._lock:
            self._forks_waiting += 1
        self._forking.is_clean = self._busy.acquire(timeout=_FORK_WAIT)
        with self._lock:
            self._forks_waiting -= 1

    def _after_fork(self) -> None:
        if self._forking.is_clean:
            self._busy.release()

    def _after_fork_in_child(self) -> None:
        """Start over in the child, which has no thread: what was not compiled yet is requested again."""
        self._lock = threading.Lock()
        self._busy = threading.RLock()
        self._forks_waiting = 0
        self._thread = None
        self._queue.clear()
        self._jobs = {key: job for key, job in self._jobs.items() if job.done.is_set()}
        # Where a fork did not wait long enough, modules are half imported here and locks are held.
        self._is_off = self._is_off or not self._forking.is_clean


def _example(argument: Any) -> Any:
    """An argument of the same type that is cheap to work on."""
    if hasattr(argument, "indptr"):
        return _Star()
    if isinstance(argument, np.ndarray):
        return np.zeros((_NODES,) * argument.ndim, argument.dtype)
    return argument


class _Star:
    """Adjacency of both kinds: the first node has many targets, the others have none."""

    def __init__(self) -> None:
        self.indptr = np.full(_NODES + 1, _TARGETS, np.int64)
        self.indptr[0] = 0
        self.indices = np.arange(_TARGETS, dtype=np.int32)
        self.positions = np.arange(_TARGETS, dtype=np.int32)
        self.shape = (_NODES, _NODES)


def _raise_in(thread: threading.Thread, error: type[BaseException]) -> None:
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(error)
        )


COMPILER: Final = Compiler()
"""The one of this process."""
