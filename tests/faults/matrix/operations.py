"""Every operation that changes a graph, and the small graphs they are run on.

``forest`` has branches: ``side`` with forks and changes of its own, ``gone`` likewise, ``lazy`` without a fork.
``alone`` has only `main`, for what schemas change; the manifest of ``crowded`` is about to be compacted. ``half``,
``whole`` and ``published`` hold a mutation whose process died on the way, ``drifted`` a table that another
program wrote to. ``nothing`` is a root without a graph. Those whose branches have schemas of their own are in
``schema_graphs``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import omnigraph as og
from omnigraph.embeddings.offline import MockEmbedder
from omnigraph.errors import (
    AlreadyInitialised,
    BranchExists,
    BranchNotFound,
    KeyConflict,
    OmniGraphError,
    PreconditionFailed,
    TagExists,
    TagNotFound,
)
from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph
from omnigraph.lang.schema.catalog import Entity
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.schema_row import read_accepted
from omnigraph.manifest.tidying import mergeable
from omnigraph.storage.tables.indexing.table_indexes import list_indexes
from omnigraph.storage.tables.table import open_table
from omnigraph.types import from_arrow
from tests.commit.synthetic import dying_at, foreign_append
from tests.faults.matrix import schema_graphs
from tests.faults.matrix.schema_graphs import build_merged, build_schemas, build_two, merge, undo
from tests.maintenance.cleaning import on_disk
from tests.opened import workspace_of
from tests.stored import read_plain

SCHEMA = """
node Person { name: String @key  age: I32? @index  spare: String? }
node Note { slug: String @key  text: String?  vec: Vector(4)? @embed(text)  body: Blob? }
edge Wrote: Person -> Note { year: I32? }
"""
SOFT = """
node Person { name: String @key  years: I32? @index @rename_from("age")  spare: String?  more: I32? }
node Note { slug: String @key  text: String?  vec: Vector(4)? @embed(text)  body: Blob? }
node Fresh { slug: String @key }
edge Wrote: Person -> Note { }
"""
HARD = """
node Person { name: String @key  age: I32? @index }
node Note { slug: String @key  text: String?  vec: Vector(4)? @embed(text) }
"""
FILLING = """
node Person { name: String @key  age: I32? @index  spare: String?  rank: I32 @default(7) }
node Note { slug: String @key  text: String?  vec: Vector(4)? @embed(text)  body: Blob?  tags: [String] @default(["t"]) }
edge Wrote: Person -> Note { year: I32?  weight: F64 @default(0.5) }
"""
EVERYDAY = """
node Person { name: String @key  age: I64? @index  spare: String?  @range(age, 0..)  @unique(name, age) }
node Note { slug: String @key  text: String?  vec: Vector(4)? @embed(text, model="m")  body: Blob? }
edge Wrote: Person -> Note @card(0..9) { year: I64? }
"""
TYPES = schema_graphs.TYPES
# Run twice, each of these leaves what it leaves when it is run once.
BOTH = "query q($k: String) { insert Person { name: $k, age: 5 } insert Note { slug: $k } }"
CUT = 'query q() { delete Person where name = "bob" }'
TWO_STEPS = """
query q($k: String) { match { $p: Person { name: "bob" } } delete $p upsert Person { name: $k, age: $p.age } }
"""
"""Deletes rows of a table and writes others: two steps of one commit, and no rows the second time."""
COUNTED = """
query q() {
  match { $p: Person { name: "ada" } }
  delete Person where name = "bob"
  update $p set { age: $p.age + 1 }
}
"""
NAMED = "old"
"""The actor of the commit that operations on the past name."""


def records(key: str, age: int) -> list[dict[str, Any]]:
    """A person and a note of that name, and an edge between them."""
    return [
        {"type": "Person", "data": {"name": key, "age": age}},
        {"type": "Note", "data": {"slug": key, "text": f"of {key}", "vec": [age, 0, 0, 1]}},
        {"edge": "Wrote", "from": key, "to": key, "data": {"id": f"w-{key}"}},
    ]


def opened(uri: str, mode: Any = "rw") -> Graph:
    """Open a graph the way all of these do."""
    return open_graph(uri, mode, embedder=MockEmbedder())


def _filled(uri: str) -> Graph:
    graph = init(uri, SCHEMA)  # without an embedder, so that vectors are missing
    unfilled = {"type": "Note", "data": {"slug": "plain", "text": "without a vector"}}
    graph.load([*records("ada", 1), *records("bob", 2), unfilled])
    graph.blobs.write("node", "Note", "ada", "body", b"first")
    return graph


def build_forest(uri: str) -> None:
    """Make the graph with branches."""
    with _filled(uri) as graph:
        graph.tags.create("kept")
        graph.mutate(BOTH, params={"k": "past"}, actor=NAMED)
        for branch in ("lazy", "side", "gone"):
            graph.branches.create(branch)
        for branch in ("side", "gone"):
            graph.mutate(BOTH, params={"k": branch}, branch=branch)
        graph.mutate(BOTH, params={"k": "more"}, branch="side")
        graph.mutate('query q() { update Person set { age: 9 } where name = "ada" }')


def build_alone(uri: str) -> None:
    """Make the graph without branches."""
    with _filled(uri) as graph:
        graph.mutate(CUT)
        graph.ensure_indices()


def build_crowded(uri: str) -> None:
    """Make the graph without branches, and publish until one more publish compacts its manifest."""
    build_alone(uri)
    with opened(uri) as graph:
        while not mergeable([*(there := _manifest_fragments(graph)), there[-1]]):
            graph.load([])


def _manifest_fragments(graph: Graph) -> list[Any]:
    return workspace_of(graph).manifest.state("main").table.fragments()


def build_nothing(uri: str) -> None:
    """There is no graph."""


def _dying_at(point: str) -> Callable[[str], None]:
    """The graph without branches, with a mutation that stopped at a point."""

    def build(uri: str) -> None:
        build_alone(uri)
        with opened(uri) as graph, dying_at(point):
            graph.mutate(BOTH, params={"k": "new"})

    return build


def _dying_merge(into: str, moment: str) -> Callable[[str], None]:
    """The graph with schemas, and a merge that changes one and stopped on the way."""

    def build(uri: str) -> None:
        build_two(uri, into)
        with opened(uri) as graph, dying_at(f"branch_merge.{moment}"):
            graph.branches.merge("grow", into)

    return build


def build_drifted(uri: str) -> None:
    """Make the graph without branches, and write to one of its tables behind its back."""
    build_alone(uri)
    with opened(uri) as graph:
        foreign_append(graph, "node:Person", ["foreign"])


GRAPHS: dict[str, Callable[[str], None]] = {
    "forest": build_forest,
    "alone": build_alone,
    "crowded": build_crowded,
    "nothing": build_nothing,
    "half": _dying_at("mutation.after_table_commit"),
    "whole": _dying_at("mutation.after_phase_b_before_phase_c"),
    "published": _dying_at("mutation.after_phase_c_before_phase_d"),
    "drifted": build_drifted,
    "schemas": build_schemas,
    "merged": build_merged,
    "schemas half": _dying_merge("joined", "after_table_commit"),
    "schemas whole": _dying_merge("main", "after_phase_b_before_phase_c"),
}


# ------------------------------------------------------------------ what a graph shows


def shown(graph: Graph) -> dict[str, Any]:
    """What a user sees: the schema and the rows of every branch, the tags and what they name."""
    found: dict[str, Any] = {}
    manifest = workspace_of(graph).manifest
    for branch in graph.branches.list():
        state = manifest.state(branch)
        tables, row = state.head.tables, manifest.schema(state)
        catalog = read_accepted(row, state.head)[1]
        assert graph.schema.show(branch=branch).source == row.source
        found[f"schema {branch}"] = row.source
        found[f"branch {branch}"] = {
            key: _rows(graph, row.source, kind, tables[key])
            for kind in (*catalog.nodes.values(), *catalog.edges.values())
            for key in (kind.table_key,)
        }
    for tag in graph.tags.list():
        found[f"tag {tag.name}"] = tag.graph_commit_id
    return found


def _rows(graph: Graph, source: str, kind: Entity, pin: TableState) -> list[dict[str, Any]]:
    """The rows of a table, by id. A state of a table never changes, so it is read once per process."""
    key = (source, pin.identity)
    if key not in _known:
        table = read_plain(open_table(workspace_of(graph).pinned(pin)))
        assert table.num_rows == pin.row_count
        columns = {name: table.column(name).to_pylist() for name in kind.implicit_columns}
        for name, prop in kind.properties.items():
            columns[name] = from_arrow(prop.type.as_nullable(), table.column(name))
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        _known[key] = sorted(rows, key=lambda row: row["id"])
    return _known[key]


_known: dict[object, list[dict[str, Any]]] = {}


def indexes(graph: Graph) -> dict[str, Any]:
    """The indexes of every table of every branch."""
    workspace = workspace_of(graph)
    return {
        f"{branch} {key}": sorted(
            one.name for one in list_indexes(open_table(workspace.pinned(pin)))
        )
        for branch in graph.branches.list()
        for key, pin in graph.snapshot(branch=branch).tables.items()
    }


def shape(graph: Graph) -> dict[str, Any]:
    """How many fragments every table of every branch has, and its indexes."""
    workspace = workspace_of(graph)
    fragments = {
        f"{branch} {key} fragments": len(open_table(workspace.pinned(pin)).fragments())
        for branch in graph.branches.list()
        for key, pin in graph.snapshot(branch=branch).tables.items()
    }
    return {**fragments, **indexes(graph)}


def versions(graph: Graph) -> dict[str, Any]:
    """The versions of every table that are there, and their branches."""
    return {f"{place} {branch}": those for (place, branch), those in on_disk(graph).items()}


# ------------------------------------------------------------------ the operations

Run = Callable[[Any], object]


@dataclass(frozen=True)
class Operation:
    """An operation on one of the graphs.

    ``again``: what running it once more raises when it has happened; None if it does no harm.
    ``branch``: where its commit goes, None if it makes none or several. ``work``: for maintenance, which shows nothing
    and may leave a part of it out: what must be true when it was repeated. ``opens``: it takes the address
    of the graph and opens it. ``recovers``: it settles an operation that is pending on the graph.
    ``once``: it is sent under ``CHOSEN``, so however often it is, there is one commit. ``tidy``: in the end, after
    a cleanup, no table and no fork is there that no branch has.
    """

    run: Run
    graph: str = "forest"
    again: type[OmniGraphError] | None = None
    branch: str | None = "main"
    work: Callable[[Graph], Any] | None = None
    opens: bool = False
    recovers: bool = False
    once: bool = False
    tidy: bool = False


CHOSEN = "01JZZZZZZZZZZZZZZZZZZZZZZ1"
"""The id of operations that are sent under one."""


def _load(mode: Any, branch: str = "main", **options: Any) -> Run:
    given = records("new", 3) + (records("ada", 4) if mode != "append" else [])
    return lambda graph: graph.load(given, mode=mode, branch=branch, **options)


def _mutate(branch: str = "main", query: str = BOTH, **options: Any) -> Run:
    params = {"k": "new"} if "$k" in query else {}
    return lambda graph: graph.mutate(query, params=params, branch=branch, **options)


def _if_commit(graph: Graph) -> None:
    head = graph.snapshot(branch="side").graph_commit_id
    graph.mutate(BOTH, params={"k": "new"}, branch="side", if_commit=head)


def _with_upkeep(branch: str) -> Run:
    """A mutation after which its tables are put in shape. That is best effort: the mutation counts."""

    def run(graph: Graph) -> None:
        os.environ["OMNIGRAPH_UPKEEP_FRAGMENTS"] = "1"
        _mutate(branch)(graph)

    return run


def _old_commit(graph: Graph) -> str:
    (found,) = graph.commits.list(filter=f"actor={NAMED}")
    return found.graph_commit_id


def _apply(source: str, loss: bool, branch: str = "main") -> Run:
    return lambda graph: graph.schema.apply(source, allow_data_loss=loss, branch=branch)


def _on_schemas(run: Run, branch: str, graph: str = "schemas") -> Operation:
    """An operation that changes the schema of a branch of one of these graphs."""
    return Operation(run, graph=graph, branch=branch, tidy=True)


def _write_blob(branch: str) -> Run:
    return lambda graph: graph.blobs.write("node", "Note", "ada", "body", b"new", branch=branch)


def _recovery(graph: str, branch: str = "main") -> Operation:
    return Operation(
        lambda uri: opened(uri).close(),
        graph=graph,
        branch=branch,
        opens=True,
        recovers=True,
        tidy=graph.startswith("schemas"),
    )


OPERATIONS: dict[str, Operation] = {
    "load append": Operation(_load("append"), again=KeyConflict),
    "load append, under an id": Operation(_load("append", operation_id=CHOSEN), once=True),
    "load merge": Operation(_load("merge")),
    "load overwrite": Operation(_load("overwrite")),
    "load patch": Operation(_load("patch")),
    "load merge, forking": Operation(_load("merge", "lazy"), branch="lazy"),
    "load overwrite, on a fork": Operation(_load("overwrite", "side"), branch="side"),
    "load nothing": Operation(lambda graph: graph.load([])),
    "mutate": Operation(_mutate()),
    "mutate, forking": Operation(_mutate("lazy"), branch="lazy"),
    "mutate, deleting on a fork": Operation(_mutate("side", CUT), branch="side"),
    "mutate, if_commit": Operation(_if_commit, again=PreconditionFailed, branch="side"),
    "mutate, forking under an id": Operation(
        _mutate("lazy", operation_id=CHOSEN), branch="lazy", once=True
    ),
    "mutate in two steps": Operation(_mutate(query=TWO_STEPS)),
    "mutate in two steps, forking": Operation(_mutate("lazy", TWO_STEPS), branch="lazy"),
    "mutate in two steps, under an id": Operation(
        _mutate("side", COUNTED, operation_id=CHOSEN), branch="side", once=True
    ),
    "merge": Operation(lambda graph: graph.branches.merge("side")),
    "merge, forking": Operation(lambda graph: graph.branches.merge("side", "lazy"), branch="lazy"),
    "revert": Operation(lambda graph: graph.commits.revert(_old_commit(graph))),
    "create a branch": Operation(
        lambda graph: graph.branches.create("new", "side"), again=BranchExists, branch=None
    ),
    "branch from the past": Operation(
        lambda graph: graph.branches.create("new", og.at(snapshot=_old_commit(graph))),
        again=BranchExists,
        branch=None,
    ),
    "delete a branch": Operation(
        lambda graph: graph.branches.delete("gone"), again=BranchNotFound, branch=None
    ),
    "create a tag": Operation(
        lambda graph: graph.tags.create("named", at=og.at(snapshot=_old_commit(graph))),
        again=TagExists,
        branch=None,
    ),
    "delete a tag": Operation(
        lambda graph: graph.tags.delete("kept"), again=TagNotFound, branch=None
    ),
    "embed": Operation(lambda graph: graph.embed()),
    "embed, forking": Operation(lambda graph: graph.embed("lazy"), branch="lazy"),
    "write a blob": Operation(_write_blob("main")),
    "write a blob, forking": Operation(_write_blob("lazy"), branch="lazy"),
    "ensure_indices": Operation(lambda graph: graph.ensure_indices(), work=indexes),
    "ensure_indices, on a fork": Operation(
        lambda graph: graph.ensure_indices("side"), work=indexes, branch="side"
    ),
    "optimize": Operation(lambda graph: graph.optimize(), work=shape),
    "optimize, on a fork": Operation(
        lambda graph: graph.optimize("side"), work=shape, branch="side"
    ),
    "cleanup": Operation(lambda graph: graph.cleanup(keep_versions=1), branch=None, work=versions),
    "schema apply": Operation(_apply(SOFT, False), graph="alone"),
    "schema apply, filling columns": Operation(_apply(FILLING, False), graph="alone"),
    "schema apply, hard": Operation(_apply(HARD, True), graph="alone"),
    "schema apply, everyday": Operation(_apply(EVERYDAY, True), graph="alone"),
    "mutate, with upkeep": Operation(_with_upkeep("main"), branch=None),
    "mutate on a fork, with upkeep": Operation(_with_upkeep("side"), branch=None),
    "mutate, compacting the manifest": Operation(_mutate(), graph="crowded"),
    "init": Operation(
        lambda uri: init(uri, SCHEMA).close(),
        graph="nothing",
        again=AlreadyInitialised,
        branch=None,
        opens=True,
    ),
    "open, rolling back": _recovery("half"),
    "open, rolling forward": _recovery("whole"),
    "open, settling": _recovery("published"),
    "repair": Operation(lambda graph: graph.repair(confirm=True, force=True), graph="drifted"),
    "schema apply, forking": _on_schemas(_apply(SOFT, False, "lazy"), "lazy", "forest"),
    "schema apply, on a fork": _on_schemas(_apply(SOFT, False, "side"), "side", "forest"),
    "schema apply, filling, forking": _on_schemas(_apply(FILLING, False, "lazy"), "lazy", "forest"),
    "schema apply, everyday, forking": _on_schemas(
        _apply(EVERYDAY, True, "lazy"), "lazy", "forest"
    ),
    "schema apply, everyday, on a fork": _on_schemas(
        _apply(EVERYDAY, True, "side"), "side", "forest"
    ),
    "schema apply beside branches": _on_schemas(_apply(SOFT, False), "main", "forest"),
    "merge schemas": _on_schemas(merge("grow"), "main"),
    "merge schemas, forking": _on_schemas(merge("grow", "lazy"), "lazy"),
    "merge schemas, on a fork": _on_schemas(merge("grow", "joined"), "joined"),
    "merge schemas, everyday": _on_schemas(merge("strict"), "main"),
    "merge schemas, everyday, on a fork": _on_schemas(merge("strict", "joined"), "joined"),
    "merge schemas, words alone": _on_schemas(merge("words"), "main"),
    "merge schemas of main": _on_schemas(merge("main", "strict"), "strict"),
    "revert a schema apply": _on_schemas(undo("undo"), "undo"),
    "revert a merge of schemas": _on_schemas(undo("main"), "main", "merged"),
    "delete a branch with tables": Operation(
        lambda graph: graph.branches.delete("grow"),
        graph="schemas",
        again=BranchNotFound,
        branch=None,
        tidy=True,
    ),
    "open, rolling back schemas": _recovery("schemas half", "joined"),
    "open, rolling forward schemas": _recovery("schemas whole"),
}


def next_write(graph: Graph, operation: Operation) -> None:
    """Somebody writes where the operation wrote; it must be there."""
    branch = operation.branch or "main"
    graph.mutate('query q() { insert Person { name: "next" } }', branch=branch)
    assert graph.entity("node", "Person", "next", branch=branch) is not None
