"""Merges from Spark, without Spark: images that tasks write, and what becomes of them at the commit."""

import random
from dataclasses import replace

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import ConstraintError
from omnigraph.pipeline.datasource.commit import commit_rows
from omnigraph.pipeline.datasource.write import discard_rows
from omnigraph.pipeline.rows.row_images import IMAGE_SIZES, ImageSizes
from omnigraph.storage.tables.table import open_table
from tests.graphs import ages
from tests.opened import workspace_of
from tests.pipeline.datasource_helpers import commits, data_files, plan, run_tasks
from tests.stored import read_back

SCHEMA = """
node Person {
    name: String @key
    age: I32? @index
    email: String? @unique
    bio: String? @search
    at: Vector(2)?
    @range(age, 0..150)
}
"""


@pytest.fixture
def graph(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_INDEX_MIN_ROWS", "1")
    with og.init(tmp_path / "g", SCHEMA) as graph:
        yield graph


def people(ages, bio="late"):
    """A batch of people, given as name to age."""
    count = len(ages)
    return pa.record_batch(
        {
            "name": pa.array(list(ages), pa.utf8()),
            "age": pa.array(list(ages.values()), pa.int32()),
            "bio": pa.array([bio] * count, pa.utf8()),
            "at": pa.array([[float(age), 1.0] for age in ages.values()], pa.list_(pa.float32())),
        }
    )


def seed(graph, count, bio="early"):
    records = [
        {"type": "Person", "data": {"name": f"p{n}", "age": n, "bio": bio}} for n in range(count)
    ]
    graph.load(records, mode="append")


def table_of(graph, branch="main"):
    return open_table(
        workspace_of(graph).pinned(graph.snapshot(branch=branch).tables["node:Person"])
    )


def places(graph, branch="main"):
    """Row id and version of creation by name."""
    columns = ["id", "_row_created_at_version"]
    rows = table_of(graph, branch).read(columns, with_row_id=True)
    return {row.pop("id"): tuple(row.values()) for row in rows.to_pylist()}


def found(graph, word, branch="main"):
    text = f'query q() {{ match {{ $p: Person  search($p.bio, "{word}") }} return {{ $p.name }} }}'
    return graph.query(text, branch=branch).row_count


def merge(graph, *batches, branch="main"):
    made = plan(graph, batches, merge="true", branch=branch)
    written = run_tasks(made, batches)
    return made, written, commit_rows(workspace_of(graph), made, written)


@pytest.mark.parametrize("far_larger", [0, 10**9])
@pytest.mark.parametrize("image_bytes", [1, 1 << 20])
def test_images_of_the_tasks_become_the_table_and_row_ids_stay(graph, far_larger, image_bytes):
    """Ids are looked up through the index, or found by a scan; with one write or with several."""
    sizes = ImageSizes(far_larger=far_larger, looked_up_ids=3, held_bytes=image_bytes)
    seed(graph, 30)
    before, version = places(graph), table_of(graph).version
    batches = [
        people({"p7": 70, "new": 1, "p3": 30, "p29": 90}),
        people({"p0": 99, "newer": 2}),
        people({}),
    ]
    made = replace(plan(graph, batches, merge="true"), image_sizes=sizes)
    assert made.form == "images"
    written = run_tasks(made, batches)
    assert [one.rows for one in written] == [4, 2, 0]
    images = {path for path in data_files(graph) if any(f.path in path for one in written
              for fragment in one.fragments for f in fragment.files)}  # fmt: skip
    result = commit_rows(workspace_of(graph), made, written)
    assert (result.engine, result.total_rows) == ("spark", 6)
    assert images, "tasks wrote fragments"
    assert images <= set(data_files(graph)), "the fragments of the tasks are the table's"
    assert len(data_files(graph)) == 1 + len(images), "and nothing else stayed"
    assert table_of(graph).version == version + 1, "one transaction"
    expected = {f"p{n}": n for n in range(30)}
    expected |= {"p7": 70, "p3": 30, "p29": 90, "p0": 99, "new": 1, "newer": 2}
    assert ages(graph) == expected
    assert {name: places(graph)[name] for name in before} == before
    assert (found(graph, "early"), found(graph, "late")) == (26, 6)


def test_an_id_of_two_tasks_counts_once_and_leaves_no_file(graph):
    seed(graph, 5)
    before = places(graph)
    _, _, result = merge(graph, people({"p1": 10, "x": 1}), people({"p1": 11, "x": 2, "y": 3}))
    assert result.total_rows == 3
    assert ages(graph) == {"p0": 0, "p1": 11, "p2": 2, "p3": 3, "p4": 4, "x": 2, "y": 3}
    assert {name: places(graph)[name] for name in before} == before
    referenced = [f.path for fragment in table_of(graph).fragments() for f in fragment.files]
    assert sorted(path.rpartition("/")[2] for path in data_files(graph)) == sorted(referenced)


def test_the_last_row_of_an_id_in_one_task_is_the_one_that_is_written(graph):
    seed(graph, 3)
    before = places(graph)
    first, last = people({"p1": 10, "x": 1, "p2": 12}), people({"x": 2, "p1": 11})
    _, written, result = merge(graph, pa.concat_batches([first, last]))
    assert [one.rows for one in written] == [3]
    assert result.total_rows == 3
    assert kept_images(graph, written) == (1, 1), "and its file is the table's"
    assert ages(graph) == {"p0": 0, "p1": 11, "p2": 12, "x": 2}
    assert {name: places(graph)[name] for name in before} == before


def test_a_table_that_moved_meanwhile_is_merged_with_as_it_is_now(graph):
    seed(graph, 5)
    batch = people({"p1": 10, "both": 1})
    made = plan(graph, [batch], merge="true")
    written = run_tasks(made, [batch])
    graph.load([{"type": "Person", "data": {"name": name, "age": 9}} for name in ("both", "p2")])
    graph.mutate('query q() { delete Person where name = "p1" }')
    commit_rows(workspace_of(graph), made, written)
    assert ages(graph) == {"p0": 0, "p1": 10, "p2": 9, "p3": 3, "p4": 4, "both": 1}
    assert found(graph, "late") == 2


def test_the_first_merge_on_a_branch_streams_and_the_next_writes_images(graph):
    seed(graph, 5)
    graph.branches.create("side")
    first, _, _ = merge(graph, people({"p1": 10}), branch="side")
    second, _, _ = merge(graph, people({"p1": 11, "new": 1}), branch="side")
    assert (first.form, second.form) == ("rows", "images")
    assert ages(graph, "side") == {"p0": 0, "p1": 11, "p2": 2, "p3": 3, "p4": 4, "new": 1}
    assert ages(graph) == {f"p{n}": n for n in range(5)}


def test_a_refused_merge_leaves_nothing(graph):
    seed(graph, 3)
    before = data_files(graph), commits(graph)
    mails = people({"p1": 1, "new": 2}).append_column("email", pa.array(["m", "m"]))
    for batches in ([mails], [people({"p1": 1}), people({"p2": 200})]):
        made = plan(graph, batches, merge="true")
        written = run_tasks(made, batches)
        with pytest.raises(ConstraintError, match=r"partition \d, row \d"):
            commit_rows(workspace_of(graph), made, written)
        discard_rows(made, written)
        assert (data_files(graph), commits(graph)) == before


@pytest.mark.parametrize("seed_number", range(3))
def test_random_merges_are_those_of_a_model(graph, seed_number):
    rng = random.Random(seed_number)
    model, ids = {}, {}
    for _ in range(6):
        tasks = []
        for _ in range(rng.randrange(1, 4)):
            names = rng.sample(range(25), rng.randrange(8))
            tasks.append({f"p{n}": rng.randrange(100) for n in names})
        merge(graph, *[people(task) for task in tasks])
        for task in tasks:
            model |= task
        if rng.random() < 0.4 and model:
            gone = rng.choice(sorted(model))
            graph.mutate(f'query q() {{ delete Person where name = "{gone}" }}')
            del model[gone]
            ids.pop(gone, None)
        assert ages(graph) == model
        now = places(graph)
        assert {name: now[name] for name in ids} == ids
        ids = now
        asked = rng.randrange(100)
        rows = graph.query(
            f"query q() {{ match {{ $p: Person  $p.age = {asked} }} return {{ $p.name }} }}"
        )
        assert sorted(row["p.name"] for row in rows) == sorted(
            name for name, age in model.items() if age == asked
        )


# ------------------------------------------------------------------ edges without ids

EDGES = """
node Ship { imo: String @key }
edge Meets: Ship -> Ship { times: I32? note: String? @unique(src, dst) @unique(src, dst, times) }
edge Keeps: Ship -> Ship { log: Blob? times: I32? @unique(src, dst) }
"""


@pytest.fixture
def fleet(tmp_path):
    with og.init(tmp_path / "fleet", EDGES) as graph:
        graph.load([{"type": "Ship", "data": {"imo": f"S{n}"}} for n in range(10)])
        yield graph


def meetings(numbers, times, **columns):
    """A batch of edges from S0 to others."""
    count = len(numbers)
    return pa.record_batch(
        {
            "from": pa.array(["S0"] * count, pa.utf8()),
            "to": pa.array([f"S{n}" for n in numbers], pa.utf8()),
            "times": pa.array([times] * count, pa.int32()),
            **columns,
        }
    )


def merge_edges(graph, *batches, kind="Meets", branch="main", sizes=IMAGE_SIZES):
    made = plan(graph, batches, type=kind, merge="true", branch=branch)
    made = replace(made, image_sizes=sizes)
    written = run_tasks(made, batches)
    return made, written, commit_rows(workspace_of(graph), made, written)


def met(graph, kind="Meets", branch="main"):
    """By target: id and number of times."""
    rows = read_back(graph, branch).edges[kind]
    found = {dst: (row_id, row["times"]) for row_id, _, dst, row in rows}
    assert len(found) == len(rows)
    return found


def edge_places(graph):
    table = open_table(workspace_of(graph).pinned(graph.snapshot().tables["edge:Meets"]))
    rows = table.read(["id", "_row_created_at_version"], with_row_id=True)
    return {row.pop("id"): tuple(row.values()) for row in rows.to_pylist()}


def kept_images(graph, written):
    """How many of the files that tasks wrote as fragments are still there."""
    files = data_files(graph)
    names = [file.path for one in written for f in one.fragments for file in f.files]
    return sum(any(name in path for path in files) for name in names), len(names)


@pytest.mark.parametrize("image_bytes", [1, 1 << 20])
def test_tasks_give_edges_the_ids_of_those_they_replace(fleet, image_bytes):
    sizes = ImageSizes(held_bytes=image_bytes)
    batches = [meetings([1, 2, 3], 1), meetings([4, 5], 1)]
    made, written, result = merge_edges(fleet, *batches, sizes=sizes)
    assert made.form == "images"
    assert result.total_rows == 5
    first, places = met(fleet), edge_places(fleet)
    batches = [meetings([5, 2], 2), meetings([6, 1], 2)]
    _, written, result = merge_edges(fleet, *batches, sizes=sizes)
    assert result.total_rows == 4
    kept, count = kept_images(fleet, written)
    assert kept == count > 0, "what the tasks wrote is the table's"
    now = met(fleet)
    assert {dst: now[dst][0] for dst in first} == {
        dst: row_id for dst, (row_id, _) in first.items()
    }
    assert {dst: times for dst, (_, times) in now.items()} == {
        "S1": 2, "S2": 2, "S3": 1, "S4": 1, "S5": 2, "S6": 2,
    }  # fmt: skip
    assert {row_id: edge_places(fleet)[row_id] for row_id in places} == places


def test_edges_that_several_tasks_mean_are_one(fleet):
    merge_edges(fleet, meetings([1], 0))
    first = met(fleet)["S1"][0]
    tasks = meetings([1, 2], 1), meetings([2, 1, 1], 2)
    _, written, result = merge_edges(fleet, *tasks)
    assert result.total_rows == 2
    assert kept_images(fleet, written)[0] == 0, "they are read again, and removed"
    found = met(fleet)
    assert found["S1"] == (first, 2)
    assert found["S2"][1] == 2


def test_some_edges_with_ids(fleet):
    merge_edges(fleet, meetings([1, 2], 0, id=pa.array(["m1", "m2"])))
    ids = pa.array([None, "m2", "m3", None], pa.utf8())
    merge_edges(fleet, meetings([1, 2, 3, 3], 5, id=ids))
    assert met(fleet) == {"S1": ("m1", 5), "S2": ("m2", 5), "S3": ("m3", 5)}
    with pytest.raises(ConstraintError, match="@unique Meets"):
        merge_edges(fleet, meetings([1], 6, id=pa.array(["other"])))


def test_edges_that_came_or_went_since_the_tasks_looked(fleet):
    """S1 is deleted and comes under another id, S2 goes, S3 comes."""
    merge_edges(fleet, meetings([1, 2], 0, id=pa.array(["m1", "m2"])))
    batches = [meetings([1, 2], 7), meetings([3], 7)]
    made = plan(fleet, batches, type="Meets", merge="true")
    written = run_tasks(made, batches)
    fleet.mutate('query q() { delete Meets where from = "S0" }')
    merge_edges(fleet, meetings([1, 3], 1, id=pa.array(["n1", "n3"])))
    commit_rows(workspace_of(fleet), made, written)
    found = met(fleet)
    assert (found["S1"], found["S3"]) == (("n1", 7), ("n3", 7))
    assert found["S2"][1] == 7
    assert found["S2"][0] not in {"m1", "m2"}


@pytest.mark.parametrize("kind", ["Meets", "Keeps"])
def test_edges_on_a_branch_and_with_blobs(fleet, kind):
    """The first write on a branch, and every one of a type with a Blob, is a stream of rows."""
    merge_edges(fleet, meetings([1], 0), kind=kind)
    first = met(fleet, kind)["S1"][0]
    fleet.branches.create("b")
    for times in (1, 2):
        merge_edges(fleet, meetings([1, 2], times), kind=kind, branch="b")
    found = met(fleet, kind, "b")
    assert found["S1"] == (first, 2)
    assert found["S2"][1] == 2
    assert met(fleet, kind) == {"S1": (first, 0)}


def test_append_and_overwrite_refuse_a_tuple_that_is_there_twice(fleet):
    merge_edges(fleet, meetings([1], 0))
    for overwrite in (False, True):
        batches = [meetings([1, 1] if overwrite else [1], 1)]
        made = plan(fleet, batches, overwrite=overwrite, type="Meets")
        assert made.form == "fragments"
        written = run_tasks(made, batches)
        with pytest.raises(ConstraintError, match="@unique Meets"):
            commit_rows(workspace_of(fleet), made, written)
        discard_rows(made, written)
    assert met(fleet)["S1"][1] == 0
