"""Writing a type from Spark, without Spark: tasks, the commit, and what a failure leaves behind."""

import decimal

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.embeddings.offline import mock_embedding
from omnigraph.errors import (
    BadRequest,
    ConstraintError,
    ExpectedVersionMismatch,
    InputError,
    KeyConflict,
    OmniGraphError,
)
from omnigraph.pipeline.datasource.commit import commit_rows
from omnigraph.pipeline.datasource.write import discard_rows, write_rows
from omnigraph.storage.tables import loose_files
from tests.embeddings.server import EmbeddingServer
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.pipeline.datasource_helpers import commits, data_files, pieces, plan, run_tasks, write
from tests.stored import read_back

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    score: U64?
    email: String? @unique
    @range(age, 0..150)
}
edge Knows: Person -> Person { since: Date? }
node Note { text: String  body: Blob?  tag: String? @unique }
"""


graph = graph_of(SCHEMA)


def people(*names, **columns):
    ages = columns.pop("age", [1] * len(names))
    return pa.record_batch({"name": list(names), "age": pa.array(ages, pa.int32()), **columns})


def stored(graph, branch="main"):
    found = graph.query(
        "query q() { match { $p: Person } return { $p.name, $p.age, $p.score } }", branch=branch
    )
    return {row["p.name"]: (row["p.age"], row["p.score"]) for row in found}


# ------------------------------------------------------------------ what is written


@pytest.mark.parametrize("options", [{"merge": "true"}, {}], ids=["merge", "append"])
def test_vectors_are_made_at_the_commit_with_each_text_sent_once(tmp_path, monkeypatch, options):
    """Tasks call nobody, so they can be repeated."""
    schema = "node Doc { k: String @key  text: String  vec: Vector(4) @embed(text) }"
    given = pa.array([None, [1, 0, 0, 0]], pa.list_(pa.float32()))
    parts = [
        pa.record_batch({"k": ["a", "b"], "text": ["red", "blue"], "vec": given}),
        pa.record_batch({"k": ["c", "d"], "text": ["red", "green"], "vec": given}),
    ]
    with EmbeddingServer() as server, og.init(tmp_path / "docs", schema) as graph:
        made = plan(graph, parts, type="Doc", **options)
        run_tasks(made, parts)
        written = run_tasks(made, parts)
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        result = commit_rows(workspace_of(graph), made, written)
        assert result.embeddings_pending == 0
        assert [call.texts for call in server.calls] == [["red"]]
        found = graph.query("query q() { match { $d: Doc } return { $d.k as k, $d.vec as vec } }")
        red, own = mock_embedding("red", 4), [1, 0, 0, 0]
        assert {row["k"]: pytest.approx(row["vec"], abs=1e-6) for row in found} == {
            "a": red, "b": own, "c": red, "d": own,
        }  # fmt: skip
        if options:
            again = commit_rows(workspace_of(graph), made, run_tasks(made, parts))
            assert (again.total_rows, len(server.calls)) == (4, 1)


def test_append_is_one_commit_of_the_rows_of_all_tasks(graph):
    top = pa.array([decimal.Decimal(2**64 - 1), None], pa.decimal128(20, 0))
    result = write(graph, people("a", "b", score=top), people("c", score=top[1:]))
    assert (result.engine, result.mode, result.total_rows) == ("spark", "append", 3)
    assert stored(graph) == {"a": (1, 2**64 - 1), "b": (1, None), "c": (1, None)}
    assert commits(graph) == 2


def test_append_takes_the_fragments_of_the_tasks_as_they_are(graph):
    made = plan(graph, [people("a")])
    written = run_tasks(made, [people("a"), people("b", "c"), people()])
    before = data_files(graph)
    commit_rows(workspace_of(graph), made, written)
    assert len(before) == 2, "no file for a task without rows"
    assert data_files(graph) == before


def test_overwrite_replaces_all_rows_and_may_empty_the_table(graph):
    write(graph, people("a", "b"))
    write(graph, people("b", "c", age=[7, 8]), overwrite=True)
    assert stored(graph) == {"b": (7, None), "c": (8, None)}
    write(graph, people(), overwrite=True)
    assert stored(graph) == {}


def test_merge_replaces_rows_of_the_same_id_and_the_last_one_wins(graph):
    write(graph, people("a", "b"))
    result = write(
        graph,
        people("a", "n", "n", age=[5, 6, 7]),
        people("n", age=[8]),
        merge="true",
    )
    assert result.total_rows == 2
    assert stored(graph) == {"a": (5, None), "b": (1, None), "n": (8, None)}


def test_edges_name_their_ends_by_any_columns(graph):
    write(graph, people("a", "b"))
    knows = pa.record_batch({"x": ["a", "b"], "y": ["b", "a"]})
    write(graph, knows, type="Knows", from_col="x", to_col="y")
    found = graph.query(
        "query q() { match { $a: Person $a knows $b } return { $a.name, $b.name } }"
    )
    assert {(row["a.name"], row["b.name"]) for row in found} == {("a", "b"), ("b", "a")}


def test_a_merge_of_rows_without_ids_of_their_own_only_adds(graph):
    write(graph, people("a"))
    knows = pa.record_batch({"from": ["a"], "to": ["a"]})
    write(graph, knows, type="Knows", merge="true")
    write(graph, knows, type="Knows", merge="true")
    ids = [edge[0] for edge in read_back(graph).edges["Knows"]]
    assert len(set(ids)) == 2
    again = pa.record_batch({"id": ids[:1], "from": ["a"], "to": ["a"], "since": ["2020-01-01"]})
    write(graph, again, type="Knows", merge="true")
    dates = {edge[0]: edge[3]["since"] for edge in read_back(graph).edges["Knows"]}
    assert dates == {ids[0]: 18262, ids[1]: None}


def test_blobs_large_and_small_are_written_by_the_tasks(graph):
    bodies = [b"", b"x" * 300_000, None]
    notes = pa.record_batch(
        {"text": ["1", "2", "3"], "body": pa.array(bodies, pa.binary()), "tag": ["a", "b", "c"]}
    )
    write(graph, notes, type="Note")
    with pytest.raises(ConstraintError, match=r"@unique Note\.tag: b is held by both"):
        write(graph, notes.slice(1, 1), notes.slice(1, 1), type="Note")
    read = {row["text"]: row["body"] for row in read_back(graph).nodes["Note"].values()}
    assert read == dict(zip("123", bodies, strict=True))


@pytest.mark.parametrize("merge", ["true", "false"])
def test_the_first_write_on_a_branch_and_the_next_leave_main_alone(graph, merge):
    write(graph, people("a"))
    graph.branches.create("side")
    write(graph, people("b"), branch="side", merge=merge)
    write(graph, people("c"), branch=" side ", merge=merge)
    assert sorted(stored(graph, "side")) == ["a", "b", "c"]
    assert sorted(stored(graph)) == ["a"]
    write(graph, people("d"), branch="side", overwrite=True)
    assert sorted(stored(graph, "side")) == ["d"]


def test_the_actor_is_recorded(graph):
    assert write(graph, people("a"), actor="act-spark").commit.actor_id == "act-spark"


def test_no_rows_at_all_are_a_commit_that_changes_nothing(graph):
    assert write(graph, people()).total_rows == 0
    assert stored(graph) == {}


# ------------------------------------------------------------------ tasks more than once


def test_a_task_that_runs_again_makes_the_same_ids(graph):
    write(graph, people("a"))
    made = plan(graph, [pa.record_batch({"from": ["a"], "to": ["a"]})], type="Knows")
    knows = pa.record_batch({"from": ["a"] * 5, "to": ["a"] * 5})
    first, again, other = (write_rows(made, pieces(knows), number) for number in (3, 3, 4))
    ids = [stored_ids(made, one) for one in (first, again, other)]
    assert ids[0] == ids[1]
    assert len({*ids[0], *ids[2]}) == 10
    # Only what Spark took of the two attempts is committed.
    commit_rows(workspace_of(graph), made, [again, other])
    discard_rows(made, [first])
    assert sorted(edge[0] for edge in read_back(graph).edges["Knows"]) == sorted(ids[1] + ids[2])


def stored_ids(made, written):
    return [
        one
        for name in loose_files.data_files(written.fragments)
        for batch in loose_files.read_data_file(made.ref, name, ["id"])
        for one in batch.column("id").to_pylist()
    ]


def test_a_task_whose_input_fails_half_way_leaves_no_file(graph):
    made = plan(graph, [people("a")])

    def broken():
        yield people("a", "b")
        raise ConnectionError("the executor is gone")

    for mode in (made, plan(graph, [people("a")], merge="true")):
        with pytest.raises(ConnectionError, match="executor is gone"):
            write_rows(mode, broken(), 0)
    assert data_files(graph) == []


# ------------------------------------------------------------------ refusals


BAD = [
    ([people("a", "b", age=[1, 151])], ConstraintError, "partition 0, row 2: Person.age is 151"),
    (
        [people("a"), people("b", None)],
        InputError,
        "partition 1, row 2: Person.name (String): a value",
    ),
    ([people("a", "b", "a")], ConstraintError, "partition 0, row 3: @unique Person.name"),
    ([people("a", email=["m"]), people("b", email=["m"])], ConstraintError, "Person.email"),
    ([people("old")], KeyConflict, "partition 0, row 1: node:Person already has the id 'old'"),
    (
        [people("a", score=pa.array([decimal.Decimal(-1)], pa.decimal128(20, 0)))],
        InputError,
        "Person.score (U64?): expected an integer in the range of U64, got -1",
    ),
]


@pytest.mark.parametrize(("batches", "kind", "said"), BAD)
def test_bad_rows_change_nothing_and_leave_nothing(graph, batches, kind, said):
    write(graph, people("old"))
    before = data_files(graph), commits(graph)
    with pytest.raises(kind) as refused:
        write(graph, *batches)
    assert said in str(refused.value)
    assert (data_files(graph), commits(graph)) == before
    assert sorted(stored(graph)) == ["old"]


def test_bad_rows_of_all_tasks_are_counted_and_the_first_twenty_told(graph):
    rows = people(*map(str, range(30)), age=[-1] * 30)
    with pytest.raises(ConstraintError, match="59 more bad records") as refused:
        write(graph, rows, rows)
    found = refused.value.details["bad_records"]
    assert found["total"] == 60
    assert [(one["source"], one["row"]) for one in found["first"]] == [
        ("partition 0", row) for row in range(1, 21)
    ]


def test_advice_names_the_options_of_a_write(graph):
    write(graph, people("a"))
    with pytest.raises(KeyConflict) as taken:
        write(graph, people("a"))
    assert 'or write with .option("merge", "true") to replace the row' in str(taken.value)
    with pytest.raises(InputError) as unknown:
        write(graph, pa.record_batch({"a": ["x"], "b": ["y"]}), type="Knows")
    assert str(unknown.value).endswith(
        "; the options `from_col` and `to_col` name the columns with the ends; the option `columns` "
        "renames columns, `ignore_extra` leaves them out"
    )
    for error in (taken, unknown):
        assert "--" not in str(error.value)


def test_an_edge_to_nowhere_is_refused(graph):
    with pytest.raises(ConstraintError, match="partition 0, row 1: src 'x' of edge Knows"):
        write(graph, pa.record_batch({"from": ["x"], "to": ["y"]}), type="Knows")
    assert data_files(graph) == []


@pytest.mark.parametrize(
    ("batch", "options", "kind", "said"),
    [
        (pa.record_batch({"nam": ["a"]}), {}, InputError, "did you mean `name`"),
        (pa.record_batch({"name": [1]}), {}, InputError, "a column of int64 does not fit String"),
        (people("a"), {"type": "Persn"}, BadRequest, "did you mean `Person`"),
        (people("a"), {"merge": "yes"}, BadRequest, "give true or false"),
        (people("a"), {"overwrite": True, "merge": "true"}, BadRequest, "mode append"),
        (people("a"), {"filter": "age > 3"}, BadRequest, "takes no option `filter`"),
        (people("a"), {"branch": "nope"}, OmniGraphError, "nope"),
    ],
)
def test_what_cannot_work_is_refused_before_any_task(graph, batch, options, kind, said):
    with pytest.raises(kind) as refused:
        plan(graph, [batch], **options)
    assert said in str(refused.value)


# ------------------------------------------------------------------ others, and failures


def test_a_commit_of_somebody_else_meanwhile_counts(graph):
    made = plan(graph, [people("a")])
    written = run_tasks(made, [people("a", "b")])
    graph.load([{"type": "Person", "data": {"name": "c"}}])
    commit_rows(workspace_of(graph), made, written)
    assert sorted(stored(graph)) == ["a", "b", "c"]
    made = plan(graph, [people("d")])
    written = run_tasks(made, [people("d")])
    graph.load([{"type": "Person", "data": {"name": "d"}}])
    with pytest.raises(KeyConflict, match="already has the id 'd'"):
        commit_rows(workspace_of(graph), made, written)


@pytest.mark.parametrize("options", [{}, {"merge": "true"}, {"overwrite": True}])
@pytest.mark.parametrize("rival", ["x", "a"], ids=["another id", "the same id"])
def test_a_race_lost_at_the_last_moment_is_run_again(graph, options, rival):
    def overtake(_):
        with og.open(graph.uri) as other:
            other.load([{"type": "Person", "data": {"name": rival, "age": 99}}])

    with failpoints.arm("load.before_locks", overtake, times=1):
        if rival == "a" and not options:
            with pytest.raises(KeyConflict, match="already has the id 'a'"):
                write(graph, people("a", "b"), **options)
            assert sorted(stored(graph)) == ["a"]
            return
        write(graph, people("a", "b"), **options)
    rivals = {"a", "b"} if options.get("overwrite") else {"a", "b", rival}
    assert set(stored(graph)) == rivals
    assert stored(graph)["a"][0] == 1
    assert commits(graph) == 3


def test_a_branch_that_was_made_anew_is_not_written_to(graph):
    graph.branches.create("side")
    made = plan(graph, [people("a")], branch="side")
    written = run_tasks(made, [people("a")])
    graph.branches.delete("side")
    graph.branches.create("side")
    with pytest.raises(ExpectedVersionMismatch, match="made again"):
        commit_rows(workspace_of(graph), made, written)
    discard_rows(made, written)
    assert data_files(graph) == []
    assert stored(graph, "side") == {}


@pytest.mark.parametrize("moment", ["before_phase_a", "before_table_commit"])
def test_an_abort_before_the_table_moved_leaves_no_file(graph, moment):
    with failpoints.arm(f"load.{moment}", "raise"), pytest.raises(OmniGraphError):
        write(graph, people("a"))
    assert data_files(graph) == []
    write(graph, people("a"))
    assert sorted(stored(graph)) == ["a"]


def test_an_abort_after_the_table_moved_removes_no_file_of_it(graph):
    point = "load.after_phase_b_before_phase_c"
    with failpoints.arm(point, "raise"), pytest.raises(OmniGraphError):
        write(graph, people("a", "b"))
    assert len(data_files(graph)) == 1
    with og.open(graph.uri) as again:
        assert sorted(stored(again)) == ["a", "b"], "rolled forward, with the files of the tasks"
