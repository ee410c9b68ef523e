"""Run functions on all cores and give their results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def in_order(
    work: Iterable[Callable[[], Result]],
    threads: int,
    stop: Callable[[], object] = lambda: None,
) -> Iterator[Result]:
    """The results of the functions, in order. Threads run a few of them ahead, so memory stays bounded.

    The iterable is consumed in the caller's thread. An error is raised when its turn comes, as if the
    functions had run one by one. ``stop`` is called then, and on Ctrl-C, to make running functions give up.
    """
    if threads <= 1:
        yield from (function() for function in work)
        return
    source = iter(work)
    waiting: deque[Future[Result]] = deque()
    ended, failure = False, None
    with ThreadPoolExecutor(threads, "omnigraph-load") as pool:
        try:
            while True:
                while not ended and len(waiting) <= threads:
                    try:
                        waiting.append(pool.submit(next(source)))
                    except StopIteration:
                        ended = True
                    except Exception as error:  # noqa: BLE001 - raised below, in its turn
                        ended, failure = True, error
                if not waiting:
                    break
                yield waiting.popleft().result()
        except BaseException:
            stop()
            raise
        finally:
            for future in waiting:
                future.cancel()
    if failure is not None:
        raise failure
