"""The change feed as a stream of real Spark: checkpoints, restarts, errors, and the manual."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

import omnigraph as og
from omnigraph.spark import register
from tests.opened import lose
from tests.spark.streaming import run_to_end

MANUAL = Path(__file__).parents[2] / "docs" / "user" / "streams.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SCHEMA = "node Person { name: String @key  age: I32? }"


def load(graph, *names):
    people = [{"type": "Person", "data": {"name": name, "age": 1}} for name in names]
    return graph.load(people).commit.graph_commit_id


def run(spark, graph, checkpoint, **options):
    """Run a query until it has all there is; its batches as (number, rows)."""
    batches = []

    def keep(frame, number):
        batches.append((number, [(row.op, row.id) for row in frame.collect()]))

    stream = spark.readStream.format("omnigraph").options(graph=graph.uri, feed="main", **options)
    rows = stream.load().writeStream.foreachBatch(keep).trigger(availableNow=True)
    run_to_end(rows.option("checkpointLocation", str(checkpoint)).start)
    return batches


def offset(checkpoint, number):
    return json.loads((checkpoint / "offsets" / str(number)).read_text("utf-8").splitlines()[-1])


def test_what_a_stream_is_refused_for_is_said(spark, tmp_path):
    """Spark 4.3 drops what a source raises when it is asked for its reader of a stream."""
    register(spark)
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        load(graph, "ann")
        plain = spark.readStream.format("omnigraph").option("graph", graph.uri)
        with pytest.raises(Exception, match=r'`type` is missing; .*, or .option\("feed", BRANCH\)'):
            plain.load()
        of_type = plain.option("type", "Person")
        known, started = 'add .option\\("feed", BRANCH\\)', tmp_path / "started"
        for checkpoint in (tmp_path / "fresh", started):
            if checkpoint == started:
                run(spark, graph, started)
            query = of_type.load().writeStream.format("noop").trigger(availableNow=True)
            with pytest.raises(StreamingQueryException, match=known) as refused:
                run_to_end(query.option("checkpointLocation", str(checkpoint)).start)
            assert "Traceback" not in str(refused.value)


def test_queries_go_on_where_they_ended(spark, tmp_path):
    register(spark)
    checkpoint = tmp_path / "checkpoint"
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        first = load(graph, "ann")
        assert run(spark, graph, checkpoint) == [(0, [])]
        # Where the query began is in the checkpoint, although nothing came.
        assert offset(checkpoint, 0)["graph_commit_id"] == first
        load(graph, "bob", "cid")
        lost = load(graph, "dan")
        load(graph, "eve")
        # The end of the first batch was never noted: it runs again, and what came since is not lost.
        (checkpoint / "commits" / "0").unlink()
        for crc in checkpoint.rglob(".*.crc"):
            crc.unlink()
        kept = tmp_path / "kept"
        shutil.copytree(checkpoint, kept)
        got = [
            (0, []),
            (1, [("insert", "bob"), ("insert", "cid"), ("insert", "dan")]),
            (2, [("insert", "eve")]),
        ]
        limits = {"maxRowsPerTrigger": "3", "typed": "true", "types": "Person"}
        with pytest.raises(StreamingQueryException, match=r"CursorRejected.*another filter"):
            run(spark, graph, checkpoint, **limits)
        assert run(spark, graph, checkpoint, maxRowsPerTrigger="3") == got
        lose(graph, lost)
        with pytest.raises(StreamingQueryException, match="ChangeFeedGap") as stopped:
            run(spark, graph, kept, maxRowsPerTrigger="3")
        said = str(stopped.value)
        assert "startingFrom=commit:<its snapshot_commit_id>" in said
        assert "pipeline/streams" not in said


@pytest.mark.thorough
def test_a_stream_of_changes_into_another_graph_makes_a_copy(spark, tmp_path):
    register(spark)
    checkpoint = tmp_path / "checkpoint"
    with og.init(tmp_path / "graph", SCHEMA) as graph, og.init(tmp_path / "copy", SCHEMA) as copy:

        def copy_all():
            options = {"feed": "main", "types": "Person", "typed": "true", "ops": "insert,update",
                       "startingFrom": "beginning", "maxCommitsPerTrigger": "2"}  # fmt: skip
            changes = spark.readStream.format("omnigraph").options(graph=graph.uri, **options)
            rows = changes.load().drop("op", "graph_commit_id")
            into = {"graph": copy.uri, "type": "Person", "merge": "true"}
            sink = rows.writeStream.format("omnigraph").options(**into).trigger(availableNow=True)
            run_to_end(sink.option("checkpointLocation", str(checkpoint)).start)
            exports = io.BytesIO(), io.BytesIO()
            for one, out in zip((graph, copy), exports, strict=True):
                one.export(out)
            assert exports[0].getvalue() == exports[1].getvalue()
            return [one.facts["stream"]["batch_id"] for one in copy.commits.list()[:-1]]

        load(graph, "ann", "bob")
        graph.mutate('query q() { update Person set { age: 2 } where name = "bob" }')
        load(graph, "cid")
        # Both rows of bob are in one batch; the later one holds.
        assert copy_all() == [1, 0]
        # Killed before the checkpoint knew of the last batch: it runs again, and is there already.
        (checkpoint / "commits" / "1").unlink()
        for crc in checkpoint.rglob(".*.crc"):
            crc.unlink()
        load(graph, "bob", "dan")
        assert copy_all() == [2, 1, 0]


def test_the_manual_shows_what_happens(spark, tmp_path, monkeypatch):
    register(spark)
    monkeypatch.chdir(tmp_path)
    namespace, shown = {"spark": spark}, ""
    for language, text in FENCE.findall(MANUAL.read_text("utf-8")):
        if language == "py":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, str(MANUAL), "exec"), namespace)
            shown = printed.getvalue()
        elif language == "text":
            assert shown == text
    assert shown, "the page has examples"
