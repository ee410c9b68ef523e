"""Mutations: targets, values over the target and the rows, `where`, `return`."""

from __future__ import annotations

import pytest

from omnigraph.errors import ConstraintError, TypeCheckError
from omnigraph.lang.query import ir
from omnigraph.lang.query.plan_text import show
from omnigraph.lang.schema import compile_schema
from tests.lang.query.schema_of_tests import assert_refused, compiled, write

M = "match { $p: Person  $p $k:knows $q  optional { $p $m:memberOf $t } } "

BROKEN = [
    (write("upsert Gizmo { x: 1 }"), "T10", ["Gizmo"]),
    (write(M + "update $p set { colour: 1 }"), "T11", ["colour"]),
    (write('update Team set { title: colour } where code = "a"'), "T11", ["colour"]),
    (write("delete Team where colour is null"), "T11", ["colour"]),
    (write('upsert Person { handle: "a" }'), "T12", ["name"]),
    (write('upsert MemberOf { from: "a", role: "lead" }'), "T12", ["to"]),
    (write(M + "update $p set { age: 1, age: 2 }"), "T13", ["age"]),
    (write('insert Team { code: "a", title: title }'), "T14", ["title"]),
    (write("insert Team { code: $c.code }"), "T6", ["c"]),
    (write('update Knows set { to: "cat" } where from = "ann"'), "T16", ["to"]),
    (write(M + 'update $k set { from: "cat" }'), "T16", ["from"]),
    (write(M + "update $z set { age: 1 }"), "T36", ["z"]),
    (write("delete $z"), "T36", ["z"]),
    (write("for $r in $rows delete $r", "$rows: [{ h: String }]"), "T36", ["r"]),
    (write('insert $n: Team { code: "x" } delete $n'), "T36", ["n"]),
    (write("delete $x", "$x: String"), "T36", ["x"]),
    (write("match { $p $w:knows{1,2} $q } delete $w"), "T36", ["w", "path"]),
    (write(M + 'insert Knows { from: $t, to: "a" }'), "T5", ["$t", "Team"]),
    (write(M + 'insert MemberOf { from: $p, to: $q, role: "lead" }'), "T5", ["$q", "to"]),
    (write(M + "delete MemberOf where to = $p"), "T5", ["$p"]),
    (write(M + "update $p set { name: $q }"), "T7", ["name", "$q"]),
    (write(M + "update $p set { name: $k }"), "T23", ["k"]),
    (write("update Person set { age: age / 2 } where age > 1"), "T7", ["age"]),
    (write("update Person set { name: age } where age > 1"), "T7", ["name", "I32"]),
    (write("update Person set { tags: name } where age > 1"), "T7", ["tags"]),
    (write("update Person set { photo: name } where age > 1"), "T7", ["photo"]),
    (write("update Person set { name: photo } where age > 1"), "T24", ["photo"]),
    (write("delete Person where photo is null"), "T11", ["photo"]),
    (write("delete Person where tags = 3"), "T7", ["tags"]),
    (write("delete Person where age"), "T7", ["age", "Bool"]),
    (write("delete Person where age = null"), "T7", ["is null"]),
    (write("delete MemberOf where from < 3"), "T7", ["from"]),
    (write("update Person set { age: sum(age) } where age > 1"), "T8", ["sum"]),
    (write('insert Team { code: "x", budget: count(*) }'), "T8", ["count"]),
    (write(M + "delete Person where age > count($q)"), "T8", ["count"]),
    (write(M + "update $p set { age: count($q) + $q.age }"), "T9", ["$q"]),
    (write(M + "update $p set { age: name + 1 }"), "T29", ["+"]),
    (write('insert $p: Team { code: "x" } insert $p: Team { code: "y" }'), "T26", ["p"]),
    (write(M + 'insert $p: Team { code: "x" }'), "T26", ["p"]),
    (write('insert $c: Team { code: "x" }', "$c: String"), "T26", ["c"]),
    (write('insert Team { code: "x" } return { $t.code }'), "T6", ["t"]),
    (write(M + "delete $p return distinct { count(*) as n }"), "T31", []),
    (write(M + "delete $p return { $p.name as n, $p.age as n }"), "T28", ["n"]),
]


@pytest.mark.parametrize(("text", "rule", "words"), BROKEN)
def test_a_broken_rule_is_named(text: str, rule: str, words: list[str]) -> None:
    assert_refused(text, rule, words)


def test_a_node_without_a_key_cannot_be_upserted() -> None:
    types = compile_schema("node Task { title: String }").catalog
    assert_refused(write('upsert Task { title: "x" }'), "T36", ["Task", "@key"], types)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (write('update Person set { name: null } where handle = "a"'), ["name", "null"]),
        (write('upsert Person { handle: null, name: "a", rank: "junior" }'), ["handle", "null"]),
        (write('insert Knows { from: null, to: "a" }'), ["from", "null"]),
    ],
)
def test_null_in_a_required_property_is_a_write_error(text: str, words: list[str]) -> None:
    with pytest.raises(ConstraintError) as caught:
        compiled(text)
    assert str(caught.value).startswith("write error:")
    for word in words:
        assert word in str(caught.value)


def test_keys_stay_immutable_for_matched_nodes() -> None:
    with pytest.raises(TypeCheckError, match=r"`handle`.*@key"):
        compiled(write(M + 'update $p set { handle: "x" }'))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            write('update Person set { age: age + 1, name: null_ } where age is null or name in $n',
                  "$n: [String]").replace("null_", "upper(name)"),
            ["update node Person {age: age + 1, name: upper(name)} where age is null or $n member name"],
        ),
        (
            write('insert Team { code: "a" } delete Team where code = "b" upsert Team { code: "a", budget: coalesce(budget, 0) + 1 }'),
            [
                'insert node Team {code: "a"}',
                'delete node Team where code = "b"',
                'upsert node Team {code: "a", budget: coalesce(budget, 0) + 1}',
            ],
        ),
        (
            write("for $r in $rows insert $t: Team { code: $r.c, title: $r.t } insert MemberOf "
                  '{ from: "a", to: $t, role: "lead" } return { $t.code as c, $t as id }',
                  "$rows: [{ c: String, t: String? }]"),
            [
                "rows $r of list $rows",
                "insert node $t: Team {code: $r.c, title: $r.t}",
                'insert edge MemberOf {from: "a", to: id($t), role: "lead"}',
                "return c: String = $t.code",
                "return id: String = id($t)",
            ],
        ),
        (
            write("match { $p $k:knows $q } update $k set { note: $p.name + note } delete $p delete Knows where from = $q"),
            [
                "scan $p: Person",
                "expand $p -$k:Knows-> $q: Person",
                "update edge $k: Knows {note: $p.name + note}",
                "delete node $p: Person",
                "delete edge Knows where from = id($q)",
            ],
        ),
        (
            write("match { $p: Person optional { $p $m:memberOf $t } } update $p set { age: sum($m.hours), born: null, wealth: count($t) + $p.age }"),
            [
                "scan $p: Person",
                "left join on $p introducing $m, $t",
                "  expand $p -$m:MemberOf-> $t: Team",
                "update node $p: Person {age: sum($m.hours), born: null, wealth: count(id($t)) + $p.age}",
            ],
        ),
        (
            write('update Twin set { label: "x" } where from = "a" delete Twin where label = "x"'),
            ['update edge Twin {label: "x"} where from = "a"', 'delete node Twin where label = "x"'],
        ),
    ],
)  # fmt: skip
def test_what_a_mutation_is_lowered_to(text: str, lines: list[str]) -> None:
    assert show(compiled(text)).splitlines() == lines


def test_an_edge_is_upserted_by_the_least_unique_group_that_is_assigned() -> None:
    types = compile_schema(
        "node Doc { slug: String @key } "
        "edge Cites: Doc -> Doc { year: I32?  page: I32?  @unique(src, dst, year) @unique(src, dst, year, page) }"
    ).catalog
    for values, group in [("", ()), (", year: 1", ("src", "dst", "year")), (", page: 1", ())]:
        plan = compiled(write(f'upsert Cites {{ from: "a", to: "b"{values} }}'), types)
        assert isinstance(plan, ir.MutationPlan)
        (upsert,) = plan.statements
        assert isinstance(upsert, ir.Insert)
        assert set(upsert.unique) == set(group)


def test_the_variables_of_a_mutation_are_those_of_its_rows_and_its_inserts() -> None:
    plan = compiled(write(M + 'insert $n: Team { code: "x" }'))
    assert isinstance(plan, ir.MutationPlan)
    kinds = {one.name: (one.kind, one.nullable) for one in plan.variables}
    assert kinds == {
        "k": ("edge", False), "m": ("edge", True), "n": ("node", False),
        "p": ("node", False), "q": ("node", False), "t": ("node", True),
    }  # fmt: skip


def test_integers_name_the_ends_of_edges_between_nodes_with_integer_keys() -> None:
    types = compile_schema("node N { k: I64 @key } edge E: N -> N { w: I32? }").catalog
    plan = compiled(
        write("upsert E { from: 1, to: $b } delete E where from in [1, 2] and to != $b", "$b: I64"),
        types,
    )
    assert show(plan).splitlines() == [
        'upsert edge E {from: "1", to: $b}',
        'delete edge E where ["1", "2"] member from and to != $b',
    ]
