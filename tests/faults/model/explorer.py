"""Look at every state that a model can reach, breadth first.

A model gives the states that follow a state; ``explore`` visits all of them once. A broken invariant is
reported with the shortest run that leads to it. When all states are known, it checks that each of them can
still come to an end without any further failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S")


class Step(NamedTuple, Generic[S]):
    """One step of a model: its name, where it leads, and whether it is a failure."""

    name: str
    to: S
    failure: bool = False


class Broken(AssertionError):
    """An invariant does not hold; the message tells the run that breaks it."""


@dataclass
class Explored:
    """What was looked at."""

    states: int = 0
    steps: int = 0
    ends: int = 0
    names: set[str] = field(default_factory=set)


def explore(
    start: S,
    steps: Callable[[S], Iterable[Step[S]]],
    broken: Callable[[S], str | None],
    is_end: Callable[[S], bool],
    limit: int = 2_000_000,
) -> Explored:
    """Visit every state; raise ``Broken`` where an invariant fails or the model is stuck.

    ``steps`` may raise ``Broken`` itself when a step does what nobody may do.
    """
    found = Explored()
    number = {start: 0}
    order = [start]
    came: list[tuple[int, str]] = [(-1, "")]
    back: list[list[int]] = [[]]  # the states before each one, by steps that are no failures
    at = 0
    while at < len(order):
        state = order[at]
        why = broken(state)
        if why is not None:
            raise Broken(_told(why, at, came, order))
        try:
            following = list(steps(state))
        except Broken as step:
            raise Broken(_told(str(step), at, came, order)) from None
        for name, to, failure in following:
            found.steps += 1
            found.names.add(name)
            if to not in number:
                number[to] = len(order)
                order.append(to)
                came.append((at, name))
                back.append([])
            if not failure:
                back[number[to]].append(at)
        assert len(order) < limit, "the model has more states than it should"
        at += 1
    found.states = len(order)
    ends = [at for at, state in enumerate(order) if is_end(state)]
    found.ends = len(ends)
    stuck = set(range(len(order))) - _reaching(ends, back)
    if stuck:
        raise Broken(_told("no end can be reached any more", min(stuck), came, order))
    return found


def _reaching(ends: Iterable[int], back: list[list[int]]) -> set[int]:
    """The states from which an end can be reached."""
    reaching = set(ends)
    left = list(reaching)
    while left:
        for before in back[left.pop()]:
            if before not in reaching:
                reaching.add(before)
                left.append(before)
    return reaching


def _told(why: str, at: int, came: list[tuple[int, str]], order: list[S]) -> str:
    run = []
    here = at
    while here > 0:
        here, name = came[here]
        run.append(name)
    return "\n  ".join([why, *reversed(run), f"then: {order[at]}"])
