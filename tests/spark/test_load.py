"""Loads on Spark: every kind of input, merges that keep row ids, and which engine runs."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import omnigraph as og
from omnigraph.clock import new_ulid
from omnigraph.errors import BadRequest, ConstraintError, InputError
from omnigraph.pipeline.frame_options import FrameOptions
from omnigraph.storage.layout import STAGING_DIR
from omnigraph.storage.tables.table import open_table
from tests.graphs import ages, graph_of, person
from tests.opened import workspace_of
from tests.pipeline.datasource_helpers import loose_files
from tests.pipeline.load_helpers import load_gathered
from tests.spark.sizes import ALL_ON_EXECUTORS, ON_EXECUTORS
from tests.stored import read_back

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  mail: String? @unique
  bio: String? @search
  @range(age, 0..150)
}
edge Knows: Person -> Person { since: Date? }
"""


graph = graph_of(SCHEMA)


@pytest.fixture
def load(graph, spark):
    return lambda gather, **options: load_gathered(
        graph, gather, engine="spark", spark=spark, **options
    )


def places(graph):
    """Row id and version of creation of every person."""
    pin = graph.snapshot().tables["node:Person"]
    columns = ["id", "_row_created_at_version"]
    rows = open_table(workspace_of(graph).pinned(pin)).read(columns, with_row_id=True)
    return {row.pop("id"): tuple(row.values()) for row in rows.to_pylist()}


def test_a_line_that_is_too_long_is_a_bad_record(graph, spark, tmp_path):
    path = tmp_path / "r.jsonl.gz"
    with gzip.open(path, "wt", compresslevel=1) as out:
        out.write(json.dumps(person("j0")) + "\n")
        out.writelines(["x" * (1 << 20)] * 70)
        out.write("\n" + json.dumps(person("j1")) + "\n")
    results = [
        graph.load(path, on_bad="skip", check=True, engine=engine, spark=given)
        for engine, given in (("spark", spark), ("local", None))
    ]
    assert [result.total_rows for result in results] == [2, 2]
    assert results[0].bad_records == results[1].bad_records
    (bad,) = results[0].bad_records["first"]
    assert (bad["source"], bad["line"]) == (str(path), 2)
    assert "longer than 64 MiB" in bad["reason"]


def test_files_frames_and_records_of_all_kinds_are_one_commit(graph, load, spark, tmp_path):
    groups = pa.table({"name": [f"p{n}" for n in range(10)], "age": range(10)})
    parquet.write_table(groups, tmp_path / "p.parquet", row_group_size=3)
    (tmp_path / "c" / "age=21").mkdir(parents=True)
    (tmp_path / "c" / "c.csv").write_text("Name;age;Fax\nc0;20;1\n")
    (tmp_path / "c" / "age=21" / "c.csv").write_text("Name;Fax\nc1;x\n")
    feather.write_feather(pa.table({"name": ["f0"], "age": [30]}), tmp_path / "f.arrow")
    (tmp_path / "r.jsonl").write_text(json.dumps(person("j0", age=40)) + "\n")
    import pandas as pd

    rows = [(f"s{n}", str(n), None) for n in range(7)]
    frame = spark.createDataFrame(rows, "Name string, age string, Fax string")
    options = {"columns": {"Name": "name"}, "ignore_extra": True}
    ends = spark.createDataFrame([("p1", "s6"), ("c1", "f0")], "a string, b string")

    def gather(inputs):
        inputs.json(str(tmp_path / "r.jsonl"))
        inputs.nodes("Person", str(tmp_path / "p.parquet"))
        inputs.nodes("Person", str(tmp_path / "c"), FrameOptions.of(**options, delimiter=";"))
        inputs.nodes("Person", str(tmp_path / "f.arrow"))
        inputs.nodes("Person", pa.table({"name": ["a0"], "age": [50]}))
        inputs.nodes("Person", pd.DataFrame({"name": ["d0", "d1"], "age": [60.0, None]}))
        inputs.nodes("Person", frame.repartition(3, "Name"), FrameOptions.of(**options))
        inputs.edges("Knows", ends, "a", "b")
        inputs.json([person("z0", age=70)])

    before = len(graph.commits.list())
    result = load(gather)
    assert (result.engine, result.total_rows) == ("spark", 27)
    assert len(graph.commits.list()) == before + 1
    assert ages(graph) == {
        **{f"p{n}": n for n in range(10)},
        **{f"s{n}": n for n in range(7)},
        "c0": 20,
        "c1": 21,
        "f0": 30,
        "j0": 40,
        "a0": 50,
        "d0": 60,
        "d1": None,
        "z0": 70,
    }
    assert sorted(row[1:3] for row in read_back(graph).edges["Knows"]) == [
        ("c1", "f0"),
        ("p1", "s6"),
    ]


@pytest.mark.parametrize("is_local", [True, False], ids=["one machine", "a cluster"])
def test_a_frame_of_this_process_is_written_here_to_files_for_all(
    graph, load, monkeypatch, is_local, load_with
):
    """Executors cannot read it. Rows that are read again lie in the directory of the load, or beside the table."""
    load_with(ON_EXECUTORS)
    if not is_local:
        monkeypatch.setattr("omnigraph.pipeline.spark.spark_engine.local_cores", lambda _: None)
    people = pa.table({"name": [f"p{n}" for n in range(100)], "age": range(100)})
    chunks = pa.Table.from_batches(people.to_batches(max_chunksize=16))
    ends = pa.table({"from": ["p1"] * 40, "to": [f"p{n}" for n in range(40)]})
    ends = pa.Table.from_batches(ends.to_batches(max_chunksize=16))

    def gather(inputs):
        inputs.nodes("Person", chunks)
        inputs.edges("Knows", ends, "from", "to")

    assert load(gather).engine == "spark"
    assert ages(graph) == {f"p{n}": n for n in range(100)}
    known = sorted(row[1:3] for row in read_back(graph).edges["Knows"])
    assert known == sorted(("p1", f"p{n}") for n in range(40))
    wrong = chunks.set_column(1, "age", pa.array([*range(77), 200, *range(78, 100)]))
    with pytest.raises(ConstraintError, match=r"<frame>, row 78: Person\.age is 200"):
        load(lambda inputs: inputs.nodes("Person", wrong))
    assert load(lambda inputs: inputs.nodes("Person", wrong), on_bad="skip").skipped == 1
    older = pa.table({"name": ["p3", "p77"], "age": [33, 78]})
    assert load(lambda inputs: inputs.nodes("Person", older), mode="patch").total_rows == 2
    assert ages(graph) == {f"p{n}": n for n in range(100)} | {"p3": 33, "p77": 78}
    assert loose_files(graph) == []


@pytest.mark.parametrize("mode", ["merge", "patch"])
def test_the_files_of_a_check_on_a_cluster_outlive_a_cleanup(
    graph, spark, monkeypatch, mode, load_with
):
    """They lie beside those of the tables, and a dead write of that time is no reason to remove them."""
    load_with(ALL_ON_EXECUTORS)
    monkeypatch.setattr("omnigraph.pipeline.spark.spark_engine.local_cores", lambda _: None)
    graph.load([person("p1", age=1)])
    killed = Path(graph.uri, STAGING_DIR, f"{new_ulid()}.json")
    killed.parent.mkdir(exist_ok=True)
    killed.touch()  # the mark of a write whose process, which locked it, is gone
    cleaned = []

    def cleanup_meanwhile(progress):
        if progress.phase == "validating" and not cleaned:
            cleaned.append(loose_files(graph))
            # In a thread of its own, as in another process: it is no part of this load.
            with ThreadPoolExecutor(1) as beside, og.open(graph.uri) as other:
                beside.submit(other.cleanup, keep_versions=10).result()
            cleaned.append(loose_files(graph))

    told = graph.load(
        [person("p1", age=2), person("p1", mail="a@b")],
        mode=mode,
        check=True,
        spark=spark,
        progress=cleanup_meanwhile,
    )
    assert (told.total_rows, told.commit) == (1, None)
    before, after = cleaned
    assert before == after != []
    assert loose_files(graph) == []
    assert (
        list(killed.parent.glob("*.json")) == []
    )  # its own mark is gone, that of the dead write a note


def test_a_row_of_a_spark_frame_is_named_as_collect_would_number_it(graph, spark):
    frame = spark.range(0, 40, 1, 4).selectExpr("concat('p', id) AS name", "CAST(id AS INT) AS age")
    wrong = frame.selectExpr("name", "CASE WHEN age = 33 THEN 200 ELSE age END AS age")
    with pytest.raises(ConstraintError, match=r"<frame>, row 34: Person\.age is 200"):
        graph.load_nodes("Person", wrong)
    with pytest.raises(InputError, match='there is no property "agee"'):
        graph.load_nodes("Person", frame.withColumnRenamed("age", "agee"))
    # A frame of Spark's brings its session along.
    assert graph.load_nodes("Person", frame).engine == "spark"
    assert ages(graph) == {f"p{n}": n for n in range(40)}


def test_a_merge_replaces_rows_in_one_transaction_and_keeps_their_ids(
    graph, load, monkeypatch, load_with
):
    monkeypatch.setenv("OMNIGRAPH_INDEX_MIN_ROWS", "1")
    load_with(ON_EXECUTORS)
    graph.load([person(f"p{n}", age=n, bio=f"early number{n}") for n in range(50)], engine="local")
    graph.load([person("alone", bio="early")], engine="local")
    before, pin = places(graph), graph.snapshot().tables["node:Person"]
    new = [person(f"p{n}", age=100, bio="late") for n in range(40, 60)]
    twice = [person("p45", age=1, bio="never"), person("alone", age=7, bio="late")]
    result = load(lambda inputs: inputs.json([*twice, *new]), mode="merge")
    assert result.tables == [{"table_key": "node:Person", "rows_loaded": 21}]
    assert ages(graph) == {
        **{f"p{n}": n for n in range(40)},
        **{f"p{n}": 100 for n in range(40, 60)},
        "alone": 7,
    }
    after = places(graph)
    assert {name: after[name] for name in before} == before
    assert graph.snapshot().tables["node:Person"].table_version == pin.table_version + 1
    # What indexes find is what is there.
    found = {
        word: graph.query(
            f'query q() {{ match {{ $p: Person  search($p.bio, "{word}") }} return {{ $p.name }} }}'
        ).row_count
        for word in ("early", "late", "never", "number45")
    }
    assert found == {"early": 40, "late": 21, "never": 0, "number45": 0}


def test_the_result_says_why_spark_ran_where_the_call_does_not(graph, spark, monkeypatch):
    assert graph.load([person("a")], spark=spark).note is None
    assert graph.load([person("a")], engine="spark").note is None
    monkeypatch.setenv("OMNIGRAPH_SPARK_THRESHOLD_MB", "0")
    large = graph.load([person("a")])
    assert large.engine == "spark"
    assert large.note.startswith(
        "this load ran on Spark: the input has 0.0 MB, more than the 0 of "
    )
    assert "OMNIGRAPH_SPARK_THRESHOLD_MB" in large.note
    monkeypatch.undo()
    monkeypatch.setenv("OMNIGRAPH_SPARK_MASTER", spark.sparkContext.master)
    named = graph.load([person("a")])
    assert (named.engine, named.note) == (
        "spark",
        "this load ran on Spark: OMNIGRAPH_SPARK_MASTER is set",
    )


class TestChoice:
    """Which engine runs; no test here starts Spark."""

    def load(self, graph, **options):
        return graph.load([person("a")], **options)

    @pytest.fixture(autouse=True)
    def _no_java(self, monkeypatch):
        monkeypatch.setattr("omnigraph.runner.session.spark_problem", lambda: "there is no Java")

    def test_small_input_is_local_even_beside_a_running_session(self, graph):
        result = self.load(graph)
        assert (result.engine, result.note) == ("local", None)
        assert result.to_json()["note"] is None

    @pytest.mark.parametrize(("megabytes", "engine"), [(4096, "local"), (4097, "asked for Spark")])
    def test_from_4096_mb_on_auto_asks_for_spark(self, graph, monkeypatch, megabytes, engine):
        monkeypatch.setattr(
            "omnigraph.pipeline.load_input.LoadInput.size",
            property(lambda _: megabytes * 1_000_000),
        )
        result = self.load(graph)
        assert ("local" if result.note is None else "asked for Spark") == engine

    @pytest.mark.parametrize(
        ("variable", "value"),
        [("OMNIGRAPH_SPARK_THRESHOLD_MB", "0"), ("OMNIGRAPH_SPARK_MASTER", "local[1]")],
    )
    def test_without_java_auto_is_local_and_says_so(self, graph, monkeypatch, variable, value):
        monkeypatch.setenv(variable, value)
        result = self.load(graph)
        assert result.engine == "local"
        assert result.note == "this load ran on the local engine: there is no Java"
        assert result.to_json()["note"] == result.note
        assert self.load(graph, engine="local").note is None

    def test_without_java_auto_is_local_whoever_named_a_master(self, graph):
        for options in ({"spark_master": "local[1]"}, {"spark_conf": {"spark.app.name": "x"}}):
            result = self.load(graph, **options)
            assert result.engine == "local"
            assert result.note == "this load ran on the local engine: there is no Java"

    def test_spark_is_refused_where_it_cannot_run_and_settings_where_it_is_not_asked(self, graph):
        for options in ({"engine": "spark"}, {"engine": "spark", "spark_master": "local[1]"}):
            with pytest.raises(BadRequest, match="there is no Java; `engine=local` works without"):
                self.load(graph, **options)
        with pytest.raises(BadRequest, match="for a load on the local engine"):
            self.load(graph, engine="local", spark_conf={"spark.x": "1"})
        with pytest.raises(BadRequest, match="give one of auto, local, spark"):
            self.load(graph, engine="gpu")


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_times_that_are_cut_are_counted_on_every_way(tmp_path, spark, mode):
    with og.init(tmp_path / "times", "node E { k: String @key  at: DateTime? }") as graph:
        records = [
            {"type": "E", "data": {"k": str(n), "at": "2024-05-01T00:00:00.000001Z"}}
            for n in range(3)
        ]
        assert graph.load(records, mode=mode, engine="spark", spark=spark).truncated == {"E.at": 3}
        frame = spark.sql("SELECT 'x' AS k, TIMESTAMP '2024-05-01 00:00:00.000001' AS at")
        assert graph.load_nodes("E", frame, mode=mode, spark=spark).truncated == {"E.at": 1}
