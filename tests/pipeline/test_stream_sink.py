"""A graph as the sink of a stream, without Spark: every micro-batch is one commit, once."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, ConstraintError, SchemaConflict
from omnigraph.manifest.history.stream_records import StreamBatch, find_stream
from omnigraph.pipeline.streams.sink import sink_options
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.pipeline.datasource_helpers import commits, data_files, write
from tests.pipeline.stream_helpers import QUERY, run_tasks, send, sink

SCHEMA = """
node Person { name: String @key  age: I32?  @range(age, 0..150) }
edge Knows: Person -> Person { since: I32? }
"""


graph = graph_of(SCHEMA)


def people(**ages: int) -> pa.RecordBatch:
    return pa.record_batch({"name": list(ages), "age": pa.array(list(ages.values()), pa.int32())})


def stored(graph, branch="main"):
    found = graph.query(
        "query q() { match { $p: Person } return { $p.name, $p.age } }", branch=branch
    )
    return {row["p.name"]: row["p.age"] for row in found}


def recorded(graph, app_id="s", branch="main"):
    manifest = workspace_of(graph).manifest
    record = find_stream(manifest, manifest.state(branch), app_id)
    return None if record is None else record.batch.batch_id


def test_every_batch_of_a_stream_says_what_it_is_for(graph):
    for batch_id in (0, 1):
        send(
            graph, batch_id, people(**{f"p{batch_id}": 1}), type="Person", message="from the queue"
        )
    assert [one.message for one in graph.commits.list(limit=2)] == ["from the queue"] * 2


# -- exactly once


@pytest.mark.parametrize("branch", ["main", "side"])
@pytest.mark.parametrize("merge", ["false", "true"])
def test_a_batch_is_one_commit_and_its_repetition_none(graph, merge, branch, caplog):
    """Whatever its tasks write: fragments, images, or rows where the branch has no fork yet."""
    graph.branches.create("side")
    options = {"type": "Person", "merge": merge, "branch": branch}
    made = send(graph, 0, people(ada=1, bob=2), people(cid=3), **options)
    stream = {"app_id": "s", "batch_id": 0, "query_id": QUERY, "table_key": "node:Person"}
    assert made.commit.facts["stream"] == stream
    assert made.commit.operation_id == StreamBatch("s", 0).operation_id
    assert (made.total_rows, recorded(graph, branch=branch)) == (3, 0)
    before = commits(graph, branch), data_files(graph)
    assert not caplog.records
    assert send(graph, 0, people(ada=1, bob=2), people(cid=3), **options) is None
    assert "batch 0 of the stream `s`" in caplog.text
    assert (commits(graph, branch), data_files(graph)) == before, "no file stays of it"
    send(graph, 1, people(dan=4, **({"ada": 10} if merge == "true" else {})), **options)
    assert stored(graph, branch) == {
        "ada": 10 if merge == "true" else 1,
        "bob": 2,
        "cid": 3,
        "dan": 4,
    }
    assert send(graph, 0, people(ada=1), **options) is None, "an old copy of the checkpoint"
    assert graph.commits.list(branch)[0].facts["stream"]["batch_id"] == 1


def test_a_fresh_checkpoint_under_an_old_name_is_refused(graph):
    """Its first batches would be lost, in silence."""
    send(graph, 0, people(ada=1), type="Person")
    send(graph, 1, people(bob=2), type="Person")
    before = commits(graph), data_files(graph)
    for batch_id in (0, 1):
        with pytest.raises(BadRequest, match="choose another app_id") as refused:
            send(graph, batch_id, people(cid=3), type="Person", query="fresh")
        assert "of query fresh" in str(refused.value)
        assert QUERY in str(refused.value)
    with pytest.raises(BadRequest, match="old checkpoint"):
        send(graph, 0, people(), type="Person", query="fresh")
    assert (commits(graph), data_files(graph)) == before
    assert send(graph, 0, people(cid=3), type="Person", query="fresh", app_id="t") is not None
    assert stored(graph) == {"ada": 1, "bob": 2, "cid": 3}


def test_without_a_name_the_query_is_the_stream(graph):
    options = {"type": "Person", "app_id": None, "checkpointLocation": "/anywhere"}
    send(graph, 0, people(ada=1), query="one", **options)
    assert send(graph, 0, people(ada=1), query="one", **options) is None
    made = send(graph, 0, people(bob=2), query="two", **options)
    assert made is not None, "another query is another stream"
    assert (recorded(graph, "one"), recorded(graph, "two")) == (0, 0)
    with pytest.raises(BadRequest, match="name the stream"):
        send(graph, 1, people(cid=3), query=None, **options)


def test_an_empty_batch_makes_no_commit_and_records_nothing(graph):
    before = commits(graph), data_files(graph)
    assert send(graph, 0, people(), people(), type="Person") is None
    assert sink(graph, people().schema, type="Person").commit(workspace_of(graph), [], 1) is None
    assert recorded(graph) is None
    assert (commits(graph), data_files(graph)) == before


def test_one_name_for_the_batches_of_two_types_is_refused(graph):
    """As in a function for `foreachBatch` that writes nodes and edges; the edges would be left out."""
    batch = {"app_id": "s", "batch_id": "0"}
    write(graph, people(ada=1, bob=2), **batch)
    knows = pa.record_batch({"from": ["ada"], "to": ["bob"]})
    for _ in range(2):
        with pytest.raises(BadRequest, match="give each type an app_id of its own"):
            write(graph, knows, type="Knows", **batch)
    write(graph, knows, type="Knows", app_id="s-knows", batch_id="0")
    assert write(graph, people(ada=1, bob=2), **batch) is None, "a repetition is left out"
    assert graph.snapshot().tables["edge:Knows"].row_count == 1
    # A branch takes the record over with the commits, and what it says of the table.
    graph.branches.create("side")
    write(graph, people(cid=3), branch="side", app_id="s", batch_id="1")
    graph.branches.merge("side")
    with pytest.raises(BadRequest, match="written to node:Person"):
        write(graph, knows, type="Knows", app_id="s", batch_id="1")


def test_an_empty_batch_that_overwrites_leaves_no_rows(graph):
    """As the output mode `complete` sends it to `foreachBatch`."""
    write(graph, people(ada=1), overwrite=True, app_id="s", batch_id="0")
    write(graph, people(), overwrite=True, app_id="s", batch_id="1")
    assert (stored(graph), recorded(graph)) == ({}, 1)


def test_a_bad_record_fails_its_batch_which_can_be_sent_again(graph):
    before = commits(graph), data_files(graph)
    with pytest.raises(ConstraintError, match=r"partition 1, row 1: Person.age is 200"):
        send(graph, 0, people(ada=1), people(bob=200), type="Person")
    assert recorded(graph) is None
    assert (commits(graph), data_files(graph)) == before
    send(graph, 0, people(ada=1), people(bob=20), type="Person")
    assert stored(graph) == {"ada": 1, "bob": 20}
    edges = {"type": "Knows", "from_col": "a", "to_col": "b", "app_id": "e"}
    with pytest.raises(ConstraintError, match="nobody"):
        send(graph, 0, pa.record_batch({"a": ["ada"], "b": ["nobody"]}), **edges)
    assert recorded(graph, "e") is None
    send(graph, 0, pa.record_batch({"a": ["ada"], "b": ["bob"]}), **edges)
    assert graph.snapshot().tables["edge:Knows"].row_count == 1


# -- others at the same time


@pytest.mark.parametrize("merge", ["false", "true"])
def test_a_branch_that_moves_between_the_tasks_and_the_commit(graph, merge):
    """The files of the tasks stay as they are; what the tasks found is looked for again."""
    send(graph, 0, people(ada=1), type="Person", merge=merge)
    rows = people(bob=2, **({"ada": 5} if merge == "true" else {}))
    outputs = run_tasks(sink(graph, rows.schema, type="Person", merge=merge), [rows])
    graph.load([{"type": "Person", "data": {"name": "ada", "age": 7}}], mode="merge")
    graph.load([{"type": "Person", "data": {"name": "eve", "age": 9}}], mode="merge")
    committing = sink(graph, rows.schema, type="Person", merge=merge)
    committing.commit(workspace_of(graph), outputs, 1)
    assert stored(graph) == {"ada": 5 if merge == "true" else 7, "bob": 2, "eve": 9}


def test_a_schema_that_changes_between_the_tasks_and_the_commit_stops_the_batch(graph):
    rows = people(ada=1)
    outputs = run_tasks(sink(graph, rows.schema, type="Person"), [rows])
    graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32?  city: String?"))
    with pytest.raises(SchemaConflict):
        sink(graph, rows.schema, type="Person").commit(workspace_of(graph), outputs, 0)
    assert recorded(graph) is None
    send(graph, 0, rows, type="Person")
    assert stored(graph) == {"ada": 1}


def test_two_sinks_at_once_publish_a_batch_once(graph):
    rows = people(ada=1, bob=2)
    outcomes = []
    ready = threading.Barrier(2)

    def run() -> None:
        planned = sink(graph, rows.schema, type="Person")
        outputs = run_tasks(planned, [rows])
        ready.wait()
        with og.open(graph.uri) as other:
            outcomes.append(planned.commit(workspace_of(other), outputs, 0))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one is None for one in outcomes) == [False, True]
    assert (stored(graph), commits(graph)) == ({"ada": 1, "bob": 2}, 2)


def test_the_sinks_of_two_queries_with_one_name_never_mix(graph):
    send(graph, 0, people(ada=1), type="Person")
    slow = run_tasks(sink(graph, people().schema, type="Person"), [people(zoe=1)], "other")
    send(graph, 1, people(bob=2), type="Person")
    committing = sink(graph, people().schema, type="Person")
    with pytest.raises(BadRequest, match="of query other is not above batch 1"):
        committing.commit(workspace_of(graph), slow, 1)
    committing.abort(slow)
    assert stored(graph) == {"ada": 1, "bob": 2}


# -- options


@pytest.mark.parametrize(
    ("options", "complete", "said"),
    [
        ({"app_id": "s"}, True, "complete would replace all rows"),
        ({}, False, 'name it with .option("app_id"'),
        ({"app_id": "  "}, False, "1 to 256 characters"),
        ({"app_id": "s", "operation_id": "01JZZZZZZZZZZZZZZZZZZZZZZ1"}, False, "`operation_id`"),
        ({"app_id": "s", "if_commit": "x"}, False, "`if_commit` is about one commit"),
        ({"app_id": "s", "batch_id": "1"}, False, "`batch_id` is about one commit"),
        ({"app_id": "s", "marge": "true"}, False, "`marge`; did you mean `merge`"),
        ({"app_id": "s", "type": ""}, False, "`type` is missing"),
    ],
)
def test_what_a_sink_refuses_at_its_start(options, complete, said):
    with pytest.raises(BadRequest) as refused:
        sink_options({"graph": "/g", "type": "Person", **options}, complete=complete)
    assert said in str(refused.value)


@pytest.mark.parametrize("name", ["queryName", "checkpointLocation"])
def test_the_settings_of_a_query_name_it_and_are_no_options_of_ours(name):
    asked = sink_options({"Graph": "/g", "type": "Person", name: "here"}, complete=False)
    assert (asked.write.graph, asked.app_id) == ("/g", None)
