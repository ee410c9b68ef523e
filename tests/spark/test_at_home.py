"""The data source at home in Spark: tables and views, threads, errors, writes sent again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.clock import new_ulid
from omnigraph.errors import OmniGraphError
from omnigraph.spark import in_thread
from tests.graphs import graph_of

PUSHING = "spark.sql.python.filterPushdown.enabled"
SCHEMA = """
node Person { name: String @key  age: I32?  @range(age, 0..150) }
edge Knows: Person -> Person { weight: F64? }
"""


graph = graph_of(SCHEMA)


def read(spark, graph, type, **options):
    return spark.read.format("omnigraph").options(graph=graph.uri, type=type, **options).load()


def write(frame, graph, type, mode="append", **options):
    frame.write.format("omnigraph").options(graph=graph.uri, type=type, **options).mode(mode).save()


def people(graph):
    found = graph.query("query q() { match { $p: Person } return { $p.name, $p.age } }")
    return {row["p.name"]: row["p.age"] for row in found}


def test_a_frame_keeps_its_rows_whatever_was_asked_of_it_before(spark, graph):
    """Spark 4.3 reads all queries of a frame with the filters of one of them, if a source takes any."""
    write(spark.sql("SELECT * FROM VALUES ('ann', 1), ('bob', 2) AS t(name, age)"), graph, "Person")
    spark.conf.set(PUSHING, "true")
    try:
        with pytest.raises(Exception, match="give conditions with the option `filter`"):
            read(spark, graph, "Person", pushdown="true")
        frame = read(spark, graph, "Person", columns="name,age")
        some = frame.where("age > 1")
        assert sorted(row.name for row in some.union(frame).collect()) == ["ann", "bob", "bob"]
        assert sorted(row.name for row in frame.collect()) == ["ann", "bob"]
    finally:
        spark.conf.unset(PUSHING)


def test_tables_and_views_are_read_and_written_by_sql(spark, graph):
    graph.load([{"type": "Person", "data": {"name": "ann", "age": 30}}])
    options = f"OPTIONS (graph '{graph.uri}', type 'Person', merge 'true', partition_rows '10')"
    with pytest.raises(Exception, match="did you mean `type`"):
        spark.sql(f"CREATE TABLE bad_table USING omnigraph {options.replace('type', 'tipe')}")
    spark.sql(f"CREATE TABLE people USING omnigraph {options} COMMENT 'x' TBLPROPERTIES ('a'='b')")
    try:
        spark.sql("INSERT INTO people (name, age) VALUES ('bob', 40), ('ann', 31)")
        assert people(graph) == {"ann": 31, "bob": 40}
        rows = spark.sql("SELECT name, age FROM people WHERE age > 31").collect()
        assert [tuple(row) for row in rows] == [("bob", 40)]
        graph.branches.create("day")
        spark.sql("INSERT INTO people WITH (branch = 'day') (name) VALUES ('cy')")
        counted = [
            spark.sql(f"SELECT count(*) FROM people {options}").collect()[0][0]
            for options in ("", "WITH (branch = 'day')")
        ]
        assert counted == [2, 3]
        with pytest.raises(
            Exception, match=r"merge=true goes with mode append, .*; give merge=false"
        ):
            spark.sql("INSERT OVERWRITE people SELECT * FROM people")
        spark.sql(
            "INSERT OVERWRITE people WITH (merge = 'false') SELECT * FROM people WHERE name = 'bob'"
        )
        assert people(graph) == {"bob": 40}
    finally:
        spark.sql("DROP TABLE people")
    assert people(graph) == {"bob": 40}, "a table that is dropped leaves the graph"
    view = f"OPTIONS (graph '{graph.uri}', type 'Person', columns 'name, age')"
    with pytest.raises(Exception, match="no option `merge`, which is one of writes"):
        spark.sql(f"CREATE TEMPORARY VIEW merging USING omnigraph {options}")
    spark.sql(f"CREATE TEMPORARY VIEW folk USING omnigraph {view}")
    try:
        spark.sql("INSERT INTO folk VALUES ('dan', 50)")
        assert people(graph) == {"bob": 40, "dan": 50}
        assert spark.sql("SELECT max(age) FROM folk").collect()[0][0] == 40, "it is pinned"
    finally:
        spark.catalog.dropTempView("folk")
    spark.sql(f"CREATE TABLE declared (name string) USING omnigraph {options}")
    try:
        with pytest.raises(Exception, match="make a temporary view"):
            spark.sql("SELECT * FROM declared").collect()
    finally:
        spark.sql("DROP TABLE declared")


def test_threads_of_the_driver_write_with_the_helper(spark, graph):
    def one(number):
        with in_thread(spark) as session:
            frame = session.range(1).selectExpr(f"'p{number}' AS name")
            write(frame, graph, "Person")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, range(2)))
    assert set(people(graph)) == {"p0", "p1"}


def test_a_write_sent_again_under_its_id_has_no_effect(spark, graph):
    frame = spark.range(0, 4, 1, 2).selectExpr("concat('p', id) AS name", "cast(id AS int) AS age")
    options = {"operation_id": new_ulid(), "branch": "day", "from_branch": "main"}
    for _ in range(2):
        write(frame, graph, "Person", **options)
    assert len(graph.commits.list("day")) == 2
    assert people(graph) == {}


def test_errors_are_one_sentence_and_those_of_users_their_own(spark, graph, tmp_path):
    refused = []
    for call in (
        lambda: read(spark, graph, "Persn"),
        lambda: write(spark.sql("SELECT 'a' AS nam"), graph, "Person"),
        lambda: write(spark.sql("SELECT 'a' AS name, 999 AS age"), graph, "Person"),
    ):
        with pytest.raises(Exception, match=r"did you mean|outside its @range") as caught:
            call()
        refused.append(str(caught.value))
    for text in refused:
        assert "Traceback" not in text
        assert "File " not in text

    def failing(batches):
        yield from batches
        raise LookupError("no such thing")

    frame = spark.range(3).selectExpr("concat('p', id) AS name").mapInArrow(failing, "name string")
    with pytest.raises(Exception, match="LookupError: no such thing") as own:
        write(frame, graph, "Person")
    assert "in failing" in str(own.value), "the place in the user's function"
    with pytest.raises(OmniGraphError, match="LookupError: no such thing") as told:
        graph.load_nodes("Person", frame, mode="append", engine="spark")
    assert told.value.code == "input"
    assert told.value.details["function"] == "failing"
    assert told.value.details["error"] == "LookupError"
    assert people(graph) == {}
