"""When upkeep is due."""

import pytest

from omnigraph.graph import init
from omnigraph.maintenance.upkeep.when import (
    MOST_OFTEN,
    Shape,
    is_out_of_shape,
    is_time,
    shape_of,
    versions_between,
)
from tests.maintenance.upkeep.keeping import PERSON, SCHEMA, insert, table_of


@pytest.mark.parametrize(
    ("shape", "is_due"),
    [
        (Shape(64, 64), False),
        (Shape(65, 0), True),
        (Shape(0, 65), True),
        (Shape(0, 0), False),
    ],
)
def test_more_than_the_limit_of_either_kind_is_out_of_shape(shape, is_due):
    assert is_out_of_shape(shape, 64) is is_due


@pytest.mark.parametrize(
    ("version", "maintained_at", "not_before", "is_due"),
    [
        (2, None, None, True),
        (100, 37, None, False),
        (101, 37, None, True),
        (100, None, 101, False),
        (101, None, 101, True),
        (100, 37, 1, False),
        (101, 37, 102, False),
    ],
)
def test_a_table_has_upkeep_once_in_64_versions(version, maintained_at, not_before, is_due):
    assert is_time(version, maintained_at, not_before, 64) is is_due


def test_a_lower_limit_allows_upkeep_more_often_and_a_higher_one_not_less_often():
    assert [versions_between(limit) for limit in (4, 64, 500)] == [4, MOST_OFTEN, MOST_OFTEN]


def test_the_shape_of_a_table_counts_small_and_uncovered_fragments_of_its_own(tmp_path):
    with init(tmp_path / "graph", SCHEMA, upkeep="off") as graph:
        graph.load(
            [{"type": "Person", "data": {"name": f"p{n:05}"}} for n in range(9_000)],
            mode="append",
        )
        insert(graph, "a")
        graph.ensure_indices()
        for name in "bcd":
            insert(graph, name)
        graph.branches.create("side")
        # One fragment of 9,000 rows and one small one are covered; three small ones are not.
        assert shape_of(table_of(graph), 4) == Shape(small=4, uncovered=3)
        assert shape_of(table_of(graph), 5) == Shape()
        assert len(table_of(graph).fragments()) == 5
        insert(graph, "e", "side")
        insert(graph, "f", "side")
        assert shape_of(table_of(graph, "side"), 1) == Shape(small=2, uncovered=2)
        assert shape_of(table_of(graph, "side"), 2) == Shape()
        assert graph.snapshot().tables[PERSON].maintained_at == 4
