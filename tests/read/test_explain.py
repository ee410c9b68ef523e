"""Explanations: the plan with tables, rows and index coverage."""

import pytest

import omnigraph as og
from tests.graphs import graph_of
from tests.read.texts import maintain

SCHEMA = """
node Person {
  handle: String @key
  name: String @index
  age: I32? @index
  mail: String? @unique
  level: enum(guest, member) @index
  tags: [String]?
}
node Note {
  title: String @index
  embedding: Vector(2)? @index
}
edge Knows: Person -> Person { since: Date? @index }
"""
PEOPLE = [
    {"type": "Person", "data": {"handle": "ada", "name": "Ada", "age": 36, "level": "member"}},
    {"type": "Person", "data": {"handle": "bob", "name": "Bob", "level": "guest"}},
    {"type": "Note", "data": {"title": "on engines", "embedding": [1, 0]}},
    {"edge": "Knows", "from": "ada", "to": "bob", "data": {"since": "2024-01-01"}},
]


graph = graph_of(SCHEMA, PEOPLE)


def uses(graph, match, ret="$p", order="", limit=""):
    """Step texts with their indexes as (column, kind, coverage)."""
    source = f"query q($h: String) {{ match {{ {match} }} return {{ {ret} }} {order} {limit} }}"
    explained = graph.explain(source)
    return [
        (f"{index.table_key}.{index.column}", index.kind, index.coverage)
        for step in explained.steps
        for index in step.indexes
    ]


def test_the_names_of_a_source_are_its_own(graph):
    explained = graph.explain(
        "query notes($p: String) { match { $x: Note { title: $p } } return { $x.title as t } order { t } }"
        'match { $r: notes("on engines") $x: Person { handle: $r.t } $x knows $y } return { $y }'
    )
    steps = [
        (one.text.strip().split(" [")[0], one.table_key) for one in explained.steps if one.table_key
    ]
    assert steps == [
        ("scan $x: Note", "node:Note"),
        ("scan $x: Person", "node:Person"),
        ("expand $x -Knows-> $y: Person", "edge:Knows"),
    ]
    assert {index.table_key for one in explained.steps[:2] for index in one.indexes} == {
        "node:Note"
    }


def test_the_plan_with_its_tables(graph):
    explained = graph.explain(
        "query far($h: String) {"
        " match { $p: Person { handle: $h } $p knows{1,2} $q not { $q knows $p } }"
        " return { $q.name as name } order { name } limit 3 }"
    )
    assert explained.query_name == "far"
    assert explained.graph_commit_id == graph.snapshot().graph_commit_id
    tables = [(step.table_key, step.rows) for step in explained.steps if step.table_key]
    assert tables == [("node:Person", 2), ("edge:Knows", 1), ("edge:Knows", 1)]
    texts = [step.text for step in explained.steps]
    assert texts[0] == "scan $p: Person [$p.handle = $h]"
    assert any(text.startswith("anti join on ") for text in texts)
    assert texts[-2:] == ["order name asc", "limit 3"]
    lines = explained.text.splitlines()
    assert lines[0] == f"far on branch main, commit {explained.graph_commit_id}"
    assert lines[1:4] == [
        "scan $p: Person [$p.handle = $h]",
        "    node:Person: 2 rows",
        "    index node:Person.id (btree): none",
    ]
    assert str(explained) == explained.text


def test_a_filter_names_the_index_that_could_serve_it(graph):
    assert uses(graph, "$p: Person { handle: $h }") == [("node:Person.id", "btree", "none")]
    assert uses(graph, "$p: Person $p.age > 3") == [("node:Person.age", "btree", "none")]
    assert uses(graph, '$p: Person search($p.name, "ada")') == [("node:Person.name", "fts", "none")]
    assert uses(graph, "$p knows $q") == [("edge:Knows.src", "btree", "none")]
    assert uses(graph, "$p <knows> $q") == [
        ("edge:Knows.src", "btree", "none"),
        ("edge:Knows.dst", "btree", "none"),
    ]
    assert uses(graph, '$p $e:knows $q $e.since > date("2024-01-01")')[1:] == [
        ("edge:Knows.since", "btree", "none")
    ]


def test_a_comparison_of_two_variables_uses_no_index(graph):
    assert uses(graph, "$p: Person $q: Person $p.age = $q.age") == []


def test_rankings_use_text_and_vector_indexes(graph):
    order = "order { rrf(nearest($n.embedding, [1.0, 0.0]), bm25($n.title, $h)) }"
    assert uses(graph, "$n: Note", "$n", order, "limit 2") == [
        ("node:Note.embedding", "vector", "none"),
        ("node:Note.title", "fts", "none"),
    ]


def test_coverage_is_that_of_the_snapshot(graph):
    match = '$p: Person { level: "member" } $p.age > 3 search($p.name, "ada")'
    before = graph.snapshot().graph_commit_id
    graph.ensure_indices()
    assert {coverage for _, _, coverage in uses(graph, match)} == {"indexed"}
    graph.load([{"type": "Person", "data": {"handle": "eve", "name": "E", "level": "guest"}}])
    assert {coverage for _, _, coverage in uses(graph, match)} == {"degraded"}
    then = graph.explain(
        "query q() { match { $p: Person $p.age > 3 } return { $p } }", snapshot=before
    )
    assert [index.coverage for step in then.steps for index in step.indexes] == ["none"]
    assert then.text.startswith(f"q on snapshot {before}, commit {before}")


def test_the_best_of_several_indexes_of_a_kind_counts(tmp_path):
    def foreign(table):
        table.dataset.create_scalar_index("n", "BTREE", name="theirs", replace=False)
        return type(table)(table.ref, table.dataset)

    with og.init(tmp_path / "g", "node Doc { n: I64 @index }") as graph:
        graph.load([{"type": "Doc", "data": {"n": 1}}])
        graph.ensure_indices()
        graph.load([{"type": "Doc", "data": {"n": 2}}])
        wanted = ("node:Doc.n", "btree")
        assert uses(graph, "$d: Doc $d.n > 1", "$d") == [(*wanted, "degraded")]
        maintain(graph, foreign)
        assert uses(graph, "$d: Doc $d.n > 1", "$d") == [(*wanted, "indexed")]


def test_the_document(graph):
    document = graph.explain("query q() { match { $p: Person } return { $p } }").to_json()
    assert document["target"] == {"branch": "main", "snapshot": None}
    assert document["steps"][0] == {
        "text": "scan $p: Person",
        "table_key": "node:Person",
        "rows": 2,
        "cached": False,
        "indexes": [],
    }


def test_parameters_are_checked_when_they_are_given(graph):
    source = "query q($n: I32) { match { $p: Person $p.age > $n } return { $p } }"
    assert graph.explain(source).path == graph.explain(source, params={"n": 1}).path
    with pytest.raises(og.errors.ParamError):
        graph.explain(source, params={"n": "many"})


def test_the_path_is_the_one_that_is_tried_first(graph, monkeypatch):
    source = "query q() { match { $p knows $q } return { $p } }"
    for mode in ("csr", "indexed"):
        monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
        explained = graph.explain(source)
        assert explained.path == explained.to_json()["path"] == mode
        assert explained.text.splitlines()[-1] == f"path: {mode}"


def test_what_is_in_memory_is_told(graph, monkeypatch):
    source = "query q() { match { $p knows $q } return { $p } }"
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    assert [step.cached for step in graph.explain(source).steps[:2]] == [False, False]
    graph.query(source)
    explained = graph.explain(source)
    assert [step.cached for step in explained.steps[:2]] == [True, True]
    assert "    edge:Knows: 1 row, in memory" in explained.text.splitlines()


ORDERED = [
    "$p knows $q  $q knows $r  $r knows $p",
    "$p knows $q  $q knows $r  not { $p knows $r }  $p.age != $r.age",
    "$p: Person { level: $h }  $p knows $q  not { $q knows $_ }",
    "$p $e:knows $q  $q knows $r  $r <knows> $p",
]


@pytest.mark.parametrize("output", ["$p", "count($p) as n", "$q.name, count($p) as n"])
@pytest.mark.parametrize("match", ORDERED)
def test_the_order_is_the_one_that_runs(graph, monkeypatch, match, output):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    more = [
        {"type": "Person", "data": {"handle": f"p{at}", "name": "x", "age": at, "level": "guest"}}
        for at in range(9)
    ]
    edges = [
        {"edge": "Knows", "from": f"p{at}", "to": f"p{to}"}
        for at in range(9)
        for to in (at * 2 % 9, (at + 4) % 9)
    ]
    graph.load(more + edges)
    source = f"query q($h: String) {{ match {{ {match} }} return {{ {output} }} }}"
    given = {"h": "guest"}
    cold = graph.explain(source, given)
    assert cold.order is None
    assert "not in memory" in cold.to_json()["order_unknown"]
    assert f"order: not known yet, {cold.order_unknown}" in cold.text.splitlines()
    profiled = graph.profile(source, given)
    (run,) = [phase for phase in profiled.steps if phase.name == "run"]
    ran = [step for phase in run.phases for step in phase.phases]
    explained = graph.explain(source, given)
    assert [(one.op, one.text) for one in explained.order] == [(one.op, one.name) for one in ran]
    expected = [one.rows if one.estimated_rows is None else one.estimated_rows for one in ran]
    assert [one.estimated_rows for one in explained.order] == expected
    assert len(explained.to_json()["order"]) == len(ran)
    about = "1 row" if expected[0] == 1 else f"{expected[0]} rows"
    assert f"run: {ran[0].name} (about {about})" in explained.text.splitlines()
    assert explained.to_json()["order_unknown"] is None
    without = graph.explain(source)
    assert (without.order, without.order_unknown) == (
        None,
        "the values of its parameters are not given",
    )


def test_variables_that_are_summed_away_are_told(graph, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    source = "query q() { match { $p knows $q  $q knows $r } return { $p.name, count($r) as n } }"
    assert graph.explain(source, {}).summed_away is None, "not before the graph is in memory"
    graph.query(source)
    explained = graph.explain(source, {})
    assert explained.summed_away == ("q", "r")
    assert explained.to_json()["summed_away"] == ["q", "r"]
    assert "summed away: $q, $r" in explained.text.splitlines()
    rows = "query q() { match { $p knows $q } return { $p.name, $q.name as b } }"
    listed = graph.explain(rows, {})
    assert listed.summed_away == ()
    assert "summed away" not in listed.text


def test_why_the_order_is_not_known(graph, monkeypatch):
    ranked = "query q() { match { $n: Note } return { $n } order { nearest($n.embedding, [1.0, 0.0]) } limit 2 }"
    assert "search" in graph.explain(ranked, {}).order_unknown
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "indexed")
    hop = 'query q() { match { $p: Person { handle: "a" }  $p knows $q } return { $q } }'
    assert "look-up" in graph.explain(hop, {}).order_unknown


def test_a_mutation_is_refused(graph):
    with pytest.raises(og.errors.BadRequest, match="mutate"):
        graph.explain('query q() { delete Person where handle = "x" }')
