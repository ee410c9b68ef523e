"""Pages: any way of splitting gives the same changes, and no page is larger than it may be."""

import bisect
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.changes.cursors import CommitToken, read_token, write_token
from omnigraph.changes.pages import Budget, behind, check_changes, check_commits, take
from omnigraph.errors import BadRequest, CursorRejected, ResourceLimit


@dataclass(frozen=True)
class Change:
    """A change of a given size."""

    kind: str
    type: str
    id: str
    size: int = 0

    def to_json(self):
        return {"id": "x" * self.size}


def after(changes, place):
    """The changes behind a place, found as a diff finds them: those after the id it holds."""
    if place is None:
        return iter(changes)
    order = [("node", "edge").index(change.kind) for change in changes]
    keys = [(at, change.type, change.id) for at, change in zip(order, changes, strict=True)]
    start = (("node", "edge").index(place.kind), place.type, place.id)
    return behind(iter(changes[bisect.bisect_right(keys, start) :]), place)


BYTES = 300
IDS = st.text(min_size=1, max_size=6) | st.text(min_size=1, max_size=2).map(lambda s: s * 700)
CHANGES = st.lists(
    st.builds(
        Change, st.sampled_from(["node", "edge"]), st.sampled_from("AB"), IDS,
        st.sampled_from([0, 10, BYTES // 3, BYTES + 1]),
    ),
    unique_by=lambda one: (one.kind, one.type, one.id),
    max_size=12,
)  # fmt: skip


@given(CHANGES, st.data())
def test_splitting_at_any_limit_gives_the_same_changes(changes, data):
    changes.sort(key=lambda one: (("node", "edge").index(one.kind), one.type, one.id))
    place, got = None, []
    while True:
        budget = Budget(data.draw(st.integers(1, 4)), BYTES)
        page = take(after(changes, place), budget)
        got += page.changes
        if not page.has_more:
            break
        assert page.changes, "a page goes on"
        large = [one for one in page.changes if one.size > BYTES]
        assert not large or len(page.changes) == 1, "a large change travels alone"
        text = write_token("g", CommitToken("c", "f", page.place))
        place = read_token("g", text, CommitToken).place
    assert got == changes


def test_a_block_that_ends_with_the_budget_has_no_more():
    changes = [Change("node", "A", str(at)) for at in range(3)]
    budget = Budget(3)
    assert not take(changes, budget).has_more
    assert budget.is_used_up
    assert take(changes, Budget(2)).has_more
    # Nothing of the next block fits: it waits as a whole.
    assert take(changes, budget).changes == []


def test_a_place_that_is_no_longer_there_is_refused():
    place = take([Change("node", "A", "x" * 2000)], Budget(1)).place
    with pytest.raises(CursorRejected):
        behind(iter([Change("node", "A", "y")]), place)


def test_limits():
    assert (check_changes(None), check_changes(8192), check_commits(None)) == (1000, 8192, 128)
    for wrong in (0, -1, 1.5, True, "1"):
        with pytest.raises(BadRequest):
            check_changes(wrong)
    with pytest.raises(ResourceLimit) as caught:
        check_changes(8193)
    assert (caught.value.details["limit"], caught.value.details["actual"]) == (8192, 8193)
    with pytest.raises(ResourceLimit):
        check_commits(513)
