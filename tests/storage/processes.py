"""Running workers in child processes that come from one fork server."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

_LIMIT = 60.0

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["omnigraph.storage.locks", "omnigraph.storage.objects"])


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


def run_processes(worker: Callable[..., Any], calls: Sequence[Sequence[Any]]) -> list[Any]:
    """Run the worker once per argument list, all at the same time; what each returned, in order."""
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
    for process, answer in running:
        assert answer.poll(_LIMIT), "a worker did not answer"
        result, failure = answer.recv()
        assert failure is None, failure
        process.join(_LIMIT)
        assert process.exitcode == 0
        results.append(result)
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
