"""The protocol, tried in every order of its steps: what it promises holds in every state it can reach.

Each scenario is explored to the end: every interleaving of the writers, of the process that opens the graph,
and of the failures that the scenario allows, at every step. Then each rule of the protocol is left out in
turn, and the invariants must notice.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import omnigraph.commit.attempts  # noqa: F401 - it declares a point
from omnigraph import failpoints
from omnigraph.commit.protocol import MOMENTS
from tests.faults.model.explorer import Broken, Explored, Step, explore
from tests.faults.model.points import WRITER
from tests.faults.model.protocol_model import Model
from tests.faults.model.states import Config, Spec, canonical
from tests.measured import MEASURED
from tests.sampling import runs_all

BOTH, FIRST, SECOND = Spec((0, 1)), Spec((0,)), Spec((1,))
FIRST_BY_SECOND, SECOND_BY_FIRST = Spec((0,), (1,)), Spec((1,), (0,))

SCENARIOS = {
    "three writers of both tables, two crashes": Config((BOTH,) * 3, crashes=2),
    "a dead writer, one of each table, a crash": Config(
        (BOTH, FIRST, SECOND), begins_with_the_dead=True
    ),
    "each relies on what the other writes": Config((FIRST_BY_SECOND, SECOND_BY_FIRST)),
    "a crash and a failing store": Config((BOTH,) * 2, faults=1),
    "a foreign program": Config((BOTH,) * 2, foreign=1, faults=1),
    "first writes on a branch": Config((BOTH,) * 2, crashes=2, unforked=(1,)),
    "a branch that is deleted": Config((BOTH,) * 2, crashes=2, unforked=(0, 1), branch_ends=True),
    "a lease that ends under its holder": Config((BOTH,) * 2, crashes=0, expiries=1),
    "a lease that ends before an optional step": Config(
        (FIRST,) * 2, crashes=0, expiries=1, optional_step=True
    ),
    "the manifest is compacted": Config((FIRST, SECOND), compacts=True),
}
LONG = {
    "one writer of both and one of each, two crashes": Config((BOTH, FIRST, SECOND), crashes=2),
    "each of two relies on what the other writes": Config((FIRST_BY_SECOND, SECOND_BY_FIRST, BOTH)),
    "three writers, a crash and a failing store": Config((BOTH,) * 3, faults=1),
    "three first writers on a branch, two crashes": Config((BOTH,) * 3, crashes=2, unforked=(1,)),
    "a lease that ends, and a crash": Config((BOTH,) * 2, expiries=1),
    "three writers, the manifest is compacted": Config((FIRST, SECOND, BOTH), compacts=True),
}

RULES = {
    "sidecar": Config((BOTH, FIRST)),
    "phase_order": Config((BOTH, FIRST)),
    "sidecar_until_c": Config((BOTH, FIRST)),
    "locks_until_d": Config((BOTH,) * 2),
    "pin_check": Config((BOTH,) * 2, crashes=0),
    "relied_on": Config((FIRST_BY_SECOND, SECOND_BY_FIRST), crashes=0),
    "writer_locks": Config((BOTH,) * 2),
    "still_pending": Config((BOTH,) * 2),
    "published_check": Config((BOTH,) * 2, crashes=2),
    "all_tables": Config((BOTH, FIRST)),
    "restore_id": Config((BOTH, FIRST), crashes=2),
    "pins_restored": Config((BOTH, FIRST)),
    "audit_check": Config((BOTH, FIRST), crashes=2),
    "keeps_sidecar": Config((BOTH, FIRST), faults=1, crashes=0),
    "judged_rollback": Config((BOTH,) * 2, crashes=2),
    "let_go": Config((BOTH, FIRST, SECOND), crashes=0, begins_with_the_dead=True),
    "lease_checks": Config((BOTH,) * 2, crashes=0, expiries=1),
    "covers_again": Config((BOTH,) * 2, crashes=0, expiries=1),
    "finds_own_commit": Config((FIRST,) * 2, crashes=0, expiries=1, optional_step=True),
}
"""The rules that the model can do without, each with a scenario in which that is noticed."""


def run(config: Config) -> tuple[Explored, Model]:
    model = Model(config)
    start = canonical(config.start(), config)
    return explore(start, model.steps, model.broken, model.is_end), model


@pytest.mark.parametrize("name", [*SCENARIOS, *(LONG if runs_all() else ())])
def test_every_state_keeps_the_promises(name, record_property):
    found, _ = run((SCENARIOS | LONG)[name])
    assert found.ends > 0
    record_property(MEASURED, f"{found.states} states, {found.steps} steps, {found.ends} ends")


def test_the_steps_of_the_model_are_the_failpoints_of_the_protocol():
    """Together these pass every point, and none that does not exist."""
    few = ("first writes on a branch", "a branch that is deleted", "the manifest is compacted")
    passed = set().union(*(run(SCENARIOS[name])[1].passed for name in few))
    writers = {f"{WRITER}.{moment}" for moment in MOMENTS}
    declared = {
        name
        for name in failpoints.registered()
        if name.startswith(("publish.", "recovery.", "attempt."))
    } | writers
    assert {name for name in passed if "." in name} == declared


@pytest.mark.parametrize("rule", RULES)
def test_a_protocol_without_one_of_its_rules_is_found_out(rule):
    with pytest.raises(Broken) as told:
        run(replace(RULES[rule], without=frozenset({rule})))
    assert len(str(told.value).splitlines()) > 3  # it tells the run that leads there


# ------------------------------------------------------------------ the explorer itself


def counting(at: int) -> list[Step[int]]:
    return [Step("up", at + 1)] if at < 3 else []


def test_the_explorer_visits_every_state_once():
    found = explore(0, counting, lambda _: None, lambda at: at == 3)
    assert (found.states, found.steps, found.ends) == (4, 3, 1)


def test_the_explorer_tells_the_shortest_run_to_a_broken_state():
    def steps(at):
        return [Step("slow", at + 1), Step("fast", at + 2)] if at < 4 else []

    with pytest.raises(Broken, match=r"^no four\n  fast\n  fast\n  then: 4$"):
        explore(0, steps, lambda at: "no four" if at == 4 else None, lambda _: True)


def test_the_explorer_notices_what_cannot_end_but_by_a_failure():
    def steps(at):
        if at == 0:
            return [Step("on", 1), Step("wait", 2)]
        return [Step("crash", 1, failure=True), Step("wait", 2)] if at == 2 else []

    with pytest.raises(Broken, match="no end can be reached"):
        explore(0, steps, lambda _: None, lambda at: at == 1)
