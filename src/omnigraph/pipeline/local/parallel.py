"""Work on all cores, results in the order of the work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def in_order(work: Iterable[Callable[[], Result]], threads: int) -> Iterator[Result]:
    """The results of functions that threads run ahead, a few at a time, so memory stays bounded.

    The functions are made by the caller's thread. What fails does so when its turn comes, as if all
    had been done one by one.
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
        finally:
            for future in waiting:
                future.cancel()
    if failure is not None:
        raise failure
