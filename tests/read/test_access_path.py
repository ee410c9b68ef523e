"""Which way a match is answered, and that look-ups read no more than they must."""

import gc
import weakref
from dataclasses import replace

import pytest

import omnigraph
from omnigraph.graph.graph import state_of
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import NOW_PARAM
from omnigraph.read.execute import run_read
from omnigraph.read.match.lookups import access_path, outline
from omnigraph.read.match.lookups.outline import outline_of
from omnigraph.read.thresholds import MatchThresholds, Thresholds, ViewThresholds
from omnigraph.read.view import view as view_module
from omnigraph.storage.tables.table import Table
from tests.opened import read_with

SCHEMA = """
    node Person { name: String @key  age: I32?  bio: String? }
    edge Knows: Person -> Person
"""
BY_KEY = 'query q() { match { $p: Person { name: "p7" } } return { $p.age } }'
ONE_HOP = 'query q() { match { $p: Person { name: "p7" }  $p knows $q } return { $q.name } }'
EVERYBODY = "query q() { match { $p knows $q } return { count($q) as n } }"
TEXT = 'query q() { match { $p: Person { name: "p7" }  search($p.bio, "x") } return { $p.age } }'


@pytest.fixture
def graph(tmp_path):
    records = [{"type": "Person", "data": {"name": f"p{at}", "age": at}} for at in range(40)]
    records += [{"edge": "Knows", "from": f"p{at}", "to": f"p{at + 1}"} for at in range(39)]
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        graph.load(records)
        yield graph


NO_TABLE_IS_SMALL = MatchThresholds(small_seconds=0.0, few_rows=0)


@pytest.fixture
def no_table_is_small(graph):
    """Every table counts as too large to be numbered for one question."""
    read_with(graph, Thresholds(match=NO_TABLE_IS_SMALL))


def opened(graph):
    return state_of(graph).reader.view(graph.snapshot(), graph.schema.catalog)


def plan_of(graph, text):
    return compile_query(graph.schema.catalog, text)


def test_small_tables_are_numbered_at_once(graph):
    assert access_path.choose_path(opened(graph), plan_of(graph, BY_KEY)) == "csr"


@pytest.mark.usefixtures("no_table_is_small")
def test_a_question_by_key_numbers_nothing(graph):
    view = opened(graph)
    assert access_path.choose_path(view, plan_of(graph, ONE_HOP)) == "indexed"
    answer = run_read(view, plan_of(graph, ONE_HOP), {NOW_PARAM: 0})
    assert answer.to_pylist() == [{"q.name": "p8"}]
    assert not view.has_nodes("Person")
    assert not view.has_topology("Knows")


@pytest.mark.usefixtures("no_table_is_small")
def test_a_question_without_a_start_numbers_the_tables(graph):
    view = opened(graph)
    answer = run_read(view, plan_of(graph, EVERYBODY), {NOW_PARAM: 0})
    assert answer.to_pylist() == [{"n": 39}]
    assert view.has_topology("Knows")
    assert access_path.choose_path(view, plan_of(graph, ONE_HOP)) == "csr"


@pytest.mark.usefixtures("no_table_is_small")
def test_tables_that_left_the_memory_are_looked_up_in_again(graph):
    view, plan = opened(graph), plan_of(graph, ONE_HOP)
    run_read(view, plan_of(graph, EVERYBODY), {NOW_PARAM: 0})
    assert [access_path.choose_path(view, plan) for _ in range(2)] == ["csr", "csr"]
    view.cache.forget()
    assert access_path.choose_path(view, plan) == "indexed"


def test_the_outline_of_a_plan_goes_with_the_plan(graph):
    plan = plan_of(graph, ONE_HOP)
    kept = outline_of(plan)
    assert outline_of(plan) is kept
    assert (kept.node_types, kept.edge_types) == ({"Person"}, {"Knows"})
    before = weakref.ref(plan)
    del plan
    gc.collect()
    assert before() is None
    assert kept not in outline._outlines.values()


@pytest.mark.usefixtures("no_table_is_small")
def test_search_numbers_its_nodes(graph):
    assert access_path.choose_path(opened(graph), plan_of(graph, TEXT)) == "csr"


def test_look_ups_that_cost_as_much_as_the_numbering_lead_to_it(graph):
    read_with(graph, Thresholds(match=replace(NO_TABLE_IS_SMALL, node_seconds=1.0)))
    view, plan = opened(graph), plan_of(graph, BY_KEY)
    run_read(view, plan, {NOW_PARAM: 0})
    assert 0 < view.spent < 40
    assert access_path.choose_path(view, plan) == "indexed"
    view.spent = 40.0
    assert access_path.choose_path(view, plan) == "csr"
    # A commit does not make the next look-ups cheaper: beside a writer tables are numbered, too.
    graph.mutate('query m() { insert Person { name: "new" } }')
    assert opened(graph).spent == 40.0
    opened(graph).spent = 42.0
    assert access_path.choose_path(opened(graph), plan) == "csr"
    run_read(opened(graph), plan, {NOW_PARAM: 0})
    assert opened(graph).has_nodes("Person")
    assert opened(graph).spent == 1.0, "41 nodes were paid for"


def test_tables_numbered_before_a_commit_are_soon_numbered_after_it(graph):
    slow = replace(NO_TABLE_IS_SMALL, node_seconds=1.0, edge_seconds=1.0)
    read_with(graph, Thresholds(match=slow, view=ViewThresholds(derived_rows=0)))
    run_read(opened(graph), plan_of(graph, EVERYBODY), {NOW_PARAM: 0})
    graph.mutate('query m() { insert Person { name: "new" } }')
    view, plan = opened(graph), plan_of(graph, ONE_HOP)
    assert access_path.choose_path(view, plan) == "indexed"
    view.spent = 0.03
    assert access_path.choose_path(view, plan) == "csr"


def test_a_pause_of_the_writer_leads_to_a_numbering(graph):
    """Look-ups in memory are cheap, and many of them on one state are worth its numbering."""
    slow = replace(NO_TABLE_IS_SMALL, node_seconds=1.0, derived_seconds=0.1, overlaid_seconds=0.01)
    read_with(graph, Thresholds(match=slow, view=ViewThresholds(derived_rows=0)))
    opened(graph).nodes("Person")
    for number in range(20):
        graph.mutate(f'query m() {{ insert Person {{ name: "new{number}" }} }}')
        view, plan = opened(graph), plan_of(graph, BY_KEY)
        run_read(view, plan, {NOW_PARAM: 0})
        assert not view.has_nodes("Person")
    for _ in range(20):
        run_read(view, plan, {NOW_PARAM: 0})
    assert view.has_nodes("Person")
    assert view.spent == 0.0, "nothing was looked up in a table"


def test_look_ups_at_the_same_time_are_paid_for_once(graph, monkeypatch):
    """As seconds go by: 1 starts, 2 starts, 2 ends, 1 ends; then one more, after a pause."""
    clock = iter([10.0, 13.0, 15.0, 100.0, 101.0])
    monkeypatch.setattr(view_module, "perf_counter", lambda: next(clock))
    view = opened(graph)
    with view.looking_up():
        with view.looking_up():
            pass
        assert view.spent == 3.0
    assert view.spent == 5.0
    with view.looking_up():
        pass
    assert view.spent == 6.0


@pytest.mark.usefixtures("no_table_is_small")
def test_a_node_found_by_its_key_is_read_once(graph, monkeypatch):
    reads = []
    read = Table.read

    def counted(self, *args, **options):
        reads.append(self.ref.uri)
        return read(self, *args, **options)

    monkeypatch.setattr(Table, "read", counted)
    answer = run_read(opened(graph), plan_of(graph, BY_KEY), {NOW_PARAM: 0})
    assert answer.to_pylist() == [{"p.age": 7}]
    assert len(reads) == 1


def test_a_key_that_no_node_has_makes_no_node(graph, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "indexed")
    ghost = '$x: Person { name: "ghost" }  $x knows $p'
    inside = (
        f"query q() {{ match {{ $p: Person  not {{ {ghost} }} }} return {{ count($p) as n }} }}"
    )
    outside = f"query q() {{ match {{ {ghost} }} return {{ count($p) as n }} }}"
    assert graph.query(inside).rows == [{"n": 40}]
    assert graph.query(outside).rows == [{"n": 0}]
