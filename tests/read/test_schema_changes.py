"""Reads across schema changes: the past under today's names, and nothing read twice."""

from __future__ import annotations

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import NotFound, TypeCheckError
from omnigraph.graph.graph import state_of
from omnigraph.graph.reads import resolve
from omnigraph.pipeline.datasource.options import find_type, read_options
from omnigraph.pipeline.datasource.read import pin_source, plan_partitions, read_fragments
from omnigraph.read.thresholds import MatchThresholds, Thresholds, ViewThresholds
from omnigraph.read.view import edges
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.nodes import NodeIds
from omnigraph.read.view.properties import Properties
from omnigraph.storage.tables.table import open_table
from tests.graphs import graph_of
from tests.manifest.publishing import advance
from tests.opened import read_with, workspace_of
from tests.read.view_helpers import counted

FIRST = """
node Person {
  key: String @key
  name: String
  nick: String?
  age: I32 @index
  bio: String? @index
  spot: Vector(2)? @index
  mood: enum(calm, glad)?
}
node Tool { slug: String @key  use: String? }
edge Knows: Person -> Person { since: I32?  note: String? }
"""
# Renamed: types and properties; `name` and `nick` will have changed places. Relaxed: `age`. Dropped:
# Tool and `note`.
SECOND = """
node Human @rename_from("Person") {
  key: String @key
  other: String @rename_from("name")
  nick: String?
  years: I32? @rename_from("age") @index
  about: String? @rename_from("bio") @index
  place: Vector(2)? @rename_from("spot") @index
  mood: enum(calm, glad, sad)?
}
edge Met: Human -> Human @rename_from("Knows") { since: I32? }
"""
THIRD = SECOND.replace("nick: String?", 'name: String? @rename_from("nick")')
# Added: Tool and `note` again, which are others now, and three properties under names used before.
LAST = """
node Human {
  key: String @key
  nick: String @rename_from("other")
  name: String?
  years: I32? @index
  about: String? @index
  place: Vector(2)? @index
  mood: enum(calm, glad, sad)?
  age: I32?
  bio: String? @index
  spot: Vector(2)?
}
node Tool { slug: String @key  use: String? }
edge Met: Human -> Human { since: I32?  note: String? }
"""
CHANGES = (SECOND, THIRD, LAST)
COUNT = 40


def people():
    for at in range(COUNT):
        yield {
            "type": "Person",
            "data": {
                "key": f"p{at:02}",
                "name": f"name {at % 7}",
                "nick": None if at % 5 == 0 else f"nick {at % 3}",
                "age": at % 11,
                "bio": None
                if at % 4 == 0
                else f"he runs {at} miles to the {'sea' if at % 2 else 'hill'}",
                "spot": None if at % 6 == 0 else [float(at), float(at % 9)],
                "mood": ["calm", "glad", None][at % 3],
            },
        }
    yield {"type": "Tool", "data": {"slug": "saw", "use": "wood"}}
    for at in range(COUNT):
        for step in (1, 7):
            ends = {"from": f"p{at:02}", "to": f"p{(at * step + 3) % COUNT:02}"}
            yield {"edge": "Knows", **ends, "data": {"since": at % 5, "note": f"n{at}"}}


# A question to the first schema, and the same one to the last.
ASKED = {
    "values": (
        "match { $p: Person } return { $p.key, $p.name, $p.nick, $p.age, $p.mood, $p.spot } order { $p.key }",
        "match { $p: Human } return { $p.key, $p.nick, $p.name, $p.years, $p.mood, $p.place } order { $p.key }",
    ),
    "an indexed value": (
        "match { $p: Person  $p.age = 3 } return { $p.key, $p.name } order { $p.key }",
        "match { $p: Human  $p.years = 3 } return { $p.key, $p.nick } order { $p.key }",
    ),
    "a swapped name": (
        'match { $p: Person  $p.name = "name 2"  $p.nick != "nick 1" } return { $p.key } order { $p.key }',
        'match { $p: Human  $p.nick = "name 2"  $p.name != "nick 1" } return { $p.key } order { $p.key }',
    ),
    "a key": (
        'match { $p: Person { key: "p07" } } return { $p.name, $p.age, $p.bio }',
        'match { $p: Human { key: "p07" } } return { $p.nick, $p.years, $p.about }',
    ),
    "neighbours": (
        'match { $p: Person { key: "p07" }  $p $e:knows $q } return { $q.nick, $e.since } order { $q.key }',
        'match { $p: Human { key: "p07" }  $p $e:met $q } return { $q.name, $e.since } order { $q.key }',
    ),
    "two hops by group": (
        "match { $a knows $b  $b knows $c  $c.age > 4 } return { $a.name, count($c) as n, sum($b.age) as s } order { $a.name }",
        "match { $a met $b  $b met $c  $c.years > 4 } return { $a.nick, count($c) as n, sum($b.years) as s } order { $a.nick }",
    ),
    "text": (
        'match { $p: Person  search($p.bio, "hills") } return { $p.key } order { $p.key }',
        'match { $p: Human  search($p.about, "hills") } return { $p.key } order { $p.key }',
    ),
    "text without an index": (
        'match { $p: Person  search($p.nick, "1") } return { $p.key } order { $p.key }',
        'match { $p: Human  search($p.name, "1") } return { $p.key } order { $p.key }',
    ),
    "ranked text": (
        'match { $p: Person } return { $p.key } order { bm25($p.bio, "running to the sea") } limit 9',
        'match { $p: Human } return { $p.key } order { bm25($p.about, "running to the sea") } limit 9',
    ),
    "nearest": (
        "match { $p: Person } return { $p.key } order { nearest($p.spot, [3.0, 4.0]) } limit 7",
        "match { $p: Human } return { $p.key } order { nearest($p.place, [3.0, 4.0]) } limit 7",
    ),
}
# What is new since reads as null there.
UNKNOWN_THEN = {
    "match { $p: Human } return { count($p) as n, count($p.age) as a, count($p.bio) as b }": [
        {"n": 40, "a": 0, "b": 0}
    ],
    "match { $p: Human  $p.age >= 0 } return { $p.key }": [],
    'match { $p: Human  search($p.bio, "hill") } return { $p.key }': [],
    'match { $p: Human } return { $p.key } order { bm25($p.bio, "hill") } limit 5': [],
    "match { $p: Human } return { $p.key } order { nearest($p.spot, [1.0, 1.0]) } limit 5": [],
    "match { $a $e:met $b } return { count($e.since) as s, count($e.note) as n }": [
        {"s": 80, "n": 0}
    ],
    'match { $p: Human { key: "p07" } } return { $p.age, $p.bio, $p.nick }': [
        {"p.age": None, "p.bio": None, "p.nick": "name 0"}
    ],
}


def text(body: str) -> str:
    return f"query q() {{ {body} }}"


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A graph whose schema changed three times, a commit before that, and what was answered then."""
    with og.init(tmp_path_factory.mktemp("changed") / "g", FIRST) as graph:
        graph.load(list(people()))
        graph.ensure_indices()
        old = graph.snapshot()
        then = {name: graph.query(text(asked[0])) for name, asked in ASKED.items()}
        for source in CHANGES:
            graph.schema.apply(source)
        graph.mutate(
            text('insert Human { key: "p07", nick: "x", age: 7, bio: "the sea", years: 3 }')
        )
        graph.mutate(text('insert Tool { slug: "axe" }'))
        yield graph, old, then


@pytest.fixture(params=["csr", "indexed"])
def either_way(request, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", request.param)


def plain(result):
    return [list(row.values()) for row in result.rows]


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("name", ASKED)
def test_the_past_answers_under_new_names_as_it_did_under_old_ones(history, name):
    graph, old, then = history
    read_with(graph, Thresholds(match=MatchThresholds(few_rows=0)))
    now = graph.query(text(ASKED[name][1]), snapshot=old.graph_commit_id)
    assert plain(now) == plain(then[name])
    assert plain(now)
    by_version = graph.query(text(ASKED[name][1]), version=old.manifest_version)
    assert by_version.rows == now.rows


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("asked", UNKNOWN_THEN)
def test_what_was_added_later_is_null_there(history, asked):
    graph, old, _ = history
    read_with(graph, Thresholds())
    assert graph.query(text(asked), snapshot=old.graph_commit_id).rows == UNKNOWN_THEN[asked]


def test_today_reads_todays_values(history):
    graph, _, _ = history
    asked = (
        'match { $p: Human { key: "p07" } } return { $p.nick, $p.name, $p.age, $p.years, $p.about }'
    )
    assert plain(graph.query(text(asked))) == [["x", None, 7, 3, None]]


def test_names_that_are_gone_cannot_be_asked_for(history):
    graph, old, _ = history
    for gone in ("match { $p: Person } return { $p }", "match { $p: Human } return { $p.other }"):
        with pytest.raises(TypeCheckError):
            graph.query(text(gone), snapshot=old.graph_commit_id)


def test_a_type_added_later_is_not_the_dropped_one_of_its_name(history):
    graph, old, _ = history
    asked = text("match { $t: Tool } return { $t.slug }")
    assert plain(graph.query(asked)) == [["axe"]]
    for call in (graph.query, graph.explain):
        with pytest.raises(NotFound, match="`Tool`") as caught:
            call(asked, snapshot=old.graph_commit_id)
        assert old.graph_commit_id in str(caught.value)


def test_explain_finds_the_indexes_of_the_past(history):
    graph, old, _ = history
    used = {}
    for name in ("an indexed value", "text", "nearest", "a swapped name"):
        plan = graph.explain(text(ASKED[name][1]), snapshot=old.graph_commit_id)
        used |= {index.column: index.coverage for step in plan.steps for index in step.indexes}
    assert used == {
        "years": "indexed",
        "about": "indexed",
        "place": "indexed",
        "nick": "none",
        "name": "none",
    }
    asked = "match { $p: Human  $p.age = 1 } return { $p }"
    plan = graph.explain(text(asked), snapshot=old.graph_commit_id)
    assert [index.coverage for step in plan.steps for index in step.indexes] == ["none"]


# ------------------------------------------------------------------ what a warm handle keeps


graph = graph_of(FIRST, list(people()))


@pytest.fixture
def builds(monkeypatch):
    """Counts everything that reads rows of a whole table, or sorts edges."""
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    found = [
        counted(monkeypatch, NodeIds, "read"),
        counted(monkeypatch, NodeIds, "after"),
        counted(monkeypatch, EdgeList, "read"),
        counted(monkeypatch, edges, "csr_of"),
        counted(monkeypatch, Properties, "_read"),
    ]

    def total():
        made = {name: count for counter in found for name, count in counter.items()}
        for counter in found:
            counter.clear()
        return made

    return total


def test_schema_changes_leave_everything_that_was_read(graph, builds):
    """Ids, edges, adjacency and columns are those of before, under new names, and are right."""
    first = {name: plain(graph.query(text(asked[0]))) for name, asked in ASKED.items()}
    assert {"read", "csr_of", "_read"} <= builds().keys()
    for source in CHANGES:
        graph.schema.apply(source)
    for name, asked in ASKED.items():
        assert plain(graph.query(text(asked[1]))) == first[name], name
    assert builds() == {}
    # A new property under a name used before is a column of its own.
    ages = "match { $p: Human } return { count($p.years) as old, count($p.age) as new }"
    assert plain(graph.query(text(ages))) == [[40, 0]]
    assert builds() == {"_read": 1}


def test_a_version_with_other_files_or_indexes_is_the_same_too(graph, builds):
    graph.load([{"type": "Person", "data": {"key": "q", "name": "q", "age": 1}}])
    asked = ASKED["two hops by group"][0]
    before = plain(graph.query(text(asked)))
    builds()
    graph.ensure_indices()
    assert plain(graph.query(text(asked))) == before
    assert graph.optimize().commit is not None
    assert plain(graph.query(text(asked))) == before
    assert builds() == {}


def test_a_hard_drop_leaves_everything_too_though_the_versions_are_gone(graph, builds):
    asked = ASKED["two hops by group"][0]
    before = plain(graph.query(text(asked)))
    builds()
    fewer = FIRST.replace("nick: String?", "").replace("  note: String?", "")
    graph.schema.apply(fewer, allow_data_loss=True)
    graph.mutate(text('insert Tool { slug: "axe" }'))
    assert plain(graph.query(text(asked))) == before
    assert builds() == {}
    graph.schema.apply(fewer.replace("bio: String? @index", ""), allow_data_loss=True)
    graph.mutate(text('update Person set { name: "name 9" } where key = "p03"'))
    named = 'match { $p: Person  $p.name = "name 9" } return { $p.key }'
    assert plain(graph.query(text(named))) == [["p03"]]
    # The row that was updated since, beside a column that was dropped.
    assert {"read", "_read"} <= builds().keys()


def test_a_row_changed_beside_a_schema_change_is_seen(graph, builds):
    asked = "match { $p: Person } return { $p.key, $p.name, $p.age } order { $p.key }"
    before = plain(graph.query(text(asked)))
    builds()
    graph.schema.apply(FIRST.replace("nick: String?", "nick: String?  more: I32?"))
    graph.mutate(text('update Person set { age: 99, more: 1 } where key = "p03"'))
    before[3][2] = 99
    assert plain(graph.query(text(asked))) == before
    assert builds().keys() == {"read", "_read"}


def test_rows_and_columns_are_carried_over_both_kinds_of_change(graph, builds):
    """As above with tables that count as large: what changed is asked for instead of read again."""
    read_with(graph, Thresholds(view=ViewThresholds(derived_rows=0)))
    asked = "match { $p: Person  $p knows $q } return { $p.key, $p.name, $q.age } order { $p.key, $q.key }"
    before = plain(graph.query(text(asked)))
    builds()
    graph.schema.apply(FIRST.replace("nick: String?", "nick: String?  more: I32?"))
    graph.mutate(text('update Person set { name: "new", more: 1 } where key = "p03"'))
    expected = [[key, "new" if key == "p03" else name, age] for key, name, age in before]
    assert plain(graph.query(text(asked))) == expected
    assert builds() == {"after": 1}
    more = "match { $p: Person  $p.more = 1 } return { $p.key }"
    assert plain(graph.query(text(more))) == [["p03"]]


def test_a_column_of_other_values_is_read_again(graph, builds):
    """Only another program does that: it drops a column and adds one of its name and property id."""
    asked = "match { $p: Person } return { sum($p.age) as s }"
    assert plain(graph.query(text(asked))) == [[sum(at % 11 for at in range(COUNT))]]
    builds()
    pin = graph.snapshot().tables["node:Person"]
    table = open_table(workspace_of(graph).pinned(pin))
    kept = table.schema.field("age").metadata
    metadata = {name.decode(): value.decode() for name, value in kept.items()}
    table.dataset.drop_columns(["age"])
    table.dataset.add_columns({"age": "cast(2 as int)"})
    table.dataset.update_field_metadata({"age": metadata})
    for _ in range(open_table(table.ref.at(None)).version - pin.table_version):
        advance(workspace_of(graph).manifest, "node:Person")
    assert plain(graph.query(text(asked))) == [[2 * COUNT]]
    assert builds()["_read"] == 1


# ------------------------------------------------------------------ the data source of Spark


def spark_rows(graph, **options):
    """What Spark would read, in its order of columns."""
    asked = read_options({"graph": graph.uri, **options})
    snapshot, catalog = resolve(state_of(graph), asked.target)
    source = pin_source(
        workspace_of(graph), snapshot, catalog, find_type(catalog, asked.type), asked
    )
    columns = source.columns if asked.columns is None else source.select(asked.columns)
    schema = pa.schema([(column.name, column.type.arrow_type()) for column in columns])
    return [
        tuple(row.values())
        for group in plan_partitions(source, 10**6)
        for batch in read_fragments(source, schema.names, schema, group)
        for row in batch.to_pylist()
    ]


def test_the_data_source_reads_the_past_under_new_names(history):
    graph, old, then = history
    at = {"type": "Human", "snapshot": old.graph_commit_id}
    columns = "key,nick,name,years,mood,place"
    expected = [tuple(row) for row in plain(then["values"])]
    assert sorted(spark_rows(graph, columns=columns, **at)) == expected
    chosen = spark_rows(graph, columns="key,nick", filter="years = 3", **at)
    assert sorted(chosen) == [tuple(row) for row in plain(then["an indexed value"])]
    assert spark_rows(graph, columns="key", filter="age = 7", **at) == []
    assert spark_rows(graph, columns="age,bio,nick", filter='key = "p07"', **at) == [
        (None, None, "name 0")
    ]
    assert spark_rows(graph, columns="age,bio,nick", filter='key = "p07"', type="Human") == [
        (7, "the sea", "x")
    ]
