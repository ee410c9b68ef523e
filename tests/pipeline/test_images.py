"""Merges from Spark, without Spark: images that tasks write, and what becomes of them at the commit."""

import random

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import ConstraintError
from omnigraph.pipeline import images as images_module
from omnigraph.pipeline.datasource_commit import commit_rows
from omnigraph.pipeline.datasource_write import discard_rows
from omnigraph.storage.handles import open_table
from tests.pipeline.test_datasource_write import commits, data_files, plan, run_tasks
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


def ages(graph, branch="main"):
    rows = read_back(graph, branch).nodes["Person"]
    return {name: row["age"] for name, row in rows.items()}


def table_of(graph, branch="main"):
    return open_table(graph.space.pinned(graph.snapshot(branch=branch).tables["node:Person"]))


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
    return made, written, commit_rows(graph.space, made, written)


@pytest.mark.parametrize("far_larger", [0, 10**9])
@pytest.mark.parametrize("image_bytes", [1, 1 << 20])
def test_images_of_the_tasks_become_the_table_and_row_ids_stay(
    graph, monkeypatch, far_larger, image_bytes
):
    """Ids are looked up through the index, or found by a scan; with one write or with several."""
    monkeypatch.setattr(images_module, "FAR_LARGER", far_larger)
    monkeypatch.setattr(images_module, "LOOKED_UP", 3)
    monkeypatch.setattr(images_module, "IMAGE_BYTES", image_bytes)
    seed(graph, 30)
    before, version = places(graph), table_of(graph).version
    batches = [
        people({"p7": 70, "new": 1, "p3": 30, "p29": 90}),
        people({"p0": 99, "newer": 2}),
        people({}),
    ]
    made = plan(graph, batches, merge="true")
    assert made.form == "images"
    written = run_tasks(made, batches)
    assert [one.rows for one in written] == [4, 2, 0]
    images = {path for path in data_files(graph) if any(f.path in path for one in written
              for fragment in one.fragments for f in fragment.files)}  # fmt: skip
    result = commit_rows(graph.space, made, written)
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


def test_a_table_that_moved_meanwhile_is_merged_with_as_it_is_now(graph):
    seed(graph, 5)
    batch = people({"p1": 10, "both": 1})
    made = plan(graph, [batch], merge="true")
    written = run_tasks(made, [batch])
    graph.load([{"type": "Person", "data": {"name": name, "age": 9}} for name in ("both", "p2")])
    graph.mutate('query q() { delete Person where name = "p1" }')
    commit_rows(graph.space, made, written)
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
            commit_rows(graph.space, made, written)
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
