"""Comparing any two states of a random history finds what a full scan finds."""

from __future__ import annotations

import tempfile
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

import omnigraph as og
from tests.changes.comparing import check, side_of
from tests.changes.histories import SCHEMA, History


@settings(max_examples=6)
@given(random=st.randoms(use_true_random=False), steps=st.integers(4, 14))
def test_any_two_states_compare_as_a_full_scan_does(random: Random, steps: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        history = History(og.init(f"{place}/g", SCHEMA), random)
        for _ in range(steps):
            history.step()
        with history.graph as graph:
            for _ in range(8):
                before, after = random.choice(history.states), random.choice(history.states)
                for table_key in ("node:Doc", "edge:Cites"):
                    sides = (side_of(graph, state, table_key) for state in (before, after))
                    differing = check(*sides)
                    event("differences" if differing else "no difference")
