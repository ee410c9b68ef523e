"""Reading a type for Spark, without Spark: options, pins, filters, groups of fragments."""

import pickle
import re

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, BranchNotFound
from omnigraph.graph.graph import state_of
from omnigraph.graph.reads import resolve
from omnigraph.pipeline.datasource.options import find_type, read_options
from omnigraph.pipeline.datasource.read import pin_source, plan_partitions, read_fragments
from omnigraph.storage.fragment_groups import FragmentPiece
from tests.opened import workspace_of

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    limit: I64?
    height: F32?
    score: U64?
    tags: [String]?
    born: Date?
    seen: DateTime?
    alive: Bool?
    photo: Blob?
}
edge Knows: Person -> Person { since: Date?  weight: F64? }
node Same { name: String @key }
edge Same: Person -> Person
edge Sent: Person -> Person { from: String? }
"""

PEOPLE = [
    {"name": "ada", "age": 36, "limit": 36, "height": 1.7, "score": 2**64 - 1, "tags": ["x", "y"]},
    {"name": "alan", "age": 41, "limit": 3, "born": "1912-06-23", "alive": False},
    {"name": "grace", "age": 85, "limit": 90, "height": 1.5, "seen": "2024-01-01T10:00:00.001Z"},
    {"name": "kurt", "alive": True, "score": 7, "tags": []},
    {"name": "a", "age": -1, "limit": -(2**40), "photo": "base64:aGk="},
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with og.init(tmp_path_factory.mktemp("read") / "g", SCHEMA) as graph:
        for person in PEOPLE:
            graph.load([{"type": "Person", "data": person}])
        graph.load(
            [
                {"edge": "Knows", "from": "ada", "to": "alan", "data": {"since": "2020-01-02"}},
                {"edge": "Knows", "from": "grace", "to": "ada", "data": {"weight": 0.5}},
            ]
        )
        yield graph


def pin(graph, **options):
    asked = read_options({"graph": graph.uri, **options})
    snapshot, catalog = resolve(state_of(graph), asked.target)
    entity = find_type(catalog, asked.type)
    # As it travels to the processes that read.
    return pickle.loads(
        pickle.dumps(pin_source(workspace_of(graph), snapshot, catalog, entity, asked))
    )


def rows(source, names=None, group_rows=10**6):
    columns = source.columns if names is None else source.select(names)
    schema = pa.schema([(column.name, column.type.arrow_type()) for column in columns])
    return [
        row
        for group in plan_partitions(source, group_rows)
        for batch in read_fragments(source, [column.name for column in columns], schema, group)
        for row in batch.to_pylist()
    ]


def names(graph, **options):
    return sorted(row["name"] for row in rows(pin(graph, type="Person", **options), ["name"]))


FILTERS = [
    "age > 36",
    "age >= 36 age < 85",
    "36 < age",
    "age != 41",
    "age > 35.5",
    "height = 1.7",
    "age > limit",
    "age = limit",
    "height < age",
    "score > 9223372036854775807",
    'name starts_with "a"',
    'name contains "ra"',
    '"the ada lovelace" contains name',
    '"adam" starts_with name',
    'tags contains "y"',
    "alive = false",
    'born < date("1950-01-01")',
    'seen >= datetime("2024-01-01T10:00:00Z")',
    "seen < now()",
    "age > 1000",
    "age > 99999999999",
    "age < 99999999999",
    'name = "ada" age = 36',
]


@pytest.mark.parametrize("text", FILTERS)
@pytest.mark.parametrize("indexed", [False, True])
def test_a_filter_keeps_the_rows_that_the_query_keeps(graph, text, indexed):
    if indexed:
        graph.ensure_indices()
    words = "name|age|limit|height|score|tags|born|seen|alive"
    clauses = re.sub(rf'("[^"]*")|\b({words})\b', lambda m: m[1] or f"$p.{m[2]}", text)
    found = graph.query(f"query q() {{ match {{ $p: Person {clauses} }} return {{ $p.name }} }}")
    assert names(graph, filter=text) == sorted(row["p.name"] for row in found)


def test_every_property_type_comes_as_it_is_stored(graph):
    (ada,) = rows(pin(graph, type="Person", filter='name = "ada"'))
    assert (ada["id"], ada["score"], ada["tags"]) == ("ada", 2**64 - 1, ["x", "y"])
    assert ada["height"] == pytest.approx(1.7, abs=1e-6)
    (a,) = rows(pin(graph, type="Person", filter='name = "a"'))
    assert a["photo"] == b"hi"


def test_an_edge_has_its_ends_before_its_properties(graph):
    source = pin(graph, type="Knows", filter='from = "ada"')
    assert [column.name for column in source.columns] == ["id", "from", "to", "since", "weight"]
    (edge,) = rows(source, ["from", "to"])
    assert edge == {"from": "ada", "to": "alan"}
    renamed = pin(graph, type="edge:Knows", from_col="a", to_col="b", filter='b = "ada"')
    assert rows(renamed, ["a", "b"]) == [{"a": "grace", "b": "ada"}]


def test_a_property_called_like_an_end_needs_another_name_for_the_end(graph):
    with pytest.raises(BadRequest, match="from_col"):
        pin(graph, type="Sent")
    source = pin(graph, type="Sent", from_col="sender")
    assert [column.name for column in source.columns] == ["id", "sender", "to", "from"]


def test_fragments_are_grouped_by_rows_and_none_is_lost(graph):
    source = pin(graph, type="Person")
    fragments = [
        number for group in plan_partitions(source, 10**6) for number in group.fragment_ids
    ]
    assert len(fragments) == len(PEOPLE), "one load each"
    assert [len(group.fragment_ids) for group in plan_partitions(source, 2)] == [2, 2, 1]
    assert [len(group.fragment_ids) for group in plan_partitions(source, 1)] == [1] * 5
    together = sorted(row["name"] for row in rows(source, ["name"], group_rows=2))
    assert together == sorted(person["name"] for person in PEOPLE)


def test_a_pinned_source_does_not_see_later_commits(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([{"type": "Same", "data": {"name": "one"}}])
        source = pin(graph, type="node:Same")
        then = graph.snapshot()
        graph.load([{"type": "Same", "data": {"name": "two"}}])
        graph.branches.create("side")
        graph.load([{"type": "Same", "data": {"name": "three"}}], branch="side")

        def found(**options):
            return sorted(row["name"] for row in rows(pin(graph, type="node:Same", **options)))

        assert [row["name"] for row in rows(source)] == ["one"]
        assert found() == ["one", "two"]
        assert found(branch="side") == ["one", "three", "two"]
        assert found(snapshot=then.graph_commit_id) == ["one"]
        assert found(version=str(then.manifest_version)) == ["one"]
        graph.tags.create("v1", at=then)
        assert found(tag="v1") == ["one"]
        assert found(branch="side", time=then.commit.created_at.isoformat()) == ["one"]


def test_deleted_rows_are_gone_and_do_not_count(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([{"type": "Same", "data": {"name": f"n{number}"}} for number in range(6)])
        graph.load([{"type": "Same", "data": {"name": "later"}}])
        graph.mutate('query d() { delete Same where name < "n5" }')
        source = pin(graph, type="node:Same")
        assert plan_partitions(source, 1) == [FragmentPiece((0,))], (
            "one row of six is left, none of the other"
        )
        assert [row["name"] for row in rows(source)] == ["n5"]


def test_a_table_without_rows_has_no_groups(graph):
    assert plan_partitions(pin(graph, type="Sent", from_col="f"), 10) == []


def test_columns_of_the_implicit_id_can_be_filtered(graph):
    assert names(graph, filter='id = "ada"') == ["ada"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "`type` is missing"),
        ({"type": "Persn"}, "did you mean `Person`"),
        ({"type": "Same"}, "say node:Same or edge:Same"),
        ({"type": "Person", "columns": "name,agee"}, "did you mean `age`"),
        ({"type": "Person", "columns": " , "}, "`columns` is empty"),
        ({"type": "Person", "filter": "agee > 3"}, "did you mean `age`"),
        ({"type": "Person", "version": "x"}, "whole number"),
        ({"type": "Person", "partition_rows": "-1"}, "whole number"),
        ({"type": "Person", "fliter": "age > 3"}, "did you mean `filter`"),
        ({"type": "Person", "if_commit": "01M"}, "takes no option `if_commit`"),
        ({"type": "Person", "branch": "main", "snapshot": "01M"}, "more than one state"),
    ],
)
def test_options_that_make_no_sense_are_refused(graph, options, said):
    with pytest.raises(BadRequest) as refused:
        pin(graph, **options)
    assert said in str(refused.value)


def test_a_branch_that_is_not_there_is_said(graph):
    with pytest.raises(BranchNotFound, match="nope"):
        pin(graph, type="Person", branch="nope")


def test_the_address_may_be_the_path_and_options_ignore_case():
    asked = read_options({"path": "/g", "TYPE": "Person", "Columns": "a, b"})
    assert (asked.graph, asked.type, asked.columns) == ("/g", "Person", ("a", "b"))
    assert read_options({"path": "/g", "graph": "/g", "type": "T"}).graph == "/g"
    with pytest.raises(BadRequest, match="`graph` is missing"):
        read_options({"type": "T"})
