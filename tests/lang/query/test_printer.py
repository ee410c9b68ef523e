"""The canonical text of a tree, and that it reads back as the same tree."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from omnigraph.errors import ParseError
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.lang.query.syntax.printer import WIDTH, render
from tests.conformance.case_files import read_yaml
from tests.lang.query.query_trees import queries, query_files
from tests.sampling import examples

CASES = Path(__file__).parents[2] / "conformance" / "cases" / "query.yaml"


def conformance_sources() -> list[str]:
    cases = read_yaml(CASES)["cases"]
    runs = [run for case in cases for run in (case, *case.get("then", ()))]
    return sorted({run["query"] for run in runs})


def test_conformance_sources_survive_the_round_trip():
    sources = conformance_sources()
    parsed = 0
    for source in sources:
        try:
            tree = parse(source)
        except ParseError:
            continue
        parsed += 1
        assert parse(render(tree)) == tree, source
    assert parsed > 0.9 * len(sources) > 100


@settings(deadline=None, max_examples=examples(150))
@given(queries)
def test_any_query_survives_the_round_trip(query):
    text = render(query)
    assert parse(text).queries == (query,)
    assert render(parse(text)) == text


@settings(deadline=None, max_examples=15)
@given(query_files)
def test_any_file_survives_the_round_trip(file):
    assert parse(render(file)) == file


def test_layout_of_a_read():
    text = (
        'query q ( $a:String,$v :Vector(3)?, $l:[I32] ) @instruction("i") @description("d\\n") {'
        "match{$x:T{a:$a,b:[1,-2.50],}$y:U"
        '{}$x $e:<knows>{1,} $y not{search($x.p,"t") not { $x.p=now() }}}'
        "return{$x.p as p count($y),}order{p desc,$x.q}limit 007}"
    )
    assert render(parse(text)) == (
        "query q($a: String, $v: Vector(3)?, $l: [I32])\n"
        '  @description("d\\n")\n'
        '  @instruction("i")\n'
        "{\n"
        "  match {\n"
        "    $x: T { a: $a, b: [1, -2.5] }\n"
        "    $y: U\n"
        "    $x $e:<knows>{1,} $y\n"
        "    not {\n"
        '      search($x.p, "t")\n'
        "      not {\n"
        "        $x.p = now()\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "  return { $x.p as p, count($y) }\n"
        "  order { p desc, $x.q }\n"
        "  limit 7\n"
        "}\n"
    )


def test_layout_of_mutations():
    text = (
        'query w(){insert T{a:1 b:"x",}update T set{a:date("2020-01-01")}where b!=$c'
        ' delete T where from="y"}'
    )
    assert render(parse(text)) == (
        "query w() {\n"
        '  insert T { a: 1, b: "x" }\n'
        '  update T set { a: date("2020-01-01") } where b != $c\n'
        '  delete T where from = "y"\n'
        "}\n"
    )


def test_queries_are_separated_by_a_line():
    text = "query a() { delete T where a = 1 } query b() { delete T where a = 1 }"
    assert render(parse(text)).split("\n\n") == [
        "query a() {\n  delete T where a = 1\n}",
        "query b() {\n  delete T where a = 1\n}\n",
    ]


def test_one_query_renders_like_a_file_of_it():
    file = parse("query a() { delete T where a = 1 }")
    assert render(file.queries[0]) == render(file)


def test_no_queries_render_as_nothing():
    assert render(ast.QueryFile(())) == ""


def test_long_lists_are_broken_into_lines():
    names = [f"property_number_{n}" for n in range(9)]
    text = "query q() { match { $x: T } return { " + " ".join(f"$x.{n}" for n in names) + " } }"
    lines = render(parse(text)).splitlines()
    assert [f"    $x.{name}," for name in names[:-1]] == lines[5:13]
    assert lines[4] == "  return {"
    assert lines[13:] == [f"    $x.{names[-1]}", "  }", "}"]
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (-0.5, "-0.5"),
        (1e22, "10000000000000000000000.0"),
        (1.5e-7, "0.00000015"),
        (-0.0, "-0.0"),
    ],
)
def test_floats_have_no_exponent(value, text):
    item = ast.Item(ast.Literal("float", value))
    body = ast.ReadBody((ast.Binding("x", "T"),), (item,))
    assert f"return {{ {text} }}" in render(ast.Query("q", (), body))


def test_words_that_could_join_are_kept_apart():
    """`as` after a comma is an item of its own; without the comma it would start an alias."""
    text = "query q() { match { $x: T } return { $x, as, b } }"
    tree = parse(text)
    assert [item.alias for item in tree.queries[0].body.items] == [None, None, None]
    assert parse(render(tree)) == tree
