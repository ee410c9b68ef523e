"""Blobs of a load on Spark: executors look at the files and take them in."""

import os

import pytest

import omnigraph as og
from omnigraph.errors import InputError

SCHEMA = "node Plate { tag: String @key  scan: Blob?  caption: String? }"
LARGE = os.urandom(5_000_000)


def test_executors_take_files_in(spark, tmp_path, monkeypatch):
    (tmp_path / "large.tif").write_bytes(LARGE)
    (tmp_path / "empty.tif").touch()
    monkeypatch.chdir(tmp_path)
    far = "s3://far/p.tif"
    with og.init(tmp_path / "graph", SCHEMA, external_blobs=["s3://far/"]) as graph:
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
