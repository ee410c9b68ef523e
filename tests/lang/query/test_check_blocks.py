"""Optional blocks, `exists`, alternatives, bounds, paths, sources and lists: rules, and the order of steps."""

from __future__ import annotations

from functools import lru_cache

import pytest

from omnigraph.errors import SourceError
from omnigraph.lang.query import ir
from omnigraph.lang.query.plan_text import show
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema.catalog import Catalog
from tests.lang.query.schema_of_tests import assert_refused, compiled, read

SCHEMA = """
node Town { name: String @key  region: String?  tags: [String]?  photo: Blob?  spot: Vector(2)? @index }
node Firm { code: String @key  name: String }
edge Road: Town -> Town { km: F64  toll: I32?  opened: Date?  map: Blob? }
edge Ferry: Town -> Town { km: F64?  line: String?  toll: I64? }
edge Seat: Firm -> Town { since: Date? }
edge Owner: Town -> Firm { since: Date? }
edge Lease: Firm -> Town { marks: [String]?  rent: I64? }
"""


@lru_cache(maxsize=1)
def towns() -> Catalog:
    return compile_schema(SCHEMA).catalog


T = "$a: Town "

BROKEN = [
    # T30 and T9: optional
    (read(T + 'optional { $a.name = "x" }', "$a.name"), "T30", ["introduce"]),
    (read(T + "optional { $a road $_ }", "$a.name"), "T30", []),
    (read(T + "optional { $a road $b } $b road $c", "$a.name"), "T30", ["$b"]),
    (read(T + "optional { $a road $b } $b: Town", "$a.name"), "T30", ["$b"]),
    (read(T + "optional { $a road $b } $c: Town { name: $b.name }", "$a.name"), "T30", ["$b"]),
    (read(T + "optional { $a road $b } for $t in $b.tags", "$a.name"), "T30", ["$b"]),
    (read(T + "not { $a road $b  optional { $b road $c } }", "$a.name"), "T30", ["optional"]),
    (read(T + "exists { $a road $b  optional { $b road $c } }", "$a.name"), "T30", ["optional"]),
    (
        read(
            T + "optional { $a road $b }",
            "$a.name",
            "order { nearest($b.spot, [1, 2]) } limit 1",
        ),
        "T30",
        ["$b"],
    ),
    (read(T + "optional { $b: Town }", "$a.name"), "T9", ["outer"]),
    (read("optional { $b: Town }", "$b.name"), "T9", ["outer"]),
    (read(T + "exists { $a road $b } $a road $b", "$a.name"), "T26", ["$b"]),
    (read(T + "exists { $a road $b } optional { $a road $b }", "$a.name"), "T26", ["$b"]),
    (read(T + "optional { not { $a road $b } $a road $c } $a road $b", "$a.name"), "T26", ["$b"]),
    (read(T + "exists { $a road $b }", "$b.name"), "T6", ["b"]),
    (read(T + "exists { $a road $b } or $b.name = 3", "$a.name"), "T6", ["b"]),
    # T33 and T5: alternatives
    (read(T + "$a seat|owner $f", "$a.name"), "T33", ["Owner", "Seat"]),
    (read("$f: Firm $f seat|owner $a", "$a.name"), "T33", ["Owner"]),
    (read(T + "$a road|flight $b", "$a.name"), "T4", ["flight"]),
    (read(T + "$a road|owner $b", "$a.name"), "T5", ["owner"]),
    # T6: properties of alternatives and of edges
    (read("$a $e:road|ferry $b", "$e.line"), "T6", ["line", "Road"]),
    (read("$a $e:road|ferry $b", "$e.toll"), "T6", ["toll", "Ferry"]),
    (read("$a $e:road|ferry $b", "$e { toll }"), "T6", ["toll"]),
    (read("$a road[line = 3] $b", "$a.name"), "T6", ["line"]),
    (read("$a road|ferry[toll = 3] $b", "$a.name"), "T6", ["toll"]),
    (read("$a road[$a.name = 3] $b", "$a.name"), "T6", ["$a"]),
    (read("$a road[map is null] $b", "$a.name"), "T24", ["map"]),
    (read("$a road[km] $b", "$a.name"), "T7", ["Bool"]),
    (read("$a road[km = null] $b", "$a.name"), "T7", ["is null"]),
    (read("$a road[km < $most] $b", "$a.name"), "T14", ["most"]),
    # T15: bounds
    (read("$a road{3,2} $b", "$a.name"), "T15", ["3 to 2"]),
    # T34: paths
    (read("$a road by km $b", "$a.name"), "T34", ["by"]),
    (read("$a $_:road by km $b", "$a.name"), "T34", ["by"]),
    (read("$a $p:road by opened $b", "$a.name"), "T34", ["opened"]),
    (read("$a $p:road by length $b", "$a.name"), "T34", ["length"]),
    (read("$a $p:road|ferry by line $b", "$a.name"), "T34", ["line"]),
    (read("$a $p:road{1,3} $b", "$p.km"), "T34", ["p"]),
    (read("$a $p:road{1,3} $b", "cost($p) as c"), "T34", ["cost", "p"]),
    (read("$a $p:road{1,3} $b", "$p, count(*) as n"), "T34", ["p"]),
    (read("$a $p:road{1,3} $b", "$p as path", "order { path }"), "T34", ["p"]),
    (read("$a $p:road{1,3} $b", "$a.name", "order { $p }"), "T34", ["p"]),
    (read("$a $p:road{1,3} $b  $p = 3", "$a.name"), "T34", ["p"]),
    (read("$a $p:road{1,3} $b  $p = $a", "$a.name"), "T34", ["p"]),
    (read("$a $p:road{1,3} $b", "$p + 1 as x"), "T34", ["p"]),
    (read("$a $p:road{1,3} $b", "collect($p) as x"), "T34", ["p"]),
    (read("$a $p:road{1,3} $b", "length(edges($p)) as x"), "T34", ["edges"]),
    (read("$a $p:road{1,3} $b", "nodes($a) as x"), "T34", ["nodes"]),
    (read("$a $p:road{1,3} $b  $p road $c", "$a.name"), "T34", ["p"]),
    (read("$a $p:road{1,3} $b  $p: Town", "$a.name"), "T34", ["p"]),
    (read("$a $p:road{1,3} $b", "$p").replace("return {", "return distinct {"), "T31", ["p"]),
    (read("$a $p:road{1,3} $b", "nodes($p.code) as x"), "T6", ["code"]),
    (read("$a $p:road|ferry{1,3} $b", "edges($p.toll) as x"), "T6", ["toll"]),
    (read("$a $p:road{1,3} $b", "nodes($p.photo) as x"), "T24", ["photo"]),
    (read("$a $p:road{1,3} $b", "nodes($p.tags) as x"), "T34", ["tags"]),
    # T23, T26: names
    (read("$a $a:road{1,3} $b", "$b.name"), "T23", ["a"]),
    (read("$a $e:road $b", "$e"), "T23", ["e"]),
    (read("$a $e:road $b  $e road $c", "$a.name"), "T23", ["e"]),
    # T35, T6, T26: lists
    (read(T + "for $t in $a.name", "$t"), "T35", ["name"]),
    (read("$f $e:lease $b  for $t in $e.rent", "$t"), "T35", ["rent", "I64"]),
    (read(T + "for $t in $a.spot", "$t"), "T35", ["spot"]),
    (read(T + "for $t in $a.colours", "$t"), "T6", ["colours"]),
    (read(T + "for $t in $x.tags", "$t"), "T6", ["x"]),
    (read(T + "for $t in $h", "$t", params="$h: String"), "T35", ["h"]),
    (read(T + "for $r in $h", "$r.b as x", params="$h: [{ b: Blob }]"), "T24", ["r.b"]),
    (read(T + "for $r in $h", "$r as x", params="$h: [Blob]"), "T24", ["r"]),
    (read(T + "for $t in $a", "$t"), "T35", ["a"]),
    (read(T + "for $t in $h", "$t"), "T14", ["h"]),
    (read(T + "for $a in $h", "$a.name", params="$h: [String]"), "T26", ["a"]),
    (read(T + "for $h in $h", "$a.name", params="$h: [String]"), "T26", ["h"]),
    (read(T + "for $t in $h  $t road $b", "$a.name", params="$h: [String]"), "T26", ["t"]),
    (read(T + "for $t in $h  $t: Town", "$a.name", params="$h: [String]"), "T26", ["t"]),
    (read(T + "for $t in $r", "$t.y", params="$r: [{ x: I32 }]"), "T6", ["y"]),
    (read(T + "for $t in $r", "$t", params="$r: [{ x: I32 }]"), "T35", ["t"]),
    (read(T + "for $t in $r", "$t.*", params="$r: [{ x: I32 }]"), "T35", ["t"]),
    (read(T + "$a.name in $r", "$a.name", params="$r: [{ x: I32 }]"), "T7", ["r"]),
    # T5, E42
    (read("$a <seat> $f", "$a.name"), "T5", ["Seat"]),
]


@pytest.mark.parametrize(("text", "rule", "words"), BROKEN)
def test_a_broken_rule_is_named(text: str, rule: str, words: list[str]) -> None:
    assert_refused(text, rule, words, towns())


NAMES = "query names($h: String, $n: I64?) { match { $a: Town } return { $a as town, $a.name as h, $a.region, count(*) as n } } "
WRITE = 'query wipe() { delete Town where name = "x" } '


def using(clause: str, item: str = "$r.h", params: str = "") -> str:
    return f"{NAMES}{WRITE}query q({params}) {{ match {{ {clause} }} return {{ {item} }} }}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (using("$r: nothing(1)"), ["T35", "nothing"]),
        (using("$r: wipe()"), ["T35", "wipe", "mutation"]),
        (using("$r: q()"), ["T35", "`q`", "itself"]),
        (using("$r: names()"), ["T35", "names", "1 to 2"]),
        (using('$r: names("x", 1, 2)'), ["T35", "names"]),
        (using("$r: names(3)"), ["T35", "$h", "String"]),
        (using('$r: names("x", 1.5)'), ["T35", "$n"]),
        (using("$r: names($x)", params="$x: I32"), ["T35", "$h"]),
        (using("$r: names($x)"), ["T14", "x"]),
        (using("$a: Town  $r: names($a.name)"), ["T35", "$a"]),
        (using('$r: names("x")', "$r.name"), ["T6", "name"]),
        (using('$r: names("x")', "$r.region"), ["T6", "region"]),
        (using('$r: names("x")', "$r"), ["T35", "$r"]),
        (using('$r: names("x")', "collect($r) as c"), ["T35", "$r"]),
        (using('$r: names("x") $r road $b'), ["T26", "$r"]),
        (using('$r: names("x") $r.town road $b'), ["parse"]),
        (using('$r: names("x") $r.town = "x"'), ["T7", "node"]),
        (using('$r: names("x") $f: Firm $f = $r.town'), ["T7", "Firm", "Town"]),
        (using('$r: names("x") $a: Town $a = $r.name'), ["T6", "name"]),
        (using('$r: names("x") search($r.town, "x")'), ["T19", "search"]),
        (using('$r: names("x") match_text($r.town, "x")'), ["T20", "match_text"]),
        (using('$r: names("x") $r: names("y")'), ["T26", "$r"]),
        (using('$r: names("x")', "lower($r.town) as x"), ["T29", "lower"]),
    ],
)
def test_a_source_that_gives_no_rows_is_refused(text: str, words: list[str]) -> None:
    with pytest.raises(SourceError) as caught:
        compiled(text, towns(), "q")
    for word in words:
        assert word in str(caught.value)


def test_queries_that_take_rows_from_each_other_in_a_ring_are_refused() -> None:
    text = (
        "query a() { match { $r: b() } return { $r.n as n } } "
        "query b() { match { $r: a() } return { $r.n as n } }"
    )
    assert_refused(text, "T35", ["a"], towns(), "a")


def chained(length: int) -> str:
    first = "query q0() { match { $a: Town } return { $a.name as n } } "
    rest = (
        f"query q{at}() {{ match {{ $r: q{at - 1}() }} return {{ $r.n as n }} }} "
        for at in range(1, length)
    )
    return first + "".join(rest)


def test_fifty_queries_may_take_rows_from_one_another() -> None:
    plan = compiled(chained(50), towns(), "q49")
    assert show(plan).count("rows $r of query") == 49


def test_too_many_queries_in_a_row_are_refused_and_not_a_crash() -> None:
    assert_refused(chained(150), "T35", ["100"], towns(), "q149")


def test_a_source_that_is_used_often_is_checked_once() -> None:
    doubled = "query q0() { match { $a: Town } return { $a.name as n } } " + "".join(
        f"query q{at}() {{ match {{ $x: q{at - 1}()  $y: q{at - 1}() }} return {{ $x.n as n }} }} "
        for at in range(1, 40)
    )
    plan = compiled(doubled, towns(), "q39")
    assert isinstance(plan, ir.ReadPlan)
    first, second = (step for step in plan.steps if isinstance(step, ir.Rows))
    assert first.plan is second.plan


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (
            read(T + "optional { $a road $b  $b.region = \"x\" }  $b is null  $a.region = \"y\"", "$a"),
            [
                "scan $a: Town",
                'filter $a.region = "y"',
                "left join on $a introducing $b",
                "  expand $a -Road-> $b: Town",
                '  filter $b.region = "x"',
                "filter id($b) is null",
            ],
        ),
        (
            read(T + "optional { $a road $b } optional { $b: Town  $b ferry $c }", "$a"),
            [
                "scan $a: Town",
                "left join on $a introducing $b",
                "  expand $a -Road-> $b: Town",
                "left join on $b introducing $c",
                "  filter not id($b) is null",
                "  expand $b -Ferry-> $c: Town",
            ],
        ),
        (
            read(T + "optional { $a road $b } not { $b ferry $c } exists { $a ferry $d }", "$a"),
            [
                "scan $a: Town",
                "semi join on $a",
                "  expand $a -Ferry-> $d: Town",
                "left join on $a introducing $b",
                "  expand $a -Road-> $b: Town",
                "anti join on $b",
                "  expand $b -Ferry-> $c: Town",
            ],
        ),
        (
            read("$a $p:road|ferry[km > 3]{0,} $b", "length($p)"),
            ["scan $a: Town", "path $a -$p:Road|Ferry[km > 3]{0,}-> $b: Town"],
        ),
        (
            read("$b: Town { name: \"x\" } $a $p:road by km $b", "cost($p)"),
            ['scan $b: Town [$b.name = "x"]', "path $b <-$p:Road by km- $a: Town inverse"],
        ),
        (
            read(T + "$f: Firm { name: $a.name, code: \"x\" }", "$a"),
            ["scan $a: Town", 'scan $f: Firm [$f.code = "x"]', "filter $f.name = $a.name"],
        ),
        (
            read("for $h in $hs  $a: Town { name: $h }  for $t in $a.tags", "$t", params="$hs: [String]"),
            ["rows $h of list $hs", "scan $a: Town", "rows $t of list $a.tags", "filter $a.name = $h"],
        ),
        (
            read(T + "not exists { $a road $b } and not ($a.name = \"x\")", "$a"),
            ["scan $a: Town", 'filter not $a.name = "x"', "anti join on $a", "  expand $a -Road-> $b: Town"],
        ),
        (
            read(T + "exists { $a road $b } or $a.name = \"x\"", "$a"),
            ["scan $a: Town", 'filter exists on $a { expand $a -Road-> $b: Town } or $a.name = "x"'],
        ),
        (
            read("$f: Firm $f <seat> $a", "$a"),
            ["scan $f: Firm", "expand $f -Seat-> $a: Town"],
        ),
        (
            read("$f: Firm $f seat|lease $a", "$a"),
            ["scan $f: Firm", "expand $f -Seat|Lease-> $a: Town"],
        ),
    ],
)  # fmt: skip
def test_the_steps_of_a_match(text: str, steps: list[str]) -> None:
    lines = show(compiled(text, towns())).splitlines()
    assert [line for line in lines if not line.startswith("return")] == steps


def test_what_an_optional_block_introduces_is_nullable() -> None:
    plan = compiled(
        read(
            T + "optional { $a $e:road $b  $a $p:road{1,} $c }",
            "$b, $b.name, $e.km, $b { name } as s, length($p) as n, id($b) as i, type($b) as t",
        ),
        towns(),
    )
    assert isinstance(plan, ir.ReadPlan)
    assert all(column.type.nullable for column in plan.columns)
    assert {one.name: one.nullable for one in plan.variables} == {
        "a": False, "b": True, "c": True, "e": True, "p": True
    }  # fmt: skip


def test_a_source_hands_over_nodes_and_typed_columns() -> None:
    plan = compiled(
        using('$r: names("x") $t: Town $t = $r.town', "$r.h, $r.town as town, $r.n"), towns(), "q"
    )
    assert isinstance(plan, ir.ReadPlan)
    kinds = [(column.name, column.type.display) for column in plan.columns]
    assert kinds == [("r.h", "String"), ("town", "String"), ("r.n", "I64")]
    assert isinstance(plan.columns[1].expr, ir.RowNode)
    assert plan.columns[1].expr.type_name == "Town"
    (rows,) = (step for step in plan.steps if isinstance(step, ir.Rows))
    assert [getattr(arg, "value", "?") for arg in rows.args] == ["x", None]


def test_the_values_of_a_path_have_types() -> None:
    plan = compiled(
        read("$a $p:road|ferry by km $b", "$p, nodes($p) as n, edges($p.km) as k, edges($p) as e"),
        towns(),
    )
    assert isinstance(plan, ir.ReadPlan)
    kinds = [column.type.display for column in plan.columns]
    edge = "{type: String, from: String, to: String, km: F64?}"
    assert kinds == [
        f"{{nodes: [String], edges: [{edge}], length: I64, cost: F64}}",
        "[String]",
        "[F64]",
        f"[{edge}]",
    ]
