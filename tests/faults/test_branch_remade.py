"""A branch deleted, or deleted and made again, under a writer that prepared on it.

The writer stands between its preparation and its locks while another process does it. What is gone
is `branch_not_found`. What was made again is a lost race: the write runs on the new branch as if it
had come a moment later, or is refused; nothing of the old branch comes along.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from uuid import uuid4

import pytest

from omnigraph.errors import BranchNotFound, Contention
from omnigraph.graph import Graph, init
from tests.commit.synthetic import drifted
from tests.faults.remade_workers import (
    BASE,
    KINDS,
    SCHEMA,
    Content,
    Kind,
    fill,
    filled,
    look,
    records,
    serve_writes,
)
from tests.opened import workspace_of
from tests.storage.processes import Stopped, run_processes, talk_to

GONE, AGAIN, EQUAL = "gone", "made again", "same version numbers"
FORKED_NOW, BARE = "forked only now", "never written to"
# Whether the old branch and the new one were written to; None: there is no new one.
SHAPES = {GONE: (True, None), AGAIN: (True, False), EQUAL: (True, True),
          FORKED_NOW: (False, True), BARE: (False, False)}  # fmt: skip


@pytest.fixture
def graph(tmp_path):
    with new_graph(tmp_path / "g") as graph:
        yield graph


def new_graph(place) -> Graph:
    graph = init(place, SCHEMA)
    graph.load(records(BASE))
    return graph


class WriterProcess:
    """One process that writes for many tests; it is replaced when it died."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.talk = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.talk is not None:
            self.talk.__exit__(None, None, None)

    def start(self, place, *call) -> Stopped:
        """Have it write, and wait until it stands at the point."""
        if self.talk is None or not self.process.is_alive():
            self.__exit__()
            self.talk = talk_to(serve_writes, (self.environment,))
            self.process, self.pipe = self.talk.__enter__()
        self.pipe.send((*call, str(place)))
        stopped = Stopped(self.process, self.pipe, place)
        stopped.wait_until_reached()
        return stopped

    def end(self) -> None:
        """No test hears the answers meant for another."""
        if self.talk is not None:
            self.__exit__()
            self.talk = None


@pytest.fixture(scope="module")
def writers():
    with WriterProcess({}) as process:
        yield process


@dataclass
class Race:
    """One writer on one branch of one graph, and what becomes of both."""

    graph: Graph
    writers: WriterProcess
    directory: object
    branch: str = "b"

    def run(self, name: str, remake, expected, **options) -> None:
        """Let the writer prepare, remake the branch, let it go on, and judge everything."""
        places = (self.directory / f"pause-{uuid4().hex}" for _ in itertools.count())
        call = (self.graph.uri, self.branch, name, options, "before_locks")
        ended = False
        try:
            late = self.writers.start(next(places), *call)
            remake()
            told = late.go_on()
            ended = self._judge(told, late, expected)
        finally:
            if not ended:
                self.writers.end()

    def _judge(self, told, late: Stopped, expected) -> bool:
        code, content = expected[0]
        for other, left in expected[1:]:
            if told[0] == other:
                code, content = other, left
        assert told[0] == code, told
        assert workspace_of(self.graph).store.list("__recovery") == []
        if content is None:
            assert self.branch not in self.graph.branches.list()
            late.pipe.send("close")
            self._use_again()
            return True
        assert drifted(self.graph, self.branch) == []
        self._check(content)
        # The next write needs no reopen: neither the late writer's handle nor this one.
        late.pipe.send("again")
        assert late.answer()[0] == "done"
        self.graph.mutate('query q() { insert Person { name: "next" } }', branch=self.branch)
        return True

    def _check(self, content: Content) -> None:
        ((found, drift, sidecars),) = run_processes(look, [(self.graph.uri, self.branch)])
        assert found == content
        assert (drift, sidecars) == ([], [])

    def _use_again(self) -> None:
        """Nothing is left in the way of the next branch of that name."""
        self.graph.branches.create(self.branch)
        fill(self.graph, self.branch, "new")
        self._check(filled(BASE, "new"))


@pytest.fixture
def race(graph, writers, tmp_path):
    return Race(graph, writers, tmp_path)


def prepare(race: Race, shape: str):
    """Make the old branch; how another process remakes it, and the content it then has."""
    graph, branch = race.graph, race.branch
    old, new = SHAPES[shape]
    graph.branches.create(branch)
    if old:
        fill(graph, branch, "old")
    before = pins(graph, branch)

    def remake() -> None:
        graph.branches.delete(branch)
        if new is None:
            return
        graph.branches.create(branch)
        if new:
            fill(graph, branch, "new")
        # The shape is what it says: numbers alone do not tell the two branches apart.
        assert (pins(graph, branch) == before) == (shape in {EQUAL, BARE})

    content = None if new is None else filled(BASE, "new") if new else BASE
    return remake, content


def pins(graph: Graph, branch: str):
    tables = graph.snapshot(branch=branch).tables
    return {key: (pin.table_branch, pin.table_version) for key, pin in tables.items()}


def judged(kind: Kind, content: Content | None):
    """The outcomes that are right, with what the branch then holds."""
    if content is None:
        return [("branch_not_found", None)]
    lost = [("expected_version_mismatch", content)] if kind.loses else []
    return [kind.judge(content), *lost]


def cases(names, shapes):
    return [
        pytest.param(name, shape, id=f"{name}-{shape}")
        for name in names
        for shape in shapes
        if SHAPES[shape][0] or not KINDS[name].on_old
    ]


# Where forks are made, or there are none: one writer of each sort.
FORKING = ["insert", "edge", "merge", "append-strict", "empty", "data-source", "indexes"]


@pytest.mark.parametrize(
    ("name", "shape"),
    [*cases(KINDS, [GONE, AGAIN, EQUAL]), *cases(FORKING, [FORKED_NOW, BARE])],
)
def test_a_write_runs_on_the_branch_that_is_there(race, name, shape):
    remake, content = prepare(race, shape)
    race.run(name, remake, judged(KINDS[name], content))


PLAIN = ["insert", "delete-old", "edge", "merge", "overwrite", "empty"]
CONDITIONAL = ["update", "delete-old", "append", "empty"]


@pytest.mark.parametrize(
    ("name", "shape"),
    [*cases(["edge", "merge"], [GONE, FORKED_NOW, BARE]), *cases(PLAIN, [AGAIN, EQUAL])],
)
def test_without_retries_the_lost_race_is_told(race, name, shape):
    remake, content = prepare(race, shape)
    code = "branch_not_found" if content is None else "expected_version_mismatch"
    race.run(name, remake, [(code, content)], retries=0)


@pytest.mark.parametrize(("name", "shape"), cases(CONDITIONAL, SHAPES))
def test_a_condition_on_the_old_branch_does_not_hold_on_the_new_one(race, name, shape):
    remake, content = prepare(race, shape)
    code = "branch_not_found" if content is None else "precondition_failed"
    race.run(name, remake, [(code, content)], at_head=True)


# ------------------------------------------------------------------ branches of branches


@pytest.mark.parametrize("parents", ["parent stays", "parent made again"])
@pytest.mark.parametrize(
    ("name", "written"),
    [
        pytest.param(name, written, id=f"{name}-{'own fork' if written else 'fork of its parent'}")
        for name in ("insert", "edge-old", "merge", "append", "indexes")
        for written in (True, False)
        if written or not KINDS[name].on_old
    ],
)
def test_a_branch_of_a_branch_made_again(race, name, parents, written):
    """Its tables are forks of forks, or its parent's, which may be another one by then."""
    graph, branch = race.graph, race.branch
    parent = f"{branch}-parent"
    graph.branches.create(parent)
    fill(graph, parent, "parent")
    graph.branches.create(branch, from_=parent)
    if written:
        fill(graph, branch, "old")
    before = pins(graph, branch)

    def remake() -> None:
        graph.branches.delete(branch)
        if parents == "parent made again":
            graph.branches.delete(parent)
            graph.branches.create(parent)
            fill(graph, parent, "again")
        graph.branches.create(branch, from_=parent)
        if written:
            fill(graph, branch, "new")
        assert pins(graph, branch) == before

    content = filled(BASE, "again" if parents == "parent made again" else "parent")
    content = filled(content, "new") if written else content
    race.run(name, remake, judged(KINDS[name], content))
    parent_content = filled(BASE, "again" if parents == "parent made again" else "parent")
    ((found, drift, _),) = run_processes(look, [(graph.uri, parent)])
    assert (found, drift) == (parent_content, [])


def test_a_branch_made_again_from_another_one(race):
    """As a child of `main` it has the numbers that it had as a child of its parent."""
    graph = race.graph
    graph.branches.create("p")
    graph.branches.create("b", from_="p")
    fill(graph, "b", "old")
    before = pins(graph, "b")

    def remake() -> None:
        graph.branches.delete("b")
        graph.branches.create("b")
        fill(graph, "b", "new")
        assert pins(graph, "b") == before

    race.run("merge", remake, judged(KINDS["merge"], filled(BASE, "new")))


# ------------------------------------------------------------------ under the locks


ONE_OF_EACH = ["insert", "merge", "empty", "data-source", "indexes", "compaction"]


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_branch_cannot_be_deleted_between_the_checks_and_the_publish(race, name, monkeypatch):
    graph, branch = race.graph, race.branch
    prepare(race, EQUAL)
    call = (graph.uri, branch, name, {}, "before_phase_a")
    try:
        writer = race.writers.start(race.directory / "pause", *call)
        with monkeypatch.context() as patch:
            patch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "20")
            with pytest.raises(Contention):
                graph.branches.delete(branch)
        assert branch in graph.branches.list()
        told = writer.go_on()
        assert told[0] == "done", told
        _, content = KINDS[name].judge(filled(BASE, "old"))
        ((found, drift, sidecars),) = run_processes(look, [(graph.uri, branch)])
        assert (found, drift, sidecars) == (content, [], [])
        graph.branches.delete(branch)
        writer.pipe.send("again")
        assert writer.answer()[0] == "branch_not_found"
    except BaseException:
        race.writers.end()
        raise
    with pytest.raises(BranchNotFound):
        graph.snapshot(branch=branch)
