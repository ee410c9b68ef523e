"""What a well-formed source becomes: the tree, its places, and how words are read."""

from __future__ import annotations

import concurrent.futures

import pytest

from omnigraph.errors import ParseError
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.ast import (
    Binding,
    Call,
    Comparison,
    Delete,
    Entry,
    Hops,
    Insert,
    Item,
    Literal,
    Name,
    Not,
    Now,
    Param,
    PropRef,
    SortKey,
    TextClause,
    Traversal,
    Update,
    Var,
)
from omnigraph.lang.query.syntax.parse_state import NESTING_LIMIT
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.spans import Span
from omnigraph.types import PropType, Scalar


def one(text: str) -> ast.Query:
    (query,) = parse(text).queries
    return query


def clauses(text: str) -> tuple[ast.Clause, ...]:
    body = one(f"query q() {{ match {{ {text} }} return {{ $x }} }}").body
    assert isinstance(body, ast.ReadBody)
    return body.match


def items(text: str) -> tuple[ast.Item, ...]:
    body = one(f"query q() {{ match {{ $x: T }} return {{ {text} }} }}").body
    assert isinstance(body, ast.ReadBody)
    return body.items


def order(text: str) -> tuple[ast.SortKey, ...]:
    body = one(f"query q() {{ match {{ $x: T }} return {{ $x }} order {{ {text} }} }}").body
    assert isinstance(body, ast.ReadBody)
    return body.order


def statements(text: str) -> tuple[ast.Statement, ...]:
    body = one(f"query q() {{ {text} }}").body
    assert isinstance(body, ast.WriteBody)
    return body.statements


def text(value: str) -> Literal:
    return Literal("string", value)


def whole(value: int) -> Literal:
    return Literal("int", value)


A, B, X, Q = Var("a"), Var("b"), Var("x"), Var("q")
P = PropRef("x", "p")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # Bindings
        ("$x: T", [Binding("x", "T")]),
        ("$x: T { }", [Binding("x", "T")]),
        ("$x:T{p:1}", [Binding("x", "T", (Entry("p", whole(1)),))]),
        ("$x: T { p: 1, }", [Binding("x", "T", (Entry("p", whole(1)),))]),
        (
            "$x: T { p: $a, q: now() }",
            [Binding("x", "T", (Entry("p", A), Entry("q", Now())))],
        ),
        ("$x: T $y: U", [Binding("x", "T"), Binding("y", "U")]),
        # Traversals
        ("$a knows $b", [Traversal(A, ("knows",), B)]),
        ("$_ knows $_", [Traversal(Var("_"), ("knows",), Var("_"))]),
        ("$a <knows> $b", [Traversal(A, ("knows",), B, undirected=True)]),
        ("$a $e:knows $b", [Traversal(A, ("knows",), B, edge_var=Var("e"))]),
        ("$a $e : < knows > $b", [Traversal(A, ("knows",), B, True, Var("e"))]),
        ("$a knows{1,3} $b", [Traversal(A, ("knows",), B, hops=Hops(1, 3))]),
        ("$a knows {0 , 0}$b", [Traversal(A, ("knows",), B, hops=Hops(0, 0))]),
        ("$a knows{2,} $b", [Traversal(A, ("knows",), B, hops=Hops(2, None))]),
        ("$a <knows>{1,2} $b", [Traversal(A, ("knows",), B, True, None, Hops(1, 2))]),
        ("$a $e:<knows>{1,1} $b", [Traversal(A, ("knows",), B, True, Var("e"), Hops(1, 1))]),
        ("$a knows $b $a knows $x", [Traversal(A, ("knows",), B), Traversal(A, ("knows",), X)]),
        # A word between two variables is always an edge
        ("$a contains $b", [Traversal(A, ("contains",), B)]),
        ("$a starts_with $b", [Traversal(A, ("starts_with",), B)]),
        ("$a contains{1,2} $b", [Traversal(A, ("contains",), B, hops=Hops(1, 2))]),
        ("$a $contains:contains $b", [Traversal(A, ("contains",), B, False, Var("contains"))]),
        ("$a count $b", [Traversal(A, ("count",), B)]),
        ("$a true $b", [Traversal(A, ("true",), B)]),
        ("$a <true> $b", [Traversal(A, ("true",), B, undirected=True)]),
        ("$a <as> $b", [Traversal(A, ("as",), B, undirected=True)]),
        ("$a notify $b", [Traversal(A, ("notify",), B)]),
        ("$a return $b", [Traversal(A, ("return",), B)]),
        # Predicates
        ("$x.p = 1", [Comparison(P, "=", whole(1))]),
        ("$x.p != 1", [Comparison(P, "!=", whole(1))]),
        ("$x.p<1", [Comparison(P, "<", whole(1))]),
        ("$x.p<=1", [Comparison(P, "<=", whole(1))]),
        ("$x.p>1", [Comparison(P, ">", whole(1))]),
        ("$x.p>=-1", [Comparison(P, ">=", whole(-1))]),
        ("$x . p = $q", [Comparison(P, "=", Q)]),
        ("$q = $x.p", [Comparison(Q, "=", P)]),
        ("$q < $a", [Comparison(Q, "<", A)]),
        ("$q < knows", [Comparison(Q, "<", Name("knows"))]),
        ("$q < true", [Comparison(Q, "<", Literal("bool", True))]),
        ("$q > knows", [Comparison(Q, ">", Name("knows"))]),
        ("1 = 1", [Comparison(whole(1), "=", whole(1))]),
        ("now() > $x.p", [Comparison(Now(), ">", P)]),
        ("$x.p contains $q", [Comparison(P, "contains", Q)]),
        ("$x.p contains $a.p", [Comparison(P, "contains", PropRef("a", "p"))]),
        ('"abc" contains $q', [Comparison(text("abc"), "contains", Q)]),
        ('$q contains "x"', [Comparison(Q, "contains", text("x"))]),
        ("$q contains contains", [Comparison(Q, "contains", Name("contains"))]),
        ("$q starts_with now()", [Comparison(Q, "starts_with", Now())]),
        ("contains contains 1", [Comparison(Name("contains"), "contains", whole(1))]),
        ("not = 3", [Comparison(Name("not"), "=", whole(3))]),
        ("count($x) > 2", [Comparison(Call("count", (X,)), ">", whole(2))]),
        ("$x.p = $q $a knows $b", [Comparison(P, "=", Q), Traversal(A, ("knows",), B)]),
        ("$x.p = p contains < 1", [Comparison(P, "=", Name("p")), Comparison(Name("contains"), "<", whole(1))]),
        # Text predicates
        ('search($x.p, "a")', [TextClause(Call("search", (P, text("a"))))]),
        ("match_text($x.p, $q)", [TextClause(Call("match_text", (P, Q)))]),
        ("fuzzy($x.p, $q)", [TextClause(Call("fuzzy", (P, Q)))]),
        ("fuzzy($x.p, $q, 1)", [TextClause(Call("fuzzy", (P, Q, whole(1))))]),
        (
            "search($x.p, $q) = true",
            [Comparison(Call("search", (P, Q)), "=", Literal("bool", True))],
        ),
        (
            "search($x.p, $q) $a knows $b",
            [TextClause(Call("search", (P, Q))), Traversal(A, ("knows",), B)],
        ),
        ("search = 1", [Comparison(Name("search"), "=", whole(1))]),
        # Negation
        ("not { $x.p = 1 }", [Not((Comparison(P, "=", whole(1)),))]),
        ("not{not{$x:T}}", [Not((Not((Binding("x", "T"),)),))]),
        ("not /* so */ { $x: T } $x: T", [Not((Binding("x", "T"),)), Binding("x", "T")]),
    ],
)  # fmt: skip
def test_clauses(source, expected):
    assert clauses(source) == tuple(expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("$x", [Item(X)]),
        ("$x.p", [Item(P)]),
        ("$x.p as y", [Item(P, "y")]),
        ("$x.p as y,", [Item(P, "y")]),
        ("$x.p $x as y $q", [Item(P), Item(X, "y"), Item(Q)]),
        ("$x.p, $x as y, $q", [Item(P), Item(X, "y"), Item(Q)]),
        ("now()", [Item(Now())]),
        ("now", [Item(Name("now"))]),
        ("now asX", [Item(Name("now")), Item(Name("asX"))]),
        ("count($x) as count", [Item(Call("count", (X,)), "count")]),
        ("count count ($x)", [Item(Name("count")), Item(Call("count", (X,)))]),
        ("count /* ( */ // (\n ( $x )", [Item(Call("count", (X,)))]),
        ("count /* ( */ // (\n $x", [Item(Name("count")), Item(X)]),
        ("sum(avg(min(max($x))))", [Item(Call("sum", (Call("avg", (Call("min", (Call("max", (X,)),)),)),)))]),
        ("as as as", [Item(Name("as"), "as")]),
        ("$x, as, as", [Item(X), Item(Name("as")), Item(Name("as"))]),
        ("$x desc asc limit", [Item(X), Item(Name("desc")), Item(Name("asc")), Item(Name("limit"))]),
        ("true as true", [Item(Literal("bool", True), "true")]),
        ("bm25($x.p, $q)", [Item(Call("bm25", (P, Q)))]),
        ("nearest($x.p, $q) as d", [Item(Call("nearest", (P, Q)), "d")]),
        (
            "rrf(nearest($x.p, $q), bm25($x.p, $q))",
            [Item(Call("rrf", (Call("nearest", (P, Q)), Call("bm25", (P, Q)))))],
        ),
        (
            "rrf(bm25($x.p, $q), bm25($x.p, $q), $a)",
            [Item(Call("rrf", (Call("bm25", (P, Q)), Call("bm25", (P, Q)), A)))],
        ),
        ("$x.match $x.true $x.not", [Item(PropRef("x", name)) for name in ("match", "true", "not")]),
    ],
)  # fmt: skip
def test_items(source, expected):
    assert items(source) == tuple(expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("$x.p", [SortKey(P)]),
        ("$x.p asc", [SortKey(P, "asc")]),
        ("$x.p desc, y", [SortKey(P, "desc"), SortKey(Name("y"))]),
        ("asc asc, desc desc", [SortKey(Name("asc"), "asc"), SortKey(Name("desc"), "desc")]),
        ("asc, desc", [SortKey(Name("asc")), SortKey(Name("desc"))]),
        ("nearest($x.p, $q)", [SortKey(Call("nearest", (P, Q)))]),
        ("nearest desc", [SortKey(Name("nearest"), "desc")]),
        ("bm25($x.p, $q) asc", [SortKey(Call("bm25", (P, Q)), "asc")]),
    ],
)
def test_sort_keys(source, expected):
    assert order(source) == tuple(expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("insert T { a: 1 }", [Insert("T", (Entry("a", whole(1)),))]),
        ("insert T { a: 1 b: $q, }", [Insert("T", (Entry("a", whole(1)), Entry("b", Q)))]),
        (
            "insert T { a: 1 insert: 2 true: 3 not: 4 as: 5 }",
            [
                Insert(
                    "T",
                    tuple(
                        Entry(name, whole(at))
                        for at, name in enumerate(("a", "insert", "true", "not", "as"), start=1)
                    ),
                )
            ],
        ),
        (
            "update T set { a: now() } where b != $q",
            [Update("T", (Entry("a", Now()),), Comparison(Name("b"), "!=", Q))],
        ),
        ('delete T where from = "n"', [Delete("T", Comparison(Name("from"), "=", text("n")))]),
        (
            "delete T where where = 1 delete T where delete < 2",
            [
                Delete("T", Comparison(Name("where"), "=", whole(1))),
                Delete("T", Comparison(Name("delete"), "<", whole(2))),
            ],
        ),
    ],
)
def test_statements(source, expected):
    assert statements(source) == tuple(expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"a"', text("a")),
        ('""', text("")),
        (r'"\"\\\n\r\t"', text('"\\\n\r\t')),
        ('"two\nlines // no comment"', text("two\nlines // no comment")),
        ('"naïve ☃"', text("naïve ☃")),
        ("0", whole(0)),
        ("-0", whole(0)),
        ("007", whole(7)),
        ("0" * 5000 + "1", whole(1)),
        ("9223372036854775807", whole(2**63 - 1)),
        ("-9223372036854775808", whole(-(2**63))),
        ("1.5", Literal("float", 1.5)),
        ("-0.25", Literal("float", -0.25)),
        ("10.0", Literal("float", 10.0)),
        ("true", Literal("bool", True)),
        ("false", Literal("bool", False)),
        ('date("2020-01-02")', Literal("date", "2020-01-02")),
        ('date ( "any text" )', Literal("date", "any text")),
        ('datetime("2020-01-02T03:04:05Z")', Literal("datetime", "2020-01-02T03:04:05Z")),
        ("[]", Literal("list", ())),
        ("[1]", Literal("list", (whole(1),))),
        (
            '[1, "a", [true]]',
            Literal("list", (whole(1), text("a"), Literal("list", (Literal("bool", True),)))),
        ),
        ('[date("d")]', Literal("list", (Literal("date", "d"),))),
    ],
)
def test_literals(source, expected):
    ((_, right),) = [(each.left, each.right) for each in clauses(f"$x.p = {source}")]
    assert right == expected
    assert clauses(f"$x: T {{ p: {source} }}") == (Binding("x", "T", (Entry("p", expected),)),)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        *((scalar.value, PropType(scalar)) for scalar in Scalar),
        ("String?", PropType(Scalar.STRING, nullable=True)),
        ("[I32]", PropType(Scalar.I32, is_list=True)),
        ("[ Blob ] ?", PropType(Scalar.BLOB, nullable=True, is_list=True)),
        ("Vector(4)", PropType(Scalar.F32, dim=4)),
        ("Vector ( 4 ) ?", PropType(Scalar.F32, nullable=True, dim=4)),
        # The checker judges the size, so that the message carries its rule.
        ("Vector(0)", PropType(Scalar.F32, dim=0)),
        ("Vector(4294967296)", PropType(Scalar.F32, dim=2**32)),
    ],
)
def test_parameter_types(source, expected):
    query = one(f"query q($a: {source}) {{ delete T where a = $a }}")
    assert query.params == (Param("a", expected),)


def test_declaration():
    query = one(
        'query find($a: I32, $b: Bool?) @instruction("how") @description("what") {'
        " match { $x: T } return { $x } order { $x.p } limit 3 }"
    )
    assert query == ast.Query(
        "find",
        (Param("a", PropType(Scalar.I32)), Param("b", PropType(Scalar.BOOL, nullable=True))),
        ast.ReadBody((Binding("x", "T"),), (Item(X),), (SortKey(P),), 3),
        "what",
        "how",
    )
    assert not query.is_mutation


def test_declaration_without_options():
    query = one("query q() { match { $x: T } return { $x } }")
    assert query == ast.Query("q", (), ast.ReadBody((Binding("x", "T"),), (Item(X),)))


def test_duplicate_parameters_are_for_the_checker():
    assert len(one("query q($a: I32, $a: I32) { delete T where a = $a }").params) == 2


def test_mutations_are_told_apart():
    assert one("query q() { delete T where a = 1 }").is_mutation


@pytest.mark.parametrize("source", ["", " \t\r\n", "// only\n", "/* only\n * this */", "//"])
def test_a_file_may_hold_no_query(source):
    assert parse(source) == ast.QueryFile(())


def test_several_queries_need_no_separator():
    source = "query a(){delete T where a=1}query b(){match{$x:T}return{$x}}"
    assert [query.name for query in parse(source).queries] == ["a", "b"]


def test_comments_stand_between_any_two_tokens():
    bare = 'query q ( $a : I32 ? ) { match { $x : T { p : "//" } } return { $x . p as y } limit 1 }'
    spaced = bare.replace(" ", ' // $ } " \n /* $ } " // */ ')
    assert parse(spaced) == parse(bare)


WORDS = (
    "query match return order limit as asc desc contains starts_with insert update delete set "
    "where true false description instruction now date datetime "
) + " ".join(ast.FUNCTIONS)


@pytest.mark.parametrize("word", WORDS.split())
def test_no_word_is_reserved(word):
    read = one(
        f"query {word}(${word}: I32) {{ match {{ ${word}: T {{ {word}: 1 }} $a {word} $b"
        f" $a <{word}> $b ${word} ${word}:{word} ${word} ${word}.{word} = 1 }}"
        f" return {{ ${word}.{word} as {word} }} order {{ {word} }} }}"
    )
    var, prop = Var(word), PropRef(word, word)
    sort = Literal("bool", word == "true") if word in {"true", "false"} else Name(word)
    assert read == ast.Query(
        word,
        (Param(word, PropType(Scalar.I32)),),
        ast.ReadBody(
            (
                Binding(word, "T", (Entry(word, whole(1)),)),
                Traversal(A, (word,), B),
                Traversal(A, (word,), B, undirected=True),
                Traversal(var, (word,), var, edge_var=var),
                Comparison(prop, "=", whole(1)),
            ),
            (Item(prop, word),),
            (SortKey(sort),),
        ),
    )
    assert statements(
        f"insert T {{ a: 1 {word}: 2 }} update T set {{ {word}: 1 }} where {word} = 1"
    ) == (
        Insert("T", (Entry("a", whole(1)), Entry(word, whole(2)))),
        Update("T", (Entry(word, whole(1)),), Comparison(Name(word), "=", whole(1))),
    )


def test_every_node_knows_its_place():
    source = (
        'query q($a: [I32]?) @description("d") {\n'
        '  match { $x: T { p: $a, q: "s" }\n'
        "    $x $e:<knows>{1,2} $y\n"
        "    not { $x.p >= -1.5 } search($x.p, [1]) }\n"
        "  return { now() as n, name }\n"
        "  order { $x.p desc }\n"
        "}"
    )
    query = one(source)
    body = query.body
    assert isinstance(body, ast.ReadBody)
    binding, hop, negation, search = body.match
    inner = negation.clauses[0]
    places = {
        query.span: source,
        query.name_span: "q",
        query.params[0].span: "$a: [I32]?",
        binding.span: '$x: T { p: $a, q: "s" }',
        binding.type_span: "T",
        binding.entries[0].span: "p: $a",
        binding.entries[0].value.span: "$a",
        binding.entries[1].value.span: '"s"',
        hop.span: "$x $e:<knows>{1,2} $y",
        hop.src.span: "$x",
        hop.dst.span: "$y",
        hop.edge_var.span: "$e",
        hop.word_span: "knows",
        hop.hops.span: "{1,2}",
        negation.span: "not { $x.p >= -1.5 }",
        inner.span: "$x.p >= -1.5",
        inner.left.span: "$x.p",
        inner.right.span: "-1.5",
        search.span: "search($x.p, [1])",
        search.call.args[1].span: "[1]",
        search.call.args[1].value[0].span: "1",
        body.items[0].span: "now() as n",
        body.items[0].expr.span: "now()",
        body.items[1].span: "name",
        body.order[0].span: "$x.p desc",
    }
    for span, expected in places.items():
        assert source[span.start : span.end] == expected
    assert inner.span == Span(source.index("$x.p >="), source.index(" } search"), 4, 11)


def test_every_statement_knows_its_place():
    source = 'query q() { insert T { a: date("d"), } update U set { b: 1 } where c = 2 delete V where d = 3 }'
    body = one(source).body
    assert isinstance(body, ast.WriteBody)
    insert, update, delete = body.statements
    places = [
        (insert.span, 'insert T { a: date("d"), }'),
        (insert.type_span, "T"),
        (insert.entries[0].value.span, 'date("d")'),
        (update.span, "update U set { b: 1 } where c = 2"),
        (update.type_span, "U"),
        (update.where.span, "c = 2"),
        (delete.span, "delete V where d = 3"),
        (delete.type_span, "V"),
        (delete.where.right.span, "3"),
    ]
    assert [source[span.start : span.end] for span, _ in places] == [part for _, part in places]


def test_lines_are_counted_in_comments_and_strings():
    source = 'query q() { /* one\ntwo */ match { $x: T { p: "a\nb" } $y: U } return { $x } }'
    body = one(source).body
    assert isinstance(body, ast.ReadBody)
    assert body.match[1].span == Span(source.index("$y"), source.index("$y") + 5, 3, 6)


@pytest.mark.parametrize(
    "nested",
    [
        lambda depth: "not { " * depth + "$x: T" + " }" * depth,
        lambda depth: "$x.p = " + "[" * depth + "]" * depth,
        lambda depth: "1 = " + "count(" * depth + "$x" + ")" * depth,
    ],
)
def test_nesting_is_bounded(nested):
    assert clauses(nested(NESTING_LIMIT))
    with pytest.raises(ParseError, match=f"nest at most {NESTING_LIMIT} deep"):
        clauses(nested(NESTING_LIMIT + 1))
    with pytest.raises(ParseError, match="nest at most"):
        clauses(nested(100_000))


def test_blocks_side_by_side_are_not_nesting():
    assert len(clauses("not { $x.p = [[1]] } " * 200)) == 200


def test_threads_do_not_see_each_other():
    def fault(number: int) -> tuple[str | None, int | None]:
        try:
            parse("\n" * number + "query q() { match { } return { $x } }", f"{number}.gq")
        except ParseError as error:
            return error.filename, error.span and error.span.line
        return None, None

    numbers = range(200)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(fault, numbers)) == [(f"{n}.gq", n + 1) for n in numbers]
