"""Stopping work that is under way: a token, and the places that look at it.

The work never gets the token as an argument. The caller says which token counts, and every phase and batch
underneath checks it::

    token = Cancel(timeout=2.5)
    with watching(token):
        ...  # anything in here, in this thread, that calls `look()`

A look at a token that fired raises: ``ResourceLimit`` once its time is up, ``Cancelled`` after
``token.cancel()``, which any thread may call. Without a token a look costs next to nothing.

``Cancelled`` never leaves the product. Whatever cleans up after Ctrl-C cleans up after it, and no handler of
errors swallows it or tries again. Where a caller's token comes in (``within``, ``watched``) it goes out as
``QueryCancelled``, an error like all others.

Calls into libraries cannot look. Those that may take long are cut into pieces, or run ``aside``, in a
thread that is waited for with a look from time to time. ``Ctrl-C`` needs no token: it is a
``KeyboardInterrupt`` in the main thread as soon as that is back in Python, which the same pieces and waits
make soon.

Writes look only until they begin to change what others see, and then ``stop_looking``.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar, Token, copy_context
from datetime import timedelta
from time import monotonic
from typing import Any, Generic, Self, TypeVar, cast

from omnigraph.errors import BadRequest, QueryCancelled, ResourceLimit

T = TypeVar("T")
Timeout = float | timedelta | None
"""Seconds, or a ``timedelta``; None: no deadline."""

LONG_ITEMS = 200_000
"""Sorting or looking up this number of texts takes a noticeable part of a second on a busy machine."""

SIGNAL_SECONDS = 0.2
"""The longest time for which Ctrl-C may go unnoticed while the main thread waits for others."""

_PATIENCE = 0.05
"""Seconds between two looks of a thread that waits for another one."""

_CURRENT: ContextVar[Cancel | None] = ContextVar("omnigraph_cancel", default=None)


class Cancelled(KeyboardInterrupt):
    """The caller gave up, as after Ctrl-C. Inside only: the caller gets ``QueryCancelled``."""


class Cancel:
    """Says whether work should stop: from a deadline on, or once ``cancel`` was called.

    A token with a ``parent`` also fires when the parent does.
    """

    def __init__(self, timeout: Timeout = None, parent: Cancel | None = None) -> None:
        self._parent = parent
        self._cancelled = False
        self.limit(timeout)

    def limit(self, timeout: Timeout) -> None:
        """Let the time count from now on: it fires when this much has passed, or None: no deadline."""
        self.timeout = _seconds(timeout)
        self._started = monotonic()
        self._ends = None if self.timeout is None else self._started + self.timeout

    def cancel(self) -> None:
        """Stop the work at its next look. May be called from any thread, and more than once."""
        self._cancelled = True

    def check(self) -> None:
        """Raise ``QueryCancelled`` or ``ResourceLimit`` if the work should stop."""
        try:
            self._look()
        except Cancelled:
            raise _given_up() from None

    def _look(self) -> None:
        """Raise ``Cancelled`` or ``ResourceLimit`` if the work should stop."""
        if self._cancelled:
            raise Cancelled
        if self._ends is not None and (now := monotonic()) >= self._ends:
            raise out_of_time(cast("float", self.timeout), now - self._started)
        if self._parent is not None:
            look_at(self._parent)

    @property
    def patience(self) -> float:
        """For how many seconds a thread may wait before it looks again."""
        if self._ends is None:
            return _PATIENCE
        return max(0.0, min(_PATIENCE, self._ends - monotonic()))


def _seconds(timeout: Timeout) -> float | None:
    if timeout is None:
        return None
    seconds: object = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise BadRequest(
            f"timeout is {timeout!r}; give seconds above 0, a timedelta, or None for no deadline"
        )
    try:
        return None if math.isinf(seconds) else float(seconds)
    except OverflowError:  # a whole number beyond every float
        return None


def out_of_time(timeout: float, spent: float) -> ResourceLimit:
    """Return what work that took ``spent`` seconds fails with when it was allowed ``timeout``."""
    limit = math.ceil(timeout * 1000)
    return ResourceLimit(
        f"the time limit of {timeout:g} s was reached; narrow what is asked for, or allow more time",
        resource="query_milliseconds",
        limit=limit,
        actual=max(limit, int(spent * 1000)),
    )


def token_of(timeout: Timeout, cancel: Cancel | None) -> Cancel | None:
    """The token for a call that was given a timeout, a token of the caller, both or neither."""
    if cancel is not None and not isinstance(cancel, Cancel):
        raise BadRequest(f"cancel is a Python {type(cancel).__name__}; give an omnigraph.Cancel")
    outer = _CURRENT.get() if cancel is None else cancel
    return outer if timeout is None else Cancel(timeout, outer)


def current() -> Cancel | None:
    """The token that counts here, if there is one."""
    return _CURRENT.get()


def look() -> None:
    """Raise if the work around should stop."""
    token = _CURRENT.get()
    if token is not None:
        token._look()  # noqa: SLF001 - as below; looks are many


def look_at(token: Cancel) -> None:
    """Raise if the work that a token belongs to should stop."""
    token._look()  # noqa: SLF001 - what it raises is for this product alone


def within(timeout: Timeout, cancel: Cancel | None) -> AbstractContextManager[None]:
    """Let a call's own timeout and token count for the work inside, if it was given any."""
    if timeout is None and cancel is None:
        return _ANYTHING
    return _Called(token_of(timeout, cancel))


_ANYTHING = nullcontext()


class watching(AbstractContextManager[None]):  # noqa: N801 - called as a function
    """Let this token count for the work inside; None changes nothing."""

    __slots__ = ("_before", "_token")

    def __init__(self, token: Cancel | None) -> None:
        self._token = token
        self._before: Token[Cancel | None] | None = None

    def __enter__(self) -> None:
        if self._token is not None:
            look_at(self._token)
            self._before = _CURRENT.set(self._token)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._before is not None:
            _CURRENT.reset(self._before)


class _Called(watching):
    """Let the token of a caller count for the work inside, and tell the caller if it fired."""

    __slots__ = ()

    def __enter__(self) -> None:
        try:
            super().__enter__()
        except Cancelled:
            raise _given_up() from None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        super().__exit__(kind)
        if kind is not None and issubclass(kind, Cancelled):
            raise _given_up() from None


def _given_up() -> QueryCancelled:
    return QueryCancelled(
        "the call was cancelled by its `Cancel`, and changed nothing; make it again with a new one"
    )


def stop_looking() -> None:
    """Look a last time: from here on, until the ``watching`` around ends, no token counts.

    For a write that begins to change what others see. Whatever follows belongs to it.
    """
    if _CURRENT.get() is not None:
        look()
        _CURRENT.set(None)


@contextmanager
def shielded() -> Iterator[None]:
    """Let no token count inside: what is begun there is finished."""
    before = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(before)


def watched(token: Cancel | None, items: Iterator[T]) -> Iterator[T]:
    """The items, with the token counting while one is made, and not while the caller has it."""
    if token is None:
        yield from items
        return
    while True:
        with _Called(token):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


def wait_for(done: threading.Event) -> None:
    """Wait until another thread is done, and check the token meanwhile."""
    token = _CURRENT.get()
    if token is None:
        done.wait()
        return
    while not done.wait(token.patience):
        look_at(token)


@contextmanager
def holding(lock: Any) -> Iterator[None]:
    """Hold a lock inside; look while another thread has it."""
    token = _CURRENT.get()
    if token is None:
        lock.acquire()
    else:
        while not lock.acquire(timeout=token.patience):
            look_at(token)
    try:
        yield
    finally:
        lock.release()


class Beside(Generic[T]):
    """A call that runs in a thread of its own; ``result`` waits for it and looks meanwhile.

    Leaving the block early stops it: it ends at its next look, or with the library's call it is in. Nothing
    waits for the call then, so it must leave nothing half done that others could see. With an
    ``interrupt``, which makes the library's call fail, leaving the block waits until the call has ended.
    """

    def __init__(
        self, call: Callable[[], T], interrupt: Callable[[], object] | None = None
    ) -> None:
        self._call = call
        self._interrupt = interrupt
        self._token = Cancel(parent=_CURRENT.get())
        self._begun = threading.Lock()
        self._done = threading.Event()
        self._made: list[T] = []
        self._failure: BaseException | None = None

    def _run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._made.append(self._call())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is wanted
            self._failure = error
        finally:
            self._done.set()

    def result(self) -> T:
        """What the call returned or raised."""
        wait_for(self._done)
        if self._failure is not None:
            raise self._failure
        return self._made[0]

    def __enter__(self) -> Self:
        context = copy_context()
        context.run(_CURRENT.set, self._token)
        try:
            # A daemon: the end of the process does not wait for it either.
            threading.Thread(
                target=context.run, args=(self._run,), name="omnigraph-beside", daemon=True
            ).start()
        except BaseException:  # a signal, and the thread may be running
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._token.cancel()
        # Whoever has the lock first: a call that did not begin never will.
        if self._interrupt is not None and not self._begun.acquire(blocking=False):
            self._end(self._interrupt)

    def _end(self, interrupt: Callable[[], object]) -> None:
        """Interrupt the call until it has ended; a signal that comes meanwhile is raised afterwards."""
        signalled: BaseException | None = None
        while not self._done.is_set():
            try:
                with suppress(Exception):
                    interrupt()
                self._done.wait(_PATIENCE)
            except BaseException as error:  # noqa: BLE001 - what signal handlers raise
                signalled = error
        if signalled is not None:
            raise signalled


def aside(call: Callable[[], T], *, items: int = LONG_ITEMS, minds_signals: bool = False) -> T:
    """Run a call that takes long and cannot look, and stop waiting for it when the work should stop.

    It runs in a thread of its own, unless it works on few ``items``, or there is neither a token nor a
    Ctrl-C to look out for. ``minds_signals``: the call itself ends at Ctrl-C.
    """
    if items < LONG_ITEMS:
        return call()
    if _CURRENT.get() is None and (minds_signals or not _in_main_thread()):
        return call()
    with Beside(call) as running:
        return running.result()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def interruptible(call: Callable[[], T], interrupt: Callable[[], object]) -> T:
    """Run a library's call that cannot look; ``interrupt`` it when the work should stop, or at Ctrl-C.

    Whatever stops it is raised when the call has ended, in place of the library's own error.
    """
    if _CURRENT.get() is None and not _in_main_thread():
        return call()
    with Beside(call, interrupt) as running:
        return running.result()
