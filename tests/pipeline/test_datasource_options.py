"""The options of a write from Spark that a load has too, without Spark."""

import json

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.clock import new_ulid
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    ConstraintError,
    InputError,
    PreconditionFailed,
)
from omnigraph.pipeline.datasource.commit import commit_rows
from omnigraph.pipeline.datasource.option_values import user_options
from omnigraph.pipeline.datasource.options import read_options, write_options
from omnigraph.pipeline.datasource.write import discard_rows
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.pipeline.datasource_helpers import commits, data_files, plan, run_tasks, write
from tests.stored import read_back

SCHEMA = "node Person { name: String @key  age: I32?  @range(age, 0..150) }"


graph = graph_of(SCHEMA, [{"type": "Person", "data": {"name": "ann", "age": 30}}])


def people(graph, branch="main"):
    return {name: row["age"] for name, row in read_back(graph, branch).nodes["Person"].items()}


def batch(**columns):
    return pa.RecordBatch.from_pydict(columns)


def test_a_missing_branch_is_made_by_the_commit(graph):
    rows = batch(name=["bob"], age=[40])
    result = write(graph, rows, branch="day", from_branch="main")
    assert (result.branch_created, result.base_branch) == (True, "main")
    assert people(graph, "day") == {"ann": 30, "bob": 40}
    assert people(graph) == {"ann": 30}
    # The branch is there now.
    later = write(graph, batch(name=["cy"], age=[1]), branch="day", from_branch="main")
    assert not later.branch_created
    assert sorted(people(graph, "day")) == ["ann", "bob", "cy"]
    before = data_files(graph)
    with pytest.raises(ConstraintError, match="outside its @range"):
        write(graph, batch(name=["x"], age=[999]), branch="bad", from_branch="day")
    assert sorted(graph.branches.list()) == ["day", "main"]
    assert data_files(graph) == before
    with pytest.raises(BranchNotFound, match="nope"):
        write(graph, rows, branch="other", from_branch="nope")


def test_a_condition_is_checked_before_any_task_and_at_the_commit(graph):
    first = graph.commits.list()[0].graph_commit_id
    rows = batch(name=["bob"], age=[40])
    made = plan(graph, [rows], if_commit=first)
    written = run_tasks(made, [rows])
    graph.load([{"type": "Person", "data": {"name": "cy"}}])
    with pytest.raises(PreconditionFailed):
        commit_rows(workspace_of(graph), made, written)
    discard_rows(made, written)
    with pytest.raises(PreconditionFailed):
        plan(graph, [rows], if_commit=first)
    assert sorted(people(graph)) == ["ann", "cy"]


@pytest.mark.parametrize(
    "options",
    [{}, {"overwrite": True}, {"merge": "true"}, {"on_bad": "skip"}],
    ids=["append", "overwrite", "merge", "rows"],
)
def test_a_write_sent_again_under_its_id_has_no_effect(graph, options):
    rows = batch(name=["bob", "cy"], age=[40, 50])
    head = graph.commits.list()[0].graph_commit_id
    options |= {"operation_id": new_ulid(), "if_commit": head}
    first = write(graph, rows, **options)
    before, files, count = people(graph), data_files(graph), commits(graph)
    again = write(graph, rows, **options)
    assert again.replayed
    assert again.commit.graph_commit_id == first.commit.graph_commit_id
    assert again.tables == first.tables == [{"table_key": "node:Person", "rows_loaded": 2}]
    # What the tasks wrote the second time is gone, and nothing else.
    assert (people(graph), data_files(graph), commits(graph)) == (before, files, count)


def test_the_commit_of_a_write_has_its_message(graph):
    rows = batch(name=["bob"], age=[40])
    assert write(graph, rows, message="from Spark").commit.message == "from Spark"
    with pytest.raises(BadRequest, match="4,097 bytes"):
        write(graph, rows, message="x" * 4097)


@pytest.mark.parametrize("on_bad", ["skip", "fail"])
def test_rejects_hold_every_bad_row_with_its_values(graph, tmp_path, on_bad):
    ages = [200 + number for number in range(30)]
    first = batch(name=[f"p{age}" for age in ages], age=ages)
    # One whose text cannot be read, and one that only all rows together show to be bad.
    second = batch(name=["bob", "cy", "ann"], age=["7", "old", "8"])
    rejects = tmp_path / "bad.jsonl"
    options = {"on_bad": on_bad, "rejects": str(rejects)}
    before = set(data_files(graph))
    made = plan(graph, [second], **options)
    parts = run_tasks(made, [first, second])
    if on_bad == "skip":
        assert commit_rows(workspace_of(graph), made, parts).skipped == 32
        assert people(graph) == {"ann": 30, "bob": 7}
        assert len(set(data_files(graph)) - before) == 1
    else:
        with pytest.raises(ConstraintError, match=r"partition 0, row 1: .*and 30 more bad records"):
            commit_rows(workspace_of(graph), made, parts)
        discard_rows(made, parts)
        assert set(data_files(graph)) == before
    lines = [json.loads(line) for line in rejects.read_text().splitlines()]
    of_rows = [
        ("partition 0", number + 1, {"name": f"p{age}", "age": age})
        for number, age in enumerate(ages)
    ] + [("partition 1", 2, {"name": "cy", "age": "old"})]
    of_all = [("partition 1", 3, {"name": "ann", "age": 8})] if on_bad == "skip" else []
    found = [
        (
            line["source"],
            line["row"],
            {name: value for name, value in line["record"].items() if name != "id"},
        )
        for line in lines
    ]
    assert found == of_rows + of_all
    assert {line["property"] for line in lines[:31]} == {"age"}


def test_columns_are_renamed_and_others_left_out(graph):
    rows = batch(Name=["bob"], years=["41"], note=["x"])
    with pytest.raises(InputError, match="there is no property"):
        write(graph, rows, columns="Name=name, years=age")
    write(graph, rows, columns="Name=name, years=age", ignore_extra="true")
    write(graph, batch(n=["bob"], age=[42]), columns='{"n": "name"}', merge="true")
    assert people(graph) == {"ann": 30, "bob": 42}
    with pytest.raises(InputError, match="there is no column"):
        plan(graph, [rows], columns="Nam=name", ignore_extra="true")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"operation_id": "7"}, "give a ULID"),
        ({"retries": "-1"}, "whole number"),
        ({"rejects": "bad.jsonl"}, "give the full path"),
        ({"ignore_extra": "yes"}, "give true or false"),
        ({"columns": "{"}, "no JSON object"),
        ({"columns": "a=x, b=x"}, "to two columns"),
        ({"filter": "age > 3"}, "takes no option `filter`"),
        ({"rejcts": "/x"}, "did you mean `rejects`"),
        ({"query_id": "q"}, "query_id goes with app_id and batch_id"),
        ({"path": "/other"}, "give one of them"),
    ],
)
def test_wrong_options(options, said):
    with pytest.raises(BadRequest, match=said):
        write_options({"graph": "g", "type": "Person", **options})


def test_what_spark_adds_to_a_table_is_not_the_users():
    """As `CREATE TABLE` gives it: the user's options twice, and table properties among Spark's own."""
    options = {"graph": "/g", "type": "Person", "Filter": "age > 3"}
    of_spark = {
        "provider": "omnigraph",
        "owner": "root",
        "comment": "x",
        "external": "true",
        "a": "b",
    }
    given = {**options, **{f"option.{name}": value for name, value in options.items()}, **of_spark}
    assert user_options(given) == {"graph": "/g", "type": "Person", "filter": "age > 3"}
    assert read_options(given).filter == "age > 3"
    with pytest.raises(BadRequest, match="did you mean `filter`"):
        read_options({**given, "option.fliter": "age > 3"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *(
            ({name: "x"}, f"takes no option `{name}`, which is one of writes")
            for name in ("merge", "patch", "on_bad", "ignore_extra", "retries", "rejects", "app_id")
        ),
        ({"Merge": "true"}, "takes no option `Merge`, which is one of writes"),
        # Spark 4.3 would answer `frame` with the rows of `frame.where(…)` that was read before.
        ({"pushdown": "true"}, "give conditions with the option `filter`"),
        ({"partition_rows": "0"}, "a whole number from 1 on"),
        ({"path": "/other"}, "give one of them"),
        ({"paths": '["/g", "/h"]'}, "of one graph, .*; read them one by one"),
        ({"type": ""}, 'add .option."type", …., or .option."feed"'),
    ],
)
def test_wrong_options_of_a_read(options, said):
    with pytest.raises(BadRequest, match=said):
        read_options({"graph": "/g", "type": "Person", **options})


def test_a_table_is_read_and_written_with_the_same_options():
    both = {"graph": "/g", "type": "Person", "merge": "true", "columns": "name"}
    assert read_options(both, table=True).columns == ("name",)
    assert write_options({**both, "partition_rows": "3"}).load.mode == "merge"
    with pytest.raises(BadRequest, match="did you mean `merge`"):
        read_options({**both, "merg": "true"}, table=True)


def test_a_node_type_has_no_ends_to_name(graph):
    with pytest.raises(BadRequest, match="Person is a node type"):
        plan(graph, [batch(name=["bob"])], from_col="a")


def test_a_table_with_options_of_s3_is_refused():
    """Its queries would go without them, and look for the graph somewhere else."""
    from omnigraph.spark import OmniGraphSource

    given = {"graph": "s3://b/g", "type": "Person", "s3.endpoint": "https://store.example"}
    OmniGraphSource(given)
    of_table = {**given, **{f"option.{name}": value for name, value in given.items()}}
    with pytest.raises(BadRequest, match="a table keeps no options of S3"):
        OmniGraphSource({**of_table, "provider": "omnigraph"})


def test_rejected_edges_have_ends_by_the_names_of_a_frame(tmp_path):
    schema = SCHEMA + " edge Knows: Person -> Person"
    with og.init(tmp_path / "edges", schema) as graph:
        graph.load([{"type": "Person", "data": {"name": "ann"}}])
        rejects = tmp_path / "bad.jsonl"
        rows = batch(id=["k1"], a=["ann"], b=["nobody"])
        options = {"type": "Knows", "from_col": "a", "to_col": "b", "rejects": str(rejects)}
        write(graph, rows, on_bad="skip", **options)
        (line,) = map(json.loads, rejects.read_text("utf-8").splitlines())
        assert line["record"] == {"id": "k1", "from": "ann", "to": "nobody"}
        with pytest.raises(InputError, match="`from_col` and `to_col`"):
            plan(graph, [batch(src=["ann"], dst=["ann"])], type="Knows")
