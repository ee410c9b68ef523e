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
    "form",
    [
        "query q() { match { $x: T $x.p = 1 or $x.p = 2 } return { $x } }",
        "query q() { match { $x: T $x.p in [1, 2] } return { $x } }",
        "query q() { match { $x: T $x.p is null } return { $x } }",
        "query q() { match { $x: T $x.p + 1 = 2 } return { $x } }",
        "query q() { match { $x: T $x.p = $x.q * 2 } return { $x } }",
        "query q() { match { $x: T optional { $x knows $y } } return { $x } }",
        "query q() { match { $x: T } return distinct { $x } }",
        "query q() { match { $x: T } return { $x } limit 5 offset 5 }",
        "query q() { match { $x: T } return { $x } having { $x } }",
    ],
)
def test_planned_forms_are_called_by_their_name(form):
    with pytest.raises(ParseError) as caught:
        parse(form)
    assert "not in the language yet" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (read("$x: T $x.p > 1 and $x.p < 3"), "leave out `and`"),
        (read("$x: T $x.p > 1 AND $x.p < 3"), "leave out `and`"),
        (read("$x: T $x.p = 1 and not { $x knows $y }"), "leave out `and`"),
        (read("$x: T $x.p > 1 OR $x.p < 3"), "`or` is not in the language yet"),
        (read("$x: T $x.p IS NULL"), "`not { $x.p = $x.p }`"),
        (read("$x: T $x.p = NULL"), "`not { $x.p = $x.p }`"),
        (read("$x: T $x.p = None"), "`not { $x.p = $x.p }`"),
        (read("$x: T { p: null }"), "`not { $x.p = $x.p }`"),
        (read("$x: T $x.p between 1 and 3"), "two comparisons"),
        (read('$x: T $x.p =~ "a.*"'), "`contains`"),
        (read('$x: T $x.p matches "a.*"'), "`contains`"),
        (read("$x: T year($x.p) = 2020"), "there is no function `year`"),
        (read("$x: T ($x.p = 1)"), "parentheses stand only after a function"),
        (read("$x -[knows]-> $y"), "`$a edge $b`"),
        (read("(x:T)-[:knows]->(y:T)"), "a node is `$a: Type`"),
        (read("x: T"), "variables start with `$`: `$x: Type`"),
        ("query q(a: String) { match { $x: T } return { $x } }", "start with `$`: `$a`"),
        ("query q { match { $x: T } return { $x } }", "also when there are none: `q()`"),
        ("query q() { match { $x: T } return $x.p }", "in a block: `return { … }`"),
        ("query q() { match { $x: T } return { $x.p } order by p }", "leave out `by`"),
        ("query q() { match { $x: T } return { $x.p } order { p descending } }", "write `desc`"),
        ("query q() { with $x match { $x: T } return { $x.p } }", "run a second query"),
        ("query q() { set T { p: 1 } }", "`update Type set { … } where …`"),
        (read("$x: T $x knows|likes $y"), "one kind of edge"),
        (read("$x: T", "$x.*"), "name each property"),
        (read("$x: T", "*"), "name each property"),
        (read("$x: T", "count(*)"), "`count($x)`"),
        (read("$x: T", "count(distinct $x)"), "`distinct` is not in the language yet"),
        (read("$x: T", "collect($x.p)"), "there is no function `collect`"),
        (read("$x: T", "$x.p AS p"), "keywords are lower-case: `as`"),
        ("query q() { match { $x: T } return { $x } group by $x.p }", "`group by`"),
        ("query q() { update T set p = 1 where p = 2 }", "`set { name: value }`"),
        ("query q() { update T { p: 1 } where p = 2 }", "`update Type set { … } where …`"),
        ("query q() { upsert T { p: 1 } }", "`insert` of a node whose key exists"),
        ("MATCH (n) RETURN n", "`query name() { match { … } return { … } }`"),
        ("match { $x: T } return { $x }", "`query name() { match { … } return { … } }`"),
    ],
)
def test_what_other_languages_write_gets_a_hint(text, hint):
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert hint in (caught.value.hint or "")


def test_lone_surrogates_are_refused():
    with pytest.raises(ParseError, match="Unicode"):
        parse(read('$x.p = "\ud800"'))
