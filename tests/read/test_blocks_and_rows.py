"""Optional blocks inside each other, and rows of sources and lists as variables: small graphs, answers by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, ParamError, TypeCheckError
from omnigraph.read.match.paths import refuse_weights

SCHEMA = """
node Person { name: String @key  tags: [String]? }
edge Knows: Person -> Person
edge Likes: Person -> Person
edge Rated: Person -> Person { stars: I32  words: [String]? }
"""
RATED = [("ann", 5), ("bob", 3), ("cy", 4)]
TOP = (
    "query top($n: I64) { match { $p: Person } return { $p.name as name } order { name } limit $n }"
)


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        tags = {"ann": ["x", "y"], "bob": [], "cy": None}
        graph.load([{"type": "Person", "data": {"name": n, "tags": t}} for n, t in tags.items()])
        graph.load(
            [
                {"edge": "Knows", "from": "ann", "to": "bob"},
                {"edge": "Knows", "from": "bob", "to": "cy"},
                {"edge": "Likes", "from": "bob", "to": "ann"},
            ]
        )
        yield graph


NESTED = "$a: Person  optional { $a knows $b  optional { $b likes $c } }"


def test_an_optional_block_inside_another(graph):
    text = (
        f"match {{ {NESTED} }} return {{ $a.name as a, $b.name as b, $c.name as c }} order {{ a }}"
    )
    rows = [tuple(row.values()) for row in graph.query(text)]
    assert rows == [("ann", "bob", "ann"), ("bob", "cy", None), ("cy", None, None)]


def test_a_path_of_an_inner_block_that_found_none_is_nothing(graph):
    # Only a loop leads from someone back to the same person.
    text = (
        "match { $a: Person  optional { $a knows $b  optional { $a $w:knows|likes{3,} $a } } "
        "  length($w) = 0 } return { $a.name as a }"
    )
    assert not graph.query(text).rows
    everyone = text.replace("length($w) = 0", "length($w) is null")
    assert len(graph.query(everyone).rows) == 3


def test_what_an_inner_block_did_not_find_is_not_counted(graph):
    text = f"match {{ {NESTED} }} return {{ $a.name as a, count($b) as b, count($c) as c }} order {{ a }}"
    rows = [tuple(row.values()) for row in graph.query(text)]
    assert rows == [("ann", 1, 1), ("bob", 1, 0), ("cy", 0, 0)]


def test_objects_are_counted_by_what_they_show(graph):
    text = (
        "match { $a: Person  optional { $a $e:knows $b } } return { count($b { tags }) as n, "
        "count(distinct $b { tags }) as d, count($e { * }) as e, collect($b { name }) as l }"
    )
    assert graph.query(text).one() == {
        "n": 2,
        "d": 2,
        "e": 2,
        "l": [{"name": "bob"}, {"name": "cy"}],
    }


def test_an_edge_without_properties_is_an_empty_object(graph):
    found = "match { $a: Person  optional { $a $e:knows $b } }"
    listed = graph.query(f"{found} return {{ $a.name as a, $e {{ * }} as e }} order {{ a }}")
    assert listed.to_json()["rows"] == [
        {"a": "ann", "e": {}},
        {"a": "bob", "e": {}},
        {"a": "cy", "e": None},
    ]
    grouped = graph.query(f"{found} return {{ $e {{ * }} as e, count(*) as n }} order {{ n }}")
    assert grouped.to_json()["rows"] == [{"e": None, "n": 1}, *[{"e": {}, "n": 1}] * 2]
    collected = graph.query(f"{found} return {{ collect($e {{ * }}) as l }}")
    assert collected.to_json()["rows"] == [{"l": [{}, {}]}]


def test_a_query_without_a_column_is_refused(graph):
    with pytest.raises(TypeCheckError, match="T28: the query returns no column"):
        graph.query("match { $a $e:knows $b } return { $e.* }")
    assert len(graph.query("match { $a $e:knows $b } return { $a, $e.* }").rows) == 2


FRIENDS = (
    "query friends() { match { $a: Person  optional { $a knows $b } } "
    "return { $a.name as name, collect($b { name }) as known, $a { name } as whole } order { name } } "
)


def test_a_source_hands_over_objects_whole(graph):
    rows = [
        {"n": "ann", "k": [{"name": "bob"}], "w": {"name": "ann"}},
        {"n": "bob", "k": [{"name": "cy"}], "w": {"name": "bob"}},
        {"n": "cy", "k": [], "w": {"name": "cy"}},
    ]
    item = "return { $r.name as n, $r.known as k, $r.whole as w }"
    listed = graph.query(f"{FRIENDS} match {{ $r: friends() }} {item} order {{ n }}")
    assert listed.to_json()["rows"] == rows
    again = f"query again() {{ match {{ $r: friends() }} {item} order {{ n }} }}"
    handed = 'match { $p: Person  optional { $s: again()  $s.n = $p.name  $p.name != "bob" } }'
    optional = graph.query(
        f"{FRIENDS} {again} {handed} return {{ $p.name as p, $s.k as k, $s.w as w }} order {{ p }}"
    )
    assert optional.to_json()["rows"] == [
        {"p": "ann", "k": [{"name": "bob"}], "w": {"name": "ann"}},
        {"p": "bob", "k": None, "w": None},
        {"p": "cy", "k": [], "w": {"name": "cy"}},
    ]


def test_objects_of_a_source_are_grouped_by_their_row(graph):
    """As those of a node are by the node."""
    matched = f'{FRIENDS} match {{ $p: Person  optional {{ $r: friends()  $r.name = "ann"  $p.name != "cy" }} }}'
    grouped = graph.query(f"{matched} return {{ $r.known as k, count(*) as n }} order {{ n }}")
    assert grouped.to_json()["rows"] == [{"k": None, "n": 1}, {"k": [{"name": "bob"}], "n": 2}]
    distinct = graph.query(f"{matched} return distinct {{ $r.known as k }}")
    assert sorted(map(str, distinct.to_json()["rows"])) == [
        "{'k': None}",
        "{'k': [{'name': 'bob'}]}",
    ]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ('match { $r: friends()  $r.whole = "x" } return { $r.name }', r"T35: `\$r.whole` is made of"),
        ("match { $r: friends() } return { collect($r.known) as k }", r"T35: `\$r.known` is made of"),
        ("match { $r: friends() for $x in $r.known } return { $x as x }", "T35: .*no elements here"),
        ("match { $r: friends() } return { $r.known as k } order { k }", "T28: a list cannot be ordered"),
        ("match { $r: friends() } return { $r.name } order { $r.whole }", r"T35: `\$r.whole` is made of"),
    ],
)  # fmt: skip
def test_objects_of_a_source_are_no_operands(graph, query, told):
    with pytest.raises(TypeCheckError, match=told):
        graph.query(FRIENDS + query)


def test_a_row_is_tested_for_null_and_counted(graph):
    text = f"{TOP} match {{ $r: top(2)  $r is not null }} return {{ count($r) as n, count(distinct $r) as m }}"
    assert graph.query(text).one() == {"n": 2, "m": 2}
    assert not graph.query(
        f"{TOP} match {{ $r: top(2)  $r is null }} return {{ $r.name as name }}"
    ).rows


def test_a_required_parameter_of_a_source_cannot_be_null(graph):
    text = f"{TOP} ($n: I64?) match {{ $r: top($n) }} return {{ count(*) as n }}"
    assert graph.query(text, {"n": 2}).scalar() == 2
    with pytest.raises(ParamError, match="`n` of type I64 of the source `top` cannot be null"):
        graph.query(text, {"n": None})


@pytest.mark.parametrize(
    ("kind", "argument", "given"),
    [
        ("I32", "$n", "3000000000: it is from -2147483648 to 2147483647"),
        ("I32", "$n - 1", "2999999999: it is"),
        ("U32", "1 - 2", "-1: it is from 0"),
    ],
)
def test_an_argument_of_a_source_is_in_the_range_of_its_parameter(graph, kind, argument, given):
    text = (
        f"query s($k: {kind}) {{ match {{ $p: Person  length($p.name) > $k }} return {{ $p.name as n }} }} "
        f"($n: I64) match {{ $r: s({argument}) }} return {{ count(*) as n }}"
    )
    with pytest.raises(ParamError, match=f"of type {kind} of the source `s` cannot be {given}"):
        graph.query(text, {"n": 3_000_000_000})


def test_a_condition_on_edges_names_what_the_edge_does_not_have(graph):
    for words, told in [
        ("rated[star > 1]", "T6: edge type Rated has no property `star`"),
        ("knows[id = 1]", "T6: edge type Knows has no property `id`"),
    ]:
        with pytest.raises(TypeCheckError, match=told):
            graph.query(f"match {{ $a: Person  $a {words} $b }} return {{ $a }}")


def test_a_list_in_the_condition_of_an_edge(graph):
    graph.load(
        [{"edge": "Rated", "from": "ann", "to": to, "data": {"stars": n}} for to, n in RATED]
    )
    text = "match { $a rated[stars in [4, 5]] $b } return { $b.name as name } order { name }"
    assert [row["name"] for row in graph.query(text)] == ["ann", "cy"]


@pytest.mark.parametrize(
    "text",
    [
        "match { $p: Person  for $t in $p.tags } return { $p.name as name, $t as tag }",
        'match { $p: Person  for $t in $p.tags  $t = "x" } return { $p.name as name }',
        f"{TOP} match {{ $r: top(2)  $p: Person {{ name: $r.name }} }} return {{ $p.name as name }}",
        f'{TOP} match {{ $r: top(2)  $r.name = "ann" }} return {{ $r.name as name }}',
        f"{TOP} match {{ $p: Person  exists {{ $r: top(2)  $r.name = $p.name }} }} return {{ count($p) as n }}",
    ],
)
def test_sources_and_lists_are_explained_also_in_memory(graph, monkeypatch, text):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    cold = graph.explain(text)
    graph.query("match { $p: Person  $p knows $q  $p likes $r } return { count(*) as n }")
    warm = graph.explain(text)
    assert [step.text for step in warm.steps] == [step.text for step in cold.steps]
    if "top(" in text:
        assert (
            warm.order_unknown == "the rows of its sources and lists are not there before it runs"
        )
    else:
        assert warm.order


WORDS = [
    ("ann", "bob", 5, ["good", "fast", "good"]),
    ("ann", "cy", 4, []),
    ("bob", "cy", 3, None),
    ("cy", "ann", 2, ["fast"]),
]


@pytest.fixture
def rated(graph):
    graph.load(
        [
            {"edge": "Rated", "from": a, "to": b, "data": {"stars": stars, "words": words}}
            for a, b, stars, words in WORDS
        ]
    )
    return graph


@pytest.mark.parametrize("mode", ["csr", "indexed"])
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            (
                "match { $a $e:rated $b  for $w in $e.words } return { $a.name as a, $b.name as b, $w as w } "
                "order { a, w }"
            ),
            [("ann", "bob", "fast"), *[("ann", "bob", "good")] * 2, ("cy", "ann", "fast")],
        ),
        (
            "match { $a $e:rated $b  for $w in $e.words } return { count(*) as n, sum($e.stars) as s }",
            [(4, 17)],
        ),
        (
            'match { $a $e:<rated> $b  for $w in $e.words  $w = "fast" } return { $a.name as a } order { a }',
            [("ann",), ("ann",), ("bob",), ("cy",)],
        ),
        (
            (
                "match { $a $e:rated $b  for $v in $e.words  for $w in $e.words  $v < $w } "
                "return { $v as v, $w as w, count(*) as n }"
            ),
            [("fast", "good", 2)],
        ),
        (
            "match { $a: Person  not { $a $e:rated $b  for $w in $e.words } } return { $a.name as a }",
            [("bob",)],
        ),
        (
            'match { $a $e:rated $b  exists { for $w in $e.words  $w = "good" } } return { $a.name as a }',
            [("ann",)],
        ),
        (
            (
                "match { $a: Person  optional { $a $e:rated $b  for $w in $e.words } } "
                "return { $a.name as a, count($w) as n } order { a }"
            ),
            [("ann", 3), ("bob", 0), ("cy", 1)],
        ),
        (
            (
                'match { $a $e:rated $b  optional { for $w in $e.words  $w = "good" } } '
                "return { $a.name as a, $b.name as b, $w as w } order { a, b }"
            ),
            [
                *[("ann", "bob", "good")] * 2,
                ("ann", "cy", None),
                ("bob", "cy", None),
                ("cy", "ann", None),
            ],
        ),
    ],
)
def test_a_list_of_an_edge_is_taken_apart(rated, monkeypatch, mode, text, answer):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    assert [tuple(row.values()) for row in rated.query(text)] == answer


def test_a_mutation_runs_for_every_element_of_the_list_of_an_edge(rated):
    text = "match { $a $e:rated $b  for $w in $e.words } upsert Person { name: $a.name + $w }"
    assert rated.mutate(text).affected_nodes == 4
    names = [row["name"] for row in rated.query("match { $p: Person } return { $p.name as name }")]
    assert {"anngood", "annfast", "cyfast"} < set(names)
    assert len(names) == 6


def test_what_a_block_joins_row_by_row_is_not_called_summed_away(rated, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    text = "match { $a $e:rated $b  for $w in $e.words } return { $w as w }"
    rated.query(text)
    assert rated.explain(text).summed_away == ()
    counted = "match { $a rated $b  optional { $b knows $c } } return { $a.name as name }"
    rated.query(counted)
    assert rated.explain(counted).summed_away == ("b",)


def test_a_negative_weight_is_refused_also_where_nothing_starts(graph):
    graph.load([{"edge": "Rated", "from": "ann", "to": "bob", "data": {"stars": -1}}])
    text = (
        'match { $a: Person { name: "nobody" }  $a $w:rated by stars $b } return { cost($w) as c }'
    )
    with pytest.raises(BadRequest, match=r"^runtime error: .* negative"):
        graph.query(text)
    assert not graph.query(text.replace("rated by", "rated[stars > 0] by")).rows


@pytest.mark.parametrize("weight", [math.nan, -math.inf, -0.5])
def test_a_weight_that_is_no_number_or_negative_is_refused(weight):
    """No surface stores a weight that is no number; an outside writer could."""
    refuse_weights(np.array([0.0, -0.0, 1.5, math.inf]), "stars")
    with pytest.raises(BadRequest, match=r"^runtime error: .* negative") as refused:
        refuse_weights(np.array([1.0, weight]), "stars")
    assert refused.value.details["property"] == "stars"


def test_a_million_elements_in_a_list_of_rows(graph):
    given = [f"p{at}" for at in range(999_998)] + ["bob", "ann"]
    text = "($l: [String]) for $x in $l match { $p: Person { name: $x } } return { $p.name as n }"
    assert sorted(row["n"] for row in graph.query(text, {"l": given})) == ["ann", "bob"]
    counted = (
        '($l: [String]) for $x in $l match { $p: Person { name: "ann" } } return { count(*) as n }'
    )
    assert graph.query(counted, {"l": given}).rows == [{"n": 1_000_000}]
