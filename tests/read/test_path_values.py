"""Values of paths between few and many ends, and between nodes of two types: small graphs, answers by hand."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.read.kernels import hops, meeting

SCHEMA = """
node Person { name: String @key }
node Firm { name: String @key  town: String }
edge Knows: Person -> Person
edge WorksAt: Person -> Firm { km: I64? }
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """Two ways from a to f, of which that over c is the greater; behind f a chain of g and h; i stands alone."""
    with og.init(tmp_path_factory.mktemp("paths") / "graph", SCHEMA) as graph:
        knows = ["ab", "ac", "bd", "cd", "df", "fg", "gh", "hh"]
        works = [("a", "x", 5), ("a", "x", 2), ("b", "x", None), ("b", "y", 4)]
        graph.load(
            [{"type": "Person", "data": {"name": name}} for name in "abcdfghi"]
            + [{"type": "Firm", "data": {"name": name, "town": name * 2}} for name in "xy"]
            + [{"edge": "Knows", "from": a, "to": b} for a, b in knows]
            + [{"edge": "WorksAt", "from": p, "to": f, "data": {"km": km}} for p, f, km in works]
        )
        yield graph


def rows(graph, text):
    return [tuple(row.values()) for row in graph.query(text).rows]


ENDS = '$a: Person { name: "a" }  $z: Person'


@pytest.mark.parametrize(
    ("name", "hops", "way"),
    [
        ("f", "{1,}", ["a", "b", "d", "f"]),
        ("f", "{3,3}", ["a", "b", "d", "f"]),
        ("f", "{1,2}", None),
        ("f", "{4,}", None),
        ("h", "{1,}", ["a", "b", "d", "f", "g", "h"]),
        ("h", "{6,9}", ["a", "b", "d", "f", "g", "h", "h"]),
        ("a", "{0,}", ["a"]),
        ("a", "{1,}", None),
        ("i", "{0,}", None),
    ],
)
def test_one_end_and_all_ends_have_the_same_path(graph, name, hops, way):
    """One end is searched from both sides; to all eight of them the paths from the start are found together."""
    asked = "return { $z.name as z, length($p) as n, nodes($p) as w }"
    one = f'match {{ {ENDS} {{ name: "{name}" }}  $a $p:knows{hops} $z }} {asked}'
    expected = [] if way is None else [(name, len(way) - 1, way)]
    assert rows(graph, one) == expected
    every = f"match {{ {ENDS}  $a $p:knows{hops} $z }} {asked} order {{ z }}"
    assert [row for row in rows(graph, every) if row[0] == name] == expected
    kept = f"match {{ {ENDS}  optional {{ $a $p:knows{hops} $z }} }} {asked} order {{ z }}"
    found = (name, None, None) if way is None else expected[0]
    assert [row for row in rows(graph, kept) if row[0] == name] == [found]


def test_whether_two_nodes_are_joined_is_counted(graph):
    text = 'match { $a: Person { name: "a" }  $z: Person { name: "h" }  $a knows{1,} $z } return { count(*) as n }'
    assert rows(graph, text) == [(1,)]
    assert rows(graph, text.replace("{1,}", "{1,4}")) == [(0,)]
    assert rows(graph, text.replace("{1,}", "{6,6}")) == [(1,)]  # by the edge from h to itself


def test_a_path_between_two_types_ends_after_one_edge(graph):
    text = (
        "match { $p: Person  $p $w:worksAt{1,3} $f } "
        "return { $p.name as p, $f.name as f, length($w) as n, nodes($w) as w } order { p, f }"
    )
    assert rows(graph, text) == [
        ("a", "x", 1, ["a", "x"]), ("b", "x", 1, ["b", "x"]), ("b", "y", 1, ["b", "y"])
    ]  # fmt: skip
    assert rows(graph, text.replace("{1,3}", "{2,3}")) == []


def test_a_path_from_the_other_end_of_two_types(graph):
    text = 'match { $f: Firm { name: "y" }  $p $w:worksAt{1,} $f } return { $p.name as p, $w as whole }'
    (row,) = graph.query(text).rows
    assert row["p"] == "b"
    edge = {"type": "WorksAt", "from": "b", "to": "y", "km": 4}
    assert row["whole"] == {"nodes": ["b", "y"], "edges": [edge], "length": 1}


def test_a_cheapest_path_between_two_types_takes_the_cheapest_edge(graph):
    text = (
        "match { $p: Person  $p $w:worksAt by km $f } "
        "return { $p.name as p, $f.name as f, cost($w) as cost, edges($w.km) as km, nodes($w.name) as names } "
        "order { p }"
    )
    assert rows(graph, text) == [("a", "x", 2.0, [2], ["a", "x"]), ("b", "y", 4.0, [4], ["b", "y"])]


def test_a_missing_path_between_two_types_is_null(graph):
    text = (
        "match { $p: Person  $f: Firm  optional { $p $w:worksAt{1,} $f } } "
        "return { $p.name as p, $f.name as f, length($w) as n } order { p, f }"
    )
    found = {(p, f): n for p, f, n in rows(graph, text)}
    assert len(found) == 16
    assert {pair for pair, n in found.items() if n == 1} == {("a", "x"), ("b", "x"), ("b", "y")}
    assert set(found.values()) == {1, None}


def test_the_length_of_a_cheapest_path_is_not_that_of_a_shortest(tmp_path):
    with og.init(
        tmp_path / "g", "node T { name: String @key }  edge Road: T -> T { km: F64 }"
    ) as made:
        roads = [("a", "c", 9.0), ("a", "b", 2.0), ("b", "c", 3.0)]
        made.load(
            [{"type": "T", "data": {"name": name}} for name in "abc"]
            + [{"edge": "Road", "from": a, "to": b, "data": {"km": km}} for a, b, km in roads]
        )
        text = 'match { $a: T { name: "a" }  $a $p:road by km $z } return { $z.name as z, length($p) as n } order { z }'
        assert rows(made, text) == [("b", 1), ("c", 2)]


def test_the_cost_of_a_path_and_the_path_agree_on_what_is_reached(tmp_path):
    """Also where a path costs more than a number can say: it is there, and its cost is infinite."""
    schema = "node Place { name: String @key }\nedge Road: Place -> Place { km: F64? }"
    roads = [
        ("a", "b", 1e308),
        ("b", "c", 1e308),
        ("c", "d", 1.0),
        ("e", "a", 1.0),
        ("d", "d", 1.0),
    ]
    with og.init(tmp_path / "graph", schema) as graph:
        graph.load(
            [{"type": "Place", "data": {"name": name}} for name in "abcdef"]
            + [{"edge": "Road", "from": a, "to": b, "data": {"km": km}} for a, b, km in roads]
        )
        optional = """match { $a: Place { name: "a" }  $z: Place  optional { $a $p:road by km $z } }
        return { $z.name as z, SHOWN } order { z }"""
        costs = [("a", None), ("b", 1e308), ("c", float("inf")), ("d", float("inf"))]
        # As JSON an infinite number is text.
        table = graph.query(optional.replace("SHOWN", "cost($p) as c")).to_arrow()
        assert list(zip(*table.to_pydict().values(), strict=True)) == [
            *costs,
            ("e", None),
            ("f", None),
        ]
        shown = "nodes($p) as w, cost($p) as c"
        ways = graph.query(optional.replace("SHOWN", shown)).to_arrow().to_pydict()
        assert ways["w"] == [None, ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"], None, None]
        assert ways["c"] == table["c"].to_pylist()


def test_whether_and_how_far_nodes_are_joined_is_one_search(graph, monkeypatch):
    searched = []

    def distance(out, back, start, end, most):
        searched.append((start, end))
        return meeting_distance(out, back, start, end, most)

    meeting_distance = meeting.distance
    monkeypatch.setattr(meeting, "distance", distance)
    monkeypatch.setattr(hops, "reach", None)  # from one end to all that it reaches
    text = """match { $a: Person { name: "a" }  $z: Person { name: "f" }  $a $p:knows{1,} $z  $a $q:knows{2,} $z }
              return { length($p) as p, length($q) as q }"""
    assert rows(graph, text) == [(3, 3)]
    assert len(searched) == len(set(searched)) == 1


def test_searches_of_other_bounds_and_directions_are_searches_of_their_own(graph):
    text = """match { $a: Person { name: "a" }  $z: Person { name: "f" }
                      $a $p:knows{1,9} $z
                      optional { $a $q:knows{1,2} $z }  optional { $z $r:knows{1,9} $a }  optional { $z $s:<knows>{1,9} $a } }
              return { length($p) as p, length($q) as q, length($r) as r, length($s) as s }"""
    assert rows(graph, text) == [(3, None, None, 3)]


def test_a_few_pairs_are_searched_from_both_ends_beside_other_rows(graph, monkeypatch):
    monkeypatch.setattr(hops, "reach", None)
    text = """match { $a: Person  $z: Person  $a.name in ["a", "h"]  $z.name in ["f", "i"]  $a knows{1,} $z }
              return { $a.name as a, $z.name as z } order { a, z }"""
    assert rows(graph, text) == [("a", "f")]
    turned = text.replace("$a knows{1,} $z", "$z knows{1,} $a")
    assert rows(graph, turned) == [("h", "f")]


class TestPathsToAnyEntity:
    """`$_` is never visible, and a path that ends at it is a path like any other."""

    @pytest.mark.parametrize(
        ("clause", "shown", "expected"),
        [
            ("$a $p:knows{1,2} $_", "length($p) as n, nodes($p) as w", [(1, "ab"), (1, "ac"), (2, "abd")]),
            ("$_ $p:knows{1,1000} $a", "length($p) as n, nodes($p) as w", []),
            ("$a $p:knows{5,} $_", "$p as p", [{"nodes": "abdfgh", "length": 5}]),
            ("$a $p:knows{4,} $_  length($p) > 4", "nodes($p) as w", ["abdfgh"]),
            ("$a $p:knows{1,} $_", "count($p) as n, max(length($p)) as m", [(6, 5)]),
            ("optional { $a $p:knows{5,} $_ }", "nodes($p) as w", ["abdfgh"]),
            ("optional { $a $p:knows{7,} $_ }", "length($p) as n, count($p) as m", [(None, 0)]),
            ("$a $p:worksAt by km $_", "cost($p) as c, nodes($p) as w", [(2.0, "ax")]),
        ],
    )  # fmt: skip
    def test_it_has_all_values(self, graph, clause, shown, expected):
        text = f'match {{ $a: Person {{ name: "a" }}  {clause} }} return {{ {shown} }}'
        found = [tuple(map(_short, row.values())) for row in graph.query(text).rows]
        wanted = [one if isinstance(one, tuple) else (one,) for one in expected]
        assert sorted(found, key=repr) == sorted(wanted, key=repr)

    def test_both_ends_may_be_any(self, graph):
        text = "match { $_ $p:knows{4,} $_ } return { nodes($p) as w } order { length($p) desc }"
        ways = [_short(way) for (way,) in rows(graph, text)]
        # From d, h is three edges away; its own edge is the fourth.
        assert sorted(ways) == ["abdfg", "abdfgh", "bdfgh", "cdfgh", "dfghh"]
        assert ways[0] == "abdfgh"

    def test_they_are_grouped_and_ordered_by_their_lengths(self, graph):
        text = """match { $a: Person  $a $p:knows{1,} $_ }
                  return { $a.name as a, max(length($p)) as far } order { far desc, a } limit 3"""
        assert rows(graph, text) == [("a", 5), ("b", 4), ("c", 4)]
        assert rows(graph, text.replace("max(length($p)) as far", "length($p) as far")) == [
            ("a", 5), ("a", 4), ("b", 4)
        ]  # fmt: skip

    def test_a_source_hands_them_on(self, graph):
        text = """query ways() { match { $a: Person  $a $p:knows{4,} $_ } return { nodes($p) as w, length($p) as n } }
                  match { $r: ways()  $r.n > 4 } return { $r.w }"""
        assert [_short(way) for (way,) in rows(graph, text)] == ["abdfgh"]


def _short(value):
    """A list of ids as one word, also in the object of a path, whose edges are left out."""
    if isinstance(value, dict):
        return {name: _short(part) for name, part in value.items() if name != "edges"}
    return "".join(value) if isinstance(value, list) else value
