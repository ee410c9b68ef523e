"""What conditions, expressions, blocks, output and mutations become, and how far they may nest."""

from __future__ import annotations

import pytest

from omnigraph.errors import ParseError
from omnigraph.lang.query.compile import compile_query
from omnigraph.lang.query.record_type import RecordList
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.lang.query.syntax.printer import render
from omnigraph.types import PropType, Scalar
from tests.lang.query.query_trees import NAMES
from tests.lang.query.schema_of_tests import catalog

A, B = ast.Var("a"), ast.Var("b")
P, Q = ast.PropRef("x", "p"), ast.PropRef("x", "q")
T = ast.Binding("x", "T")
KNOWS = ast.Traversal(A, ("knows",), B)


def whole(value):
    return ast.Literal("int", value)


def body(text):
    (query,) = parse(text).queries
    return query.body


def clauses(text):
    return body(f"match {{ {text} }} return {{ $x }}").match


def value(text):
    return body(f"match {{ $x: T }} return {{ {text} as v }}").items[0].expr


def equal(left, right):
    return ast.Comparison(left, "=", right)


ONE, TWO, THREE = equal(P, whole(1)), equal(P, whole(2)), equal(P, whole(3))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # `and` between clauses is the same as nothing, and binds tighter than `or`
        ("$x: T and $a knows $b and $x.p = 1", [T, KNOWS, ONE]),
        ("$x: T and $a knows $b $x.p = 1 and $x.p = 2", [T, KNOWS, ONE, TWO]),
        ("optional { $a knows $b } and $x: T", [ast.Optional((KNOWS,)), T]),
        ("not { $x: T and $a knows $b } and exists { $x: T }", [ast.Not((T, KNOWS)), ast.Exists((T,))]),
        ("$x.p = 1 or $x.p = 2 and $x.p = 3", [ast.Or((ONE, ast.And((TWO, THREE))))]),
        ("($x.p = 1 or $x.p = 2) and $x.p = 3", [ast.Or((ONE, TWO)), THREE]),
        ("($x.p = 1 and ($x.p = 2 and $x.p = 3))", [ONE, TWO, THREE]),
        ("$x.p = 1 or ($x.p = 2 or $x.p = 3)", [ast.Or((ONE, ast.Or((TWO, THREE))))]),
        # `not` stands before every test and binds tightest
        ("not $x.p = 1 and $x.p = 2", [ast.Negated(ONE), TWO]),
        ("not not $x.p = 1", [ast.Negated(ast.Negated(ONE))]),
        ("not ($x.p = 1 or $x.p = 2)", [ast.Negated(ast.Or((ONE, TWO)))]),
        ("not exists { $x: T }", [ast.Negated(ast.Exists((T,)))]),
        ("not not { $x: T }", [ast.Negated(ast.Not((T,)))]),
        ("not $x.p in [1]", [ast.Negated(ast.Comparison(P, "in", ast.Literal("list", (whole(1),))))]),
        ("not $x.p", [ast.Negated(ast.Bare(P))]),
        ("$x.p is null $x.q is not null", [ast.Nullness(P), ast.Nullness(Q, negated=True)]),
        ("$a is null", [ast.Nullness(A)]),
        # A word between two variables names an edge
        ("$a in $b", [ast.Traversal(A, ("in",), B)]),
        ("$a or $b", [ast.Traversal(A, ("or",), B)]),
        ("$a is $b", [ast.Traversal(A, ("is",), B)]),
        ("($a) in $b", [ast.Comparison(A, "in", B)]),
        ("$a in [1]", [ast.Comparison(A, "in", ast.Literal("list", (whole(1),)))]),
        ("$a + 1 in $b", [ast.Comparison(ast.Arithmetic("+", A, whole(1)), "in", B)]),
        ('$a contains "x" + $x.p', [
            ast.Comparison(A, "contains", ast.Arithmetic("+", ast.Literal("string", "x"), P))]),
        # Conditions are values, and a Bool alone is a condition
        ("$x.p ($a) exists { $x: T }", [ast.Bare(P), ast.Bare(A), ast.Exists((T,))]),
        ("($x.p = 1) = true", [equal(ast.Truth(ONE), ast.Literal("bool", True))]),
        ("((($x.p)))", [ast.Bare(P)]),
        ('not search($x.p, "a")', [
            ast.Negated(ast.TextClause(ast.Call("search", (P, ast.Literal("string", "a")))))]),
        # Traversals, sources and loops
        ("$a knows|likes $b", [ast.Traversal(A, ("knows", "likes"), B)]),
        ("$a <knows|likes>{0,} $b", [
            ast.Traversal(A, ("knows", "likes"), B, undirected=True, hops=ast.Hops(0, None))]),
        ("$a $e:road[toll is null and opened < $d]{1,} $b", [
            ast.Traversal(A, ("road",), B, edge_var=ast.Var("e"), hops=ast.Hops(1, None), only=ast.And((
                ast.Nullness(ast.Name("toll")),
                ast.Comparison(ast.Name("opened"), "<", ast.Var("d")))))]),
        ("$a $e:road by km $b", [ast.Traversal(A, ("road",), B, edge_var=ast.Var("e"), by="km")]),
        ("$a by by by $b", [ast.Traversal(A, ("by",), B, by="by")]),
        ("$a: first() $b: first(1, $x.p + 1)", [
            ast.Rows("a", "first"), ast.Rows("b", "first", (whole(1), ast.Arithmetic("+", P, whole(1))))]),
        ("$a: count()", [ast.Rows("a", "count")]),
        ("for $a in $b for $b in $x.p", [ast.ForIn("a", "b"), ast.ForIn("b", "x", "p")]),
        ("$x: T { p: $b.q + 1 }", [ast.Binding("x", "T", (
            ast.Entry("p", ast.Arithmetic("+", ast.PropRef("b", "q"), whole(1))),))]),
    ],
)  # fmt: skip
def test_clauses(text, expected):
    assert clauses(text) == tuple(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # After an operand `-` subtracts, elsewhere it is a sign
        ("$x.p -5", ast.Arithmetic("-", P, whole(5))),
        ("7-2", ast.Arithmetic("-", whole(7), whole(2))),
        ("3 - -2", ast.Arithmetic("-", whole(3), whole(-2))),
        ("-5", whole(-5)),
        ("- 5", whole(-5)),
        ("-$x.p", ast.Minus(P)),
        ("--5", ast.Minus(whole(-5))),
        ("-(5)", ast.Minus(whole(5))),
        ("-9223372036854775808", whole(-(2**63))),
        ("[-1, -2.5]", ast.Literal("list", (whole(-1), ast.Literal("float", -2.5)))),
        # Precedence, and from left to right
        ("1 + 2 * 3", ast.Arithmetic("+", whole(1), ast.Arithmetic("*", whole(2), whole(3)))),
        ("(1 + 2) * 3", ast.Arithmetic("*", ast.Arithmetic("+", whole(1), whole(2)), whole(3))),
        ("1 - 2 - 3", ast.Arithmetic("-", ast.Arithmetic("-", whole(1), whole(2)), whole(3))),
        ("1 - (2 - 3)", ast.Arithmetic("-", whole(1), ast.Arithmetic("-", whole(2), whole(3)))),
        ("-$x.p % 2", ast.Arithmetic("%", ast.Minus(P), whole(2))),
        ("1 /* two */ / // three\n 2", ast.Arithmetic("/", whole(1), whole(2))),
        # Functions
        ("if($x.p = 1 or $x.p = 2, 1)", ast.Call("if", (ast.Truth(ast.Or((ONE, TWO))), whole(1)))),
        ("if($x.p, 1, 2)", ast.Call("if", (P, whole(1), whole(2)))),
        ("coalesce()", ast.Call("coalesce", ())),
        ('date("2020-01-01")', ast.Literal("date", "2020-01-01")),
        ("date($x.p)", ast.Call("date", (P,))),
        ("length (\n$x.p)", ast.Call("length", (P,))),
        # Aggregates, shapes and conditions
        ("count(*)", ast.Call("count", (ast.AllRows(),))),
        ("count(distinct $x)", ast.Call("count", (ast.Var("x"),), distinct=True)),
        ("collect(distinct $x { p, q })", ast.Call("collect", (ast.Shape("x", ("p", "q")),), distinct=True)),
        ("count(distinct)", ast.Call("count", (ast.Name("distinct"),))),
        ("$x { * }", ast.Shape("x", None)),
        ("sum($x.p * 2) / count(*)", ast.Arithmetic(
            "/", ast.Call("sum", (ast.Arithmetic("*", P, whole(2)),)), ast.Call("count", (ast.AllRows(),)))),
        ("($x.p = 1)", ast.Truth(ONE)),
        ("(not { $x: T })", ast.Truth(ast.Not((T,)))),
        ("exists { $x: T }", ast.Exists((T,))),
    ],
)  # fmt: skip
def test_expressions(text, expected):
    made = value(text)
    assert made == expected
    assert type(getattr(made, "value", None)) is type(getattr(expected, "value", None))


def test_an_integer_is_judged_with_its_sign():
    assert value("0 - 9223372036854775807") == ast.Arithmetic("-", whole(0), whole(2**63 - 1))
    for text in ("9223372036854775808", "0 - 9223372036854775808", "-9223372036854775809"):
        with pytest.raises(ParseError, match="does not fit signed 64 bit"):
            value(text)


def test_the_sections_of_a_read():
    made = body(
        "for $a in $list match { $x: T } return distinct { $x.*, $x { p } as s }"
        " having { n > 1 and n < 3  (m) } order { $x.p + 1 desc } limit $n offset 5"
    )
    assert made == ast.ReadBody(
        (T,),
        (ast.Item(ast.Star("x")), ast.Item(ast.Shape("x", ("p",)), "s")),
        (ast.SortKey(ast.Arithmetic("+", P, whole(1)), "desc"),),
        ast.Var("n"),
        5,
        True,
        (
            ast.Comparison(ast.Name("n"), ">", whole(1)),
            ast.Comparison(ast.Name("n"), "<", whole(3)),
            ast.Bare(ast.Name("m")),
        ),
        ast.ForIn("a", "list"),
    )


def test_the_sections_of_a_mutation():
    made = body(
        "for $a in $list match { $x: T } insert $n: T { p: null, q: q + 1 } upsert T { p: 1 }"
        " update $x set { p: $x.p } update T set { p: p + 1 } where not = 3 or p in [1]"
        " delete $x delete T where p is null return distinct { $n, $x.p }"
    )
    entries = (ast.Entry("p", whole(1)),)
    assert made == ast.WriteBody(
        (
            ast.Insert(
                "T",
                (
                    ast.Entry("p", ast.Null()),
                    ast.Entry("q", ast.Arithmetic("+", ast.Name("q"), whole(1))),
                ),
                ast.Var("n"),
            ),
            ast.Insert("T", entries, is_upsert=True),
            ast.Update(None, (ast.Entry("p", P),), var=ast.Var("x")),
            ast.Update(
                "T",
                (ast.Entry("p", ast.Arithmetic("+", ast.Name("p"), whole(1))),),
                ast.Or(
                    (
                        equal(ast.Name("not"), whole(3)),
                        ast.Comparison(ast.Name("p"), "in", ast.Literal("list", (whole(1),))),
                    )
                ),
            ),
            ast.Delete(None, var=ast.Var("x")),
            ast.Delete("T", ast.Nullness(ast.Name("p"))),
        ),
        (T,),
        (ast.Item(ast.Var("n")), ast.Item(P)),
        True,
        ast.ForIn("a", "list"),
    )


def test_anonymous_queries_and_their_parameters():
    text = "query a() { match { $x: T } return { $x } }\n// used\n($h: [{ n: String, k: I32? }]?, $v: Bool) match { $r: a() } return { $r } // end"
    declared, last = parse(text).queries
    assert (declared.name, last.name) == ("a", None)
    fields = (("n", PropType(Scalar.STRING)), ("k", PropType(Scalar.I32, nullable=True)))
    assert last.params == (
        ast.Param("h", RecordList(fields, nullable=True)),
        ast.Param("v", PropType(Scalar.BOOL)),
    )
    assert text[last.span.start : last.span.end].startswith("($h: [{")
    assert parse("insert T { a: 1 }").queries[0].name is None
    assert parse("() insert T { a: 1 }").queries[0].params == ()


@pytest.mark.parametrize("word", NAMES)
def test_no_word_is_reserved(word):
    text = (
        f"query {word}(${word}: I32) {{ match {{ ${word}: T {{ {word}: 1 }} and ${word}.{word} + 1 = 2"
        f" ${word}.{word} in [1] or not ${word}.{word} is null  $a $e:{word}|{word} $b  $a <{word}|{word}> $b"
        f" $r: {word}() }} return {{ ${word}.{word} + 1 as {word}, ${word} {{ {word}, {word} }} as s, ${word}.* }}"
        f" having {{ ({word}) > 1 }} order {{ ${word}.{word} }} }}"
    )
    if word == "not":
        text = text.replace("not|not", "knows")
    if word in {"true", "false"}:  # literals, as ever
        text = text.replace(f"({word}) > 1", "s > 1")
    tree = parse(text)
    assert parse(render(tree)) == tree
    writes = (
        f"match {{ $x: T }} insert ${word}: T {{ a: 1 {word}: 2, {word}: $x.{word} {word}: b }}"
        f" update ${word} set {{ {word}: ({word}) + 1 {word}: 3 }} delete T where {word} = 1 or a = 1"
    )
    tree = parse(writes)
    assert parse(render(tree)) == tree
    assert [entry.name for entry in tree.queries[0].body.statements[0].entries] == [
        "a",
        *[word] * 3,
    ]


@pytest.mark.parametrize(
    "word", sorted({"notify", "android", "orient", "inner", "isx", "formed", "nullx", "optional_x"})
)
def test_words_are_read_whole(word):
    made = body(f"delete T where {word} = 1 and {word} is null")
    assert made.statements[0].where.parts[0] == equal(ast.Name(word), whole(1))


# ------------------------------------------------------------------ limits


def many(sign, count, one="$x.p = 1"):
    return "match { $x: T  " + sign.join([one] * count) + " } return { $x }"


def test_many_alternatives_and_many_conditions_are_no_depth():
    assert len(body(many(" or ", 10_000)).match[1].parts) == 10_000
    assert len(body(many(" and ", 10_000)).match) == 10_001
    items = ", ".join(map(str, range(10_000)))
    assert len(clauses(f"$x.p in [{items}]")[0].right.value) == 10_000


DEEP = {
    "sum": lambda n: many(" + ", n, "1").replace("+ 1 }", "+ 1 = 2 }"),
    "product": lambda n: many(" * ", n, "1").replace("* 1 }", "* 1 = 2 }"),
    "minus": lambda n: "match { $x: T $x.p = " + "-" * n + "$x.q } return { $x }",
    "not": lambda n: "match { $x: T " + "not " * n + "$x.p } return { $x }",
    "parentheses": lambda n: "match { " + "(" * n + "$x.p = 1" + ")" * n + " } return { $x }",
    "truths": lambda n: "match { " + "(" * n + "$x.p = 1" + ") = true" * n + " } return { $x }",
    "calls": lambda n: "match { " + "abs(" * n + "$x.p" + ")" * n + " = 1 } return { $x }",
    "exists": lambda n: "match { " + "exists { " * n + "$x: T" + " }" * n + " } return { $x }",
    "optional": lambda n: "match { " + "optional { " * n + "$x: T" + " }" * n + " } return { $x }",
    "negations": lambda n: "match { " + "not { " * n + "$x: T" + " }" * n + " } return { $x }",
    "mixed": lambda n: "match { " + "not (exists { $x: T or $x.p + " * n + "1" + " })" * n + " } return { $x }",
}  # fmt: skip


@pytest.mark.parametrize("form", DEEP)
@pytest.mark.parametrize("depth", [200, 20_000])
def test_what_nests_too_deep_is_refused_in_our_words(form, depth):
    text = DEEP[form](depth)
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert "deep" in caught.value.message or form == "mixed"


@pytest.mark.parametrize("form", [form for form in DEEP if form != "mixed"])
def test_what_nests_a_little_is_read_and_printed(form):
    tree = parse(DEEP[form](50))
    assert parse(render(tree)) == tree


def test_a_long_text_is_no_depth():
    text = "x" * 1_000_000
    assert value(f'"{text}"') == ast.Literal("string", text)


def deepest(form):
    """The text of a form that nests as deep as the parser takes it, by halving."""
    taken, refused = 1, 400
    while refused - taken > 1:
        middle = (taken + refused) // 2
        try:
            parse(form(middle))
            taken = middle
        except ParseError:
            refused = middle
    return form(taken)


AGE = "$x.age"
AT_THE_LIMIT = {
    "sums": lambda n: " + ".join([AGE] * n) + " = 1",
    "negations": lambda n: "not " * n + f"{AGE} = 1",
    "signs": lambda n: "-" * n + f"{AGE} = 1",
    "blocks": lambda n: "exists { " * n + f"{AGE} = 1" + " }" * n,
    "truths": lambda n: "(" * n + f"{AGE} = 1" + ") = true" * n,
    "calls": lambda n: "abs(" * n + AGE + ")" * n + " = 1",
    "trees": lambda n: f"({AGE} = 1 or {AGE} = 2 and not " * n + f"{AGE} = 3" + ")" * n,
    "choices": lambda n: f"if({AGE} = 1 or not " * n + f"{AGE} = 2" + ", 1, 2) = 1" * n,
}


@pytest.mark.parametrize("form", AT_THE_LIMIT)
def test_what_the_parser_takes_no_pass_behind_it_finds_too_deep(form):
    text = deepest(lambda n: f"match {{ $x: Person {AT_THE_LIMIT[form](n)} }} return {{ $x }}")
    tree = parse(text)
    assert parse(render(tree)) == tree
    assert compile_query(catalog(), text).name is None
