"""A writer that is stopped between its preparation and its locks while its branch is remade."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from uuid import uuid4

import pytest

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
