"""What names a state: checked arguments, and the moment that a time means."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

import omnigraph as og
from omnigraph.clock import new_ulid
from omnigraph.errors import BadRequest
from omnigraph.manifest.snapshot import Target

NOON = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)
NOON_US = 1777896000123456
WHOLE = "01J9ZQ3V5X8K2M4N6P7R9S0T1W"
END_OF_DAY_US = 1777939200000000 - 1


def test_the_constants_are_what_they_say():
    assert datetime.fromtimestamp(NOON_US // 10**6, UTC) == NOON.replace(microsecond=0)
    end = datetime.fromtimestamp(END_OF_DAY_US // 10**6, UTC)
    assert end == datetime(2026, 5, 4, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("time", "us"),
    [
        (NOON, NOON_US),
        (NOON.replace(tzinfo=None), NOON_US),
        (NOON.astimezone(timezone(timedelta(hours=-9, minutes=-30))), NOON_US),
        ("2026-05-04T12:00:00.123456Z", NOON_US),
        (" 2026-05-04T12:00:00.123456 ", NOON_US),
        ("2026-05-04 14:00:00.123456+02:00", NOON_US),
        ("2026-05-04T12:00:00.1234Z", NOON_US - 56),
        ("2026-05-04T12:00Z", NOON_US - 123456),
        (date(2026, 5, 4), END_OF_DAY_US),
        ("2026-05-04", END_OF_DAY_US),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("9999-12-31", 253402300799999999),
    ],
)
def test_a_time_is_a_moment(time, us):
    assert og.at(time=time) == Target(branch="main", time=us)


@pytest.mark.parametrize(
    "time",
    [
        "yesterday",
        "2026-13-01",
        "2026-02-30",
        "2026-05-04T12:00:00.1234567Z",
        "",
        5,
        True,
        1.5,
        b"",
        "0001-01-01T00:00:00+14:00",
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-14))),
    ],
    ids=str,
)
def test_a_time_that_is_none_is_refused(time):
    with pytest.raises(BadRequest):
        og.at(time=time)


def test_a_missing_timestamp_is_refused():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    with pytest.raises(BadRequest):
        og.at(time=pd.NaT)
    assert og.at(time=pd.Timestamp(NOON)).time == NOON_US


def test_a_target_may_name_one_state_only():
    commit = og.GraphCommit(new_ulid(), None, 1, None, None, None, 0, "init")
    alone = {"snapshot": "01X", "tag": "v1", "at": commit}
    on_branch = {"branch": "main", "version": 3, "time": NOON}
    for name, value in alone.items():
        Target.of(**{name: value})
        for other, given in ({**alone, **on_branch}).items():
            if other != name:
                with pytest.raises(BadRequest, match="more than one state"):
                    Target.of(**{name: value, other: given})
    with pytest.raises(BadRequest, match="not both"):
        Target.of(version=3, time=NOON)
    for name in ("snapshot", "tag"):
        for other in ({"branch": "main"}, {"version": 3}, {"time": NOON_US}):
            with pytest.raises(BadRequest, match="more than one state"):
                Target(**{name: "01X"}, **other)


def test_values_that_stand_for_a_state():
    commit = og.GraphCommit(new_ulid(), "side", 7, None, None, None, 0, "load")
    by_id = Target(snapshot=commit.graph_commit_id)
    assert Target.of(at=commit) == by_id
    assert Target.of(at=by_id) is by_id
    assert Target.of(at=" side ") == Target(branch="side")
    assert Target.of(at=NOON) == Target(branch="main", time=NOON_US)
    assert Target.of(at=NOON.date()) == og.at(time=NOON.date())
    for wrong in (5, {"branch": "main"}, ["main"]):
        with pytest.raises(BadRequest, match="names no state"):
            Target.of(at=wrong)


def test_only_a_branch_alone_names_a_head():
    assert og.at().names_a_head
    assert og.at("side").names_a_head
    for past in (og.at(version=1), og.at(time=NOON), og.at(tag="v1"), og.at(snapshot="01X")):
        assert not past.names_a_head


def test_what_a_target_says_of_itself():
    assert str(og.at("side", time=NOON)) == "branch side at 2026-05-04T12:00:00.123456Z"
    assert str(og.at(tag="v1")) == "tag v1"
    assert og.at(tag="v1").to_json() == {"branch": None, "snapshot": None, "tag": "v1"}
    assert og.at(time=NOON).to_json()["time"] == NOON_US


@pytest.mark.parametrize(
    ("word", "target"),
    [
        ("main", Target(branch="main")),
        ("review/may", Target(branch="review/may")),
        ("review/may@12", Target(branch="review/may", version=12)),
        ("commit:01ABC", Target(snapshot="01ABC", is_prefix=True)),
        (f"commit:{WHOLE}", Target(snapshot=WHOLE)),
        ("tag:v1", Target(tag="v1")),
        (" tag:a/rc.1 ", Target(tag="a/rc.1")),
    ],
)
def test_one_word_names_a_target(word, target):
    assert Target.of_text(word) == target


@pytest.mark.parametrize(
    "word", ["", " ", "tag:", "commit: ", "snapshot:x", "main@", "main@x", "@3"]
)
def test_a_word_that_names_nothing_is_refused(word):
    with pytest.raises(BadRequest):
        Target.of_text(word)
