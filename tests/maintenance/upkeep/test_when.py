"""When upkeep is due."""

import pytest

from omnigraph.graph import init
from omnigraph.maintenance.upkeep import (
    MANY_ROWS,
    MOST_OFTEN,
    Glance,
    TableShape,
    glance,
    is_due,
    shape_of,
    versions_between,
)
from tests.maintenance.upkeep.keeping import PERSON, SCHEMA, insert, table_of

MANY = MANY_ROWS


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (TableShape(64, 64), False),
        (TableShape(65, 0), True),
        (TableShape(0, 65), True),
        (TableShape(unindexed=MANY - 1, rows=MANY), False),
        (TableShape(unindexed=MANY, rows=MANY * 1000), True),
    ],
)
def test_a_table_is_due_by_its_fragments_or_by_rows_outside_an_index(shape, expected):
    assert is_due(shape, 2, None, None, 64) is expected


@pytest.mark.parametrize(
    ("version", "maintained_at", "not_before", "expected"),
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
def test_it_is_due_once_in_64_versions(version, maintained_at, not_before, expected):
    assert is_due(TableShape(small=65), version, maintained_at, not_before, 64) is expected
    few = TableShape(unindexed=MANY, rows=10 * MANY + 1)
    assert is_due(few, version, maintained_at, not_before, 64) is expected


def test_a_tenth_of_the_rows_outside_an_index_does_not_wait_for_others():
    large = TableShape(unindexed=MANY, rows=10 * MANY)
    assert is_due(large, 38, 37, None, 64)
    assert not is_due(large, 38, 37, 39, 64)


def test_a_lower_limit_allows_upkeep_more_often_and_a_higher_one_not_less_often():
    assert [versions_between(limit) for limit in (4, 64, 500)] == [4, MOST_OFTEN, MOST_OFTEN]


def test_the_shape_of_a_table_counts_its_own_fragments(tmp_path):
    with init(tmp_path / "graph", SCHEMA, upkeep="off") as graph:
        graph.load([{"type": "Person", "data": {"name": f"p{n:05}"}} for n in range(9_000)])
        insert(graph, "a")
        graph.ensure_indices()
        for name in "bcd":
            insert(graph, name)
        graph.branches.create("side")
        # One fragment of 9,000 rows and one small one are covered; three small ones are not.
        assert glance(table_of(graph)) == Glance(fragments=5, large=1)
        assert shape_of(table_of(graph)) == TableShape(
            small=4, uncovered=3, unindexed=3, rows=9_004
        )
        assert graph.snapshot().tables[PERSON].maintained_at is not None
        insert(graph, "e", "side")
        insert(graph, "f", "side")
        assert glance(table_of(graph, "side")) == Glance(fragments=7, large=1)
        assert shape_of(table_of(graph, "side")) == TableShape(2, 2, 2, 2)
