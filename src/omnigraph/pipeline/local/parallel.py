"""Run functions on all cores and give their results in order.

Whoever runs some at the same time shares the threads: a load that writes ten tables at once, or two loads of
one process, work on as many threads as there are cores, not on as many for each.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from omnigraph.cancel import SIGNAL_SECONDS, look
from omnigraph.cores import usable_cores

Result = TypeVar("Result")

AHEAD = 2
"""How many functions wait for a thread, beside those that run: a slow one must not leave the others idle."""


def in_order(
    work: Iterable[Callable[[], Result]], stop: Callable[[], object] = lambda: None
) -> Iterator[Result]:
    """The results of the functions, in order. Threads run a few of them ahead, so memory stays bounded.

    The iterable is consumed in the caller's thread. An error is raised when its turn comes, as if the
    functions had run one by one. ``stop`` is called then, and on Ctrl-C, to make running functions give up.
    A function must not run others in order itself.
    """
    threads = usable_cores()
    if threads <= 1:
        yield from (function() for function in work)
        return
    source = iter(work)
    waiting: deque[Future[Result]] = deque()
    ended = False
    failure: Exception | None = None
    with _threads.shared(threads) as pool:

        def submit() -> None:
            nonlocal ended, failure
            while not ended and len(waiting) < threads + AHEAD:
                try:
                    waiting.append(pool.submit(next(source)))
                except StopIteration:
                    ended = True
                except Exception as error:  # noqa: BLE001 - raised below, in its turn
                    ended, failure = True, error

        try:
            submit()
            while waiting:
                _wait_for(waiting[0])
                result = waiting.popleft().result()
                submit()  # so that the threads work on while the caller looks at the result
                yield result
                del result
        except BaseException:
            stop()
            raise
        finally:
            for future in [one for one in waiting if not one.cancel()]:
                while not future.done():
                    wait((future,), SIGNAL_SECONDS)
    if failure is not None:
        raise failure


def _wait_for(future: Future[Result]) -> None:
    """Wait for a function to end, and notice meanwhile that the work should stop.

    The waits are short: a signal that reaches another thread, or comes as a wait begins, is seen when it ends.
    """
    while not future.done():
        wait((future,), SIGNAL_SECONDS)
        look()


class _Threads:
    """The threads of this process that run functions; there while somebody has any to run."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as in a process that was forked: it has none of the threads."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._users = 0

    @contextmanager
    def shared(self, threads: int) -> Iterator[ThreadPoolExecutor]:
        """The pool that all who ask at the same time get; the last of them ends its threads."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(threads, "omnigraph-load")
            pool = self._pool
            self._users += 1
        try:
            yield pool
        finally:
            with self._lock:
                self._users -= 1
                is_last = self._users == 0
                if is_last:
                    self._pool = None
            if is_last:
                pool.shutdown()


_threads = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.forget)
