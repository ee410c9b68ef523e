"""A branch deleted under writers at work: they say that it is gone, and damage is not what they see."""

from __future__ import annotations

import logging
import os
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.commit.audit import read_audit
from omnigraph.commit.protocol import commit
from omnigraph.errors import Contention, RecoveryRequired
from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import (
    MEMBER_OF,
    PERSON,
    TEAM,
    contents,
    drifted,
    dying_at,
    prepare,
    write,
)
from tests.faults.remade_helpers import new_graph
from tests.faults.remade_workers import (
    BASE,
    KINDS,
    Content,
    fill,
    filled,
    look,
    outcome,
    records,
)
from tests.manifest.publishing import new_graph as new_team_graph
from tests.opened import workspace_of
from tests.sampling import runs_all
from tests.storage.processes import run_processes, stopped_at, talk_to

DOCS = "node Doc { slug: String @key  body: String?  vec: Vector(2)? @embed(body) }"


@pytest.fixture
def graph(tmp_path):
    with new_graph(tmp_path / "g") as graph:
        graph.branches.create("b")
        fill(graph, "b", "old")
        yield graph


@pytest.fixture
def writer(graph, writers, tmp_path):
    def start(name: str, moment: str, **options):
        return writers.start(tmp_path / "writer", graph.uri, "b", name, options, moment)

    yield start
    writers.end()


# ------------------------------------------------------------------ a delete that takes its time


def delete_paused(pipe: Connection, uri: str, point: str, place: str) -> None:
    with open_graph(uri) as graph:
        failpoints.arm(point, failpoints.FilePause(Path(place)), times=1)
        pipe.send(outcome(graph.branches.delete, "b"))


@pytest.mark.parametrize("point", ["branch.before_delete", "branch.after_delete"])
@pytest.mark.parametrize("name", ["insert", "delete-old", "merge", "empty", "data-source", "indexes"])  # fmt: skip
def test_a_prepared_writer_waits_for_the_delete_and_finds_the_branch_gone(
    graph, writer, tmp_path, point, name
):
    late = writer(name, "before_locks")
    with stopped_at(tmp_path / "delete", delete_paused, (graph.uri, point)) as delete:
        late.pause.resume()
        assert delete.go_on() == ("done", None)
    told = late.answer()
    assert told[0] == "branch_not_found", told
    assert workspace_of(graph).store.list("__recovery") == []
    assert graph.branches.list() == ["main"]


def test_nobody_writes_while_the_branch_goes(graph, tmp_path, monkeypatch):
    """Under its locks the delete has the branch for itself, until it is gone for everybody."""
    place = tmp_path / "delete"
    with stopped_at(place, delete_paused, (graph.uri, "branch.before_delete")) as delete:
        with monkeypatch.context() as patch:
            patch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "20")
            for name in ("insert", "merge", "empty", "indexes"):
                told = outcome(KINDS[name].run, graph, "b")
                assert told[0] == "contention", (name, told)
            with pytest.raises(Contention):
                graph.branches.create("c")
        assert delete.go_on() == ("done", None)
    for name in ("insert", "merge", "empty", "indexes", "data-source"):
        assert outcome(KINDS[name].run, graph, "b")[0] == "branch_not_found"


def test_once_the_ref_is_gone_the_branch_is(graph, tmp_path):
    """Its files are still there: the list of branches decides."""
    place = tmp_path / "delete"
    with stopped_at(place, delete_paused, (graph.uri, "branch.after_delete")) as delete:
        for name in ("insert", "update-old", "merge", "empty", "indexes"):
            told = outcome(KINDS[name].run, graph, "b")
            assert told[0] == "branch_not_found", (name, told)
        assert delete.go_on() == ("done", None)


# ------------------------------------------------------------------ while a write is prepared


class Embedder:
    """Stops at the first text, which is after the pin and before the table is opened."""

    model = "test"

    def __init__(self, place: str) -> None:
        self.pause = failpoints.FilePause(Path(place))

    def embed(self, texts, dimension):
        self.pause("embedding")
        return [[1.0] * dimension for _ in texts]


def insert_embedding(pipe: Connection, uri: str, place: str) -> None:
    with open_graph(uri, embedder=Embedder(place)) as graph:
        text = 'query q() { insert Doc { slug: "w", body: "x" } }'
        pipe.send(outcome(lambda: graph.mutate(text, branch="b").affected_nodes))


def load_telling(pipe: Connection, uri: str, place: str) -> None:
    """Stops between the pin and the rules that look at the stored rows."""
    pause = failpoints.FilePause(Path(place))

    def stop(progress) -> None:
        if progress.phase == "validating":
            pause("validating")

    given = [{"type": "Doc", "data": {"slug": "w", "vec": [1, 1]}}]
    with open_graph(uri) as graph:
        pipe.send(
            outcome(lambda: graph.load(given, branch="b", mode="append", progress=stop).total_rows)
        )


@pytest.fixture
def docs(tmp_path):
    with init(tmp_path / "d", DOCS) as graph:
        graph.branches.create("b")
        put(graph, "old")
        yield graph


def put(graph: Graph, slug: str) -> None:
    graph.load([{"type": "Doc", "data": {"slug": slug, "vec": [0, 0]}}], branch="b")


def slugs(graph: Graph) -> list[str]:
    found = graph.query("query q() { match { $d: Doc } return { $d.slug } }", branch="b")
    return sorted(row["d.slug"] for row in found)


@pytest.mark.parametrize("worker", [insert_embedding, load_telling])
@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again"])
def test_a_branch_deleted_while_a_write_is_prepared(docs, tmp_path, worker, again):
    """The files that it needs are gone: which is not "missing or damaged", but what happened."""
    with stopped_at(tmp_path / "pause", worker, (docs.uri,)) as late:
        docs.branches.delete("b")
        if again:
            docs.branches.create("b")
            put(docs, "new")
        told = late.go_on()
    if again:
        assert told == ("done", 1)
        assert slugs(docs) == ["new", "w"]
        assert drifted(docs, "b") == []
    else:
        assert told[0] == "branch_not_found", told
    assert workspace_of(docs).store.list("__recovery") == []


# ------------------------------------------------------------------ all at once


ROUNDS = 8 if runs_all() else 4


def write_until_told(pipe: Connection, environment: dict[str, str], uri: str, who: str) -> None:
    """Insert one row after the other; the commit of each, or the code of its error."""
    os.environ.update(environment)
    told = []
    with open_graph(uri) as graph:
        while not pipe.poll():
            name = f"{who}-{len(told)}"
            made = outcome(graph.load, records(Content({name: 0}, ((name, "base1"),))), branch="b")
            done = made[0] == "done"
            told.append((made[0], name, made[1].commit.graph_commit_id if done else made[1]))
            if len(told) == 1:
                pipe.send("begun")
    pipe.send(told)


def read_until_told(pipe: Connection, environment: dict[str, str], uri: str) -> None:
    os.environ.update(environment)
    told = {}
    with open_graph(uri, mode="r") as graph:
        pipe.send("begun")
        while not pipe.poll():
            code, message = outcome(
                graph.query, "query q() { match { $p: Person } return { $p.name } }", branch="b"
            )
            told[code] = message if code != "done" else ""
    pipe.send(told)


def test_a_branch_refreshed_again_and_again_under_writers_and_readers(graph):
    """Each write is on the branch that its commit is on, whole, or was refused."""
    with (
        talk_to(write_until_told, ({}, graph.uri, "x")) as (_, first),
        talk_to(write_until_told, ({}, graph.uri, "y")) as (_, second),
        talk_to(read_until_told, ({}, graph.uri)) as (_, reader),
    ):
        for pipe in (first, second, reader):
            assert pipe.recv() == "begun"
        for _ in range(ROUNDS):
            graph.branches.delete("b")
            graph.branches.create("b")
            fill(graph, "b", "new")
        for pipe in (first, second, reader):
            pipe.send("stop")
        told = [*first.recv(), *second.recv()]
        read = reader.recv()
    odd = [one for one in told if one[0] not in {"done", "branch_not_found"}]
    assert odd == []
    assert read.keys() <= {"done", "branch_not_found"}, read
    assert workspace_of(graph).store.list("__recovery") == []
    assert drifted(graph, "b") == []
    there = {one.graph_commit_id for one in graph.commits.list("b")}
    mine = {name for code, name, made in told if code == "done" and made in there}
    ((found, _, _),) = run_processes(look, [(graph.uri, "b")])
    wanted = filled(BASE, "new").put(**dict.fromkeys(mine, 0))
    assert found == wanted.link(*((name, "base1") for name in mine))
    assert outcome(KINDS["insert"].run, graph, "b")[0] == "done"


# ------------------------------------------------------------------ two dead writers


@pytest.fixture
def teams(tmp_path):
    with new_team_graph(tmp_path) as graph:
        yield graph


def die_one_after_the_other(graph: Graph, second: str) -> None:
    """The first dies between its two tables, the second after it wrote to the other one of them."""
    with dying_at("load.after_table_commit"):
        commit(
            workspace_of(graph), prepare(workspace_of(graph), {PERSON: ["first"], TEAM: ["first"]})
        )
    rows = {TEAM: ["second"], MEMBER_OF: ["second"]}
    with dying_at(second):
        write(workspace_of(graph), rows)
    assert len(workspace_of(graph).store.list("__recovery")) == 2


@pytest.mark.parametrize(
    ("second", "left"),
    [
        ("load.after_table_commit", []),
        ("load.after_phase_b_before_phase_c", ["second"]),
        ("load.after_phase_c_before_phase_d", ["second"]),
    ],
)
def test_of_two_dead_writers_none_is_taken_for_another_program(teams, caplog, second, left):
    die_one_after_the_other(teams, second)
    with caplog.at_level(logging.INFO), open_graph(teams.uri) as reopened:
        assert workspace_of(reopened).store.list("__recovery") == []
        assert contents(reopened) == {PERSON: [], TEAM: left, MEMBER_OF: left}
        assert drifted(reopened) == []
        assert len(read_audit(workspace_of(reopened))) == 2
    said = " ".join(record.getMessage() for record in caplog.records)
    assert "another program" not in said
    assert "repair" not in said
    write(workspace_of(teams), {key: ["next"] for key in (PERSON, TEAM, MEMBER_OF)})


def test_a_write_finishes_the_second_and_leaves_the_first_to_an_open(teams):
    die_one_after_the_other(teams, "load.after_phase_b_before_phase_c")
    write(workspace_of(teams), {TEAM: ["third"]})
    assert contents(teams) == {PERSON: [], TEAM: ["second", "third"], MEMBER_OF: ["second"]}
    with pytest.raises(RecoveryRequired) as stuck:
        write(workspace_of(teams), {PERSON: ["third"]})
    assert "reopen" in str(stuck.value)
    assert "another program" not in str(stuck.value)
    open_graph(teams.uri).close()
    write(workspace_of(teams), {PERSON: ["third"]})
    assert drifted(teams) == []
