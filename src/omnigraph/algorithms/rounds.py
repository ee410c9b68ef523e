"""Rounds: how algorithms that work in rounds go on and when they stop. This is part of what they mean.

An engine gives the function that does one round on its own state and says whether that was the last one:

    pagerank            all ranks anew from those before; the last if they changed by less than ``tolerance`` in sum
    label_propagation   all labels anew from those before; the last if none changed

``iterations`` counts every round that was run, the last one included. ``converged`` says that one of them was the
last by that rule; otherwise the rounds were used up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from omnigraph.cancel import look

OnRound = Callable[[int, int], object]
"""Called after each round: how many are done, and how many there are at most (0 if that is not known)."""


class Ran(NamedTuple):
    """How many rounds were run, and whether the algorithm had converged after the last one."""

    iterations: int
    converged: bool


ONE_PASS = Ran(1, True)
"""What does not work in rounds."""


def run_rounds(most: int, run_round: Callable[[], bool], on_round: OnRound) -> Ran:
    """Run rounds until one is the last, at most this many."""
    for done in range(1, most + 1):
        look()
        is_last = run_round()
        on_round(done, most)
        if is_last:
            return Ran(done, True)
    return Ran(most, False)
