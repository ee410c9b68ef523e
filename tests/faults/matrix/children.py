"""Processes that live for one case: forked from a process that has everything imported and used nothing."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe
from typing import Any

LIMIT = 300
"""Seconds after which a child that hangs is ended."""


class Child:
    """A forked process that runs a function and says what came of it, or dies of a signal."""

    def __init__(self, work: Callable[..., Any], *arguments: Any) -> None:
        self.pipe, theirs = Pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of forks; this process has no other threads
            self.pid = os.fork()
        if self.pid == 0:
            self.pipe.close()
            signal.alarm(LIMIT)
            _run(theirs, work, arguments)
        theirs.close()

    def wait(self) -> Any:
        """What the function returned; None if the process was killed by itself."""
        answer = None
        with suppress(EOFError):
            answer = self.pipe.recv()
        self.pipe.close()
        _, status = os.waitpid(self.pid, 0)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL, f"ended by signal {os.WTERMSIG(status)}"
            return None
        assert answer is not None, f"ended with status {status}"
        if answer[1] is not None:
            raise AssertionError(answer[1])
        return answer[0]


def _run(pipe: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        answer = work(pipe, *arguments), None
    except BaseException:  # noqa: BLE001 - told to whoever waits
        answer = None, traceback.format_exc()
    pipe.send(answer)
    os._exit(0)


class Nursery:
    """A process that forks children for tests; it loads what they need once."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, modules), daemon=True)
        self._process.start()
        theirs.close()

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in the process that forks. It may start children, and must not use Lance."""
        self._pipe.send((work, arguments))
        result, failure = self._pipe.recv()
        if failure is not None:
            raise AssertionError(failure)
        return result

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(LIMIT)
        self._process.close()


def _serve(pipe: Connection, modules: tuple[str, ...]) -> None:
    import importlib

    os.environ.setdefault("LANCE_LOG", "error")
    for name in modules:
        importlib.import_module(name)
    # A child whose collector looks at all of this would copy it, and take longer for that than for its case.
    gc.collect()
    gc.freeze()
    with suppress(EOFError):
        while True:
            work, arguments = pipe.recv()
            try:
                answer = work(*arguments), None
            except BaseException as error:  # noqa: BLE001 - told to the test
                answer = None, str(error) or traceback.format_exc()
            pipe.send(answer)


@contextmanager
def nursery(*modules: str) -> Iterator[Nursery]:
    """A nursery for the length of a block."""
    made = Nursery(modules)
    try:
        yield made
    finally:
        made.close()
