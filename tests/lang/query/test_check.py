"""Every static rule T1 to T37: a query that breaks it, and the words the message must carry."""

from __future__ import annotations

import pytest

from omnigraph.errors import ConstraintError, TypeCheckError
from tests.lang.query.schema_of_tests import assert_refused, compiled, read, write

P = "$p: Person "
D = "$d: Doc "
V = "$v: Vector(3)"

BROKEN = [
    # T1 to T3: bindings
    (read("$p: Persn"), "T1", ["Persn"]),
    (read("$p: Knows"), "T1", ["Knows"]),
    (read("$p: Person { salary: 3 }"), "T2", ["Person", "salary"]),
    (read("$p: Person { id: 3 }"), "T2", ["id"]),
    (read('$p: Person { age: "x" }'), "T3", ["age"]),
    (read("$p: Person { name: 3 }"), "T3", ["name"]),
    (read("$p: Person { active: 1 }"), "T3", ["active"]),
    (read('$p: Person { born: "2020-01-01" }'), "T3", ["born"]),
    (read('$p: Person { born: datetime("2020-01-01T00:00:00Z") }'), "T3", ["born"]),
    (read('$p: Person { rank: "boss" }'), "T3", ["rank", "boss"]),
    (read('$p: Person { tags: ["a"] }'), "T3", ["tags", "membership"]),
    (read("$p: Person { tags: 3 }"), "T3", ["tags"]),
    (read('$p: Person { name: ["a"] }'), "T3", ["name"]),
    (read('$p: Person { photo: "base64:AA==" }'), "T3", ["photo"]),
    (read("$p: Person { photo: $b }", params="$b: Blob"), "T3", ["photo"]),
    (read("$p: Doc { vec: [1, 2, 3] }", "$p.slug"), "T3", ["vec"]),
    (read('$p: Person { born: date("12 May") }'), "T3", ["12 May"]),
    # T4 and T5: traversals
    (read(P + "$p nows $x"), "T4", ["nows"]),
    (read("$p: Team  $p knows $x", "$x.name"), "T5", ["p", "Knows"]),
    (read(P + "$t: Doc  $p memberOf $t"), "T5", ["t", "MemberOf"]),
    (read("$t: Doc  $x memberOf $t", "$x.name"), "T5", ["t", "MemberOf"]),
    (read("$x memberOf $x", "$x.name"), "T5", ["x", "MemberOf"]),
    # T6: unbound variables and unknown properties
    (read(P, "$q.name"), "T6", ["q"]),
    (read(P, "$p.nam"), "T6", ["nam"]),
    (read(P, "$p.id"), "T6", ["id"]),
    (read(P + "$p $e:knows $x", "$e.from"), "T6", ["from"]),
    (read("$p.age > 3 " + P), "T6", ["p"]),
    (read(P + "not { $p knows $x }", "$x.name"), "T6", ["x"]),
    (read(P + 'search($x.name, "a")'), "T6", ["x"]),
    # T7: comparisons
    (read(P + '$p.age = "x"'), "T7", ["I32", "String"]),
    (read(P + '$p.born = datetime("2020-01-01T00:00:00Z")'), "T7", ["Date", "DateTime"]),
    (read(P + '$p.born = "2020-01-01"'), "T7", ["Date", "String"]),
    (read(P + '$p.tags = "x"'), "T7", ["contains"]),
    (read(P + "$p.tags = $p.tags"), "T7", ["contains"]),
    (read(D + "$d.vec = $v", "$d.slug", params=V), "T7", ["vector"]),
    (read(P + "$p = 5"), "T7", ["scalar"]),
    (read(P + "count($p) > 1"), "T7", ["count", "scalar"]),
    (read(D + "nearest($d.vec, $v) < 1.0", "$d.slug", params=V), "T7", ["nearest"]),
    (read(P + "$p.age contains 4"), "T7", ["contains"]),
    (read(P + '$p.tags contains ["a"]'), "T7", ["scalar"]),
    (read(P + '$p.codes contains "a"'), "T7", []),
    (read(P + "$p.name contains 4"), "T7", ["String"]),
    (read(P + '$p.age starts_with "4"'), "T7", ["starts_with"]),
    (read(P + "$p.name starts_with 4"), "T7", ["starts_with"]),
    (read("$p: Person { age: $s }", params="$s: String"), "T7", ["age"]),
    (read("$p: Person { tags: $s }", params="$s: [String]"), "T7", ["tags", "membership"]),
    (read("$p: Person { name: $s }", params="$s: [String]"), "T7", ["name"]),
    (read("$p: Person { born: now() }"), "T7", ["born"]),
    (read("$p: Doc { vec: $v }", "$p.slug", params=V), "T7", ["vec"]),
    # T8 and T9: aggregates and negation
    (read(P, "sum($p.name) as s"), "T8", ["sum"]),
    (read(P, "avg($p) as s"), "T8", ["avg"]),
    (read(P, "sum($p.born) as s"), "T8", ["sum"]),
    (read(P, "max($p.active) as s"), "T8", ["max"]),
    (read(P, "max($p.tags) as s"), "T8", ["max"]),
    (read(P, "sum($p.codes) as s"), "T8", ["sum"]),
    (read(P, "count(count($p)) as s"), "T8", ["count"]),
    (read(P, 'count(nearest($p.name, "x")) as s'), "T8", ["count"]),
    (read(P + "not { $x: Team }"), "T9", ["outer"]),
    (read(P + "not { $x memberOf $t }"), "T9", ["outer"]),
    (read(P, '"x" as tag, count($p) as n'), "T9", []),
    (read(P, "$a as tag, count($p) as n", params="$a: I32"), "T9", []),
    (read(P, "now() as tag, count($p) as n"), "T9", []),
    # T10 to T14: mutations
    (write("insert Gizmo { x: 1 }"), "T10", ["Gizmo"]),
    (write("delete Gizmo where x = 1"), "T10", ["Gizmo"]),
    (write("update Gizmo set { x: 1 } where x = 1"), "T10", ["Gizmo"]),
    (write('insert Team { code: "a", colour: "red" }'), "T11", ["colour"]),
    (write('update Team set { colour: "red" } where code = "a"'), "T11", ["colour"]),
    (write('delete Team where colour = "red"'), "T11", ["colour"]),
    (write('delete Person where photo = "x"'), "T11", ["photo"]),
    (write('delete Team where from = "x"'), "T11", ["from"]),
    (write('insert Person { handle: "a", name: "A" }'), "T12", ["rank"]),
    (write('insert Doc { slug: "a" }'), "T12", ["body"]),
    (write('insert MemberOf { from: "a", role: "lead" }'), "T12", ["to"]),
    (write('insert MemberOf { to: "a", role: "lead" }'), "T12", ["from"]),
    (write('insert MemberOf { from: "a", to: "b" }'), "T12", ["role"]),
    (write('insert Team { code: "a", code: "b" }'), "T13", ["code"]),
    (write('update Team set { title: "a", title: "b" } where code = "a"'), "T13", ["title"]),
    (read("$p: Person { age: $a }"), "T14", ["a"]),
    (read("$x: Person  $p: Person { age: $x }"), "T14", ["$x"]),
    (write("insert Team { code: $c }"), "T14", ["c"]),
    (write("delete Team where code = $c"), "T14", ["c"]),
    (read(P + "$p.age > $lim"), "T14", ["lim"]),
    (read(P + "search($p.name, $t)"), "T14", ["t"]),
    # T15: hops and nearest
    (read(P + "$p knows{3,2} $x"), "T15", []),
    (read(D, "$d.slug", "order { nearest($d.body, $v) } limit 1", V), "T15", ["vector"]),
    (read(D, "$d.slug", "order { nearest($x.vec, $v) } limit 1", V), "T15", ["x"]),
    (read(D, "$d.slug", "order { nearest($d.vek, $v) } limit 1", V), "T15", ["Doc", "vek"]),
    (
        read(D, "$d.slug", "order { nearest($d.vec, $v) } limit 1", "$v: Vector(4)"),
        "T15",
        ["3", "4"],
    ),
    (read(D, "$d.slug", "order { nearest($d.vec, [1.0, 2.0]) } limit 1"), "T15", ["3", "2"]),
    (
        read(D, "$d.slug", 'order { nearest($d.vec, [1.0, "a", 2.0]) } limit 1'),
        "T15",
        ["element 2", '"a"'],
    ),
    (
        read(D, "$d.slug", f"order {{ nearest($d.vec, [{'9' * 60}.0, 0, 0]) }} limit 1"),
        "T15",
        ["element 1", "F32"],
    ),
    (read(D, "$d.slug", "order { nearest($d.vec, 7) } limit 1"), "T15", []),
    (read(D, "$d.slug", "order { nearest($d.vec, $i) } limit 1", "$i: I32"), "T15", []),
    # T17
    (read(D, "$d.slug", "order { nearest($d.vec, $v) }", V), "T17", ["limit"]),
    (read(D, "$d.slug, nearest($d.vec, $v) as s", "order { s }", V), "T17", ["limit"]),
    # T19 to T21: text and fusion
    (read(P + 'search($p.age, "x")'), "T19", ["search"]),
    (read(P + 'search($p.tags, "x")'), "T19", ["search"]),
    (read(P + "search($p.name, 3)"), "T19", ["search"]),
    (read(P + "search($p.name, $n)", params="$n: I32"), "T19", ["search"]),
    (read(P + 'search($p, "x")'), "T19", ["search"]),
    (read(P + 'fuzzy($p.name, "x", 1.5)'), "T19", ["fuzzy"]),
    (read(P + 'fuzzy($p.name, "x", -1)'), "T19", ["fuzzy"]),
    (read(P + 'search($p.name, "x") = false'), "T19", ["search"]),
    (read(P + 'search($p.name, "x") != true'), "T19", ["search"]),
    (read(P + 'match_text($p.age, "x")'), "T20", ["match_text"]),
    (read(D, "$d.slug", 'order { bm25($d.score, "x") }'), "T20", ["bm25"]),
    (read(D, "$d.slug", "order { bm25($d.body, 3) }"), "T20", ["bm25"]),
    (
        read(D, "$d.slug", 'order { rrf(bm25($d.body, "x"), nearest($d.vec, $v)) }', V),
        "T21",
        ["limit"],
    ),
    (
        read(D, "$d.slug", 'order { rrf(bm25($d.body, "x"), nearest($d.vec, $v), 0) } limit 1', V),
        "T21",
        [],
    ),
    (
        read(
            D, "$d.slug", 'order { rrf(bm25($d.body, "x"), nearest($d.vec, $v), 1.5) } limit 1', V
        ),
        "T21",
        [],
    ),
    (
        read(
            D + "$d cites $o",
            "$d.slug",
            'order { rrf(bm25($o.body, "x"), nearest($d.vec, $v)) } limit 1',
            V,
        ),
        "T21",
        [],
    ),
    # T23 and T24
    (read(P + "$p $p:knows $x"), "T23", ["p"]),
    (read(P + "$p $x:knows $x"), "T23", ["x"]),
    (read(P + "$p $e:knows $x  $p $e:knows $y"), "T23", ["e"]),
    (read(P + "$p $e:knows $x", "$e"), "T23", ["e"]),
    (read(P + "$p $e:knows $x  $e = 3"), "T23", ["e"]),
    (read(P + "$p $e:knows $x  $e knows $y"), "T23", ["e"]),
    (read(P + "$p $e:knows $x  $e: Person"), "T23", ["e"]),
    (read(P + '$p $e:knows $x  search($e.note, "a")'), "T23", ["search"]),
    (read(P, "$p.photo"), "T24", ["photo"]),
    (read(P, "count($p.photo) as n"), "T24", ["photo"]),
    (read(P, "$p.name", "order { $p.photo }"), "T24", ["photo"]),
    (read(P + '$p.photo = "x"'), "T24", ["photo"]),
    (read(P + "$p $e:knows $x", "$e.scan"), "T24", ["scan"]),
    (read(P, "$b as b", params="$b: Blob"), "T24", ["b"]),
    # T25 to T28
    (read(P, params="$a: I32, $a: I32"), "T25", ["a"]),
    (read(P, params="$__now: DateTime"), "T25", ["reserved"]),
    (read(P, params="$_: I32"), "T25", ["reserved", "$_"]),
    (read(P, params="$a: Vector(0)"), "T25", ["a"]),
    (read(P, params="$a: Vector(2147483648)"), "T25", ["a"]),
    (read(P + "$p: Team"), "T26", ["p"]),
    (read(P, params="$p: String"), "T26", ["p"]),
    (read(P + "$p knows $x", params="$x: String"), "T26", ["x"]),
    (read(P, "$x"), "T26", ["x"]),
    (read(P, "count($x) as n"), "T26", ["x"]),
    (read(P + "not { $p memberOf $t } $p memberOf $t"), "T26", ["t"]),
    (read(P, '[1, "a"] as l'), "T27", []),
    (read(P, "[[1], [2]] as l"), "T27", []),
    (write('insert Person { handle: "a", name: "A", rank: "junior", tags: [["a"]] }'), "T27", []),
    (read(P, "$p.name, $p.name"), "T28", ["p.name"]),
    (read(P, "$p.name as x, $p.age as x"), "T28", ["x"]),
    (read(P, "name"), "T28", ["name"]),
    (read(P, 'search($p.name, "x") as s'), "T28", ["search"]),
    (read(P, "$p.name", "order { cost }"), "T28", ["cost"]),
    (read(P, "$p.name", "order { $p.tags }"), "T28", []),
    (read(D, "$d.slug", "order { $d.vec }"), "T28", []),
    (read(P, "$p.name", "order { $p }"), "T28", []),
    (read(P, "$p.name", "order { 3 }"), "T28", []),
    (read(P, "$p.rank, count($p) as n", "order { count($p) }"), "T28", []),
    (read(P, "$p.rank, count($p) as n", "order { $p.age }"), "T28", []),
    (read(P, "$p.rank as r, count($p) as n", "order { $p.rank }"), "T28", []),
    (read(D, "$d.slug", 'order { $d.score, bm25($d.body, "x") }'), "T28", []),
    (read(D, "$d.slug", 'order { bm25($d.body, "x") asc }'), "T28", []),
    (read(D, '$d.slug, bm25($d.body, "x") as s'), "T28", []),
    (read(D, '$d.slug, bm25($d.body, "x") as s', 'order { bm25($d.body, "y") }'), "T28", []),
    (read(D, '$d.slug, bm25($d.body, "x") as s', "order { s asc }"), "T28", []),
    (read(D, "$d.slug, nearest($d.vec, $v) as s", "order { s desc } limit 1", V), "T28", []),
    (read(D, "$d.slug, count($d) as n", 'order { bm25($d.body, "x") }'), "T28", []),
    # assignments
    (write('update Team set { budget: "many" } where code = "a"'), "T3", ["budget"]),
    (write('update Team set { budget: 2.5 } where code = "a"'), "T3", ["budget"]),
    (write('update Person set { rank: "boss" } where handle = "a"'), "T3", ["rank", "boss"]),
    (write('update Person set { born: "2020-01-01" } where handle = "a"'), "T3", ["born"]),
    (write('update Person set { tags: "a" } where handle = "a"'), "T3", ["tags"]),
    (write('update Person set { codes: [1.5] } where handle = "a"'), "T3", ["codes"]),
    (write('update Doc set { vec: [1, 2] } where slug = "a"'), "T3", ["vec", "3", "2"]),
    (write('update Doc set { vec: [1, true, 0] } where slug = "a"'), "T3", ["vec", "element 2"]),
    (write('insert Knows { from: 1, to: "b" }'), "T3", ["from"]),
    (write('insert Knows { from: $f, to: "b" }', "$f: I64"), "T7", ["from"]),
    (write('update Person set { born: $d } where handle = "a"', "$d: String"), "T7", ["born"]),
    (write('update Person set { born: now() } where handle = "a"'), "T7", ["born"]),
    (write('update Person set { age: $d } where handle = "a"', "$d: F64"), "T7", ["age"]),
    (write('update Doc set { vec: $d } where slug = "a"', "$d: Vector(2)"), "T7", ["vec"]),
    (write('delete Person where age = "x"'), "T7", ["age"]),
    (write('delete Person where tags = "x"'), "T7", ["tags"]),
    (write("delete Person where born = now()"), "T7", ["born"]),
]


@pytest.mark.parametrize(("text", "rule", "words"), BROKEN)
def test_a_broken_rule_is_named(text: str, rule: str, words: list[str]) -> None:
    assert_refused(text, rule, words)


@pytest.mark.parametrize(
    "text",
    [
        read("$p: Person { }"),
        read("$p: Person { age: 95.5, wealth: 18446744073709551615 }".replace(
            "18446744073709551615", "9223372036854775807")),
        read("$p: Person { tags: \"a\", codes: $c }", params="$c: I64"),
        read("$p: Person { rank: $r }", params="$r: String"),
        read(P + "$p.rank = \"vhs\""),
        read(P + "$p: Person { age: 3 }"),
        read(P + "41 < $p.age  $p.height >= 2  $p.seen < now()"),
        read(P + "$q starts_with \"x\"", params="$q: String"),
        read(P + "$p.active < true"),
        read(P + "[1, 2] contains $p.age"),
        read("$p memberOf $t", "$p.name, $t.code"),
        read("$t: Team  $t memberOf $p", "$p.name"),
        read(P + "$p <knows>{1,3} $x"),
        read(P + "$p $_:knows{1,2} $x"),
        read(P + "$_ knows $p"),
        read(P + "not { $t: Team  not { $p memberOf $t } }"),
        read(P + "not { $p memberOf $t }  not { $p memberOf $t  $t.code = \"a\" }"),
        read(P + "search($p.name, \"x\") = true"),
        read(P + "fuzzy($p.rank, \"x\", $n)", params="$n: I32"),
        read(P, "$p.rank, count($p.tags) as n, count(1)", "order { count, $p.rank }").replace(
            "count(1)", "max($p.name) as m").replace("order { count,", "order { n,"),
        read(P, "$p.tags, count($p) as n"),
        read(P, "$p, $a as a, \"x\" as b, now(), []", params="$a: I32?"),
        read(D, "$d.slug", "order { nearest($d.vec, \"text\"), $d.score desc } limit 2"),
        read(D, "$d.slug", "order { nearest($d.vec, [1, 0.5, 0]) } limit 2"),
        read(D, "nearest($d.vec, $v) as s", "order { s } limit 1", V),
        read(D, "bm25($d.body, \"x\") as s", "order { s }"),
        write("insert Team { code: \"a\", budget: 3 }"),
        write("insert Doc { slug: \"a\", body: \"text\" }"),
        write("insert Doc { slug: \"a\", body: \"t\", vec: [1, 0, 0.5], score: 3 }"),
        write("insert Person { handle: \"a\", name: \"A\", rank: \"junior\", photo: $b,"
              " tags: [], seen: now() }", "$b: Blob"),
        write("insert Twin { label: \"x\" }  insert Twin { from: \"x\", to: \"x\" }"),
        write("delete Twin where from = \"x\""),
        write("delete Knows where since < date(\"2020-01-01\")"),
        write("update Person set { height: $h } where age > 3.5", "$h: I32?"),
    ],
)  # fmt: skip
def test_a_sound_query_passes(text: str) -> None:
    assert compiled(text).name == "q"


def test_a_key_cannot_be_updated() -> None:
    for statement, prop in [
        ('update Team set { code: "b" } where code = "a"', "code"),
        ('update Slot set { lane: "b" } where bay = 1', "lane"),
    ]:
        with pytest.raises(TypeCheckError, match=f"`{prop}`.*@key"):
            compiled(write(statement))


def test_the_first_wrong_assignment_is_the_one_reported() -> None:
    with pytest.raises(TypeCheckError, match=r"T11: .*`colour`"):
        compiled(write('update Team set { colour: "red", code: "b" } where code = "a"'))
    with pytest.raises(TypeCheckError, match="@key"):
        compiled(write('update Team set { code: 5, colour: "red" } where code = "a"'))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (read('$p: Person { born: "2020-01-01" }'), 'date("YYYY-MM-DD")'),
        (read(P + '$p.born = "2020-01-01"'), 'date("YYYY-MM-DD")'),
        (read(P + '"2020-01-01" < $p.seen'), 'datetime("'),
        (write('update Person set { born: "2020-01-01" } where handle = "a"'), "date("),
        (read(P + "$p.age = null"), "`… is null`"),
        (read(P + "$p.age != nil"), "`… is null`"),
        (read(P + "$p.name = ada"), '"ada"'),
        (read("$p: MemberOf"), "`$a memberOf $b`"),
        (read("$x: Person  $p: Person { name: $x }"), "`$a.name = $b.name`"),
    ],
)
def test_a_hint_shows_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(TypeCheckError) as caught:
        compiled(text)
    assert caught.value.hint is not None
    assert hint in caught.value.hint


def test_an_assigned_integer_out_of_range_is_a_write_error_quoting_it() -> None:
    with pytest.raises(ConstraintError, match=r"^write error: .*age.*3000000000"):
        compiled(write('update Person set { age: 3000000000 } where handle = "a"'))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (read("$p: Persn"), "Person"),
        (read('$p: Person { nam: "x" }'), "name"),
        (read(P + "$p know $x"), "knows"),
        (read(P, "$p.nme"), "name"),
        (read("$p: Person { age: $agee }", params="$age: I32"), "$age"),
        (read(P, "$p.name as title", "order { titel }"), "title"),
        (write('insert Taem { code: "a" }'), "Team"),
        (write('insert Knows { form: "a", to: "b" }'), "from"),
    ],
)
def test_a_misspelled_name_gets_a_hint(text: str, hint: str) -> None:
    with pytest.raises(TypeCheckError) as caught:
        compiled(text)
    assert caught.value.hint is not None
    assert f"`{hint}`" in caught.value.hint
    assert caught.value.hint in caught.value.render()
