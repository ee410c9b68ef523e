"""The Spark data source on an object store, without Spark: rows in, rows out, nothing left over."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import KeyConflict
from omnigraph.graph.graph import state_of
from omnigraph.graph.reads import resolve
from omnigraph.pipeline.datasource.commit import commit_rows
from omnigraph.pipeline.datasource.options import find_type, read_options, write_options
from omnigraph.pipeline.datasource.read import pin_source, plan_partitions, read_fragments
from omnigraph.pipeline.datasource.write import discard_rows, plan_write, write_rows
from tests.opened import accepted_by, workspace_of

SCHEMA = "node Note { name: String @key  body: Blob? }"


@pytest.fixture
def graph(s3_root):
    with og.init(s3_root.canonical, SCHEMA) as graph:
        yield graph


def notes(*names):
    bodies = pa.array([name.encode() * 100_000 for name in names], pa.binary())
    return pa.record_batch({"name": list(names), "body": bodies})


def write(graph, *batches, **options):
    asked = write_options({"graph": graph.uri, "type": "Note", **options})
    accepted = accepted_by(graph)
    plan = plan_write(workspace_of(graph), accepted, asked, batches[0].schema, overwrite=False)
    plan = pickle.loads(pickle.dumps(plan))
    written = [write_rows(plan, [batch], number) for number, batch in enumerate(batches)]
    try:
        commit_rows(workspace_of(graph), plan, written)
    except KeyConflict:
        discard_rows(plan, written)
        raise


def read(graph, **options):
    asked = read_options({"graph": graph.uri, "type": "Note", **options})
    snapshot, catalog = resolve(state_of(graph), asked.target)
    source = pin_source(workspace_of(graph), snapshot, catalog, find_type(catalog, "Note"), asked)
    schema = pa.schema([("name", pa.utf8()), ("body", pa.binary())])
    return {
        row["name"]: row["body"]
        for group in plan_partitions(source, 1)
        for batch in read_fragments(source, schema.names, schema, group)
        for row in batch.to_pylist()
    }


def data_files(graph):
    return [name for name in workspace_of(graph).store.list("nodes") if "/data/" in name]


def test_rows_go_through_tasks_and_commits_and_failures_leave_no_file(graph):
    write(graph, notes("a", "b"), notes("c"))
    assert read(graph) == {name: name.encode() * 100_000 for name in "abc"}
    before = data_files(graph)
    assert len(before) == 4, "two fragments, and for each a file of large blobs"
    with pytest.raises(KeyConflict):
        write(graph, notes("d"), notes("c"))
    assert data_files(graph) == before
    graph.branches.create("side")
    write(graph, notes("c", "d"), branch="side", merge="true")
    assert sorted(read(graph, branch="side")) == ["a", "b", "c", "d"]
    assert read(graph, filter='name = "c"') == {"c": b"c" * 100_000}
    assert [name for name in data_files(graph) if "/tree/" not in name] == before
