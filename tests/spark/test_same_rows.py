"""Frames that give other rows each time they are computed: what rules looked at is what is written.

`clearCache` loses what Spark keeps of a load, as the death of an executor does.
"""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.errors import ConstraintError, InputError
from omnigraph.pipeline.spark.spark_rows import SparkSizes
from tests.spark.sizes import ON_EXECUTORS
from tests.stored import read_back

SCHEMA = "node P { name: String @key  n: I32? }"
COLUMNS = "name string, n int"


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([{"type": "P", "data": {"name": "p0", "n": 9}}], engine="local")
        yield graph


@pytest.fixture(params=[SparkSizes(), ON_EXECUTORS], ids=["here", "executors"])
def _sizes(request, load_with):
    load_with(request.param)


def frame(spark, place, *evaluations):
    """Two partitions; the second has other names each time it is computed."""
    place.mkdir(exist_ok=True)
    first = [f"{place.name} a", f"{place.name} b"]
    texts = [list(names) for names in evaluations]

    def make(batches):
        import pyarrow as pa

        for batch in batches:
            (part,) = batch.column(0).to_pylist()
            names = first
            if part:
                times = len(list(place.glob("mark-*")))
                (place / f"mark-{times}").touch()
                names = texts[min(times, len(texts) - 1)]
            yield pa.RecordBatch.from_pydict(
                {"name": names, "n": pa.array([0] * len(names), pa.int32())}
            )

    return spark.range(0, 2, 1, 2).mapInArrow(make, COLUMNS)


def load(spark, graph, rows, phase, **options):
    """Load, and lose what is kept when the load comes to the phase."""

    def lose(progress):
        if progress.phase == phase:
            spark.catalog.clearCache()

    return graph.load_nodes("P", rows, engine="spark", spark=spark, progress=lose, **options)


def names(graph):
    return sorted(read_back(graph).nodes["P"])


@pytest.mark.usefixtures("_sizes")
def test_rows_that_are_written_at_once_are_judged_as_they_were_written(graph, spark, tmp_path):
    head = graph.snapshot().graph_commit_id
    # The rows in the table break a rule, and those of the second time would not.
    with pytest.raises(ConstraintError, match="'c' appears more than once"):
        load(spark, graph, frame(spark, tmp_path / "bad", "cc", "cd"), "validating", mode="append")
    assert graph.snapshot().graph_commit_id == head
    # Here it is the other way round, also where the second time gives fewer rows.
    for place, later in {"twice": "ee", "fewer": "e"}.items():
        rows = frame(spark, tmp_path / place, [f"{place}1", f"{place}2"], later)
        try:
            load(spark, graph, rows, "validating", mode="append")
        except InputError as error:
            assert "gave other rows" in str(error)
        else:
            assert {f"{place}1", f"{place}2"} <= set(names(graph))
    assert len(names(graph)) == len(set(names(graph)))
    assert not {"c", "e"} & set(names(graph))


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("phase", ["validating", "writing"])
def test_rows_that_are_kept_are_refused_when_they_change(graph, spark, tmp_path, phase):
    options = {"mode": "merge", "on_bad": "skip"}
    head = graph.snapshot().graph_commit_id
    try:
        load(spark, graph, frame(spark, tmp_path / "k", "cd", "ec"), phase, **options)
    except InputError as error:
        assert "write the frame to files and load them" in str(error)
        assert graph.snapshot().graph_commit_id == head
    else:
        assert names(graph) == ["c", "d", "k a", "k b", "p0"]
    # A frame that gives the same rows again is as good as files.
    again = frame(spark, tmp_path / "k", ["p0", "f"])
    load(spark, graph, again, phase, **options)
    assert {"p0", "f", "k a", "k b"} <= set(names(graph))
    assert read_back(graph).nodes["P"]["p0"]["n"] == 0
