"""The sample of a wide test: every value of every parameter, the same again for the same seed."""

from __future__ import annotations

import itertools

from tests.sampling import ALL as EVERY_CASE
from tests.sampling import chosen, examples

CASES = [
    {"writer": writer, "shape": shape, "place": place}
    for writer, shape, place in itertools.product("abcdefgh", range(5), ("disk", "s3"))
]
ALL = ("writer", "shape", "place")


def test_every_value_of_every_parameter_is_in_the_sample():
    for seed in "0123456789":
        kept = [CASES[at] for at in chosen(CASES, 12, seed, ALL)]
        assert len(kept) == 12
        for name in CASES[0]:
            assert {case[name] for case in kept} == {case[name] for case in CASES}


def test_a_sample_too_small_for_all_values_grows_until_they_are_in():
    kept = [CASES[at] for at in chosen(CASES, 1, "0", ALL)]
    assert {case["writer"] for case in kept} == set("abcdefgh")
    assert len(kept) < len(CASES) / 2


def test_the_sample_of_a_seed_is_the_same_and_another_seed_has_another():
    assert chosen(CASES, 12, "7", ALL) == chosen(CASES, 12, "7", ALL)
    assert len({frozenset(chosen(CASES, 12, str(seed), ALL)) for seed in range(10)}) == 10


def test_a_wish_for_more_than_there_are_takes_them_all():
    assert chosen(CASES, 1000, "0", ALL) == set(range(len(CASES)))


def test_without_parameters_to_cover_just_as_many_as_wished_run():
    assert len(chosen(CASES, 2, "0", ())) == 2


def test_the_suite_tries_some_examples_of_a_property_and_the_long_run_all(monkeypatch):
    monkeypatch.delenv(EVERY_CASE, raising=False)
    assert [examples(number) for number in (5, 30, 100, 600)] == [5, 7, 25, 150]
    monkeypatch.setenv(EVERY_CASE, "1")
    assert [examples(number) for number in (5, 30, 100, 600)] == [5, 30, 100, 600]
