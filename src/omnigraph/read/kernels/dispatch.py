"""Choosing between a NumPy function and its compiled twin.

Importing Numba takes most of a second, and compiling a function up to some seconds. Both begin only after
NumPy has worked about as long as they pay off, and happen in the background: until a compiled function is
ready, NumPy goes on. Only a call that would take NumPy seconds waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

from omnigraph import settings
from omnigraph.read.kernels.compiling import COMPILER, Compiler

Loop = TypeVar("Loop", bound=Callable[..., Any])


class Costs(NamedTuple):
    """What compiled loops cost before they help, in nanoseconds of work in NumPy."""

    importing: float = 800_000_000
    """Importing Numba is justified by this much work of all loops."""
    loading: float = 30_000_000
    """Loading one compiled loop is justified by this much work of that loop."""
    calling: float = 50_000
    """A call into compiled code takes this long, so less work is left to NumPy."""
    waiting: float = 3_000_000_000
    """A call with this much work waits until the loop is compiled."""


DEFAULT_COSTS: Final = Costs()


class Dispatch:
    """Which of two loops of the same name to call: NumPy's or the compiled one."""

    # Work of all loops so far. Threads may lose an addition to each other; it is an estimate.
    total = 0.0

    def __init__(
        self, module: str, costs: Costs = DEFAULT_COSTS, compiler: Compiler = COMPILER
    ) -> None:
        self.costs = costs
        self._compiler = compiler
        self._module = module
        self._spent: dict[str, float] = {}

    def choose(self, loop: Loop, cost: float) -> Loop:
        """The loop for work that costs NumPy about ``cost`` nanoseconds. It is called by position."""
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
        return cast("Loop", partial(self._call, loop, waits=cost >= costs.waiting))

    def _call(self, loop: Callable[..., Any], *arguments: Any, waits: bool) -> Any:
        compiled = self._compiler.get(self._module, loop.__name__, *arguments, waits=waits)
        return (loop if compiled is None else compiled)(*arguments)
