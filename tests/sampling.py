"""Which cases of a wide test run: a sample in the suite, all of them with `./dev faults --all`.

A test over many combinations (every writer x every way a branch goes) is marked ``sampled(n)``. The suite
then runs about n of its cases: every value of every parameter at least once, and others by chance; with
``every=()`` just n by chance. The sample is the same in every run of one seed, so that a failure can be
repeated. A test that takes minutes and has a smaller relative in the suite is marked ``thorough``: it runs with
`./dev faults --all`, and when its file is named.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

ALL = "FAULTS_ALL"
SEED = "FAULTS_SEED"
FRESH = pytest.param(secrets.randbelow(2**32), id="fresh", marks=pytest.mark.thorough)
"""A seed that no run had before, shown by a failure. The suite goes without, to give the same verdict again."""


def runs_all() -> bool:
    """Whether every case shall run."""
    return bool(os.environ.get(ALL))


def examples(number: int) -> int:
    """How many examples of a property run: a quarter in the suite, where they are the same each time."""
    return number if runs_all() else max(5, number // 4)


def seed() -> str:
    """What the sample is drawn by."""
    return os.environ.get(SEED) or "0"


def deselect_cases(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out thorough tests, and the cases of sampled tests that are not in the sample."""
    if runs_all():
        return
    named = {str(arg).partition("::")[0] for arg in config.args}
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = {item for name, cases in tests.items() for item in _left_out(name, cases)}
    left_out |= {
        item
        for item in items
        if item.get_closest_marker("thorough") and item.nodeid.partition("::")[0] not in named
    }
    deselect(config, items, left_out)


def deselect(config: pytest.Config, items: list[pytest.Item], left_out: set[pytest.Item]) -> None:
    """Leave these tests out of the run."""
    if left_out:
        config.hook.pytest_deselected(items=sorted(left_out, key=lambda item: item.nodeid))
        items[:] = [item for item in items if item not in left_out]


def _left_out(name: str, cases: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    marker = cases[0].get_closest_marker("sampled")
    assert marker is not None
    parameters = [item.callspec.params for item in cases]
    every = marker.kwargs.get("every", tuple(parameters[0]))
    kept = chosen(parameters, marker.args[0], f"{seed()} {name}", every)
    return (item for at, item in enumerate(cases) if at not in kept)


def chosen(
    cases: Sequence[Mapping[str, Any]], wanted: int, seed: str, every: Sequence[str]
) -> set[int]:
    """Return which cases run: every value of the parameters in ``every``, then more up to ``wanted``."""
    order = list(range(len(cases)))
    random.Random(seed).shuffle(order)
    missing = {value for case in cases for value in _values(case, every)}
    kept: set[int] = set()
    while missing:
        gains = [len(missing & _values(cases[at], every)) for at in order]
        best = order[gains.index(max(gains))]
        kept.add(best)
        missing -= _values(cases[best], every)
    for at in order:
        if len(kept) >= wanted:
            break
        kept.add(at)
    return kept


def _values(case: Mapping[str, Any], names: Sequence[str]) -> set[tuple[str, str]]:
    return {(name, repr(case[name])) for name in names}


def header() -> str:
    """What a run says about its wide tests."""
    if runs_all():
        return "wide tests: every case"
    return f"wide tests: a sample by seed {seed()}; ./dev faults --all runs every case"
