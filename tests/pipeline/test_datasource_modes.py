"""Patches from Spark, and bad rows that are skipped, without Spark: tasks, and the commit of their rows."""

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, InputError
from omnigraph.pipeline.datasource.commit import commit_rows
from omnigraph.pipeline.datasource.options import write_options
from tests.opened import workspace_of
from tests.pipeline.datasource_helpers import data_files, plan, run_tasks
from tests.stored import read_back

SCHEMA = "node Person { name: String @key  age: I32?  mail: String? @unique  city: String }"


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        records = [{"name": "ann", "age": 30, "city": "Rome"}, {"name": "bob", "city": "Bonn"}]
        graph.load([{"type": "Person", "data": data} for data in records])
        yield graph


def write(graph, *batches, **options):
    made = plan(graph, batches, **options)
    written = run_tasks(made, batches)
    return commit_rows(workspace_of(graph), made, written)


def people(graph):
    return read_back(graph).nodes["Person"]


def batch(**columns):
    return pa.RecordBatch.from_pydict(columns)


def test_a_patch_changes_the_columns_that_the_frame_has(graph):
    files = set(data_files(graph))
    first, second = batch(name=["ann"], age=[31]), batch(name=["bob", "ann"], age=[40, None])
    result = write(graph, first, second, patch="true")
    assert result.total_rows == 2
    assert people(graph)["ann"] == {"name": "ann", "age": None, "mail": None, "city": "Rome"}
    assert people(graph)["bob"]["age"] == 40
    # The files of the tasks are gone: the rows were made at the commit.
    assert len(set(data_files(graph)) - files) == 1
    with pytest.raises(InputError, match=r"partition 0, row 2: Person\.city"):
        write(graph, batch(name=["ann", "new"], age=[1, 2]), patch="true")
    assert set(people(graph)) == {"ann", "bob"}


def test_bad_rows_are_skipped(graph):
    first = batch(name=["c", None], city=["x", "x"], mail=["m", "n"])
    second = batch(name=["d", "e"], city=["x", "y"], mail=["m", None])
    result = write(graph, first, second, on_bad="skip")
    assert set(people(graph)) == {"ann", "bob", "c", "e"}
    assert result.skipped == 2
    places = [(entry["source"], entry["row"]) for entry in result.bad_records["first"]]
    assert places == [("partition 0", 2), ("partition 1", 1)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"patch": "yes"}, "patch is 'yes'; give true or false"),
        ({"patch": "true", "merge": "true"}, "choose one"),
        ({"on_bad": "drop"}, "on_bad is 'drop'; give fail or skip"),
    ],
)
def test_wrong_options(options, said):
    with pytest.raises(BadRequest, match=said):
        write_options({"graph": "g", "type": "Person", **options})


def test_a_patch_does_not_overwrite(graph):
    with pytest.raises(BadRequest, match=r"patch=true goes with mode append, .*; give patch=false"):
        plan(graph, [batch(name=["a"])], overwrite=True, patch="true")
