"""The data source at home in Spark: filters, tables and views, threads, errors, writes sent again."""

from __future__ import annotations

import contextlib
import io
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

import omnigraph as og
from omnigraph.clock import new_ulid
from omnigraph.errors import OmniGraphError
from omnigraph.spark import in_thread

PUSHING = "spark.sql.python.filterPushdown.enabled"
SCHEMA = """
node Thing {
    name: String @key
    number: I32?
    wide: U64?
    ratio: F64?
    single: F32?
    flag: Bool?
    day: Date?
    moment: DateTime?
    mood: enum(good, bad)?
    words: [String]?
}
node Person { name: String @key  age: I32?  @range(age, 0..150) }
edge Knows: Person -> Person { weight: F64? }
"""
ROWS = """
SELECT * FROM VALUES
    ('a', 1, 18446744073709551615, 0.1D, 0.1F, true, DATE'2024-02-29', TIMESTAMP'2024-02-29 12:00:00.001Z', 'good', array('x')),
    ('A', -5, 0, -0.0D, 0.5F, false, DATE'1969-12-31', TIMESTAMP'1969-12-31 23:59:59.999Z', 'bad', array()),
    ('ab', 2147483647, 7, 1e300D, -0.0F, null, null, null, null, null),
    ('é''s', null, null, null, null, true, DATE'0001-01-01', TIMESTAMP'2024-02-29 12:00:00.002Z', 'good', array('y'))
    AS t(name, number, wide, ratio, single, flag, day, moment, mood, words)
"""
# Each is pushed whole; `left` names what Spark keeps for itself.
FILTERS = [
    "name = 'a'",
    "name <> 'a'",
    "name > 'a' AND number IS NOT NULL",
    "name LIKE 'a%'",
    "name IN ('a', 'é''s', 'nobody')",
    "name NOT IN ('a', 'é''s')",
    "number < 1",
    "number >= 2147483647",
    "number NOT IN (1, -5)",
    "wide = 18446744073709551615",
    "wide < 8",
    "ratio <= 0.0D",
    "ratio = -0.0D",
    "ratio <> 0.1D",
    "ratio > 0.1D",
    "single = cast(0.1 AS FLOAT)",
    "single IN (cast(0 AS FLOAT), cast(0.5 AS FLOAT))",
    "flag",
    "NOT flag",
    "flag IS NULL",
    "day < DATE'1970-01-01'",
    "day IN (DATE'2024-02-29', DATE'2000-01-01')",
    "moment > TIMESTAMP'2024-02-29 12:00:00.0015Z'",
    "moment <= TIMESTAMP'2024-02-29 12:00:00.0015Z'",
    "moment = TIMESTAMP'2024-02-29 12:00:00.0015Z'",
    "moment <> TIMESTAMP'2024-02-29 12:00:00.002Z'",
    "mood = 'good' AND flag",
]
LEFT = [
    "ratio = double('NaN')",
    "ratio < double('NaN')",
    "name LIKE '%s'",
    "words = array('x')",
    "number = 1 OR name = 'A'",
    "number % 2 = 1",
    "number <=> NULL",
]


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        yield graph


def read(spark, graph, type, **options):
    return spark.read.format("omnigraph").options(graph=graph.uri, type=type, **options).load()


def write(frame, graph, type, mode="append", **options):
    frame.write.format("omnigraph").options(graph=graph.uri, type=type, **options).mode(mode).save()


def people(graph):
    found = graph.query("query q() { match { $p: Person } return { $p.name, $p.age } }")
    return {row["p.name"]: row["p.age"] for row in found}


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def test_pushed_filters_keep_what_spark_keeps(spark, graph):
    write(spark.sql(ROWS), graph, "Thing")
    plain = read(spark, graph, "Thing").cache()
    with pytest.raises(Exception, match=PUSHING) as refused:
        read(spark, graph, "Thing", pushdown="true").collect()
    assert "File " not in str(refused.value)
    spark.conf.set(PUSHING, "true")
    try:
        made = random.Random(3)
        texts = made.sample(FILTERS, 7)
        texts += [f"({text}) AND number < 9" for text in made.sample(LEFT, 2)]
        kept = plain.selectExpr("name", *(f"{text} AS t{at}" for at, text in enumerate(texts)))
        expected = kept.collect()
        for at, text in enumerate(texts):
            # One frame for each query: Spark 4.3 reads all queries of one with the filters of the last.
            found = read(spark, graph, "Thing", pushdown="true").where(text).select("name")
            names = sorted(row.name for row in found.collect())
            assert names == sorted(row.name for row in expected if row[f"t{at}"]), text
            assert ("+- Filter" in plan_of(found)) == (text not in FILTERS), text
        # With the option `filter`, both hold.
        both = read(spark, graph, "Thing", pushdown="true", filter='name starts_with "a"')
        both = both.where("number > 1 AND number % 2 = 1")
        assert [row.name for row in both.collect()] == ["ab"]
        # The plan shows what is pushed, and what is not.
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            both.explain("formatted")
        assert "PushedFilters: [IsNotNull(number), GreaterThan(number,1)]" in shown.getvalue()
        assert "% 2) = 1)" in shown.getvalue()
    finally:
        spark.conf.unset(PUSHING)
        plain.unpersist()


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
        with pytest.raises(Exception, match="merge=true goes with mode append"):
            spark.sql("INSERT OVERWRITE people SELECT * FROM people")
        spark.sql(
            "INSERT OVERWRITE people WITH (merge = 'false') SELECT * FROM people WHERE name = 'bob'"
        )
        assert people(graph) == {"bob": 40}
    finally:
        spark.sql("DROP TABLE people")
    assert people(graph) == {"bob": 40}, "a table that is dropped leaves the graph"
    view = f"OPTIONS (graph '{graph.uri}', type 'Person', columns 'name, age')"
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
