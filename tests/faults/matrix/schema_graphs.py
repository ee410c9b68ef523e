"""Graphs whose branches have schemas of their own, and the operations that bring them together.

``schemas`` begins with rows in every table. `main` then adds a property and a type, and changes rows. Its branches:

- ``grow`` renames, drops, adds and fills properties, and adds types with rows; one property and one type are
  those that `main` has added too, so a merge joins them.
- ``strict`` makes every other change: types that widen, rules, a default, an enum that grows.
- ``words`` changes descriptions and an index alone, ``lazy`` nothing.
- ``joined`` has what `main` has joined with ``grow``, and forks of its own: a branch as the target of merges.
- ``undo`` has an apply and a row written after it.

``merged`` is a graph whose newest commit on `main` is a merge that changed the schema.
"""

from __future__ import annotations

from typing import Any

from omnigraph.graph import Graph, init
from omnigraph.manifest.history.registrations import all_registrations
from omnigraph.storage.layout import TABLE_DIRS
from omnigraph.storage.tables.table_branches import list_branches
from tests.opened import workspace_of

BASE = """
node Person { name: String @key  age: I32? @index  spare: String?  state: enum(a, b)? }
node Note { slug: String @key  text: String?  vec: Vector(4)? @embed(text)  body: Blob? }
node Old { slug: String @key  body: Blob? }
edge Wrote: Person -> Note { year: I32? }
"""
# What `main` and ``joined`` add: ``grow`` adds the same, and their ids meet.
JOINING = (
    BASE.replace("spare: String?", "spare: String?  rank: I32?")
    + "node Fresh { slug: String @key  body: Blob? }\n"
)
GROWN = """
node Person {
  name: String @key
  years: I32? @index @rename_from("age")
  state: enum(a, b)?
  rank: I32?
  photo: Blob?
  level: I32 @default(3)
}
node Text @rename_from("Note") { slug: String @key  text: String?  vec: Vector(4)? @embed(text)  body: Blob? }
node Fresh { slug: String @key  body: Blob? }
node Ship { imo: String @key  log: Blob?  crew: I32? @index }
node Empty { slug: String @key }
edge Wrote: Person -> Text { }
edge Sails: Person -> Ship { since: Date? }
"""
STRICT = """
node Person {
  name: String @key
  age: I64? @index
  spare: String? @default("s")
  state: enum(a, b, c)?
  @range(age, 0..)
  @unique(name, age)
}
node Note { slug: String  @key  text: String  vec: Vector(4)? @embed(text)  body: Blob? }
node Old { slug: String @key  body: Blob? }
edge Wrote: Person -> Note @card(0..9) { year: I64? }
"""
WORDS = BASE.replace("node Person {", 'node Person @description("who writes") {').replace(
    "spare: String?", "spare: String? @index"
)
ADDED = BASE.replace("spare: String?", "spare: String?  extra: I32?  face: Blob?") + (
    "node Boat { reg: String @key }\n"
)
TYPES = ("Person", "Note", "Text", "Old", "Fresh", "Ship", "Empty", "Boat", "Wrote", "Sails")
UNDONE = "undone"
"""The actor of the commits that are reverted."""


def _person(name: str, **values: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **values}}


def _fill(graph: Graph) -> None:
    """Rows, Blobs, a deleted row and indexes."""
    notes = [
        {
            "type": "Note",
            "data": {"slug": slug, "text": slug, "vec": [1, 0, 0, 1], "body": "base64:AQID"},
        }
        for slug in ("n1", "n2", "brief")
    ]
    graph.load(
        [
            *(_person(name, age=age, spare="x", state="a") for name, age in _AGES.items()),
            *notes,
            {"type": "Old", "data": {"slug": "o", "body": "base64:AQID"}},
            {"edge": "Wrote", "from": "ada", "to": "n1", "data": {"id": "w1", "year": 1}},
        ]
    )
    graph.mutate('query q() { delete Note where slug = "brief" }')
    graph.ensure_indices()


_AGES = {"ada": 1, "bob": 2, "cyd": 3}


def _patch(graph: Graph, branch: str, *records: dict[str, Any]) -> None:
    graph.load(list(records), mode="patch", branch=branch)


def build_schemas(uri: str) -> None:
    """Make the graph whose branches have schemas of their own."""
    with init(uri, BASE) as graph:
        _fill(graph)
        for branch in ("lazy", "grow", "strict", "words", "joined", "undo"):
            graph.branches.create(branch)
        _grow(graph)
        graph.schema.apply(STRICT, branch="strict")
        _patch(graph, "strict", _person("ada", age=2**40, state="c"), _person("dan"))
        graph.schema.apply(WORDS, branch="words")
        for branch in ("main", "joined"):
            _join(graph, branch)
        graph.schema.apply(ADDED, branch="undo", actor=UNDONE)
        _patch(graph, "undo", _person("ada", spare="later"))


def build_two(uri: str, target: str) -> None:
    """Make the graph with ``grow`` and the branch that it is merged into alone."""
    with init(uri, BASE) as graph:
        _fill(graph)
        for branch in {"grow", target} - {"main"}:
            graph.branches.create(branch)
        _grow(graph)
        _join(graph, target)


def _join(graph: Graph, branch: str) -> None:
    graph.schema.apply(JOINING, branch=branch)
    fresh = {"type": "Fresh", "data": {"slug": branch, "body": "base64:AQID"}}
    _patch(graph, branch, _person("bob", state="b"), _person("cyd", rank=7), fresh)


def _grow(graph: Graph) -> None:
    graph.schema.apply(GROWN, branch="grow")
    _patch(
        graph,
        "grow",
        _person("ada", rank=1, level=4, photo="base64:BAUG"),
        _person("eve", years=9),
        {"type": "Text", "data": {"slug": "n2", "body": "base64:BwgJ"}},
        {"type": "Fresh", "data": {"slug": "grow", "body": "base64:CgsM"}},
        {"type": "Ship", "data": {"imo": "S1", "log": "base64:DQ4P", "crew": 3}},
        {"edge": "Sails", "from": "eve", "to": "S1", "data": {"id": "s1"}},
        {"edge": "Wrote", "from": "eve", "to": "n2", "data": {"id": "w2"}},
    )


def build_merged(uri: str) -> None:
    """Make the graph in which a merge brought a schema to `main`."""
    with init(uri, BASE) as graph:
        _fill(graph)
        graph.branches.create("adds")
        graph.schema.apply(ADDED, branch="adds")
        boat = {"type": "Boat", "data": {"reg": "B1"}}
        _patch(graph, "adds", _person("ada", extra=5, face="base64:AQID"), boat)
        _patch(graph, "main", _person("bob", spare="main"))
        graph.branches.create("older")
        graph.branches.merge("adds", actor=UNDONE)


def merge(source: str, into: str = "main") -> Any:
    """Return an operation that merges."""
    return lambda graph: graph.branches.merge(source, into)


def undo(branch: str) -> Any:
    """Return an operation that reverts the commit of ``UNDONE`` on a branch."""

    def run(graph: Graph) -> None:
        (found,) = graph.commits.list(branch, f"actor={UNDONE}")
        graph.commits.revert(found.graph_commit_id, branch)

    return run


def left_over(graph: Graph) -> list[str]:
    """Return the tables that no branch registers, and the forks that no branch pins."""
    workspace = workspace_of(graph)
    states = [workspace.manifest.state(name) for name in graph.branches.list()]
    known = {table.location for table in all_registrations(workspace.manifest, states).values()}
    pinned = {
        (pin.location, pin.table_branch, pin.table_branch_id)
        for state in states
        for pin in state.head.tables.values()
    }
    names = (name for folder in TABLE_DIRS for name in workspace.store.list(folder))
    places = {"/".join(name.split("/")[:2]) for name in names}
    unpinned = [
        f"{place} on {name}"
        for place in sorted(places & known)
        for name, fork in list_branches(workspace.ref(place)).items()
        if (place, name, fork.identifier) not in pinned
    ]
    return [*sorted(places - known), *unpinned]
