"""A network that fails under every operation: all of it or nothing of it, and the next write works.

Each case fails one writing request of an operation, or every one from there on, behind a proxy that
answers with errors, resets connections before or after the store did its work, or answers slowly. The
suite draws which request, and gives each operation one of the faults; `./dev faults --all` takes them
all in turn.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from uuid import uuid4

import pytest

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.storage.layout import LOCKS_DIR
from omnigraph.storage.objects.store_errors import Unavailable
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.store_kinds.store_kind import Limits
from omnigraph.storage.uris import Root
from tests import sampling
from tests.commit.synthetic import drifted
from tests.measured import MEASURED
from tests.opened import workspace_of
from tests.s3_proxy import Fault, FaultProxy, Request
from tests.s3_server import BUCKET

SCHEMA = "node P { k: String @key }  node Q { k: String @key }  edge L: P -> Q"
WIDER = "node P { k: String @key  %s: I64? }  node Q { k: String @key }  edge L: P -> Q"
BOTH = "query q($k: String) { insert P { k: $k } insert Q { k: $k } }"
KEYS = "query q() { match { $n: %s } return { $n.k } }"
LINKS = "query q() { match { $p: P  $q: Q  $p l $q } return { $p.k as p, $q.k as q } }"

Fact = tuple[str, ...]
Facts = frozenset[Fact]


def facts(graph: Graph) -> Facts:
    """All that the operations of this page change, as facts that can be added and removed."""
    found: set[Fact] = {("tag", tag.name) for tag in graph.tags.list()}
    found |= {("property", name) for name in graph.schema.catalog.nodes["P"].properties}
    for branch in graph.branches.list():
        found.add(("branch", branch))
        for kind in "PQ":
            rows = graph.query(KEYS % kind, branch=branch).rows
            found |= {("row", branch, kind, row["n.k"]) for row in rows}
        rows = graph.query(LINKS, branch=branch).rows
        found |= {("edge", branch, row["p"], row["q"]) for row in rows}
    return frozenset(found)


def rows_of(branch: str, key: str) -> Facts:
    return frozenset({("row", branch, "P", key), ("row", branch, "Q", key)})


def of_branch(branch: str, before: Facts) -> Facts:
    """The branch and its rows."""
    return frozenset(fact for fact in before if branch in fact[:2])


@dataclass(frozen=True)
class Operation:
    """What is run under a failing network; every run has a name of its own.

    ``after``: what holds when it is done, by its name and what held before.
    """

    run: Callable[[Graph, str], object]
    after: Callable[[str, Facts], Facts]
    prepare: Callable[[Graph, str], object] = lambda _graph, _name: None


def put(graph: Graph, name: str, branch: str = "main") -> None:
    graph.mutate(BOTH, params={"k": name}, branch=branch)


def branch_with_rows(graph: Graph, name: str) -> None:
    graph.branches.create(name)
    put(graph, name, name)


def drop_branch(graph: Graph, name: str) -> None:
    if name in graph.branches.list():
        graph.branches.delete(name)


def load(graph: Graph, name: str) -> None:
    rows = [{"type": kind, "data": {"k": name}} for kind in "PQ"]
    graph.load([*rows, {"edge": "L", "from": name, "to": name, "data": {}}])


def copied(name: str, before: Facts) -> Facts:
    """What a new branch of `main` has."""
    rest = (fact for fact in of_branch("main", before) if fact[0] != "branch")
    return frozenset({("branch", name), *((fact[0], name, *fact[2:]) for fact in rest)})


def widened(name: str, before: Facts) -> Facts:
    """A schema with that property and none of the ones that other runs added."""
    rest = (fact for fact in before if fact[0] != "property")
    return frozenset({*rest, ("property", "k"), ("property", name)})


OPERATIONS = {
    # First: what others leave behind would be gone with its undisturbed run, and the next have less to do.
    "clean up": Operation(
        lambda graph, _name: graph.cleanup(keep_versions=1), lambda _name, before: before, put
    ),
    "mutate": Operation(put, lambda name, before: before | rows_of("main", name)),
    "load": Operation(
        load,
        lambda name, before: before | rows_of("main", name) | {("edge", "main", name, name)},
    ),
    "fork": Operation(
        lambda graph, name: put(graph, name, name),
        lambda name, before: before | rows_of(name, name),
        lambda graph, name: graph.branches.create(name),
    ),
    "merge": Operation(
        lambda graph, name: graph.branches.merge(name),
        lambda name, before: before | rows_of("main", name),
        branch_with_rows,
    ),
    "create branch": Operation(
        lambda graph, name: graph.branches.create(name),
        lambda name, before: before | copied(name, before),
    ),
    "delete branch": Operation(
        lambda graph, name: graph.branches.delete(name),
        lambda name, before: before - of_branch(name, before),
        branch_with_rows,
    ),
    "tag": Operation(
        lambda graph, name: graph.tags.create(name), lambda name, before: before | {("tag", name)}
    ),
    "schema apply": Operation(lambda graph, name: graph.schema.apply(WIDER % name), widened),
}
FAULTS = [fault for fault in Fault if fault is not Fault.HANG]


@pytest.fixture(scope="module")
def standing(s3_server) -> Iterator[FaultProxy]:
    with FaultProxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def proxy(s3, standing, monkeypatch) -> FaultProxy:
    monkeypatch.setenv("AWS_ENDPOINT_URL", standing.endpoint)
    standing.count_from_here()
    return standing


@pytest.fixture(scope="module")
def sound() -> list[str]:
    """The graph that operations may go on with: the last one left it as it should be."""
    return []


@pytest.fixture
def ready(proxy, sound) -> Graph:
    """A graph with one row of each type, open; a handle of it is used for every run of a case."""
    if sound:
        return og.open(sound.pop())
    graph = og.init(f"s3://{BUCKET}/{uuid4().hex}", SCHEMA)
    put(graph, "first")
    return graph


class Run(NamedTuple):
    """One way to fail an operation: at its nth writing request, then once or from there on."""

    number: int
    fault: Fault
    lasting: bool
    reopens: bool
    """Whether another handle goes on, and not the one that met the fault."""

    def choose(self, request: Request) -> Fault | None:
        met = request.number >= self.number if self.lasting else request.number == self.number
        return self.fault if request.writes and met else None


class Case:
    """One operation, run again and again under other faults."""

    def __init__(self, operation: Operation, proxy: FaultProxy, uri: str) -> None:
        self.operation = operation
        self.proxy = proxy
        self.uri = uri
        self.name = f"x{uuid4().hex[:8]}"

    def writing_requests(self, graph: Graph) -> int:
        """How many there are in an undisturbed run."""
        name = f"{self.name}clean"
        self.operation.prepare(graph, name)
        before = facts(graph)
        self.proxy.count_from_here()
        self.operation.run(graph, name)
        number = sum(request.writes for request in self.proxy.seen)
        assert facts(graph) == self.operation.after(name, before)
        drop_branch(graph, name)
        return number

    def chosen(self, requests: int, name: str) -> list[Run]:
        """One fault, at some request; all there are with `--all`."""
        if sampling.runs_all():
            every = itertools.product(range(requests), FAULTS, (False, True), (False, True))
            return [Run(*values) for values in every]
        draw = random.Random(f"{sampling.seed()} {name}")
        fault = FAULTS[list(OPERATIONS).index(name) % len(FAULTS)]
        return [Run(draw.randrange(requests), fault, draw.random() < 0.5, draw.random() < 0.5)]

    def run(self, graph: Graph, at: int, run: Run) -> Graph:
        """Fail as the run says and judge; return the handle to go on with."""
        name = f"{self.name}run{at}"
        self.operation.prepare(graph, name)
        before = facts(graph)
        after = self.operation.after(name, before)
        self.proxy.count_from_here(run.choose)
        error = None
        try:
            self.operation.run(graph, name)
        except OmniGraphError as raised:
            error = raised
        told = f"{run}: {error!r} after {[str(request) for request, _ in self.proxy.failed]}"
        if not self.proxy.failed:
            # The counted run wrote more: how often leases are renewed depends on the clock.
            assert error is None, told
            assert run.number >= sum(request.writes for request in self.proxy.seen), told
        self.proxy.count_from_here()
        if run.lasting:
            self.pass_lease()
        # A request that is answered with an error is sent again. When the connection breaks, Lance
        # sends a conditional put only once, because it cannot know whether the first one was done.
        broken = run.fault in {Fault.RESET_BEFORE, Fault.RESET_AFTER}
        assert error is None or run.lasting or broken, told
        with og.open(self.uri, mode="r") as reader:
            seen = facts(reader)
        assert seen in {before, after}, told
        assert error is not None or seen == after, told
        graph = self.go_on(graph, name, before, after, reopens=run.reopens)
        drop_branch(graph, name)
        return graph

    def pass_lease(self) -> None:
        """What an operation could not give back is free after its period, for which nobody need wait here."""
        store = open_store(Root.parse(self.uri))
        for lock in store.list(LOCKS_DIR):
            store.delete(lock)

    def go_on(
        self,
        graph: Graph,
        name: str,
        before: Facts,
        after: Facts,
        *,
        reopens: bool,
    ) -> Graph:
        """The same handle or another one writes on; what was left half done is done or undone."""
        next_name = f"{name}next"
        if not reopens:
            try:
                put(graph, next_name)
            except OmniGraphError as error:
                assert "reopen the graph read-write" in str(error)
                reopens = True
        if reopens:
            graph.close()
            graph = og.open(self.uri)
            put(graph, next_name)
        more = rows_of("main", next_name)
        assert facts(graph) in {before | more, after | more}
        assert workspace_of(graph).store.list("__recovery") == []
        for branch in graph.branches.list():
            assert drifted(graph, branch) == []
        return graph


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_is_done_or_not_done(ready, proxy, sound, operation, record_property):
    case = Case(OPERATIONS[operation], proxy, ready.uri)
    graph = ready
    runs = case.chosen(case.writing_requests(graph), operation)
    for at, run in enumerate(runs):
        graph = case.run(graph, at, run)
    graph.close()
    sound.append(case.uri)
    record_property(MEASURED, f"runs under a fault: {len(runs)}")


def test_a_request_that_is_never_answered_ends_in_an_error(s3, proxy):
    root = Root.parse(f"s3://{BUCKET}/{uuid4().hex}")
    proxy.count_from_here(lambda request: Fault.HANG if request.writes else None)
    with pytest.raises(Unavailable):
        open_store(root, Limits(3.0, 0)).write_text("object", "text")
    store, until = open_store(root), time.monotonic() + 120
    while not store.exists("object"):  # on a busy machine the request may still be on its way
        assert time.monotonic() < until
        time.sleep(0.01)
    assert [fault for _, fault in proxy.failed] == [Fault.HANG]
    proxy.count_from_here()
    assert store.read_text("object") == "text"
