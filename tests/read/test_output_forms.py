"""Forms of the output, from text to rows: shapes, `having`, windows, distinct rows, and what they cost."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

import omnigraph as og
from omnigraph.errors import ParamError, ResourceLimit
from omnigraph.lang.query import ir
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.output.aggregate import Aggregator
from omnigraph.read.output.order import Collector
from omnigraph.read.thresholds import MatchThresholds, OutputThresholds, Thresholds
from omnigraph.types import PropType, Scalar, column_to_json_text
from tests.opened import read_with
from tests.read.space_helpers import ArrowSpace

SCHEMA = """
node Person {
  name: String @key
  age: I64?
  team: String?
  bio: String?
  place: Vector(2)?
  tags: [String]?
}
edge Knows: Person -> Person { since: I64? }
"""
PEOPLE = 60


def people(rng: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "name": f"p{at:02}",
            "age": rng.choice([None, *range(20, 30)]),
            "team": rng.choice([None, "red", "blue", "green"]),
            "bio": " ".join(rng.choices(["graph", "store", "query", "wind"], k=3)),
            "place": [float(at % 7), float(at % 11)],
            "tags": rng.choice([None, [], ["a"], ["a", "b"]]),
        }
        for at in range(PEOPLE)
    ]


@pytest.fixture(scope="module")
def rows():
    return people(random.Random(5))


@pytest.fixture(scope="module")
def knows():
    rng = random.Random(6)
    pairs = itertools.product(range(PEOPLE), repeat=2)
    return [(a, b, rng.choice([None, 1, 2, 3])) for a, b in pairs if rng.random() < 0.06]


@pytest.fixture(scope="module", params=["whole", "pieces"])
def graph(request, tmp_path_factory, rows, knows):
    edges = [
        {"edge": "Knows", "from": f"p{a:02}", "to": f"p{b:02}", "data": {"since": since}}
        for a, b, since in knows
    ]
    with og.init(tmp_path_factory.mktemp("forms") / "graph", SCHEMA) as opened:
        opened.load([{"type": "Person", "data": row} for row in rows] + edges)
        if request.param == "pieces":
            read_with(
                opened,
                Thresholds(
                    match=MatchThresholds(batch_rows=7, first_batch_rows=3),
                    output=OutputThresholds(grouped_rows=5, slack_rows=2, fetched_rows=4),
                ),
            )
        yield opened


def test_a_shape_is_an_object_and_a_star_is_a_table(graph, rows):
    shaped = graph.query("match { $p: Person } return { $p { name, tags } } order { $p.name }")
    assert shaped.columns == ["p"]
    assert [row["p"] for row in shaped] == [{"name": r["name"], "tags": r["tags"]} for r in rows]
    starred = graph.query("match { $p: Person } return { $p.* } order { $p.name }")
    named = ("name", "age", "team", "bio", "tags")
    assert starred.columns == [f"p.{name}" for name in named]
    assert starred.rows == [{f"p.{name}": r[name] for name in named} for r in rows]


def test_an_edge_has_a_shape_too(graph, knows):
    found = graph.query(
        "match { $a: Person  $a $e:knows $b } return { $a, $e { since } } order { $a.name, $b.name }"
    )
    expected = sorted((a, b, since) for a, b, since in knows)
    assert [(row["a"], row["e"]) for row in found] == [
        (f"p{a:02}", {"since": since}) for a, _, since in expected
    ]


def test_an_edge_without_properties_is_an_empty_object(tmp_path):
    with og.init(tmp_path / "g", "node T { k: String @key }  edge Q: T -> T") as graph:
        graph.load([{"type": "T", "data": {"k": k}} for k in "ab"])
        graph.load([{"edge": "Q", "from": "a", "to": "b"}])
        text = (
            "match { $t: T  optional { $t $q:q $y } } return { $t.k, $q { * } as q } order { $t.k }"
        )
        found = graph.query(text)
        assert found.rows == [{"t.k": "a", "q": {}}, {"t.k": "b", "q": None}]
        column = found.to_arrow()["q"].combine_chunks()
        assert column_to_json_text(ir.ObjectType(()), column).to_pylist() == ["{}", "null"]
        grouped = graph.query("match { $t $q:q $y } return { $q { * }, collect($q { * }) as c }")
        assert grouped.rows == [{"q": {}, "c": [{}]}]


def test_shapes_are_fetched_for_the_rows_that_are_shown():
    kind = PropType(Scalar.STRING)
    space = ArrowSpace([f"p{at}" for at in range(9)], {"bio": (kind, list("abcdefghi"))})
    shape = ir.Shape("p", "node", ir.ObjectType((("bio", kind),)))
    variables = (ir.Variable("p", "node", "Person"),)
    by_name = (ir.SortKey(ir.NodeId("p"), None, descending=True),)
    columns = (ir.Column("p", shape, shape.type),)
    plan = ir.ReadPlan("q", (), (), columns, variables, None, by_name, limit=2, offset=1)
    listed = Collector(plan, {"p": space}, {})
    listed.add(Bindings(9, {"p": np.arange(9, dtype=np.int32)}))
    assert listed.finish().to_pylist() == [{"p": {"bio": "h"}}, {"p": {"bio": "g"}}]
    assert [one for one in space.read if "bio" in one] == ["2 of bio"]
    space.read.clear()
    count = ir.Column("n", ir.Aggregate("count", None, PropType(Scalar.I64)), PropType(Scalar.I64))
    plan = ir.ReadPlan("q", (), (), (*columns, count), variables, limit=3)
    grouped = Aggregator(plan, {"p": space}, {})
    grouped.add(Bindings(9, {"p": np.arange(9, dtype=np.int32)}))
    assert grouped.finish().num_rows == 3
    assert [one for one in space.read if "bio" in one] == ["3 of bio"]


@pytest.mark.parametrize("limit", [None, 1, 4, 100])
@pytest.mark.parametrize("offset", [0, 3, 100])
def test_a_window_of_an_order(graph, rows, limit, offset):
    text = (
        "match { $p: Person } return { $p.name } order { coalesce($p.age, 0) * -1, $p.name desc }"
    )
    order = sorted(rows, key=lambda row: row["name"], reverse=True)
    order = sorted(order, key=lambda row: -(row["age"] or 0))
    wanted = [row["name"] for row in order][offset:][:limit]
    window = f" limit {limit}" if limit is not None else ""
    window += f" offset {offset}" if offset else ""
    assert [row["p.name"] for row in graph.query(text + window)] == wanted
    if limit is None:
        return
    declared = "($n: U64, $m: I32) " + text + " limit $n offset $m"
    answer = graph.query(declared, {"n": limit, "m": offset})
    assert [row["p.name"] for row in answer] == wanted


def test_windows_of_parameters_have_no_upper_end_and_a_lower_one(graph):
    text = "($n: U64, $m: I64) match { $p: Person } return { $p.name } limit $n offset $m"
    assert graph.query(text, {"n": 2**64 - 1, "m": 0}).row_count == PEOPLE
    assert graph.query(text, {"n": 5, "m": 2**63 - 1}).row_count == 0
    with pytest.raises(ParamError, match=r"param error: .*`m` of type I64 is -1.*offset"):
        graph.query(text, {"n": 1, "m": -1})
    grouped = "($n: I64) match { $p: Person } return { $p.team, count(*) as n } limit $n"
    with pytest.raises(ParamError, match=r"`n` of type I64 is -7.*limit"):
        graph.query(grouped, {"n": -7})


def test_rows_that_having_keeps_are_chosen_before_the_limit(graph, rows):
    found = graph.query(
        "match { $p: Person } return { $p.name as name, $p.age as age } "
        "having { age > 24  age != 26 } order { age, name } limit 5"
    )
    kept = [row for row in rows if row["age"] is not None and row["age"] > 24 and row["age"] != 26]
    kept.sort(key=lambda row: (row["age"], row["name"]))
    assert [row["name"] for row in found] == [row["name"] for row in kept[:5]]


@pytest.mark.parametrize("limit", [1, 3, 10, 50])
@pytest.mark.parametrize("offset", [0, 4])
def test_a_ranking_goes_deeper_until_enough_rows_pass(graph, rows, limit, offset):
    found = graph.query(
        "match { $p: Person } return { $p.name as name, $p.team as team, "
        'nearest($p.place, [0.0, 0.0]) as far } having { team = "red"  far > 20 } '
        f"order {{ far }} limit {limit} offset {offset}"
    )

    def far(row: dict[str, Any]) -> float:
        return row["place"][0] ** 2 + row["place"][1] ** 2

    passing = [row for row in rows if row["team"] == "red" and far(row) > 20]
    passing.sort(key=lambda row: (far(row), row["name"]))
    assert len(passing) > 5
    wanted = [(row["name"], far(row)) for row in passing][offset : offset + limit]
    assert [(row["name"], row["far"]) for row in found] == wanted


def test_having_keeps_rows_of_a_fusion_of_its_arms(graph, rows):
    fusion = (
        'rrf(nearest($p.place, [0.0, 0.0]), bm25($p.bio, "graph"), nearest($p.place, [6.0, 9.0]))'
    )
    text = (
        f"match {{ $p: Person }} return {{ $p.name as name, $p.team as team, {fusion} as score }}"
    )
    whole = graph.query(f"{text} order {{ score desc }} limit 20")
    kept = graph.query(f'{text} having {{ team = "red" }} order {{ score desc }} limit 20')
    scores = {row["name"]: row["score"] for row in kept}
    assert {row["team"] for row in kept} == {"red"}
    # The depth of the arms decides the scores, and having does not change it.
    for row in whole:
        if row["team"] == "red":
            assert scores[row["name"]] == row["score"]


def test_groups_by_expressions(graph, rows):
    found = graph.query(
        'match { $p: Person } return { coalesce($p.team, "none") as team, ($p.age >= 25) as old, '
        "count(*) as n, collect($p.name) as names, count(distinct $p.age) as ages } "
        "having { n > 1 } order { team, old }"
    )
    groups: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for row in rows:
        key = row["team"] or "none", row["age"] is not None and row["age"] >= 25
        groups.setdefault(key, []).append(row)
    assert found.rows == [
        {
            "team": team,
            "old": old,
            "n": len(group),
            "names": sorted(row["name"] for row in group),
            "ages": len({row["age"] for row in group} - {None}),
        }
        for (team, old), group in sorted(groups.items())
        if len(group) > 1
    ]


def test_what_is_collected_is_there_as_often_as_its_rows(graph, rows, knows):
    found = graph.query(
        "match { $a: Person  $a knows $b  $b knows $c } "
        "return { $a, collect($b.age) as ages, collect(distinct $c) as reached, count(*) as n } order { $a }"
    )
    pairs = {(a, b) for a, b, _ in knows}
    expected = []
    for a in range(PEOPLE):
        ways = [(b, c) for one, b in pairs if one == a for two, c in pairs if two == b]
        if ways:
            ages = sorted(rows[b]["age"] for b, _ in ways if rows[b]["age"] is not None)
            reached = sorted({f"p{c:02}" for _, c in ways})
            expected.append({"a": f"p{a:02}", "ages": ages, "reached": reached, "n": len(ways)})
    assert found.rows == expected


def test_an_answer_without_rows_has_empty_groups(graph):
    found = graph.query(
        'match { $p: Person { team: "white" } } return { count(*) as n, count(distinct $p) as d, '
        "collect($p { name }) as shapes, collect(distinct $p.age) as ages, max($p.age) - 1 as last }"
    )
    assert found.rows == [{"n": 0, "d": 0, "shapes": [], "ages": [], "last": None}]
    nothing = 'match { $p: Person { team: "white" } } return distinct { 1 as one }'
    assert graph.query(nothing).rows == []
    assert graph.query("match { $p: Person } return distinct { 1 as one }").rows == [{"one": 1}]


def test_items_compute_with_aggregates_and_keys(graph, rows):
    found = graph.query(
        "match { $p: Person } return { $p.age as age, count(*) * 10 + $p.age as sum, "
        "sum($p.age) / count($p.age) as mean } order { sum desc, age }"
    )
    counts: dict[int | None, int] = {}
    for row in rows:
        counts[row["age"]] = counts.get(row["age"], 0) + 1
    expected = [
        {
            "age": age,
            "sum": None if age is None else n * 10 + age,
            "mean": None if age is None else float(age),
        }
        for age, n in counts.items()
    ]
    expected.sort(key=lambda row: row["age"] or 0)
    expected.sort(key=lambda row: -1 if row["sum"] is None else row["sum"], reverse=True)
    assert found.rows == expected


def test_extremes_of_texts_that_are_made_row_by_row(graph, rows, knows):
    """Their ranks do not compare between batches; the texts do."""
    found = graph.query(
        "match { $a: Person  optional { $a knows $b } } return { $a.team as team, "
        "max($a.name + coalesce($b.name, $a.name)) as both, "
        'min(if(search($b.bio, "wind"), $b.name)) as windy, max($b.name) as last } order { team }'
    )
    pairs = {(a, b) for a, b, _ in knows}
    expected: dict[Any, dict[str, Any]] = {}
    for a, row in enumerate(rows):
        near = [rows[b] for one, b in pairs if one == a]
        group = expected.setdefault(row["team"], {"both": [], "windy": [], "last": []})
        group["both"] += [row["name"] + one["name"] for one in near or [row]]
        group["windy"] += [one["name"] for one in near if "wind" in one["bio"]]
        group["last"] += [one["name"] for one in near]
    assert found.rows == [
        {
            "team": team,
            "both": max(group["both"]),
            "windy": min(group["windy"], default=None),
            "last": max(group["last"], default=None),
        }
        for team, group in sorted(expected.items(), key=lambda pair: pair[0] or "")
    ]


def test_rows_are_told_apart_without_being_counted(tmp_path):
    """There are more ways than 64 bits count, and a handful of distinct ends."""
    names = [f"n{at:02}" for at in range(64)]
    edges = [{"edge": "Knows", "from": a, "to": b} for a in names for b in names]
    chain = "  ".join(f"$v{at:02} knows $v{at + 1:02}" for at in range(12))
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": name}} for name in names] + edges)
        with pytest.raises(ResourceLimit):
            graph.query(f"match {{ {chain} }} return {{ count(*) as n }}")
        found = graph.query(f"match {{ {chain} }} return distinct {{ $v05 }} order {{ $v05 }}")
        assert [row["v05"] for row in found] == names
        counted = graph.query(f"match {{ {chain} }} return {{ count(distinct $v03.name) as n }}")
        assert counted.scalar() == 64


def test_frames_keep_what_objects_hold(graph):
    found = graph.query(
        "match { $p: Person } return { $p.team as team, collect($p { name, age }) as who } order { team }"
    )
    frame = found.to_pandas()
    assert [list(map(dict, group)) for group in frame["who"]] == [row["who"] for row in found]
    assert {type(one["age"]) for group in frame["who"] for one in group} == {int, type(None)}
    assert found.to_polars()["who"].to_list() == [row["who"] for row in found]
