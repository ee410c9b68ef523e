"""An export on Spark writes the bytes that this process writes."""

from __future__ import annotations

import io

import pytest

import omnigraph as og
from omnigraph.errors import BadRequest
from omnigraph.runner.spark_runner import SparkRunner
from tests.changes.test_export import EVERY_TYPE, RECORDS


def exported_by(graph, engine):
    out = io.BytesIO()
    result = graph.export(out, engine=engine, types=["Thing", "Near"])
    assert (result.engine, result.records, result.leased) == (engine, 8, True)
    return out.getvalue(), result.stats


def test_both_engines_write_the_same_bytes(spark, tmp_path, monkeypatch):
    # Few rows would be read here.
    monkeypatch.setitem(SparkRunner.__init__.__kwdefaults__, "fetched_rows", 0)
    with og.init(tmp_path / "g", EVERY_TYPE, external_blobs=["s3://far/"]) as graph:
        for start in (0, 2, 4):
            graph.load(RECORDS[start : start + 2], mode="append")
        graph.load(RECORDS[6:], mode="append")
        here, local = exported_by(graph, "local")
        there, remote = exported_by(graph, "spark")
    assert there == here
    for count in ("records", "rows_read", "bytes_written", "inserts", "candidates"):
        assert getattr(remote, count) == getattr(local, count)


def test_columns_are_refused(spark, tmp_path):
    with (
        og.init(tmp_path / "g", EVERY_TYPE, external_blobs=["s3://far/"]) as graph,
        pytest.raises(BadRequest, match="Spark"),
    ):
        graph.export(tmp_path / "a.csv", types=["Thing"], engine="spark")
    assert not (tmp_path / "a.csv").exists()
