"""What a cleanup keeps, and the reasons it gives, for any facts: no graph is needed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import BadRequest
from omnigraph.maintenance.cleanup.cleanup import check_policy
from omnigraph.maintenance.cleanup.keep_set import (
    Claim,
    Facts,
    Fork,
    Policy,
    PublishedVersion,
    TableLineage,
    keep_set,
)
from omnigraph.manifest.rows import TableState

MAIN, SIDE, OTHER = TableLineage(7, None), TableLineage(7, "side"), TableLineage(8, None)
KEEP_ONE = Policy(keep_versions=1)


def pin(version: int, branch: str | None = None, incarnation: int = 7) -> TableState:
    return TableState("node:Person", incarnation, "nodes/1", version, branch, 0)


def published(*versions: int) -> list[PublishedVersion]:
    return [PublishedVersion(version) for version in versions]


def kept(lineage: TableLineage = MAIN, **facts) -> dict[int, list[str]]:
    facts.setdefault("policy", KEEP_ONE)
    facts.setdefault("present", {MAIN: range(1, 7)})
    facts.setdefault(
        "published", {one: published(*there) for one, there in facts["present"].items()}
    )
    return keep_set(Facts(**facts))[lineage]


def test_the_newest_published_versions_stay_and_what_is_between_them_goes():
    facts = {"published": {MAIN: published(1, 3, 4, 6)}, "policy": Policy(keep_versions=2)}
    assert kept(**facts) == {4: ["keep"], 6: ["keep"]}


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        ({"heads": {"side": [pin(2)]}}, "head:side"),
        ({"merge_bases": {"main..side": [pin(2)]}}, "merge_base:main..side"),
        ({"tags": {"v1": [pin(2)]}}, "tag:v1"),
        ({"leases": {"01L": [pin(2)]}}, "lease:01L"),
        ({"lance_tags": {"mine": [(MAIN, 2)]}}, "lance_tag:mine"),
        ({"forks": [Fork(SIDE, None, 2)]}, "fork:side"),
    ],
)
def test_whoever_needs_a_version_is_the_reason_for_it(needs, reason):
    assert kept(**needs) == {2: [reason], 6: ["keep"]}


def test_every_reason_for_one_version_is_given_once():
    facts = {
        "heads": {"main": [pin(6)], "side": [pin(6)]},
        "tags": {"v1": [pin(6), pin(6)]},
        "merge_bases": {"main..side": [pin(6)]},
    }
    assert kept(**facts) == {
        6: ["head:main", "head:side", "keep", "merge_base:main..side", "tag:v1"]
    }


def test_a_fork_keeps_its_first_version_and_the_one_it_was_taken_from():
    facts = {
        "present": {MAIN: range(1, 7), SIDE: range(3, 9)},
        "forks": [Fork(SIDE, None, 3)],
        "heads": {"main": [pin(6)], "side": [pin(8, "side")]},
    }
    assert kept(MAIN, **facts) == {3: ["fork:side"], 6: ["head:main", "keep"]}
    assert kept(SIDE, **facts) == {3: ["fork:side"], 8: ["head:side", "keep"]}


def test_numbers_of_other_branches_and_tables_do_not_count():
    facts = {
        "present": {MAIN: range(1, 7), SIDE: range(3, 9), OTHER: range(1, 7)},
        "tags": {"v1": [pin(4, "side")], "v2": [pin(4, None, 8)]},
    }
    assert kept(MAIN, **facts) == {6: ["keep"]}
    assert kept(SIDE, **facts) == {4: ["tag:v1"], 8: ["keep"]}
    assert kept(OTHER, **facts) == {4: ["tag:v2"], 6: ["keep"]}


def test_a_pending_operation_keeps_where_it_started_and_all_it_may_have_made():
    facts = {
        "published": {MAIN: published(1, 2, 3, 4)},
        "sidecars": {"01S": [Claim(MAIN, 3)]},
        "heads": {"main": [pin(4)]},
    }
    assert kept(**facts) == {
        3: ["sidecar:01S"],
        4: ["head:main", "keep", "sidecar:01S"],
        5: ["sidecar:01S"],
        6: ["sidecar:01S"],
    }


def test_what_is_above_the_newest_published_version_is_left_to_repair():
    facts = {"published": {MAIN: published(1, 2, 4)}, "heads": {"main": [pin(4)]}}
    assert kept(**facts) == {
        4: ["head:main", "keep"],
        5: ["unpublished"],
        6: ["unpublished"],
    }


def test_a_version_is_old_once_it_was_replaced_long_ago():
    made = [0.0, 100.0, 200.0, 300.0]
    versions = [
        PublishedVersion(number, at, replaced)
        for number, (at, replaced) in enumerate(zip(made, [*made[1:], None], strict=True), 1)
    ]
    facts = {"published": {MAIN: versions}, "present": {MAIN: range(1, 5)}, "now": 350.0}

    def left(seconds: float) -> set[int]:
        return set(kept(policy=Policy(older_than=seconds), **facts))

    # The newest is head in a graph; here nothing pins it. At 250 version 3 was current.
    assert left(0) == set()
    assert left(60) == {3, 4}
    assert left(100) == {3, 4}
    assert left(151) == {2, 3, 4}
    assert left(1000) == {1, 2, 3, 4}
    both = Policy(keep_versions=1, older_than=60)
    assert kept(policy=both, **facts) == {3: ["younger"], 4: ["keep", "younger"]}


def test_a_reason_for_a_version_that_is_not_there_is_not_given():
    assert kept(tags={"v1": [pin(9)], "v2": [pin(1, "gone")]}) == {6: ["keep"]}


@pytest.mark.parametrize(
    "given_",
    [
        (None, None),
        (0, None),
        (True, None),
        (1.5, None),
        (None, -1),
        (None, timedelta(seconds=-1)),
        (None, "7d"),
        (None, True),
        (None, float("nan")),
        (None, float("inf")),
        (None, 10**400),
    ],
)
def test_a_policy_must_be_given_and_make_sense(given_):
    with pytest.raises(BadRequest):
        check_policy(*given_)


def test_times_are_seconds_or_timedeltas():
    assert check_policy(2, timedelta(days=1)) == Policy(2, 86_400.0)
    assert check_policy(None, 0) == Policy(None, 0)


lineages = st.sampled_from([MAIN, SIDE, OTHER])
numbers = st.integers(1, 12)
pins = st.builds(
    lambda lineage, version: pin(version, lineage.branch, lineage.incarnation), lineages, numbers
)
named = st.dictionaries(st.sampled_from("abc"), st.lists(pins, max_size=3), max_size=3)


@given(
    heads=named,
    bases=named,
    tags=named,
    leases=named,
    published_=st.dictionaries(lineages, st.sets(numbers, min_size=1), max_size=3),
    count=st.integers(1, 4),
)
def test_every_pin_that_is_there_stays_and_nothing_stays_without_a_reason(
    heads, bases, tags, leases, published_, count
):
    present = {lineage: range(1, 11) for lineage in (MAIN, SIDE, OTHER)}
    facts = Facts(
        present=present,
        policy=Policy(keep_versions=count),
        published={lineage: published(*there) for lineage, there in published_.items()},
        heads=heads,
        merge_bases=bases,
        tags=tags,
        leases=leases,
    )
    answer = keep_set(facts)
    assert answer.keys() == present.keys()
    for group in (heads, bases, tags, leases):
        for wanted in (one for some in group.values() for one in some):
            lineage = TableLineage(wanted.incarnation, wanted.table_branch)
            assert (wanted.table_version in answer[lineage]) == (wanted.table_version <= 10)
    for lineage, reasons in answer.items():
        assert list(reasons) == sorted(reasons)
        assert all(reasons.values())
        newest = sorted(published_.get(lineage, ()))[-count:]
        assert {v for v, why in reasons.items() if "keep" in why} == {v for v in newest if v <= 10}
