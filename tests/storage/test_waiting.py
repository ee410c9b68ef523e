"""How long one waits for a lock: arithmetic, without a clock."""

from __future__ import annotations

import pytest

from omnigraph.storage.waiting import Patience, Purpose

FAST, SLOW = Purpose("mutation"), Purpose("load", slow=True)


def wait_for(patience: Patience, holder: Purpose) -> float:
    """Wait until there is no patience for the holder; how long that was."""
    waited = 0.0
    while patience.is_left_for(holder):
        step = patience.left()
        patience.spend(step)
        waited += step
        assert waited < 1000
        if step < 1e-6:
            break
    return waited


def test_patience_ends_after_its_time():
    patience = Patience(10_000)
    assert patience.is_left_for(FAST)
    assert wait_for(patience, FAST) == pytest.approx(10)
    assert not patience.is_left_for(FAST)


def test_for_a_slow_holder_one_waits_ten_times_as_long():
    assert wait_for(Patience(10_000), SLOW) == pytest.approx(100, rel=0.01)


def test_time_spent_on_a_slow_holder_leaves_patience_for_the_next():
    patience = Patience(10_000)
    patience.spend(10)
    assert patience.is_left_for(SLOW)
    assert patience.left() == pytest.approx(9)
    patience.spend(5)
    assert patience.is_left_for(FAST)
    assert wait_for(patience, FAST) == pytest.approx(4)


def test_without_patience_nobody_is_waited_for():
    assert not Patience(0).is_left_for(SLOW)
    assert not Patience(0).is_left_for(FAST)
