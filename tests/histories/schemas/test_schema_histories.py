"""Random histories of branches with schemas of their own, judged by the plain model."""

from __future__ import annotations

import os
from random import Random

from tests import sampling
from tests.histories.schemas.edits import EDITS
from tests.histories.schemas.machine import RULES, SchemaHistory
from tests.histories.schemas.steps import SHAPES
from tests.histories.steps import RAN
from tests.measured import MEASURED

STEPS = int(os.environ.get("FAULTS_STEPS", "600" if sampling.runs_all() else "150"))
LENGTH = 60
AT_LEAST = 10 if STEPS >= 600 else 2
LONG = 2_000  # steps in which every kind of conflict comes up
MAX_HISTORIES = 60
FIRST = 1


def run_history(number: int, monkeypatch) -> None:
    """One history; in every second one, upkeep merges fragments after each few commits."""
    monkeypatch.setenv("OMNIGRAPH_UPKEEP_FRAGMENTS", "3" if number % 2 else "64")
    rnd = Random(f"schemas {number}")
    history = SchemaHistory()
    done = []
    try:
        while len(done) < LENGTH:
            done.append(history.step(rnd))
        history.check_all()
    except BaseException as failure:
        failure.add_note(f"after {', '.join(done)}")
        failure.add_note(f"this history: ./dev faults --seed {number} tests/histories/schemas")
        raise
    finally:
        history.close()


def kinds_left() -> set[str]:
    """The kinds of schema changes that have not come up in histories long enough for all of them."""
    return {kind for kind in EDITS if RULES.steps >= 600 and not RAN[f"step: {kind}"]}


def test_the_graph_does_what_the_plain_model_does(record_property, monkeypatch):
    """At least so many steps, and every rule often enough; more with `./dev faults --steps N`."""
    RAN.clear()
    first = int(os.environ.get(sampling.SEED) or FIRST)
    for number in range(first, first + MAX_HISTORIES):
        run_history(number, monkeypatch)
        if RULES.steps >= STEPS and RULES.run_often(AT_LEAST) and not kinds_left():
            break
    counted = ", ".join(f"{name} {RAN[name]}" for name in sorted(RAN))
    record_property(MEASURED, f"seeds {first} to {number}, {RULES.steps} steps: {counted}")
    assert {name: RAN[name] for name in RULES.weights if RAN[name] < AT_LEAST} == {}
    assert kinds_left() == set()
    if RULES.steps >= LONG:
        assert {name for name in SHAPES if not RAN[name]} == set()
