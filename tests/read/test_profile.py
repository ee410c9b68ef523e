"""Profiles: phases nested as they ran."""

import pytest

from omnigraph.read.profile import Phase, Profile, Profiled, timed


def test_steps_nest_as_they_ran():
    profile = Profile()
    with profile.step("match") as match:
        with profile.step("scan") as scan:
            scan.rows = 3
        with profile.step("expand"):
            pass
        match.rows = 7
    with profile.step("order"):
        pass
    assert [phase.name for phase in profile.phases] == ["match", "order"]
    assert [(phase.name, phase.rows) for phase in profile.phases[0].phases] == [
        ("scan", 3),
        ("expand", None),
    ]
    assert profile.phases[0].rows == 7


def test_a_phase_lasts_at_least_as_long_as_what_is_in_it():
    profile = Profile()
    with profile.step("outer"), profile.step("inner"):
        sum(range(1000))
    (outer,) = profile.phases
    assert 0 < outer.phases[0].milliseconds <= outer.milliseconds


def test_a_failing_step_is_closed():
    profile = Profile()
    with pytest.raises(ZeroDivisionError), profile.step("fails"):
        _ = 1 / 0
    with profile.step("next"):
        pass
    assert [phase.name for phase in profile.phases] == ["fails", "next"]


def test_without_a_profile_nothing_is_recorded():
    with timed(None, "anything") as phase:
        phase.rows = 1
    profile = Profile()
    with timed(profile, "something") as phase:
        phase.rows = 2
    assert [(phase.name, phase.rows) for phase in profile.phases] == [("something", 2)]


def test_the_text_is_an_indented_table():
    steps = (
        Phase("match", 12, 1.5, [Phase("scan $p", 1000, 1.25, [], "scan", 900, 4000)]),
        Phase("order", None, 10.0),
    )
    assert Profiled(None, steps).text.splitlines() == [
        "phase      estimated  rows     ms  bytes",
        "match                   12   1.50       ",
        "  scan $p        900  1000   1.25   4000",
        "order                       10.00       ",
    ]
