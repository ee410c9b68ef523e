"""The data source as Spark uses it: planned, pickled, run in processes of its own."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import io
import re
from pathlib import Path

import pytest

from omnigraph.spark import register
from tests.graphs import graph_of
from tests.opened import workspace_of

MANUAL = Path(__file__).parents[2] / "docs" / "user" / "spark.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

SCHEMA = """
node Thing {
    name: String @key
    text: String?
    flag: Bool?
    small: I32?
    large: I64?
    unsigned: U32?
    widest: U64?
    single: F32?
    double: F64?
    day: Date?
    moment: DateTime?
    body: Blob?
    mood: enum(good, bad)?
    words: [String]?
    counts: [U64]?
    moments: [DateTime]?
    vector: Vector(2)?
}
node Person { name: String @key  age: I32?  @range(age, 0..150) }
edge Knows: Person -> Person { weight: F64? }
"""

FULL = {
    "name": "full",
    "text": "é",
    "flag": True,
    "small": -(2**31),
    "large": 2**63 - 1,
    "unsigned": 2**32 - 1,
    "widest": decimal.Decimal(2**64 - 1),
    "single": 0.5,
    "double": 0.1,
    "day": dt.date(1, 1, 1),
    "moment": dt.datetime(2024, 2, 29, 23, 59, 59, 999000, tzinfo=dt.UTC),
    "body": b"\x00\xff",
    "mood": "good",
    "words": ["a", ""],
    "counts": [decimal.Decimal(2**64 - 1), decimal.Decimal(0)],
    "moments": [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
    "vector": [1.0, -0.5],
}
TYPES = {
    "id": "string",
    "name": "string",
    "text": "string",
    "flag": "boolean",
    "small": "int",
    "large": "bigint",
    "unsigned": "bigint",
    "widest": "decimal(20,0)",
    "single": "float",
    "double": "double",
    "day": "date",
    "moment": "timestamp",
    "body": "binary",
    "mood": "string",
    "words": "array<string>",
    "counts": "array<decimal(20,0)>",
    "moments": "array<timestamp>",
    "vector": "array<float>",
}


graph = graph_of(SCHEMA)


def read(spark, graph, type, **options):
    return spark.read.format("omnigraph").options(graph=graph.uri, type=type, **options)


def write(frame, graph, type, mode="append", **options):
    frame.write.format("omnigraph").options(graph=graph.uri, type=type, **options).mode(mode).save()


def people(spark, names, parts=2):
    """A frame of so many partitions, made without a shuffle."""
    quoted = ", ".join(f"'{name}'" for name in names)
    rows = spark.range(0, len(names), 1, parts)
    return rows.selectExpr(f"array({quoted})[cast(id AS int)] AS name")


def names(graph):
    found = graph.query("query q() { match { $p: Person } return { $p.name } }")
    return sorted(row["p.name"] for row in found)


def data_files(graph):
    root = Path(workspace_of(graph).root.path)
    return sorted(str(path) for path in root.glob("nodes/*/data/**/*") if path.is_file())


def test_every_type_survives_the_way_through_spark_and_back(spark, graph):
    """Nothing is registered here: Spark finds the source by itself."""
    types = ", ".join(f"{name} {kind}" for name, kind in TYPES.items() if name != "id")
    none = {"name": "none"}
    given = spark.createDataFrame(
        [tuple(row.get(name) for name in FULL) for row in (FULL, none)], types
    )
    write(given, graph, "Thing")
    frame = read(spark, graph, "Thing").load()
    assert {field.name: field.dataType.simpleString() for field in frame.schema} == TYPES
    assert [field.name for field in frame.schema if not field.nullable] == ["id", "name"]
    found = {row["name"]: row for row in frame.toArrow().to_pylist()}
    assert found["full"] == {"id": "full", **FULL}
    assert found["none"] == dict.fromkeys(TYPES) | {"id": "none", "name": "none"}


def test_a_number_of_a_larger_type_is_read_and_written_also_in_the_past(spark, graph):
    given = {"name": "a", "small": 7, "unsigned": 4_000_000_000, "single": 0.1}
    graph.load([{"type": "Thing", "data": given}])
    past = graph.snapshot().graph_commit_id
    graph.schema.apply(
        SCHEMA.replace("small: I32?", "small: I64?")
        .replace("unsigned: U32?", "unsigned: U64?")
        .replace("single: F32?", "single: F64?")
    )
    kinds = {"small": "bigint", "unsigned": "decimal(20,0)", "single": "double"}
    for options in ({}, {"snapshot": past}):
        frame = read(spark, graph, "Thing", **options).load().select(*kinds)
        assert {one.name: one.dataType.simpleString() for one in frame.schema} == kinds
        assert frame.toArrow().to_pylist() == [
            {
                "small": 7,
                "unsigned": decimal.Decimal(4_000_000_000),
                "single": 0.10000000149011612,
            }
        ]
    larger = spark.sql("SELECT 'b' AS name, 5000000000 AS small, double(0.1) AS single")
    write(larger, graph, "Thing", mode="append")
    (found,) = read(spark, graph, "Thing").load().where("small = 5000000000").collect()
    assert (found["name"], found["single"]) == ("b", 0.1)


def test_columns_filters_and_partitions_reach_lance(spark, graph):
    for start in range(0, 40, 10):
        graph.load(
            [
                {"type": "Person", "data": {"name": f"p{number}", "age": number}}
                for number in range(start, start + 10)
            ]
        )
    frame = read(
        spark, graph, "Person", columns="age,name", filter="age >= 18", partition_rows="20"
    ).load()
    assert frame.columns == ["age", "name"]
    assert frame.rdd.getNumPartitions() == 2
    found = graph.query(
        "query q() { match { $p: Person $p.age >= 18 } return { $p.age, $p.name } }"
    )
    expected = sorted((row["p.age"], row["p.name"]) for row in found)
    assert sorted(tuple(row) for row in frame.collect()) == expected
    assert len(expected) == 22
    pruned = read(spark, graph, "Person").schema("name string").load()
    assert sorted(row.name for row in pruned.filter("name < 'p11'").collect()) == [
        "p0",
        "p1",
        "p10",
    ]


def test_a_frame_stays_on_the_snapshot_it_was_made_on(spark, graph):
    graph.load([{"type": "Person", "data": {"name": "early"}}])
    frame = read(spark, graph, "Person").load()
    pruned = read(spark, graph, "Person").schema("name string").load()
    # With a schema of the caller's, Spark asks for nothing before the first action.
    assert pruned.count() == 1
    graph.load([{"type": "Person", "data": {"name": "late"}}])
    assert [row.name for row in frame.union(frame).collect()] == ["early", "early"]
    assert [row.name for row in pruned.collect()] == ["early"]
    assert read(spark, graph, "Person", columns="name").load().count() == 2


def test_append_merge_and_overwrite_are_one_commit_each(spark, graph):
    register(spark)
    write(people(spark, ["a", "b", "c"]), graph, "Person")
    write(people(spark, ["c", "d"]).selectExpr("name", "7 AS age"), graph, "Person", merge="true")
    found = graph.query("query q() { match { $p: Person } return { $p.name, $p.age } }")
    ages = {row["p.name"]: row["p.age"] for row in found}
    assert ages == {"a": None, "b": None, "c": 7, "d": 7}
    edges = spark.createDataFrame([("a", "b"), ("b", "c")], "x string, y string")
    write(edges, graph, "Knows", from_col="x", to_col="y")
    knows = read(spark, graph, "Knows", columns="from,to", filter='to = "c"').load()
    assert [tuple(row) for row in knows.collect()] == [("b", "c")]
    write(spark.createDataFrame([], "from string, to string"), graph, "Knows", mode="overwrite")
    assert [commit.operation for commit in graph.commits.list()] == ["load"] * 4 + ["init"]
    assert graph.snapshot().tables["edge:Knows"].row_count == 0


def test_a_bad_row_fails_the_job_and_leaves_nothing(spark, graph):
    write(people(spark, ["old"], parts=1), graph, "Person")
    before = data_files(graph), len(graph.commits.list())
    ages = spark.range(0, 200, 1, 4).selectExpr("concat('p', id) AS name", "cast(id AS int) AS age")
    with pytest.raises(Exception, match=r"Person\.age is 151, outside its @range 0\.\.150"):
        write(ages, graph, "Person")
    with pytest.raises(Exception, match="node:Person already has the id 'old'"):
        write(people(spark, ["new", "old"], parts=1), graph, "Person")
    assert (data_files(graph), len(graph.commits.list())) == before
    assert names(graph) == ["old"]


def test_a_task_that_fails_takes_the_others_files_with_it(spark, graph):
    def failing(batches):
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().partitionId() == 1:
            raise ValueError("a task of yours failed")

    frame = people(spark, [f"p{number}" for number in range(100)])
    with pytest.raises(Exception, match="a task of yours failed"):
        write(frame.mapInArrow(failing, "name string"), graph, "Person")
    assert data_files(graph) == []
    assert names(graph) == []


@pytest.mark.parametrize(
    ("type", "options", "said"),
    [
        ("Persn", {}, "did you mean `Person`"),
        ("Person", {"fliter": "age > 3"}, "did you mean `filter`"),
        ("Person", {"branch": "nope"}, "there is no branch `nope`"),
    ],
)
def test_errors_say_what_is_wrong_and_not_how_we_found_it(spark, graph, type, options, said):
    with pytest.raises(Exception, match=said) as refused:
        read(spark, graph, type, **options).load()
    assert "datasource" not in str(refused.value).replace("PYTHON_DATA_SOURCE", "")


def test_types_of_a_schema_are_the_types_that_come(spark, graph):
    with pytest.raises(Exception, match=r"Person.age is I32\? and comes as int, not as string"):
        read(spark, graph, "Person").schema("age string").load().collect()


def test_the_manual_shows_what_happens(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"spark": spark}
    shown = ""
    for language, text in FENCE.findall(MANUAL.read_text("utf-8")):
        if language == "py":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, str(MANUAL), "exec"), namespace)
            shown = printed.getvalue()
        elif language == "text":
            assert shown == text
    assert shown, "the page has examples"
