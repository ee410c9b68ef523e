"""Blobs of a load on Spark: executors look at the files and take them in."""

import base64
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

import omnigraph as og
from omnigraph.errors import ConstraintError, InputError
from omnigraph.spark import register
from tests.spark.sizes import ALL_ON_EXECUTORS

SCHEMA = "node Plate { tag: String @key  scan: Blob?  caption: String? }"
LARGE = os.urandom(5_000_000)


def test_executors_take_files_in(spark, tmp_path):
    (tmp_path / "large.tif").write_bytes(LARGE)
    (tmp_path / "empty.tif").touch()
    far = "s3://far/p.tif"
    options = {"external_blobs": ["s3://far/"], "local_files": tmp_path}
    with og.init(tmp_path / "graph", SCHEMA, **options) as graph:
        graph.load([{"type": "Plate", "data": {"tag": "old", "scan": b"old", "caption": "c"}}])
        records = [
            {"type": "Plate", "data": {"tag": tag, "scan": scan}}
            for tag, scan in (
                ("old", {"$file": "large.tif"}),
                ("bytes", b"near"),
                ("empty", {"$file": "empty.tif"}),
                ("far", far),
                ("none", None),
            )
        ]
        done = graph.load(records, mode="merge", engine="spark", spark=spark)
        assert done.engine == "spark"
        read = graph.blobs.read
        assert read("node", "Plate", "old", "scan") == LARGE
        assert read("node", "Plate", "bytes", "scan") == b"near"
        assert read("node", "Plate", "empty", "scan") == b""
        assert graph.blobs.stat("node", "Plate", "far", "scan").uri == far
        head = graph.commits.list()[0].graph_commit_id
        bad = {"type": "Plate", "data": {"tag": "x", "scan": {"$file": "missing.tif"}}}
        with pytest.raises(InputError, match=r"missing\.tif"):
            graph.load([*records, bad], mode="merge", engine="spark", spark=spark)
        assert graph.commits.list()[0].graph_commit_id == head


def test_executors_take_in_what_lies_beside_the_records_and_no_more(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "own.tif").write_bytes(LARGE)
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    lines = folder / "rows.jsonl"

    def load(graph, name, **how):
        record = {"type": "Plate", "data": {"tag": "p", "scan": {"$file": name}}}
        lines.write_text(json.dumps(record) + "\n")
        return graph.load(lines, engine="spark", spark=spark, **how)

    with og.init(tmp_path / "graph", SCHEMA) as graph:
        load(graph, "own.tif")
        assert graph.blobs.read("node", "Plate", "p", "scan") == LARGE
        for name in ("../secret", "link", str(tmp_path / "secret"), "file:///etc/passwd"):
            with pytest.raises(InputError, match="outside the directory"):
                load(graph, name)
    with og.open(tmp_path / "graph", local_files=False) as graph:
        with pytest.raises(InputError, match="no local files"):
            load(graph, "own.tif")
        assert graph.blobs.read("node", "Plate", "p", "scan") == LARGE


def test_rows_that_have_blobs_and_break_a_rule_are_rejected(spark, tmp_path, load_with):
    register(spark)
    rows, rejects = tmp_path / "rows.parquet", tmp_path / "rejects.jsonl"
    tags = ["a", "b", "a"]
    scans = pa.array([b"1", None, LARGE], pa.binary())
    pq.write_table(pa.table({"tag": tags, "scan": scans, "caption": ["x", "y", "z"]}), rows)
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        head = graph.snapshot().graph_commit_id
        frame = spark.read.parquet(str(rows)).coalesce(1)
        given = {"graph": graph.uri, "type": "Plate", "rejects": str(rejects)}
        loaded = {"mode": "append", "rejects": rejects}
        # Few rows are fetched unless this says otherwise.
        load_with(ALL_ON_EXECUTORS)
        ways = (
            (ConstraintError, lambda: graph.load_nodes("Plate", rows, engine="local", **loaded)),
            (
                ConstraintError,
                lambda: graph.load_nodes("Plate", rows, engine="spark", spark=spark, **loaded),
            ),
            (
                PySparkException,
                lambda: frame.write.format("omnigraph").mode("append").options(**given).save(),
            ),
        )
        for kind, way in ways:
            rejects.unlink(missing_ok=True)
            with pytest.raises(kind, match="'a' appears more than once"):
                way()
            (line,) = map(json.loads, rejects.read_text().splitlines())
            # What executors wrote already cannot be read again without its table.
            scan = f"base64:{base64.b64encode(LARGE).decode()}"
            values = {"tag": "a", "scan": scan, "caption": "z"} if way is ways[0][1] else None
            assert (line["row"], line["record"]) == (3, values)
        assert graph.snapshot().graph_commit_id == head
