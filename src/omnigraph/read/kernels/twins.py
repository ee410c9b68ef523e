"""Renting NumPy or buying Numba: which of two loops with the same answer runs.

Numba is 1.5 to 60 times as fast where loops are long. But importing it takes most of a second, and a loop is then
loaded from disk in some hundredths of a second, or compiled in seconds the first time on a machine. A process that
ends soon never gets that back, and no process knows when it will end. So it does what a skier does who does not know
how often he will ski: he rents until the rents have cost as much as skis.

    ``pull`` over six million edges takes NumPy 0.1 s; eight calls        0.8 s spent
    importing Numba took 0.8 s the last time: the ninth call buys         0.8 s, once
    every later call                                                      0.04 s

Whatever comes, that takes at most twice as long as the better of the two would have. What the import took, and which
loops Numba has compiled on this machine, is kept in the cache directory for later processes.

The call that buys waits for it, and calls of other threads go on in NumPy meanwhile. That also holds for a child
forked in the middle of an import: there the lock stays taken, and nothing ever waits for it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from time import thread_time
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar, cast

from omnigraph import settings
from omnigraph.errors import OmniGraphError

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
Loop = TypeVar("Loop", bound=Callable[..., Any])

# The kept file is no longer than this; one that is longer is not ours.
_MOST_BYTES: Final = 1 << 16
# No import takes longer than this number of seconds; a longer one was measured while the machine stood still.
_MOST_SECONDS: Final = 10.0


class Prices(NamedTuple):
    """What Numba costs before it helps, in seconds of processor time."""

    importing: float = 1.0
    """The import, until it was measured on this machine."""
    loading: float = 0.03
    """A loop that was compiled on this machine before."""
    compiling: float = 3.0
    """A loop that was not."""
    calling: float = 50e-6
    """A call into compiled code; less work is left to NumPy, and not counted."""
    waiting: float = 3.0
    """A call that takes NumPy this long counts before it is made: it alone is worth buying for."""


class KeptPrices:
    """What was measured on this machine, kept in a file: the seconds of the import, then a line for each loop.

    Whatever is in the file only decides when to buy. So what cannot be read counts as nothing, and what cannot be
    written is not kept.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.importing: float | None = None
        self.compiled: set[str] = set()
        with contextlib.suppress(OSError, ValueError):
            if path is not None and path.stat().st_size <= _MOST_BYTES:
                seconds, *names = path.read_text("utf-8").splitlines()
                # Not a number is neither above nor below.
                if (importing := float(seconds)) == importing:
                    self.importing = min(max(importing, 0.0), _MOST_SECONDS)
                    self.compiled.update(names)

    @staticmethod
    def of_settings() -> KeptPrices:
        """Those in the cache directory; where there is none, nothing is kept."""
        try:
            return KeptPrices(settings.CACHE_DIR.get() / "numba.txt")
        except OmniGraphError:
            return KeptPrices(None)

    def keep(self) -> None:
        """Write them down for later processes."""
        if self._path is None or self.importing is None:
            return
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_text("\n".join([str(self.importing), *sorted(self.compiled)]), "utf-8")
            draft.replace(self._path)


class Account:
    """What this process has spent in NumPy's long loops, and which loops it has bought."""

    def __init__(self, prices: Prices, kept: KeptPrices | None = None) -> None:
        self.prices = prices
        self._kept = kept
        # Threads may lose an addition to each other: that buys a little later.
        self._spent: dict[str, float] = {}
        self._bought: dict[str, Callable[..., Any] | None] = {}
        # Held by the thread that buys; nobody waits for it.
        self._buying = threading.Lock()

    @property
    def bought(self) -> set[str]:
        """The loops that run compiled, each with the types of its arguments."""
        return {name for name, loop in self._bought.items() if loop is not None}

    def run(self, loop: Callable[..., Any], arguments: tuple[Any, ...], seconds: float) -> Any:
        """Call a loop, compiled if that pays by now; ``seconds`` is about what NumPy takes for it."""
        name = _name(loop, arguments)
        compiled = self._bought.get(name)
        if compiled is not None:
            return compiled(*arguments)
        if self._pays(name, seconds) and self._buying.acquire(blocking=False):
            try:
                return self._buy(name, loop, arguments, seconds)
            finally:
                self._buying.release()
        began = thread_time()
        try:
            return loop(*arguments)
        finally:
            self._spent[name] = self._spent.get(name, 0.0) + thread_time() - began

    def _pays(self, name: str, seconds: float) -> bool:
        """Whether NumPy has cost as much as Numba would have; not for what Numba could not do."""
        if name in self._bought or not settings.NUMBA.get():
            return False
        if self._kept is None:
            self._kept = KeptPrices.of_settings()
        prices, kept = self.prices, self._kept
        importing = prices.importing if kept.importing is None else kept.importing
        if "numba" in sys.modules:
            importing = 0.0
        loading = prices.loading if name in kept.compiled else prices.compiling
        # What a short call will take is only a guess, and counts once it is measured.
        ahead = seconds if seconds >= prices.waiting else 0.0
        spent = sum(list(self._spent.values()))
        return self._spent.get(name, 0.0) + ahead >= loading and spent + ahead >= importing

    def _buy(
        self, name: str, loop: Callable[..., Any], arguments: tuple[Any, ...], seconds: float
    ) -> Any:
        """Import and load the compiled twin, and call it; if that fails, NumPy goes on doing the work."""
        is_first, began = "numba" not in sys.modules, thread_time()
        try:
            module = import_module(f"{loop.__module__}_numba")
            compiled: Callable[..., Any] = getattr(module, loop.__name__)
            found = compiled(*arguments)
        except OmniGraphError:  # the caller's time is up
            raise
        except ImportError as error:
            logger.debug("loops are not compiled: %s", error)
        except Exception as error:  # whatever Numba raises, NumPy does the same work
            logger.warning("the loop %s is not compiled", loop.__name__, exc_info=error)
        else:
            self._bought[name] = compiled
            if self._kept is not None:
                self._note(self._kept, name, seconds, thread_time() - began if is_first else None)
            return found
        self._bought[name] = None
        return loop(*arguments)

    def _note(self, kept: KeptPrices, name: str, seconds: float, took: float | None) -> None:
        """Keep what was bought, and what the first one took.

        Much of what the import costs comes with the first call. That says what it costs later processes only if
        nothing had to be compiled, and if the loop itself was a small part of it.
        """
        if name in kept.compiled and took is not None and seconds * 4 < took:
            kept.importing = took
        elif name in kept.compiled:
            return
        if kept.importing is None:
            kept.importing = self.prices.importing
        kept.compiled.add(name)
        kept.keep()


account = Account(Prices())
"""The one of this process."""


def with_twin(seconds: Callable[..., float]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a loop in NumPy run compiled where that pays, by the loop of that name in the module ``…_numba``.

    ``seconds`` says from its positional arguments how long NumPy takes, roughly. Keywords are sizes that only
    NumPy's loop knows, so a call that gives one is NumPy's.
    """

    def decorate(loop: Callable[P, R]) -> Callable[P, R]:
        @wraps(loop)
        def run(*arguments: P.args, **sizes: P.kwargs) -> R:
            if sizes or (expected := seconds(*arguments)) < account.prices.calling:
                return loop(*arguments, **sizes)
            return cast("R", account.run(loop, arguments, expected))

        return run

    return decorate


def in_numpy(loop: Loop) -> Loop:
    """The loop without its twin, for a loop that is counted as a whole, and for tests."""
    return cast("Loop", loop.__wrapped__)  # type: ignore[attr-defined]


def _name(loop: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """A loop and the types it is called with: it is compiled for each of them anew."""
    types = (str(getattr(given, "dtype", type(given).__name__)) for given in arguments)
    return " ".join((loop.__name__, *types))
