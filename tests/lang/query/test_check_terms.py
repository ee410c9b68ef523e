"""Conditions, expressions and output: what breaks a rule, what is sound, and the types that come out."""

from __future__ import annotations

import pytest

from omnigraph.errors import TypeCheckError
from omnigraph.lang.query import ir
from omnigraph.lang.query.functions import FUNCTIONS
from omnigraph.lang.query.plan_text import show
from tests.lang.query.schema_of_tests import assert_refused, compiled, read

P = "$p: Person "
D = "$d: Doc "
V = "$v: Vector(3)"

BROKEN = [
    # T7: conditions
    (read(P + "$p.age in 3"), "T7", ["list", "`in`"]),
    (read(P + "$p.age in $p.name"), "T7", ["list"]),
    (read(P + '$p.age in ["41"]'), "T7", ["I32", "String"]),
    (read(P + "$p.tags in [1]"), "T7", ["[String]"]),
    (read(P + "$p.age in $a", params="$a: [String]"), "T7", ["$a"]),
    (read(P + "$p.age = null"), "T7", ["is null"]),
    (read(P + "$p.age = null or $p.age = 1"), "T7", ["is null"]),
    (read(P + "$p.age"), "T7", ["Bool", "$p.age"]),
    (read(P + "not $p.name"), "T7", ["Bool"]),
    (read(P + "$p.age + 1"), "T7", ["Bool"]),
    (read(P + "($p)"), "T7", ["Bool", "p"]),
    (read(P + "3"), "T7", ["Bool"]),
    (read(P + "$p.name ends_with 3"), "T7", ["ends_with"]),
    (read(P + "$p knows $x  $p < $x"), "T7", ["<", "node"]),
    (read(P + "$p memberOf $t  $p = $t"), "T7", ["Person", "Team"]),
    (read(P + "$p $e:knows $x  $p $f:memberOf $t  $e = $f"), "T7", ["Knows", "MemberOf"]),
    (read(P + "$p $e:knows $x  $p = $e"), "T7", ["Person", "Knows"]),
    (read(P + "$p = 5"), "T7", ["scalar"]),
    # T6: what is not there at all is said first
    (read(P + "$p = $p.nickname"), "T6", ["nickname"]),
    (read(P + "$p = $x.name"), "T6", ["x"]),
    (read(P + "$r = 5", params="$r: [{ h: String }]"), "T7", ["$r", "records"]),
    (read(P + "if($p.name, 1) = 1"), "T7", ["Bool"]),
    # T7: the same conditions as values
    (read(P, '($p = "ada") as x'), "T7", ["$p", "scalar"]),
    (read(P, '("ada" != $p) as x'), "T7", ["$p", "scalar"]),
    (read(P, '($p in ["ada"]) as x'), "T7", ["$p", "scalar"]),
    (read(P, '($p starts_with "a") as x'), "T7", ["$p", "scalar"]),
    (read(P, 'sum(if($p = "ada", 1, 0)) as x'), "T7", ["$p", "scalar"]),
    (read(P, "$p.name", 'order { ($p = "ada") }'), "T7", ["$p", "scalar"]),
    (read(P, "($p.age = null) as x"), "T7", ["is null"]),
    (read(P, "if(null != $p.age, 1) as x"), "T7", ["is null"]),
    (read(P, "$p.name", "order { ($p.age = null) }"), "T7", ["is null"]),
    # T9
    (read(P + "exists { $t: Team }"), "T9", ["outer", "exists"]),
    (read(P + "$p.age = 1 or not { $t: Team }"), "T9", ["outer"]),
    (read(P, "sum($p.age) + $p.height as s"), "T9", ["$p.height"]),
    (read(P, "$p.rank, sum($p.age) + length($p.name) as s"), "T9", ["$p.name"]),
    (read(P, "count(*) as n, 1 + 1 as two"), "T9", []),
    (read(P, "count(*) + if(exists { $p knows $x }, 1, 2) as n"), "T9", ["exists"]),
    (read(P, "$p, count(*) + length($p.name) as s"), "T9", ["$p.name"]),
    (read(P, "$p.age, count(*) + length(id($p)) as s"), "T9", ["$p"]),
    (read(P, "($p.age > 3) as old, if($p.age > 4, count(*)) as s"), "T9", ["$p.age"]),
    (read(P, "$p.rank, if($p is null, 1, count(*)) as s"), "T9", ["$p"]),
    (read(P, '$p.rank, if(search($p.name, "x"), 1, count(*)) as s'), "T9", ["$p"]),
    # T8
    (read(P, "collect($p.tags) as s"), "T8", ["collect", "[String]"]),
    (read(D, "collect($d.vec) as s"), "T8", ["collect"]),
    (read(P, "count(distinct $p.tags) as s"), "T8", ["count", "distinct"]),
    (read(P, "sum(count(*)) as s"), "T8", ["sum", "count"]),
    (read(P, "sum($p.age > 3) as s").replace("$p.age > 3", "($p.age > 3)"), "T8", ["sum", "Bool"]),
    # T6 and T24: shapes
    (read(P, "$p { name, cost }"), "T6", ["cost"]),
    (read(P, "$x { name }"), "T6", ["x"]),
    (read(P, "$p { photo }"), "T24", ["photo"]),
    (read(P, "lower($p.photo) as s"), "T24", ["photo"]),
    (read(P + "$p.photo is null"), "T24", ["photo"]),
    (read(P, "$x.*"), "T6", ["x"]),
    # T14, T26
    (read(P + "$p.age + $n > 3"), "T14", ["n"]),
    (read(P, "$n + 1 as s"), "T26", ["n"]),
    # T28: names and keys
    (read(P, "$p.age + 1, $p.age + 2"), "T28", ["expr"]),
    (read(P, "lower($p.name), lower($p.handle)"), "T28", ["lower"]),
    (read(P, "$p.name", "order { $p { name } }").replace("$p { name } }", "s }"), "T28", ["s"]),
    (read(P, "$p { name } as s", "order { s }"), "T28", ["object"]),
    (read(P, "collect($p { name }) as s", "order { s }"), "T28", ["list"]),
    (read(P, "$p.name", "order { 1 + 1 }"), "T28", []),
    (read(P, "$p.name", "order { count($p) }"), "T28", ["count"]),
    (read(P, "$p.rank as r, count(*) as n", "order { length(r) }"), "T28", []),
    (read(D, '$d.slug, bm25($d.body, "x") + 1 as s', 'order { bm25($d.body, "x") }'), "T28", []),
    (read(P, "$p { name, name } as s"), "T28", ["name"]),
    # T29
    (read(P, "$p.name * 2 as x"), "T29", ["*", "String"]),
    (read(P, "$p.name + 1 as x"), "T29", ["+", "String and I64"]),
    (read(P, "$p.name - $p.name as x"), "T29", ["-"]),
    (read(P, "-$p.name as x"), "T29", ["-"]),
    (read(P, "$p.height % 2 as x"), "T29", ["%", "integers"]),
    (read(P, "$p.born + 1 as x"), "T29", ["+", "Date"]),
    (read(P, "$p.active + 1 as x"), "T29", ["+"]),
    (read(P, "$p.tags + $p.tags as x"), "T29", ["+", "[String]"]),
    (read(P, "$p + 1 as x"), "T29", ["+", "node"]),
    (read(P, "coalesce() as x"), "T29", ["coalesce", "at least 1 argument,"]),
    (read(P, "part($p.born, $p.name) as x"), "T29", ["part", "unit as a literal"]),
    (read(P, "lower($p) as x"), "T29", ["lower", "node"]),
    (read(D, "length($d.vec) as x"), "T29", ["length", "Vector"]),
    (read(P, "lower($p.age) as x"), "T29", ["lower", "I32"]),
    (read(P, "substring($p.name) as x"), "T29", ["substring"]),
    (read(P, "substring($p.name, 1, 2, 3) as x"), "T29", ["substring"]),
    (read(P, 'substring($p.name, "1") as x'), "T29", ["substring", "integer"]),
    (read(P, "lower($p.name, $p.name) as x"), "T29", ["lower", "1 argument"]),
    (read(P, "coalesce() as x"), "T29", ["coalesce"]),
    (read(P, "coalesce($p.age, $p.name) as x"), "T29", ["coalesce", "I32", "String"]),
    (read(P, "coalesce($p.tags, $p.tags) as x"), "T29", ["coalesce"]),
    (read(P, "if($p.active) as x"), "T29", ["if"]),
    (read(P, 'if($p.active, 1, "a") as x'), "T29", ["if", "I64", "String"]),
    (read(P, "if($p.active, $p.tags) as x"), "T29", ["if"]),
    (read(P, "round($p.height, 16) as x"), "T29", ["round", "15"]),
    (read(P, "round($p.height, $p.age) as x"), "T29", ["round"]),
    (read(P, "round($p.height, -1) as x"), "T29", ["round"]),
    (read(P, 'part($p.born, "fortnight") as x'), "T29", ["part", "fortnight"]),
    (read(P, 'part($p.born, "hour") as x'), "T29", ["part", "hour", "Date"]),
    (read(P, 'part($p.born, "week") as x'), "T29", ["week"]),
    (read(P, "part($p.born, $u) as x", params="$u: String"), "T29", ["part"]),
    (read(P, 'part($p.name, "year") as x'), "T29", ["part", "Date"]),
    (read(P, 'floor($p.seen, "millisecond") as x'), "T29", ["floor", "millisecond"]),
    (read(P, 'floor($p.seen, "weekday") as x'), "T29", ["weekday"]),
    (read(P, "floor($p.seen) as x"), "T29", ["floor"]),
    (read(P, 'floor($p.age, "year") as x'), "T29", ["floor"]),
    (read(P, 'shift($p.born, 1.5, "day") as x'), "T29", ["shift", "integer"]),
    (read(P, 'shift($p.born, 1, "minute") as x'), "T29", ["minute"]),
    (read(P, 'elapsed($p.born, $p.seen, "day") as x'), "T29", ["elapsed", "Date and DateTime"]),
    (read(P, "date($p.name) as x"), "T29", ["date", "String"]),
    (read(P, "datetime($p.age) as x"), "T29", ["datetime"]),
    (read(P, "text($p.tags) as x"), "T29", ["text"]),
    (read(P, "id($p.name) as x"), "T29", ["id"]),
    (read(P, "type(3) as x"), "T29", ["type"]),
    (read(P, "collect($p.name) + 1 as x"), "T29", ["+", "[String]"]),
    (read(P, "length(collect($p { name })) as x"), "T29", ["collect"]),
    # T31
    (
        read(P, "$p.rank, count(*) as n").replace("return {", "return distinct {"),
        "T31",
        ["aggregate"],
    ),
    (read(D, "$d.vec").replace("return {", "return distinct {"), "T31", ["vector"]),
    (
        read(D, "$d.slug", "order { nearest($d.vec, $v) } limit 1", V).replace(
            "return {", "return distinct {"
        ),
        "T31",
        ["ranking"],
    ),
    (read(P, "$p.rank", "order { $p.age }").replace("return {", "return distinct {"), "T28", []),
    # T32
    (read(P, tail="limit $n", params="$n: String"), "T32", ["n", "limit"]),
    (read(P, tail="limit $n", params="$n: I64?"), "T32", ["n"]),
    (read(P, tail="limit $n", params="$n: F64"), "T32", ["n"]),
    (read(P, tail="limit 3 offset $n", params="$n: [I64]"), "T32", ["n", "offset"]),
    (read(P, tail="limit $p"), "T32", ["p"]),
    (read(P, tail="limit $n"), "T14", ["n"]),
    # T37
    (read(P, "$p.rank as r, count(*) as n", "having { $p.age > 3 }"), "T37", ["$p.age"]),
    (read(P, "$p.rank as r, count(*) as n", 'having { $p.rank = "junior" }'), "T37", ["$p.rank"]),
    (read(P, "$p.rank as r, count(*) as n", "having { m > 1 }"), "T37", ["`m`"]),
    (read(P, "$p.rank as r, count(*) as n", "having { count(*) > 1 }"), "T37", ["count"]),
    (read(P, "$p.name", "having { exists { $p knows $x } }"), "T37", ["exists"]),
    (read(P, "$p.name as n", 'having { search($p.name, "x") }'), "T37", ["search"]),
    (read(P, "$p.name as n", "having { $p is null }"), "T37", ["$p"]),
    (read(P, "$p.name as n", 'having { id($p) = "x" }'), "T37", ["id"]),
    (read(P, "$p.name as n", "having { n > 3 }"), "T7", ["`n`"]),
    (read(P, "$p { name } as s", "having { s = 3 }"), "T7", ["object"]),
    (read(P, "$p.name as n", "having { n = $q }"), "T14", ["q"]),
    # rankings
    (
        read(
            D + "$d cites $o",
            "$d.slug",
            'order { rrf(bm25($d.body, "x"), nearest($d.vec, $v), bm25($o.body, "y")) } limit 1',
            V,
        ),
        "T21",
        ["$o"],
    ),
]


@pytest.mark.parametrize(("text", "rule", "words"), BROKEN)
def test_a_broken_rule_is_named(text: str, rule: str, words: list[str]) -> None:
    assert_refused(text, rule, words)


SOUND = [
    read(P + "$p.age > 3 or $p.rank = \"junior\" and not $p.active"),
    read(P + "$p.active  not ($p.active = false)  ($p.age > 3)"),
    read(P + "$p.age in []  $p.age in [1, 2]  $p.age in $a  \"x\" in $p.tags", params="$a: [F64]"),
    read(P + "[] contains $p.age  not [] contains $p.name  3 in []"),
    read(P + "1 = 1 or $x is null", params="$x: I32?").replace("$x is null", "($x) is null"),
    read(P + "$p.tags is not null  $p is not null  now() is not null"),
    read(P + "search($p.name, \"x\") or not fuzzy($p.name, \"y\")"),
    read(P + "$p knows $x  $p != $x  $p $e:knows $x  $p $f:knows $x  $e != $f  $e is null"),
    read(P + "$x: Person { age: $p.age + 1, tags: $p.name, name: lower($p.name) }"),
    read(P, "-$p.age as a, 3 - -2 as b, $p.age -5 as c"),
    read(P, "($p.age > 3) as old, exists { $p knows $x } as has, not_ as x").replace(", not_ as x", ""),
    read(P, "if($p.active, 1, 2.5) as a, if(exists { $p knows $x }, \"y\") as b"),
    read(P, "count(*) as n, count(distinct $p) as d, collect(distinct $p.rank) as c, collect($p) as i"),
    read(P, "($p.age > 3) as a, exists { $p knows $x } as b, if($p.age > 3 or exists { $p knows $x }, count(*)) as n"),
    read(P, "$p, if($p is null, 0, count(*)) + length(id($p)) as n"),
    read(P, "$p { * }, $p.*, $p as id"),
    read(P, "$p { name }, collect($p { name, age }) as all"),
    read(P, "min($p.born) as a, max($p.seen) as b"),
    read(P, "$p.rank, round(sum($p.age) / count(*), 2) * 2 as x, length($p.rank) + count(*) as y"),
    read(P, "$p.name, lower($p.name) as l", "order { length($p.name) desc, l, if($p.active, 1, 0) }"),
    read(P, "$p.rank, count(*)", "having { count > 1 and $p.rank != \"x\" } order { count(*) desc }"),
    read(P, "$p, count(*) as n", "having { $p != \"ada\" or n > $m }", params="$m: I32"),
    read(P, "$p.rank as r", "order { r }").replace("return {", "return distinct {"),
    read(P, "$p.name", "limit $n offset $m", params="$n: U32, $m: I64"),
    read(D, "$d.slug as s", "order { nearest($d.vec, $v), s } limit 1", V),
    read(D, "$d.slug", "order { rrf(nearest($d.vec, $v), bm25($d.body, \"x\"), nearest($d.vec, $v), 7) } limit 1", V),
    read(P, "coalesce($p.wealth, 0) as w, coalesce($p.age, $p.wealth) as x, coalesce($p.height, 1) as y"),
    read(P, 'text(part(floor(datetime($p.born), "hour"), "second")) as t'),
    read(P, 'shift(now(), -$p.age, "year") as t, elapsed($p.born, date(now()), "month") as e'),
]  # fmt: skip


@pytest.mark.parametrize("text", SOUND)
def test_a_sound_query_passes(text: str) -> None:
    assert show(compiled(text))


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        ("$p.age + 1", "I64?"),
        ("1 + 1", "I64?"),
        ("1.5 + 1", "F64"),
        ("$p.height * 2", "F64?"),
        ("7 / 2", "F64?"),
        ("7 % 2", "I64?"),
        ("-1.5 * 2", "F64"),
        ("$p.name + $p.rank", "String"),
        ("length($p.name)", "I64"),
        ("length($p.tags)", "I64?"),
        ("lower($p.rank)", "String"),
        ("substring($p.name, 1)", "String?"),
        ('part($p.born, "year")', "I64?"),
        ('part(date("2020-01-01"), "year")', "I64"),
        ('shift(date("2020-01-01"), 1, "day")', "Date?"),
        ("coalesce($p.age, 0)", "I32"),
        ("coalesce($p.age, 3000000000)", "I64?"),
        ("coalesce($p.wealth, 0)", "U64"),
        ("coalesce($p.age, $p.wealth)", "I64?"),
        ("coalesce($p.age, 0.5)", "F64"),
        ("coalesce($p.rank, $p.name)", "String"),
        ("if($p.active, 1)", "I64?"),
        ("if($p.active, 1, 2)", "I64"),
        ("if($p.active, 1, 0.5)", "F64"),
        ("($p.age > 3)", "Bool"),
        ("exists { $p knows $x }", "Bool"),
        ("id($p)", "String"),
        ("type($p)", "String"),
        ("date(now())", "Date"),
        ("text($p.age)", "String?"),
        ("count(distinct $p.age)", "I64"),
        ("collect($p.age)", "[I32]"),
        ("collect($p.rank)", "[String]"),
        ("collect($p { handle, age })", "[{handle: String, age: I32?}]"),
        ("$p { handle, born }", "{handle: String, born: Date?}"),
        ("max($p.born)", "Date?"),
    ],
)
def test_the_type_of_an_item(item: str, kind: str) -> None:
    plan = compiled(read(P, f"{item} as x"))
    assert isinstance(plan, ir.ReadPlan)
    assert plan.columns[0].type.display == kind


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("$p.age * 2 + 1", "$p.age * 2 + 1"),
        ("($p.age + 1) * 2", "($p.age + 1) * 2"),
        ("$p.age - (1 - 2)", "$p.age - (1 - 2)"),
        ("-($p.age + 1)", "-($p.age + 1)"),
        ("$p.age / 2", "to_f64($p.age) / 2.0"),
        ("$p.age + $p.height", "to_f64($p.age) + to_f64($p.height)"),
        ("$p.age + 1", "$p.age + 1"),
        ("if($p.age > 3 or $p.active, 1)", "if(($p.age > 3 or $p.active), 1)"),
        ("count(distinct $p)", "count(distinct id($p))"),
        ("count(*)", "count(*)"),
    ],
)
def test_what_an_item_is_lowered_to(item: str, text: str) -> None:
    assert f"= {text}" in show(compiled(read(P, f"{item} as x")))


def test_an_item_written_like_a_key_is_that_key() -> None:
    plan = compiled(read(P, "sum($p.wealth) / $p.age as x, $p.age as a"))
    assert isinstance(plan, ir.ReadPlan)
    division = plan.columns[0].expr
    assert isinstance(division, ir.Apply)
    (_, key) = division.args
    assert isinstance(key, ir.Apply)
    assert isinstance(key.args[0], ir.ColumnValue)
    assert key.args[0].column == 1
    assert plan.is_aggregate


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (read(P + "$p.age = null"), "`… is null`"),
        (read(P, "distinct $p.name"), "`return distinct { … }`"),
        (read(P, '($p = "ada") as x'), "`id($p)`"),
        (read(P, "count(*) as n", "having { m > 1 }"), "alias"),
        (read(P, 'part($p.born, "hour") as x'), '"weekday"'),
        (read(P, "sum($p.age) + $p.height as s"), "written the same"),
        ("match { $p: Person { handle: $h } } return { $p }", "`($h: String)`"),
        (read(P, tail="limit $n", params="$n: String"), "`$n: I64`"),
    ],
)
def test_a_hint_shows_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(TypeCheckError) as caught:
        compiled(text)
    assert caught.value.hint is not None
    assert hint in caught.value.hint


def test_every_function_says_when_it_has_no_value() -> None:
    nullable = {
        name for name, one in FUNCTIONS.items() if one.null_when is not None and not one.keeps_null
    }
    assert nullable == {
        "/", "%", "floor", "floor_date", "ceil", "round", "substring", "shift", "elapsed"
    }  # fmt: skip
    assert all(one.doc for one in FUNCTIONS.values())
