"""What was pinned on a branch that was deleted and made again is refused, never read from the new one."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from omnigraph.graph.graph import state_of
from omnigraph.graph.reads import resolve
from omnigraph.pipeline.datasource.options import find_type, read_options
from omnigraph.pipeline.datasource.read import pin_source, plan_partitions, read_fragments
from tests.faults.remade_helpers import new_graph
from tests.faults.remade_workers import BASE, fill, filled, outcome
from tests.opened import workspace_of
from tests.s3_server import BUCKET
from tests.storage.processes import run_processes

NAMES = "query q() { match { $p: Person } return { $p.name } }"
ENDS = "query q() { match { $a: Person $a knows $b } return { $a.name, $b.name } }"
REFUSED = {"history_reclaimed", "commit_not_found"}
OLD, NEW = set(filled(BASE, "old").people), set(filled(BASE, "new").people)
SHAPES = {"same version numbers": 1, "more versions": 2, "no fork": 0}
EVERYWHERE = pytest.mark.parametrize(
    ("graph", "shape"),
    [*(("disk", shape) for shape in SHAPES), ("s3", "same version numbers")],
    indirect=["graph"],
)


@pytest.fixture
def graph(request, tmp_path):
    place = tmp_path / "g"
    if getattr(request, "param", "disk") == "s3":
        request.getfixturevalue("s3")
        place = f"s3://{BUCKET}/{tmp_path.name}"
    with new_graph(place) as graph:
        graph.branches.create("b")
        fill(graph, "b", "old")
        yield graph


def remake(graph: Graph, shape: str = "same version numbers") -> None:
    """In another process, so that this one's handle hears nothing of it."""
    run_processes(remake_there, [(graph.uri, SHAPES[shape])])


def remake_there(uri: str, fills: int) -> None:
    with open_graph(uri) as graph:
        before = versions(graph)
        graph.branches.delete("b")
        graph.branches.create("b")
        for who in ("new", "again")[:fills]:
            fill(graph, "b", who)
        assert (versions(graph) == before) == (fills == 1)


def versions(graph: Graph):
    tables = graph.snapshot(branch="b").tables
    return {key: (pin.table_branch, pin.table_version) for key, pin in tables.items()}


def names(graph: Graph, **target) -> set[str]:
    return {row["p.name"] for row in graph.query(NAMES, **target)}


def ask(uri: str, **target):
    with open_graph(uri, mode="r") as graph:
        return outcome(names, graph, **target)


def ask_at(uri: str, snapshot: str):
    return ask(uri, snapshot=snapshot)


@EVERYWHERE
@pytest.mark.parametrize("warm", [True, False], ids=["read before", "not read before"])
def test_a_commit_id_of_the_old_branch(graph, shape, warm):
    commits = [one.graph_commit_id for one in graph.commits.list("b")[:2]]
    if warm:
        assert names(graph, snapshot=commits[0]) == OLD
        assert len(graph.query(ENDS, snapshot=commits[0])) == 1
    remake(graph, shape)
    for commit in commits:
        for query in (NAMES, ENDS):
            told = outcome(graph.query, query, snapshot=commit)
            assert told[0] in REFUSED, told
    for code, message in run_processes(ask_at, [(graph.uri, commit) for commit in commits]):
        assert code in REFUSED, message
    fresh = names(graph, branch="b")
    assert fresh == {"no fork": set(BASE.people)}.get(shape, fresh)
    assert not fresh & (OLD - NEW)


def test_a_commit_of_main_reads_as_ever(graph):
    """The branch was at it too, which says nothing of its rows."""
    commit = graph.snapshot().graph_commit_id
    remake(graph)
    assert names(graph, snapshot=commit) == set(BASE.people)


@EVERYWHERE
def test_a_held_snapshot_first_opened_afterwards(graph, shape):
    held = graph.snapshot(branch="b")
    catalog = graph.schema.catalog
    view = state_of(graph).reader.view(held, catalog)
    remake(graph, shape)

    def read(opened):
        return opened.nodes("Person").pinned.table.read(["id"])

    for opened in (view, state_of(graph).reader.view(held, catalog)):
        told = outcome(read, opened)
        assert told[0] in REFUSED, told


@EVERYWHERE
def test_a_held_view_opened_before_never_gives_rows_of_the_new_branch(graph, shape):
    """Rows that are in memory may still be answered; nothing else is."""
    view = state_of(graph).reader.view(graph.snapshot(branch="b"), graph.schema.catalog)
    table = view.nodes("Person").pinned.table
    remake(graph, shape)

    def read():
        with view.reading():
            return set(table.read(["id"]).column("id").to_pylist())

    told = outcome(read)
    assert told[0] in REFUSED or told == ("done", OLD), told


@EVERYWHERE
def test_a_read_of_the_data_source_that_was_planned_before(graph, shape):
    asked = read_options({"graph": graph.uri, "type": "Person", "branch": "b"})
    snapshot, catalog = resolve(state_of(graph), asked.target)
    entity = find_type(catalog, asked.type)
    source = pickle.loads(
        pickle.dumps(pin_source(workspace_of(graph), snapshot, catalog, entity, asked))
    )
    groups = plan_partitions(source, 10**6)
    assert read_groups(source, groups) == OLD
    remake(graph, shape)
    tasks = [(source, groups), (source, None)]
    for told in [outcome(read_groups, *task) for task in tasks] + run_processes(read_there, tasks):
        assert told[0] in REFUSED, told


def read_groups(source, groups) -> set[str]:
    """As tasks read; `None` asks for the fragments again."""
    schema = pa.schema([("name", pa.string())])
    found = plan_partitions(source, 10**6) if groups is None else groups
    batches = (batch for one in found for batch in read_fragments(source, ["name"], schema, one))
    return {name for batch in batches for name in batch.column("name").to_pylist()}


def read_there(source, groups):
    return outcome(read_groups, source, groups)


def test_a_child_of_the_branch_pins_its_fork(graph):
    """A branch that never wrote reads its parent's fork; both are made again."""
    graph.branches.create("child", from_="b")
    held = graph.snapshot(branch="child")
    view = state_of(graph).reader.view(held, graph.schema.catalog)
    run_processes(remake_with_child, [(graph.uri,)])
    told = outcome(lambda: view.nodes("Person").pinned.table.read(["id"]))
    assert told[0] in REFUSED, told
    assert names(graph, branch="child") == NEW


def remake_with_child(uri: str) -> None:
    with open_graph(uri) as graph:
        graph.branches.delete("child")
        graph.branches.delete("b")
        graph.branches.create("b")
        fill(graph, "b", "new")
        graph.branches.create("child", from_="b")


def test_a_handle_reads_the_new_branch_under_its_name(graph):
    assert names(graph, branch="b") == OLD
    for query in (NAMES, ENDS):
        graph.query(query, branch="b")
    remake(graph)
    assert names(graph, branch="b") == NEW
    assert [(row["a.name"], row["b.name"]) for row in graph.query(ENDS, branch="b")] == [
        ("new1", "new2")
    ]
    with pytest.raises(OmniGraphError) as refused:
        graph.query(NAMES, branch="b", version=10**6)
    assert refused.value.code == "version_not_found"
