"""Queries with very many columns: answered in a time that grows with them, and stopped at any moment."""

from __future__ import annotations

import pytest

from omnigraph.cancel import Cancel, watching
from omnigraph.errors import ResourceLimit
from omnigraph.lang.query.compile import compile_query
from tests.graphs import graph_of

SCHEMA = "node P { k: String @key  a: I32? }"
COLUMNS = 20_000
WIDE = ", ".join(f"$p.a as c{number}" for number in range(COLUMNS))
TEXT = f"query q() {{ match {{ $p: P }} return {{ {WIDE} }} }}"


graph = graph_of(
    SCHEMA, [{"type": "P", "data": {"k": str(n), "a": n}} for n in range(3)], scope="module"
)


def test_all_columns_come(graph):
    answer = graph.query(TEXT)
    assert len(answer.columns) == COLUMNS
    assert list(answer.rows[2].values()) == [2] * COLUMNS


def test_a_timeout_is_heard(graph):
    with pytest.raises(ResourceLimit, match="time limit"):
        graph.query(TEXT.replace("query q", "query r"), timeout=0.05)


class _After(Cancel):
    """A token that stops the work at its n-th look."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def _look(self) -> None:
        self.looks -= 1
        if self.looks < 0:
            raise ResourceLimit("enough", resource="looks", limit=0, actual=0)


def test_parsing_and_checking_look_once_for_each_column_at_least(graph):
    catalog = graph.schema.catalog
    counted = _After(10**9)
    with watching(counted):
        compile_query(catalog, TEXT)
    looks = 10**9 - counted.looks
    assert looks > COLUMNS
    for stop in (1, COLUMNS // 2, looks - 2):
        with pytest.raises(ResourceLimit), watching(_After(stop)):
            compile_query(catalog, TEXT)
