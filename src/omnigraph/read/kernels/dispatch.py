"""Choosing between a NumPy function and its compiled twin.

Importing Numba takes most of a second, and loading one compiled function some milliseconds. Both happen
only after NumPy has worked about as long, so a small question never pays for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeVar, cast

from omnigraph import settings
from omnigraph.cancel import aside

Loop = TypeVar("Loop", bound=Callable[..., Any])


class Costs(NamedTuple):
    """What compiled loops cost before they help, in nanoseconds of work in NumPy."""

    importing: float = 800_000_000
    """Importing Numba is justified by this much work of all loops."""
    loading: float = 30_000_000
    """Loading one compiled loop is justified by this much work of that loop."""
    calling: float = 50_000
    """A call into compiled code takes this long, so less work is left to NumPy."""


DEFAULT_COSTS: Final = Costs()


class Dispatch:
    """Which of two loops of the same name to call: NumPy's or the compiled one."""

    # Work of all loops so far. Threads may lose an addition to each other; it is an estimate.
    total = 0.0

    def __init__(self, module: str, costs: Costs = DEFAULT_COSTS) -> None:
        self.costs = costs
        self._module = module
        self._spent: dict[str, float] = {}

    def choose(self, loop: Loop, cost: float) -> Loop:
        """The loop for work that costs NumPy about ``cost`` nanoseconds."""
        costs = self.costs
        if cost < costs.calling:
            return loop
        name = loop.__name__
        Dispatch.total += cost
        self._spent[name] = self._spent.get(name, 0.0) + cost
        if (
            Dispatch.total < costs.importing
            or self._spent[name] < costs.loading
            or not settings.NUMBA.get()
        ):
            return loop
        return cast("Loop", getattr(_imported(self._module), name, loop))


@cache
def _imported(module: str) -> ModuleType | None:
    try:
        return aside(lambda: import_module(module))
    except ImportError:
        return None
