"""The judge of histories finds the anomalies it is there for, in histories made by hand."""

from __future__ import annotations

import pytest

from tests.faults.acid.acid_workers import Event
from tests.faults.acid.history import explain_cycle


def event(name, x=(), y=(), appended=None, at=(0.0, 9.0)):
    return Event(name, {"x": tuple(x), "y": tuple(y)}, appended and (appended, name), *at)


@pytest.mark.parametrize(
    ("events", "final"),
    [
        # One after the other.
        ([event("a", appended="x"), event("b", x="a", appended="x")], {"x": ("a", "b"), "y": ()}),
        # At the same time, on different lists, and each has seen at most what was before it.
        ([event("a", appended="x"), event("b", x="a", appended="y")], {"x": ("a",), "y": ("b",)}),
    ],
)
def test_a_history_with_an_order(events, final):
    assert explain_cycle(events, final) is None


@pytest.mark.parametrize(
    ("events", "final"),
    [
        pytest.param(
            [event("a", appended="x"), event("b", appended="x")],
            {"x": ("a", "b"), "y": ()},
            id="lost update: both appended to the empty list",
        ),
        pytest.param(
            [event("a", appended="x"), event("b", appended="y")],
            {"x": ("a",), "y": ("b",)},
            id="write skew: neither saw the other",
        ),
        pytest.param(
            [event("a", y="b", appended="x"), event("b", x="a", appended="y")],
            {"x": ("a",), "y": ("b",)},
            id="circular: each saw the other",
        ),
        pytest.param(
            [event("a", appended="x", at=(0.0, 1.0)), event("b", at=(2.0, 3.0))],
            {"x": ("a",), "y": ()},
            id="stale: it began later and did not see",
        ),
        pytest.param(
            [event("a", x=("ghost",))], {"x": (), "y": ()}, id="aborted: nobody wrote what it read"
        ),
    ],
)
def test_a_history_without_an_order(events, final):
    assert explain_cycle(events, final) is not None
