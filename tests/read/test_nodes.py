"""Node spaces of stored graphs: numbering, lookups and properties by ordinal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.lang.schema.catalog import Property
from omnigraph.read.thresholds import Thresholds, ViewThresholds
from omnigraph.read.view.nodes import RowIds
from omnigraph.read.view.view import Reader
from omnigraph.types import PropType, Scalar
from tests.graphs import graph_of, person
from tests.opened import workspace_of
from tests.read.view_helpers import SCHEMA, city, codes, view_of

# UTF-16 would put the last but one after the last.
NAMES = ["", "Z", "a", "a\tb", "ab", "é", "\uffff", "\U00010000"]


graph = graph_of(
    SCHEMA,
    [
        person(name, age=number, tags=[name], vec=[number, 0.5])
        for number, name in reversed(list(enumerate(NAMES)))
        if name
    ],
    [person("a", age=None, tags=None, vec=None)],
    scope="module",
)


@pytest.fixture
def space(graph):
    return view_of(graph).nodes("Person")


def test_ordinals_follow_the_bytes_of_the_ids(space):
    assert space.id_array.to_pylist() == NAMES[1:]
    assert space.size == len(NAMES) - 1
    assert space.ranks(codes(3, 0)).tolist() == [3, 0]


def test_ids_and_ordinals_lead_to_each_other(space):
    for ordinal, name in enumerate(NAMES[1:]):
        assert space.ordinal_of(name) == ordinal
    for name in ("", "A", "aa", "\U0010ffff"):
        assert space.ordinal_of(name) == -1
    asked = pa.array(["é", "nobody", "Z", "é", None, "~"])
    assert space.ordinals_of(asked).tolist() == [4, -1, 0, 4, -1, -1]
    assert space.ordinals_of(asked).dtype == np.int32
    chunks = pa.chunked_array([asked[:2], asked[2:]])
    assert space.ordinals_of(chunks).tolist() == space.ordinals_of(asked).tolist()
    assert space.ordinals_of(pa.chunked_array([], pa.string())).tolist() == []
    assert space.ids(codes(4, 4, 0)).to_pylist() == ["é", "é", "Z"]


def test_a_few_ids_are_found_without_an_index(space):
    asked = pa.array(["é", "nobody", "Z", None, "", "\U0010ffff"])
    assert space.node_ids.find(asked).tolist() == [4, -1, 0, -1, -1, -1]


def test_row_ids_lead_back_to_ordinals(space):
    rows = space.pinned.table.read(["id"], with_row_id=True)
    by_row = dict(zip(rows["_rowid"].to_pylist(), rows["id"].to_pylist(), strict=True))
    assert [by_row[row] for row in space.row_ids.tolist()] == NAMES[1:]
    found = space.ordinals_of_row_ids(np.append(space.row_ids[::-1], np.uint64(2**40)))
    assert found.tolist() == [*range(space.size - 1, -1, -1), -1]


@pytest.mark.parametrize("row_ids", [[7, 3, 5], [2**60, 3, 2**63 + 1], []])
def test_row_ids_near_and_far_apart(row_ids):
    given = np.array(row_ids, np.uint64)
    found = RowIds(given).codes(np.array([3, 4, 2**64 - 1, *row_ids], np.uint64))
    assert found.tolist() == [1 if row_ids else -1, -1, -1, *range(len(row_ids))]


def test_columns_are_by_ordinal_also_after_an_update_moved_a_row(space):
    assert space.column("age").array.to_pylist() == [1, None, 3, 4, 5, 6, 7]
    assert space.column("name").array.to_pylist() == NAMES[1:]
    assert space.column("tags").array.to_pylist()[:3] == [["Z"], None, ["a\tb"]]
    assert space.column("vec").array.to_pylist()[:3] == [[1.0, 0.5], None, [3.0, 0.5]]


@pytest.mark.parametrize("whole", [0, 10**6])
@pytest.mark.parametrize("name", ["age", "name", "tags", "vec"])
def test_values_are_those_of_the_column(graph, name, whole):
    thresholds = Thresholds(view=ViewThresholds(whole_column_rows=whole))
    cold, warm = (
        view_of(graph, Reader(workspace_of(graph), thresholds)).nodes("Person") for _ in range(2)
    )
    column = warm.column(name).array
    for asked in (codes(), codes(5), codes(2, 0, 1, 2, 6)):
        expected = column.take(pa.array(asked))
        assert cold.values(name, asked).equals(expected)
        assert warm.values(name, asked).equals(expected)
        assert cold.values(name, asked).type == column.type


def test_a_column_is_read_once(graph):
    view = view_of(graph)
    assert view.nodes("Person").column("age") is view.nodes("Person").column("age")
    assert view_of(graph).nodes("Person").column("age") is not view.nodes("Person").column("age")


def _with_property(catalog, name, prop):
    type_ = catalog.nodes["Person"]
    given = {key: value for key, value in type_.properties.items() if key != name}
    changed = replace(type_, properties={**given, prop.name: prop})
    return replace(catalog, nodes={**catalog.nodes, "Person": changed})


def test_a_property_the_table_lacks_is_null(graph):
    added = Property("height", PropType(Scalar.F64, nullable=True), 999)
    catalog = _with_property(graph.schema.catalog, "", added)
    space = Reader(workspace_of(graph)).view(graph.snapshot(), catalog).nodes("Person")
    assert space.column("height").array.equals(pa.nulls(7, pa.float64()))
    assert space.values("height", codes(3, 3)).equals(pa.nulls(2, pa.float64()))


def test_a_renamed_property_is_found_and_a_reused_name_is_not_taken_for_it(graph):
    age = graph.schema.catalog.nodes["Person"].properties["age"]
    renamed = _with_property(graph.schema.catalog, "age", replace(age, name="years"))
    reused = _with_property(renamed, "", replace(age, property_id=999))
    reader = Reader(workspace_of(graph))
    space = reader.view(graph.snapshot(), reused).nodes("Person")
    assert space.column("years").array.to_pylist() == [1, None, 3, 4, 5, 6, 7]
    assert space.column("age").array.null_count == 7
    before = reader.view(graph.snapshot(), graph.schema.catalog).nodes("Person")
    assert before.column("age") is space.column("years")


def test_an_empty_type(graph):
    space = view_of(graph).nodes("City")
    assert (space.size, space.ordinal_of("x")) == (0, -1)
    assert space.ordinals_of(pa.array(["x"])).tolist() == [-1]
    assert space.node_ids.find(pa.array(["x"])).tolist() == [-1]
    assert space.ordinals_of_row_ids(np.array([0], np.uint64)).tolist() == [-1]
    assert space.column("name").array.to_pylist() == []
    assert space.values("name", codes()).to_pylist() == []


def test_types_do_not_share_numbers(tmp_path):
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.load([person("x"), city("w"), city("x")])
    view = view_of(graph)
    assert view.nodes("Person").ordinal_of("x") == 0
    assert view.nodes("City").ordinal_of("x") == 1
