import pytest

from omnigraph.errors import ParseError
from omnigraph.lang.schema import parse
from omnigraph.lang.schema.syntax import ast
from omnigraph.types import PropType, Scalar


def the_node(text):
    (node,) = parse(text).nodes
    return node


def test_an_empty_source_is_a_schema_without_types():
    assert parse("") == ast.Schema()
    assert parse(" \t\r\n// only remarks\n/* here */") == ast.Schema()


def test_trivia_may_stand_between_any_two_tokens():
    spaced = (
        "node/**/Kiln//x\n@\towner\r\n(\n'".replace("'", '"')
        + 'me"/* a * b */,\nsince = 5 ) { heat : [ I32 ] ? @ range ( heat , - 1 .. 2 ) }'
    )
    assert parse(spaced) == parse(
        'node Kiln @owner("me", since=5) { heat: [I32]? @range(heat, -1..2) }'
    )


def test_comments_do_not_nest():
    assert [node.name.text for node in parse("/* /* */ node Kiln {}").nodes] == ["Kiln"]


def test_strings_may_span_lines_and_know_five_escapes():
    node = the_node('node Kiln @description("a\nb\\n\\r\\t\\"\\\\// /* no comment */") {}')
    assert node.annotations[0].value == ast.Literal("string", 'a\nb\n\r\t"\\// /* no comment */')


def test_a_range_of_integers_is_not_read_as_a_float():
    node = the_node("node K { a: F64 @range(a, 0..1) @range(a, 0.5..1.5) @range(a, ..2.0) }")
    bounds = [(each.min, each.max) for each in node.constraints]
    assert bounds == [
        (ast.Bound("0"), ast.Bound("1")),
        (ast.Bound("0.5"), ast.Bound("1.5")),
        (None, ast.Bound("2.0")),
    ]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("String", PropType(Scalar.STRING)),
        ("DateTime?", PropType(Scalar.DATETIME, nullable=True)),
        ("Date", PropType(Scalar.DATE)),
        ("[U64]", PropType(Scalar.U64, is_list=True)),
        ("[F32]?", PropType(Scalar.F32, nullable=True, is_list=True)),
        ("Vector(2147483647)", PropType(Scalar.F32, dim=2147483647)),
        ("enum(b, a-1, 2nd)", PropType(Scalar.STRING, enum_values=("2nd", "a-1", "b"))),
    ],
)
def test_types(written, expected):
    assert the_node(f"node K {{ p: {written} }}").properties[0].type == expected


def test_constraint_words_are_annotations_until_a_parenthesis():
    node = the_node("node K { a: String @key  b: I32 @unique @index @unique(a, b) }")
    assert [[each.name for each in prop.annotations] for prop in node.properties] == [
        ["key"],
        ["unique", "index"],
    ]
    assert node.constraints == (ast.Group("unique", (ast.Name("a"), ast.Name("b"))),)


def test_arguments_keep_their_kind():
    node = the_node('node K @a(word) @b("text") @c(30) @d(0.50) @e(true) @f(1, g="h", i=false) {}')
    values = [(each.value.kind, each.value.text) for each in node.annotations]
    assert values == [
        ("word", "word"),
        ("string", "text"),
        ("int", "30"),
        ("float", "0.50"),
        ("bool", "true"),
        ("int", "1"),
    ]
    assert node.annotations[-1].keywords == (
        (ast.Name("g"), ast.Literal("string", "h")),
        (ast.Name("i"), ast.Literal("bool", "false")),
    )


def test_an_edge_may_go_without_body_and_be_followed_by_anything():
    tree = parse("edge A: N -> N @card(0..1) @x node N {} edge B: N -> N edge C: N -> N {}")
    assert [edge.name.text for edge in tree.edges] == ["A", "B", "C"]
    assert tree.edges[0].cardinality == ast.Cardinality(0, 1)
    assert tree.edges[1].cardinality is None


def test_spans_point_at_names():
    text = "node Kiln {\n  heat: I32\n}\nedge Warms: Kiln -> Kiln"
    tree = parse(text)
    heat = tree.nodes[0].properties[0].name.span
    target = tree.edges[0].to_type.span
    assert text[heat.start : heat.end] == "heat"
    assert (heat.line, heat.column) == (2, 3)
    assert (target.start, target.end) == (text.rindex("Kiln"), len(text))
    assert (target.line, target.column) == (4, 21)


def test_spans_take_no_part_in_equality():
    assert parse("node A {}") == parse("\n\n  node  A\n{ }")


@pytest.mark.parametrize("digits", ["9" * 5000, "0" * 5000 + "9" * 12])
def test_endless_numbers_are_refused_not_converted(digits):
    with pytest.raises(ParseError, match="Vector dimension"):
        parse(f"node K {{ v: Vector({digits}) }}")
    with pytest.raises(ParseError, match="cardinality"):
        parse(f"edge E: K -> K @card(0..{digits})")


def test_leading_zeros_count_for_nothing():
    assert parse("node K { v: Vector(0003) }") == parse("node K { v: Vector(3) }")


def test_a_lone_surrogate_is_a_fault_of_the_text():
    with pytest.raises(ParseError) as caught:
        parse('node K @description("\ud800") {}')
    assert (caught.value.span.start, caught.value.span.end) == (21, 22)


def test_the_file_is_named():
    with pytest.raises(ParseError) as caught:
        parse("nod Kiln {}", "kilns.pg")
    assert " --> kilns.pg:1:1\n" in caught.value.render()


@pytest.mark.parametrize(
    "text",
    ["node K { v: Vector(%s.5) }", "edge E: K -> K @card(%s.5..)", "edge E: K -> K @card(0..%s.5)"],
)
def test_a_long_number_is_refused_without_being_read_again_from_every_digit(text):
    # Quadratic reading would not end within a minute.
    with pytest.raises(ParseError, match=r"expected .*(dimension|bound), found `1111"):
        parse(text % ("1" * 300_000))


def test_an_accent_that_is_a_character_of_its_own_belongs_to_the_name_shown():
    with pytest.raises(ParseError, match="ASCII") as caught:
        parse("node K { cafe\u0301s: I32 }")
    span = caught.value.span
    assert "node K { cafe\u0301s: I32 }"[span.start : span.end] == "cafe\u0301s"
