"""The rules of a load are the same whether its rows are looked at here or by the engine."""

from __future__ import annotations

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import ConstraintError
from omnigraph.pipeline.local.local_engine import LocalEngine
from tests.pipeline.load_helpers import load_gathered

SCHEMA = """
node Person { name: String @key  age: I32? }
node Place { name: String @key }
edge Knows: Person -> Person
edge Seen: Person -> Place
"""


@pytest.fixture(params=["few", "many"])
def graph(request, tmp_path, monkeypatch):
    if request.param == "many":
        monkeypatch.setattr(LocalEngine, "few_rows", 0)
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load_nodes("Person", pa.table({"name": ["old"], "age": [70]}), mode="append")
        yield graph


def people(*names, ages=None):
    return pa.table({"name": names, "age": pa.array(ages or range(len(names)), pa.int32())})


def edges(*pairs):
    return pa.table({"from": [a for a, _ in pairs], "to": [b for _, b in pairs]})


def test_edges_between_old_and_new_nodes_are_loaded(graph):
    def both(inputs):
        inputs.nodes("Person", people("a", "b"))
        inputs.nodes("Place", pa.table({"name": ["here"]}))
        inputs.edges("Knows", edges(("a", "b"), ("old", "a"), ("b", "old")), "from", "to")
        inputs.edges("Seen", edges(("old", "here")), "from", "to")

    result = load_gathered(graph, both, mode="append")
    assert {table["table_key"]: table["rows_loaded"] for table in result.tables} == {
        "node:Person": 2,
        "node:Place": 1,
        "edge:Knows": 3,
        "edge:Seen": 1,
    }


@pytest.mark.parametrize(
    ("pairs", "side", "node", "row"),
    [
        ([("old", "old"), ("lost", "old")], "src", "lost", 2),
        ([("old", "old"), ("old", "old"), ("old", "lost")], "dst", "lost", 3),
    ],
)
def test_an_edge_without_its_node_is_refused_at_its_row(graph, pairs, side, node, row):
    with pytest.raises(ConstraintError, match=rf"row {row}: {side} '{node}' .* Person not found"):
        graph.load_edges("Knows", edges(*pairs), mode="append")


def test_the_ends_of_an_edge_are_looked_for_in_their_own_types(graph):
    with pytest.raises(ConstraintError, match=r"dst 'old' of edge Seen .*: Place not found"):
        graph.load_edges("Seen", edges(("old", "old")), mode="append")


def test_an_id_that_comes_twice_is_refused_at_its_last_row(graph):
    with pytest.raises(ConstraintError, match=r"row 3: .*'a' appears more than once"):
        graph.load_nodes("Person", people("a", "b", "a"), mode="append")


def test_of_a_merge_the_last_record_wins(graph):
    frame = people("a", "old", "a", ages=[1, 2, 3])
    result = graph.load_nodes("Person", frame, mode="merge")
    assert result.tables == [{"table_key": "node:Person", "rows_loaded": 2}]
    found = graph.query("query q() { match { $p: Person } return { $p.name, $p.age } }")
    rows = found.to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [("a", 3), ("old", 2)]
