"""What a broken source is told: text fixtures, and what holds for every diagnostic.

A fixture file holds cases, each a title, the source, and the diagnostic as a person sees it:

    === title
    source
    ---
    diagnostic
"""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import ParseError
from omnigraph.lang.query.syntax.parser import parse

FIXTURES = Path(__file__).parents[2] / "fixtures" / "query" / "parse"


def fixture_cases():
    for path in sorted(FIXTURES.glob("*.txt")):
        for block in path.read_text("utf-8").split("=== ")[1:]:
            title, _, rest = block.partition("\n")
            source, _, expected = rest.partition("\n---\n")
            yield pytest.param(source, expected.rstrip("\n"), id=f"{path.stem}: {title}")


CASES = list(fixture_cases())


def test_there_are_fixtures():
    assert len(CASES) > 80


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_diagnostic(source, expected):
    with pytest.raises(ParseError) as caught:
        parse(source, "q.gq")
    assert caught.value.render() == expected


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_the_place_lies_in_the_source(source, expected):
    with pytest.raises(ParseError) as caught:
        parse(source)
    error = caught.value
    assert error.__context__ is None or error.__suppress_context__, "only the place is shown"
    assert error.span is not None
    assert 0 <= error.span.start < error.span.end <= len(source)
    assert error.body()["code"] == "bad_request"
    assert str(error).startswith("parse error: ")


def read(clauses: str, returns: str = "$x") -> str:
    return f"query q() {{ match {{ {clauses} }} return {{ {returns} }} }}"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        # Every escape, keyword and name that the specification wants named
        (read(r'$x.p = "\d"'), [r"\d"]),
        (read(r'$x.p = "\u0041"'), [r"\u"]),
        ('query q() @description("a") @description("b") { delete T where a = 1 }', ["@description"]),
        ('query q() @instruction("a") @instruction("b") { delete T where a = 1 }', ["@instruction"]),
        ('query q() @title("a") { delete T where a = 1 }', ["@title"]),
        ("query a() { delete T where a = 1 } " * 2, ["`a`"]),
        (read("$x.p = 9223372036854775808"), ["64"]),
        (read("$x.p = -9223372036854775809"), ["64"]),
        (read("$x.p = " + "9" * 5000), ["64"]),
        (read("$x.p = " + "9" * 400 + ".0"), ["float"]),
        (read("$a knows{1,9223372036854775808} $b"), ["64"]),
        ("query q() { match { $x: T } return { $x } limit 9223372036854775808 }", ["64"]),
        ("query q($v: Vector(9223372036854775808)) { delete T where a = 1 }", ["64"]),
        ("query q($v: Vector(-1)) { delete T where a = 1 }", ["-1"]),
        ("query q($a: strng) { delete T where a = 1 }", ["strng"]),
    ],
)  # fmt: skip
def test_the_message_names_the_fault(source, words):
    with pytest.raises(ParseError) as caught:
        parse(source)
    assert all(word in caught.value.message for word in words)


@pytest.mark.parametrize(
    ("declared", "meant"),
    [("string", "String"), ("Strng", "String"), ("Datetime", "DateTime"), ("Vectr", "Vector")],
)
def test_an_unknown_type_gets_the_nearest(declared, meant):
    with pytest.raises(ParseError) as caught:
        parse(f"query q($a: {declared}) {{ delete T where a = $a }}")
    assert caught.value.hint == f"did you mean `{meant}`?"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        # Words of other languages
        (read("$x: T $x.p > 1 AND $x.p < 3"), "keywords are lower-case: `and`"),
        (read("$x: T $x.p > 1 OR $x.p < 3"), "keywords are lower-case: `or`"),
        (read("$x: T $x.p IS NULL"), "keywords are lower-case: `is`"),
        (read("$x: T $x.p = NULL"), "`$x.p is null`"),
        (read("$x: T $x.p = None"), "`$x.p is null`"),
        (read("$x: T $x.p between 1 and 3"), "`$x.p >= 1 and $x.p <= 2`"),
        (read('$x: T $x.p =~ "a.*"'), "`ends_with`"),
        (read('$x: T $x.p matches "a.*"'), "`ends_with`"),
        (read('$x: T $x.p like "a%"'), "`ends_with`"),
        (read('$x: T $x.p ilike "a%"'), "`ends_with`"),
        (read("$x: T $x.p is distinct from $x.q"), "`not ($x.p = $y.p)`"),
        (read("$x: T $x.p is not distinct from $x.q"), "`$x.p = $y.p or ($x.p is null"),
        (read("$x: T $x.p is true"), "a Bool stands alone"),
        (read("$x: T where $x.p = 1"), "in `match` write the condition alone"),
        (read("$x: T $x.p xor $x.q"), "`($x.p = 1) != ($x.q = 2)`"),
        (read("$x: T optional match { $x knows $y }"), "inside `match`: `optional { … }`"),
        ("match { $x: T } optional match { $x knows $y } return { $x }", "`optional { … }`"),
        ("match { $x: T } with $x return { $x }", "`query first() { … } match { $r: first() … }`"),
        ("query q() { with $x match { $x: T } return { $x.p } }", "`query first() { … }"),
        ("match { $x: T } unwind $x.p return { $x }", "`for $x in $list`"),
        ("unwind $list match { $x: T } return { $x }", "`for $x in $list`"),
        (read("for x in $list"), "`for $x in $list`"),
        (read("for $x in [1, 2]"), "`for $x in $list`"),
        ("for $x in [1, 2] match { $y: T } return { $x }", "a list parameter or a list property"),
        ("match { $x: T } return { $x } union match { $y: T } return { $y }", "there is no union"),
        ("match { $x: T } foreach (x in y) return { $x }", "`for $x in $list`"),
        (read("$x: T", "count($x.p > 1)"), "`count(if($x.p > 1, 1))`"),
        (read("$x: T", "count(distinct $x.p > 1 and $x.p < 3)"), "`count(if($x.p > 1, 1))`"),
        (read("$x: T", "collect(not $x.p)"), "`count(if($x.p > 1, 1))`"),
        (read("$x: T", "max($x.p is null)"), "`count(if($x.p > 1, 1))`"),
        ("match { $x: T } merge $y", "`upsert Type { … }`"),
        ("merge T { p: 1 }", "`upsert Type { … }`"),
        ("create T { p: 1 }", "with `insert`"),
        ("match { $x: T } set $x.p = 1", "`update $x set { … }`"),
        (
            "query q() { set T { p: 1 } }",
            "`update $x set { … }`, or `update Type set { … } where …`",
        ),
        ("match { $x: T } remove $x.p", "`update $x set { p: null }`"),
        ("match { $x: T } detach delete $x", "leave out `detach`"),
        ("insert T { p: 1 } returning p", "`return { … }` after the statements"),
        ("match { $x: T } return { $x } skip 10", "`limit 10 offset 20`"),
        ("match { $x: T } return { $x } limit 5, 10", "`limit 10 offset 20`"),
        ("match { $x: T } return { $x } group by $x.p", "leave out `group by`"),
        ("match { $x: T } return { $x.p } order by p", "leave out `by`"),
        ("match { $x: T } return { $x.p } order { p descending }", "write `desc`"),
        ("select name", "`match { … } return { … }`"),
        (
            read("$x: T", "case when $x.p > 1 then 2 else 3 end"),
            "`if(condition, value, otherwise)`",
        ),
        (read("$x: T", "null as a, null"), "`$x.p is null`"),
        # Signs
        (read("$x: T $x.p == 1"), "one `=`"),
        (read("$x: T $x.p <> 1"), "`!=`"),
        (read("$x: T $x <> $y"), "`!=`"),
        (read("$x: T $x.p = 1 && $x.q = 2"), "write `and`"),
        (read("$x: T $x.p = 1 || $x.q = 2"), "written `or`"),
        (read("$x: T", '$x.p || "a" as b'), "joined with `+`"),
        (read("$x: T !$x.p"), "negation `not`"),
        (read("$x: T !($x.p = 1)"), "negation `not`"),
        (read("$x: T", "!$x.p as b"), "negation `not`"),
        (read("$x: T $x.p ^ 2 = 4"), "`a * a`"),
        (read("$x: T", "collect($x.p)[0] as first"), "`for $x in $y.p`"),
        (read("$x: T $x.p[0] = 1"), "`for $x in $y.p`"),
        (read("$x: T", "*"), "`$x { * }`"),
        (read("$x: T", "sum(*) as s"), "only `count` takes `*`"),
        (read("$x: T", "collect(*) as s"), "`collect($x.name)`"),
        # Functions
        (read("$x: T exists($x.p)"), "`exists { … }`"),
        (read("$x: T not exists($x.p)"), "`exists { … }`"),
        (read("$x: T year($x.p) = 2020"), '`part(date, "year")`'),
        (read("$x: T", "toLower($x.p) as a"), "`lower(…)`"),
        (read("$x: T", "size($x.p) as a"), "`length(…)`"),
        (read("$x: T", "labels($x) as a"), "`type($x)`"),
        (read("$x: T", "properties($x) as a"), "`$x { * }`"),
        (read("$x: T", "shortestPath($x) as a"), "`$a $p:edge{1,} $b`"),
        (read("$x: T", "ifnull($x.p, 1) as a"), "`coalesce(a, b)`"),
        (read("$x: T", "concat($x.p, 1) as a"), "`+`"),
        (read("$x: T", "sqrt($x.p) as a"), "there are count, sum,"),
        # Patterns
        (read("$x -[knows]-> $y"), "`$a edge $b`"),
        (read("$x -[:knows]-> $y"), "`$a edge $b`"),
        (read("(x:T)-[:knows]->(y:T)"), "a node is `$a: Type`"),
        (read("(n)"), "a node is `$a: Type`"),
        (read("x: T"), "variables start with `$`: `$x: Type`"),
        (read("$x knows* $y"), "`{min,max}`"),
        (read("$x knows{..3} $y"), "the lower one always"),
        (read("$x: person"), "`Person`"),
        (read("$x knows|Likes $y"), "`likes`"),
        # Forms
        ("query q(a: String) { match { $x: T } return { $x } }", "start with `$`: `$a`"),
        ("query q { match { $x: T } return { $x } }", "also when there are none: `q()`"),
        ("query q() { match { $x: T } return $x.p }", "in a block: `return { … }`"),
        (read("$x: T", "$x.p AS p"), "keywords are lower-case: `as`"),
        ("query q() { update T set p = 1 where p = 2 }", "`set { name: value }`"),
        ("query q() { update T { p: 1 } where p = 2 }", "`update Type set { … } where …`"),
        ("delete T where a = 1 b = 2", "joined with `and` or `or`"),
        ("delete T where a = 1, b = 2", "joined with `and` or `or`"),
        ("MATCH (n) RETURN n", "keywords are lower-case: `match`"),
        ("query { match { $x: T } return { $x } }", "leave out `query`, or give it a name"),
        (read("$x: T $x.p = [a]"), '"a"'),
        (read("$x: T $x.p in [$a]"), "`$x.p in $list`"),
        (read("$x: T $x or ($x.p = 1)"), "put the variable before `or` in parentheses"),
        (read("$x: T ($x.p = 1"), "a `(` is not closed"),
        (read("$x: T $x.p in [1, 2"), "a `[` is not closed"),
        (read("$x: T $x.p = 1e5"), "no exponent"),
        (read("$x: T", "$x.p, $x.q not $x.p"), "stands in parentheses"),
        (read("$x: T", "$x.p > 1"), "stands in parentheses"),
        (read("$x: T", "$x.p + 1 = 2 as b"), "stands in parentheses"),
        (read("$x: T $x.p > 1 = $x.q"), "stands in parentheses"),
        ("match { $x: T } return { $x } order { $x.p <= 1 }", "stands in parentheses"),
        ("match { $x: T { p: 1 = 2 } } return { $x }", "stands in parentheses"),
        (read("$x: T $x.p not in [1]"), "write `not $x.p in …`"),
        (read("$x: T and $x.p not contains 1"), "write `not $x.p contains …`"),
        (read("$x knows[exists { $x knows $y }] $y"), "with an edge variable"),
        ("insert T { a: not b }", "stands in parentheses"),
        (read("$x: T $x.p contain 1"), "did you mean `contains`?"),
    ],
)
def test_what_other_languages_write_gets_a_hint(text, hint):
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert hint in (caught.value.hint or "")


def test_lone_surrogates_are_refused():
    with pytest.raises(ParseError, match="Unicode"):
        parse(read('$x.p = "\ud800"'))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # `and` at an end of a block
        (read("and $x: T"), "`and` stands between two clauses"),
        (read("$x: T and"), "`and` stands between two conditions"),
        (read("$x: T not { and $x knows $y }"), "`and` stands between two clauses"),
        (read("$x: T exists { $x knows $y and }"), "`and` stands between two conditions"),
        (read("$x: T $x.p = 1 or"), "`or` stands between two conditions"),
        (read("$x: T and and $x.p = 1"), "`and` stands between two clauses"),
        # Clauses where conditions are due
        (read("($x knows $y) or $x.p = 3"), "a traversal is not a condition and cannot stand in parentheses"),
        (read("$x.p = 3 or $x knows $y"), "a traversal is not a condition and cannot stand in `or`"),
        (read("$x.p = 3 or $y: T"), "a binding is not a condition and cannot stand in `or`"),
        (read("$x.p = 3 or $r: other()"), "a binding is not a condition and cannot stand in `or`"),
        (read("$x.p = 3 or optional { $x knows $y }"), "an `optional` block is not a condition"),
        (read("$x.p = 3 or for $y in $x.q"), "a `for` is not a condition"),
        (read("not $x knows $y"), "a traversal is not a condition and cannot stand in `not`"),
        (read("not ($x knows $y)"), "a traversal is not a condition and cannot stand in parentheses"),
        (read("($x: T)"), "a binding is not a condition and cannot stand in parentheses"),
        (read("($x.p = 1 and $x: T)"), "a binding is not a condition and cannot stand in parentheses"),
        (read("$x: T and $x.p = 1 or $x.p = 2"), "a binding is not a condition and cannot stand in `or`"),
        (read("$x: T", "if($x knows $y, 1) as a"), "a traversal is not a condition and cannot stand in `if(…)`"),
        ("match { $x: T } return { $x } having { $x knows $y }", "a traversal is not a condition"),
        ("delete T where $x knows $y", "a traversal is not a condition and cannot stand in a `where`"),
        # Blocks
        (read("$x: T optional { }"), "the `optional` block is empty"),
        (read("$x: T exists { }"), "the `exists` block is empty"),
        (read("$x: T not { }"), "the `not` block is empty"),
        ("match { $x: T } return { $x } having { }", "the `having` block is empty"),
        ("match { $x: T } return distinct { }", "the `return` block is empty"),
        ("upsert T { }", "the `upsert` block is empty"),
        ("match { $x: T } update $x set { }", "the `set` block is empty"),
        ("delete T where exists { $x knows $y }", "a block cannot stand in a `where`"),
        ("delete T where not { $x knows $y }", "a block cannot stand in a `where`"),
        ("delete T where a = 1 or not (b = 2 and exists { $x: T })", "a block cannot stand in a `where`"),
        ("delete T where if(exists { $x: T }, 1, 2) = 1", "a block cannot stand in a `where`"),
        (read("$x knows[exists { $x: T }] $y"), "a block cannot stand in the condition of an edge"),
        # Output
        (read("$x: T", "$x.p > 1"), "found `>`"),
        (read("$x: T", "$x.p in [1]"), "`in` stands in a condition"),
        (read("$x: T", '$x.p contains "a"'), "`contains` stands in a condition"),
        (read("$x: T", "not $x.p"), "`not` stands in a condition"),
        (read("$x: T", "$x.p is null"), "`is` stands in a condition"),
        (read("$x: T", "$x.p = 1 or $x.q = 2"), "found `=`"),
        (read("$x: T", "$x.* as all"), "`$x.*` makes several columns and takes no alias"),
        (read("$x: T", "sum(distinct $x.p) as s"), "found `$x`"),
        (read("$x: T", "sum($x { a }) as s"), "found `{`"),
        (read("$x: T", "$x { } as s"), "found `}`"),
        (read("$x: T", "$x { a, } as s"), "found `}`"),
        # Traversals
        (read("$x $p:knows{1,} by km $y"), "a traversal has bounds or `by`, not both"),
        (read("$x <knows>|<likes> $y"), "found `|`"),
        (read("$x <knows|not> $y"), "`not` cannot be an edge word"),
        (read("$x knows|not $y"), "`not` cannot be an edge word"),
        (read("$p in $list.a"), "`$p in $list` is a traversal and cannot go on with `.a`"),
        # Sections
        ("match { $x: T } return { $x } having { $x } having { $x }", "`having` is given twice"),
        ("match { $x: T } return { $x } order { $x } having { $x }", "`having` stands before `order`"),
        ("match { $x: T } return { $x } offset 1 limit 1", "`limit` stands before `offset`"),
        ("match { $x: T } return { $x } offset 1 offset 1", "`offset` is given twice"),
        ("query q() { match { $x: T } return { $x } limit 1 order { $x } }", "`order` stands before `limit`"),
        ("match { $x: T } having { $x } return { $x }", "`having` stands after `return`"),
        ("return { 1 }", "`return` has no `match` before it"),
        ("query q() { limit 1 }", "`limit` has no `match` before it"),
        ("($l: [I32]) for $x in $l return { $x }", "`return` has no `match` before it"),
        ("match { $x: T } match { $y: T } return { $x }", "`match` is given twice"),
        ("match { $x: T } for $y in $l return { $x }", "`for` stands before `match`"),
        ("query q() { insert T { a: 1 } return { $x } limit 1 }", "a mutation takes no `limit`"),
        ("query q() { insert T { a: 1 } match { $x: T } return { $x } }", "`match` cannot stand here"),
        ("match { $x: T }", "the `return` block is missing"),
        ("query q() { for $x in $l return { $x } }", "`return`"),
        ('match { $x: T } during date("2020-01-01") return { $x }', "expected `to`"),
        # Parameters
        ("query q($a: [{ }]) { match { $x: T } return { $x } }", "expected a name"),
        ("query q($a: [{ b: I32, b: I64 }]) { match { $x: T } return { $x } }", "two fields `b`"),
        ("query q($a: [{ b: [{ c: I32 }] }]) { match { $x: T } return { $x } }", "records do not nest"),
        ("query q($a: { b: I32 }) { match { $x: T } return { $x } }", "found `{`"),
        # Anonymous queries
        ("match { $x: T } return { $x } query q() { delete T where a = 1 }", "a declaration stands before"),
        ("match { $x: T } return { $x } match { $x: T } return { $x }", "found `match`"),
        ("insert T { a: 1 } match { $x: T } return { $x }", "found `match`"),
        ('match { $x: T } return { $x } @description("a")', "found `@`"),
        ('@description("a") match { $x: T } return { $x }', "found `@`"),
        ('($a: I32) @description("a") match { $x: T } return { $x }', "found `@`"),
        ("match { $x: T } return { $x } }", "found `}`"),
        ("()", "found the end of the source"),
    ],
)  # fmt: skip
def test_what_cannot_stand_where_it_does(text, message):
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert message in caught.value.message
    assert caught.value.span is not None


@pytest.mark.parametrize(
    "text",
    [
        "match { $x: T } return { $x } match { $x: T } return { $x }",
        "match { $x: T } return { $x } query q() { delete T where a = 1 }",
        "insert T { a: 1 } match { $x: T } return { $x }",
    ],
)
def test_a_text_holds_one_query_without_a_name_at_its_end(text):
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert "at most one query without a name, at its end" in (caught.value.hint or "")
