"""Look-ups beside a writer: a numbered state and what changed since answer as the tables do."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import NOW_PARAM
from omnigraph.read.execute import run_read
from omnigraph.read.thresholds import MatchThresholds, Thresholds, ViewThresholds
from omnigraph.read.view.byte_cache import NodeChangesKey, NodesKey
from omnigraph.read.view.nodes import NodeIds
from omnigraph.read.view.view import Reader
from omnigraph.storage.tables.inline_residual import cleanup_versions
from omnigraph.storage.tables.table import Delta, Table
from tests.graphs import graph_of, person
from tests.opened import workspace_of
from tests.read.judging_helpers import NOW, check
from tests.read.random_commits import PEOPLE, Writer, fill
from tests.read.view_helpers import SCHEMA, check_same, check_same_nodes, counted, edge, view_of
from tests.stored import read_back
from tests.write.writing import run

# Numbering anything but for whole tables is so dear that no look-up ever pays for it.
LOOK_UPS = MatchThresholds(
    small_seconds=0, few_rows=0, node_seconds=100.0, edge_seconds=100.0, derived_seconds=9e9
)
BESIDE_A_WRITER = Thresholds(match=LOOK_UPS, view=ViewThresholds(derived_rows=0))

QUERIES = {
    "node": "match { $p: Person { name: $k } } return { $p.name, $p.age, $p.tags, $p.vec }",
    "out": "match { $p: Person { name: $k }  $p knows $q } return { $q.name, $q.age }",
    "in": "match { $p: Person { name: $k }  $q knows $p } return { $q.name, $p.age }",
    "edge": "match { $p: Person { name: $k }  $p $e:knows $q } return { $q.name, $e.since }",
    "hops": "match { $p: Person { name: $k }  $p knows{1,3} $q } return { $q.name } order { $q.name }",
    "city": "match { $p: Person { name: $k }  $p livesIn $c } return { $c.name }",
    "not": "match { $p: Person { name: $k }  $p knows $q  not { $q knows $p } } return { $q.age }",
    "count": "match { $p: Person { name: $k }  $p knows $q  $q knows $r } return { count($r) as n }",
    "filter": "match { $p: Person { name: $k }  $p knows $q  $q.age >= 0 } return { $q.name }",
}
EVERYTHING = (
    "query q() { match { $p knows $q  $p livesIn $c } return { count($c) as n, sum($q.age) as s } }"
)


def valued(name, number):
    """A person with a value of every kind, or none."""
    tags = None if number % 3 else [f"t{number}", "all"]
    return person(name, age=number, tags=tags, vec=[number, 0.5])


graph = graph_of(
    SCHEMA,
    fill,
    [valued(name, at) for at, name in enumerate(PEOPLE)],
    [edge("Knows", one, "p07", since=at) for at, one in enumerate(PEOPLE[:20])],
)


@pytest.fixture
def plans(graph):
    catalog = graph.schema.catalog
    return {
        name: compile_query(catalog, f"query q($k: String) {{ {text} }}")
        for name, text in QUERIES.items()
    }


def warm_reader(graph, limits=BESIDE_A_WRITER.view):
    """A reader that has numbered everything, and answers by look-ups from now on."""
    reader = Reader(workspace_of(graph), replace(BESIDE_A_WRITER, view=limits))
    everything(view_of(graph, reader))
    return reader


def everything(view):
    """A query over all rows, which numbers every table."""
    return run_read(view, compile_query(view.catalog, EVERYTHING), {NOW_PARAM: NOW}).to_pylist()


def by_key(view, plans, name, key):
    return run_read(view, plans[name], {"k": key, NOW_PARAM: NOW}).to_pylist()


@pytest.mark.parametrize("seed", range(4))
def test_random_commits(graph, plans, seed):
    """Every answer is the oracle's, on any branch, and many come without a look-up in a table.

    Odd seeds number tables anew after few changes, out of the older state and those changes.
    """
    few = replace(BESIDE_A_WRITER.view, overlaid_changes=5, overlaid_few=5)
    reader = warm_reader(graph, few if seed % 2 else BESIDE_A_WRITER.view)
    writer, in_memory, rounds = Writer(graph, seed), 0, 14
    for number in range(rounds):
        writer.step()
        branch = writer.random.choice(writer.branches)
        if number % 5 == 3:
            graph.optimize(branch=branch)
        if number % 5 == 4:
            graph.ensure_indices(branch=branch)
        view, plain = view_of(graph, reader, branch), read_back(graph, branch)
        before = view.spent
        for key in {writer.anyone(branch), writer.deleted, f"z{writer.made}", "p07"}:
            for name, plan in plans.items():
                check(view, plain, plan, {"k": key, NOW_PARAM: NOW}, name)
        in_memory += view.spent == before
        if number % 6 == 5:
            check_same(view, view_of(graph, branch=branch))
    assert in_memory > rounds // 3, "many answers come from memory, or this shows nothing"


def test_a_commit_costs_what_it_changed(graph, plans, monkeypatch):
    """After a commit no table is scanned or numbered: the changed rows are read, once for all reads."""
    reader = warm_reader(graph)
    by_key(view_of(graph, reader), plans, "out", "p07")
    reads = counted(monkeypatch, Table, "scan")
    deltas = counted(monkeypatch, Delta, "inserted")
    for number in range(3):
        run(graph, f'insert Person {{ name: "n{number}", age: {number} }}')
        run(graph, f'insert Knows {{ from: "p07", to: "n{number}" }}')
        deltas.clear()
        reads.clear()
        view = view_of(graph, reader)
        for _ in range(3):
            found = by_key(view, plans, "out", "p07")
            assert found[: number + 1] == [
                {"q.name": f"n{at}", "q.age": at} for at in range(number + 1)
            ]
        assert deltas["inserted"] == 2, "one for each table"
        assert not reads
        assert not view.has_nodes("Person")


def test_changes_of_older_versions_are_not_kept(graph, plans):
    reader = warm_reader(graph)
    for number in range(6):
        run(graph, f'insert Person {{ name: "n{number}" }}')
        by_key(view_of(graph, reader), plans, "node", "p07")
    kept = [key for key in reader.cache.kept() if isinstance(key, NodeChangesKey)]
    assert len(kept) == 2


def test_many_changes_lead_to_a_new_numbering(graph, plans, monkeypatch):
    """It is made of the older state and the changes; then look-ups start from it."""
    reader = warm_reader(graph, replace(BESIDE_A_WRITER.view, overlaid_changes=3, overlaid_few=3))
    rereads = counted(monkeypatch, NodeIds, "read")
    for number in range(9):
        run(graph, f'insert Person {{ name: "n{number}", age: {number} }}')
        view = view_of(graph, reader)
        assert by_key(view, plans, "node", f"n{number}")[0]["p.age"] == number
        assert view.has_nodes("Person") == (number in {3, 7})
    assert not rereads
    check_same_nodes(view.nodes("Person"), view_of(graph).nodes("Person"))


def test_a_version_that_cleanup_removed_is_not_needed(graph, plans):
    """Values that were never read are fetched from the new version when the numbered one is gone."""
    reader = Reader(workspace_of(graph), BESIDE_A_WRITER)
    view_of(graph, reader).nodes("Person")  # its ids, and no column
    run(graph, 'update Person set { age: 500 } where name = "p01"')
    view = view_of(graph, reader)
    assert view.overlaid_nodes("Person", defaultdict(dict)) is not None
    table = view.table(graph.schema.catalog.nodes["Person"]).table
    cleanup_versions(table, [number for number in table.versions() if number != table.version])
    assert by_key(view, plans, "node", "p01")[0]["p.age"] == 500
    assert by_key(view, plans, "node", "p02")[0]["p.age"] == 2
    assert view.spent == 0, "by row id, not by a look-up"


def test_a_base_that_was_dropped_from_memory_is_not_missed(graph, plans):
    reader = warm_reader(graph)
    run(graph, 'insert Person { name: "n", age: 3 }')
    view = view_of(graph, reader)
    assert by_key(view, plans, "node", "n")[0]["p.age"] == 3
    assert view.spent == 0
    for key in reader.cache.kept():
        if isinstance(key, NodesKey):
            reader.cache.drop(key)
    assert by_key(view, plans, "node", "n")[0]["p.age"] == 3
    assert view.spent > 0, "it is looked up in the table"


def test_changed_rows_are_read_under_the_schema_of_now(graph, plans):
    """Rows that changed before a schema change answer for renamed, added and replaced properties."""
    reader = warm_reader(graph)
    run(graph, 'update Person set { age: 500 } where name = "p01"')
    assert by_key(view_of(graph, reader), plans, "node", "p01")[0]["p.age"] == 500
    renamed = SCHEMA.replace("age: I64?", 'years: I64? @rename_from("age")')
    graph.schema.apply(renamed)
    graph.schema.apply(SCHEMA.replace("age: I64?", "years: I64?  age: I64?  nick: String?"))
    run(graph, 'update Person set { years: 600, nick: "two" } where name = "p02"')
    view = view_of(graph, reader)
    asked = compile_query(
        graph.schema.catalog,
        "query q($k: String) { match { $p: Person { name: $k } } "
        "return { $p.years as years, $p.age as age, $p.nick as nick } }",
    )
    found = [by_key(view, {"q": asked}, "q", key)[0] for key in ("p01", "p02", "p03")]
    assert found == [
        {"years": 500, "age": None, "nick": None},
        {"years": 600, "age": None, "nick": "two"},
        {"years": 3, "age": None, "nick": None},
    ]
    assert view.spent == 0, "out of memory, or this shows nothing"


def test_an_empty_table_can_be_the_numbered_state(graph):
    run(graph, 'delete Person where name != ""')
    reader = Reader(workspace_of(graph), BESIDE_A_WRITER)
    view_of(graph, reader).nodes("Person")
    graph.load([person("ann", age=1), person("bob", age=2)])
    view = view_of(graph, reader)
    assert view.overlaid_nodes("Person", defaultdict(dict)) is not None
    check_same_nodes(view.nodes("Person"), view_of(graph).nodes("Person"))
