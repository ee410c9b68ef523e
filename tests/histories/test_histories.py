"""Random histories of branches, merges, tags, reverts, cleanups and crashes, judged by the plain model."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests import sampling
from tests.histories.machine import RULES, History
from tests.histories.steps import RAN, SHAPES
from tests.measured import MEASURED

STEPS = int(os.environ.get("FAULTS_STEPS", "150"))
AT_LEAST = 10 if STEPS >= 600 else 3
MAX_ROUNDS = 40
FIRST = 106
"""The seed of the first round: one that soon comes to the rarest of shapes."""
LONG = settings(
    max_examples=4,
    stateful_step_count=40,
    deadline=None,
    database=None,
    # A shrunk history would be kinder to read, but takes hours: the seed repeats it as it was.
    phases=(Phase.generate, Phase.target),
    suppress_health_check=list(HealthCheck),
    verbosity=Verbosity.quiet,
    print_blob=False,
)


def test_the_graph_does_what_the_plain_model_does(record_property, monkeypatch):
    """At least so many steps, and every rule often enough; more with `./dev faults --steps N`.

    In every second history upkeep merges fragments after each few commits.
    """
    RAN.clear()
    first = int(os.environ.get(sampling.SEED) or FIRST)
    for number in range(first, first + MAX_ROUNDS):
        monkeypatch.setenv("OMNIGRAPH_UPKEEP_FRAGMENTS", "3" if number % 2 else "64")
        machine = seed(number)(type("History", (History,), {}))
        try:
            run_state_machine_as_test(machine, settings=LONG)
        except BaseException as failure:
            failure.add_note(f"this history: ./dev faults --seed {number} tests/histories")
            raise
        if RULES.steps >= STEPS and RULES.run_often(AT_LEAST) and all(RAN[name] for name in SHAPES):
            break
    counted = ", ".join(f"{name} {RAN[name]}" for name in sorted(RAN))
    record_property(MEASURED, f"seeds {first} to {number}, {RULES.steps} steps: {counted}")
    assert {name: RAN[name] for name in RULES.weights if RAN[name] < AT_LEAST} == {}
    assert {name for name in SHAPES if not RAN[name]} == set()
