"""Running workers in child processes that come from one fork server."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from omnigraph.failpoints import FilePause

_LIMIT = 600.0

context = multiprocessing.get_context("forkserver")
# The project's root is on the path of the fork server: it is started in the current directory.
context.set_forkserver_preload(["tests.storage.preloaded"])


def fork() -> int:
    """Fork this very process, whose threads the child does not need."""
    with warnings.catch_warnings():
        # Lance, and Python from 3.12 on, warn of what these tests are about.
        warnings.simplefilter("ignore")
        return os.fork()


def _report(
    answer: Connection,
    environment: dict[str, str],
    worker: Callable[..., Any],
    arguments: Sequence[Any],
) -> None:
    # The fork server has the environment of the moment it was started, not that of this test.
    os.environ.update(environment)
    try:
        answer.send((worker(*arguments), None))
    except BaseException as error:
        answer.send((None, f"{type(error).__name__}: {error}"))
        raise


def run_processes(
    worker: Callable[..., Any], calls: Sequence[Sequence[Any]], limit: float = _LIMIT
) -> list[Any]:
    """Run the worker once per argument list, all at the same time; what each returned, in order.

    ``limit`` is how many seconds each may take after the one before it; one that fails or hangs
    ends them all.
    """
    running = []
    for arguments in calls:
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=_report, args=(theirs, dict(os.environ), worker, arguments), daemon=True
        )
        process.start()
        theirs.close()
        running.append((process, mine))
    results = []
    try:
        for process, answer in running:
            assert answer.poll(limit), "a worker did not answer"
            result, failure = answer.recv()
            assert failure is None, failure
            process.join(limit)
            assert process.exitcode == 0
            results.append(result)
    finally:
        for process, _ in running:
            process.kill()
            process.join()
    return results


@contextmanager
def talk_to(
    worker: Callable[..., Any], arguments: Sequence[Any]
) -> Iterator[tuple[Any, Connection]]:
    """A process that runs the worker with a pipe to us as its first argument; killed at the end."""
    mine, theirs = context.Pipe()
    process = context.Process(target=worker, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        yield process, mine
    finally:
        process.kill()
        process.join()
        mine.close()


class Stopped:
    """A process that stands at a failpoint and answers once it may go on."""

    def __init__(self, process: Any, pipe: Connection, place: Path) -> None:
        self.process = process
        self.pipe = pipe
        self.pause = FilePause(place)
        self._reached = place.with_name(place.name + ".reached")

    def wait_until_reached(self) -> None:
        """Wait until it stands there; one that answers or ends first is a failure."""
        while not self._reached.exists():
            if self.pipe.poll(0.005):
                raise AssertionError(f"it did not stop: {self._received()}")

    def go_on(self) -> Any:
        """Let it go on, and wait for its answer."""
        self.pause.resume()
        return self.answer()

    def answer(self, limit: float = _LIMIT) -> Any:
        """The next thing it says."""
        assert self.pipe.poll(limit), "a worker did not answer"
        return self._received()

    def _received(self) -> Any:
        try:
            return self.pipe.recv()
        except EOFError:
            raise AssertionError("the process died") from None


@contextmanager
def stopped_at(
    place: Path, worker: Callable[..., Any], arguments: Sequence[Any]
) -> Iterator[Stopped]:
    """A process that runs the worker as `talk_to` does, and stands at its pause.

    The worker's last argument is ``place``, for its ``FilePause``.
    """
    with talk_to(worker, (*arguments, str(place))) as (process, pipe):
        stopped = Stopped(process, pipe, place)
        stopped.wait_until_reached()
        yield stopped
