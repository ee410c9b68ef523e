"""What each operation asks of the store: the same at any depth of history, and as much as the table says.

The numbers are those of a graph with two small tables and an edge type; docs/dev/reliability.md explains them.
A change that makes an operation ask more often, or more often the longer a graph lives, is noticed here.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.commit.protocol import commit
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from omnigraph.manifest import tidying
from omnigraph.storage.tables.staging import stage_append
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_commits import commit_staged
from tests.commit.synthetic import PERSON, prepare, rows_of
from tests.faults.calls.counting import Calls, counting
from tests.opened import workspace_of
from tests.pipeline.stream_helpers import run_tasks, sink

SCHEMA = """
node Person { name: String @key  age: I64? }
node Team { name: String @key }
edge MemberOf: Person -> Team
"""
CHOSEN = "01JZZZZZZZZZZZZZZZZZZZZZZ1"
SHALLOW, DEEP = 10, 200
AT_MOST = ("reads", "opens", "probes")

POINT = 'query q() { match { $p: Person { name: "p0" } } return { $p.age } }'
UPDATE = 'query q() { update Person set { age: 1 } where name = "p0" }'
CONNECT = 'query q() { insert MemberOf { from: "p0", to: "t0" } }'


def operations(graph):
    """Each operation with its name, in an order in which all of them have something to do."""
    uri = graph.uri
    reader = open_graph(uri, mode="r")

    def merge():
        graph.branches.merge("b")

    with reader:
        yield "open", lambda: open_graph(uri).close()
        yield "open, read only", lambda: open_graph(uri, mode="r").close()
        yield "snapshot", graph.snapshot
        yield "query, the first of a handle", lambda: reader.query(POINT)
        yield "query", lambda: reader.query(POINT)
        yield "mutate a row", lambda: graph.mutate(UPDATE)
        yield "query after a commit", lambda: reader.query(POINT)
        yield "mutate a row under an id", lambda: graph.mutate(UPDATE, operation_id=CHOSEN)
        yield "mutate it again under the id", lambda: graph.mutate(UPDATE, operation_id=CHOSEN)
        yield "mutate an edge", lambda: graph.mutate(CONNECT)
        yield "load a row", lambda: graph.load([{"type": "Person", "data": {"name": "p0"}}])
        yield "publish alone", lambda: graph.load([])
        yield "tag", lambda: graph.tags.create("t")
        yield "branch create", lambda: graph.branches.create("b")
        yield "first write on a branch", lambda: graph.mutate(UPDATE, branch="b")
        yield "second write on a branch", lambda: graph.mutate(UPDATE.replace("1", "2"), branch="b")
        yield "merge", merge
        yield "list five commits", lambda: graph.commits.list(limit=5)
        yield from micro_batches(uri)


def micro_batches(uri):
    """The steps of a stream, each in a graph that is opened for it, as a process of Spark's does."""
    rows = pa.record_batch({"name": ["p0", "s0"]})
    for number, mode in enumerate(("append", "merge")):
        some = rows[1:] if mode == "append" else rows
        options = {"type": "Person", "merge": str(mode == "merge").lower()}
        outputs = []

        def write(some=some, options=options, outputs=outputs):
            with open_graph(uri, mode="r") as graph:
                outputs += run_tasks(sink(graph, some.schema, **options), [some])

        def commit_batch(number=number, options=options, outputs=outputs):
            with open_graph(uri) as graph:
                committing = sink(graph, rows.schema, **options)
                assert committing.commit(workspace_of(graph), outputs, number) is not None

        yield f"write a micro-batch, {mode}", write
        yield f"commit a micro-batch, {mode}", commit_batch


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What each operation asked for, in a graph of little history and in one of much."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_UPKEEP", "0")
        for depth in (SHALLOW, DEEP):
            root = tmp_path_factory.mktemp("calls") / "g"
            with init(root, SCHEMA) as graph:
                graph.load(
                    [
                        {"type": "Person", "data": {"name": "p0"}},
                        {"type": "Team", "data": {"name": "t0"}},
                    ]
                )
                grow(graph, depth)
                found[depth] = {}
                with pytest.MonkeyPatch.context() as uncompacted:
                    uncompacted.setattr(tidying, "COMPACT_AT_FRAGMENTS", 100)
                    for name, operation in operations(graph):
                        with counting(graph.uri) as told:
                            operation()
                        found[depth][name] = told()
    return found


def grow(graph, depth):
    """Commit that often, and on until the manifest was just compacted, so that it looks alike."""
    workspace = workspace_of(graph)
    number, before = 0, 0
    while True:
        version = workspace.manifest.state("main").table.version
        if number >= depth and version > before + 1:
            return
        before = version
        commit(workspace, prepare(workspace, {PERSON: [f"more-{number}"]}))
        number += 1


def documented() -> dict[str, Calls]:
    """The table of the page on reliability."""
    page = Path(__file__).parents[3] / "docs" / "dev" / "reliability.md"
    head = "| Operation | " + " | ".join(name.capitalize() for name in Calls._fields) + " |"
    _, _, rest = page.read_text(encoding="utf-8").partition(head)
    found = {}
    for line in rest.splitlines()[2:]:
        if not line.startswith("|"):
            break
        name, *numbers = (cell.strip() for cell in line.strip("|").split("|"))
        found[name] = Calls(*map(int, numbers))
    return found


def test_the_calls_of_an_operation_do_not_grow_with_history(measured):
    assert measured[DEEP] == measured[SHALLOW]


def test_the_calls_of_an_operation_are_as_documented(measured):
    table = documented()
    assert list(table) == list(measured[SHALLOW])
    for name, calls in measured[SHALLOW].items():
        golden = table[name]
        # Fewer of these are welcome; the others follow from the protocol.
        fewer = calls._replace(
            **{
                kind: getattr(golden, kind)
                for kind in AT_MOST
                if getattr(calls, kind) <= getattr(golden, kind)
            }
        )
        assert fewer == golden, f"{name}: {calls}, documented as {golden}"


def test_the_counter_counts(tmp_path):
    with init(tmp_path / "g", SCHEMA) as graph:
        workspace = workspace_of(graph)
        with counting(graph.uri) as told:
            workspace.store.write_text("extra", "text")
            workspace.store.read_text("extra")  # reads by a counted call of its own
            workspace.store.list("")
            state = workspace.manifest.state("main").head.tables[PERSON]
            opened = open_table(workspace.pinned(state))
            opened.is_head()
            open_table(workspace.ref(state.location))
            workspace.locks.acquire("a lock").release()
            commit_staged(stage_append(opened, rows_of(PERSON, ["p"], opened.schema)))
    calls = told()
    # The state of a branch asks for the tombstone of the graph and probes one version; a commit opens
    # its base, and looks whether that is still there and whether somebody was faster.
    assert calls == Calls(
        reads=2, lists=1, writes=1, opens=2, newest=1, probes=4, locks=1, versions=1
    )
