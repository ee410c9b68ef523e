import pytest

from omnigraph.errors import CatalogError, ParseError
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema.shape import Annotation, Check, Embed, Group, Range


def shape(text):
    return compile_schema(text).shape


def node(text, name):
    return next(type_ for type_ in shape(text).nodes if type_.name == name)


SAME = {
    "order and comments": (
        "node A { x: I32  y: String }\nnode B {}\nedge E: A -> B",
        "// remark\nedge E: A -> B node B {} node A { y: String /* z */ x: I32 }",
    ),
    "order of enum values": ("node A { x: enum(b, a) }", "node A { x: enum(a, b) }"),
    "spelling of constraints": (
        "node A { x: I32 @key  y: I32 @unique @index }",
        "node A { x: I32  y: I32 @index(y, y) @unique(y) @key(x) }",
    ),
    "order inside a constraint": (
        "node A { x: I32  y: I32 @unique(x, y) }",
        "node A { x: I32  y: I32 @unique(y, x, y) }",
    ),
    "rename hints": ('node A @rename_from("B") { x: I32 @rename_from("y") }', "node A { x: I32 }"),
    "order and repeats of interfaces": (
        "interface I { x: I32 } interface J { y: I32 } node A implements J, I, J {}",
        "interface J { y: I32 } interface I { x: I32 } node A implements I, J {}",
    ),
    "injected or redeclared": (
        "interface I { x: I32 @index } node A implements I {}",
        "interface I { x: I32 @index } node A implements I { x: I32 }",
    ),
    "spelling of numbers": (
        "node A { x: F64  y: I64 @range(x, 0..5) @range(y, 1.0..) }",
        "node A { x: F64  y: I64 @range(x, -0.0..5.0) @range(y, 01..) }",
    ),
    "spelling of annotation values": (
        "node A @owner(me, b=1, a=2) {}",
        'node A @owner("me", a="2", b="1") {}',
    ),
    "default cardinality": ("node A {} edge E: A -> A", "node A {} edge E: A -> A @card(0..) {}"),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_sources_of_one_meaning_have_one_hash(pair):
    first, second = pair
    assert shape(first).shape_hash == shape(second).shape_hash


DIFFERENT = {
    "nullability": ("node A { x: I32 }", "node A { x: I32? }"),
    "enum values": ("node A { x: enum(a) }", "node A { x: enum(a, b) }"),
    "a group and its members": (
        "node A { x: I32  y: I32 @unique(x, y) }",
        "node A { x: I32  y: I32 @unique(x) @unique(y) }",
    ),
    "unknown annotations": ("node A @owner(me) {}", "node A {}"),
    "descriptions": ('node A { x: I32 @description("a") }', "node A { x: I32 }"),
    "direction": ("node A {} node B {} edge E: A -> B", "node A {} node B {} edge E: B -> A"),
    "implements": ("interface I {} node A implements I {}", "interface I {} node A {}"),
    "embed model": (
        "node A { x: String  v: Vector(2) @embed(x) }",
        'node A { x: String  v: Vector(2) @embed(x, model="m") }',
    ),
    "an unused interface's index": ("interface I { x: I32 @index }", "interface I { x: I32 }"),
    "bounds": ("node A { x: I32 @range(x, 0..) }", "node A { x: I32 @range(x, ..0) }"),
}


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_sources_of_two_meanings_have_two_hashes(pair):
    first, second = pair
    assert shape(first).shape_hash != shape(second).shape_hash


def test_the_hash_names_its_algorithm():
    algorithm, _, hexadecimal = shape("").shape_hash.partition(":")
    assert algorithm == "sha256"
    assert len(bytes.fromhex(hexadecimal)) == 32


def test_injected_properties_come_last_by_interface_then_in_its_order():
    crate = node(
        """
        interface Z { za: I32? }
        interface A { ab: I32?  aa: I32? }
        node Crate implements Z, A { own: I32  also: I32 }
        """,
        "Crate",
    )
    names = [(prop.name, prop.declared_directly, prop.satisfies) for prop in crate.properties]
    assert names == [
        ("own", True, ()),
        ("also", True, ()),
        ("ab", False, ("A",)),
        ("aa", False, ("A",)),
        ("za", False, ("Z",)),
    ]


def test_a_redeclared_property_keeps_its_annotations_and_inherits_the_constraints():
    crate = node(
        """
        interface Tagged { tag: String @key @index @description("from the interface") @pii }
        node Crate implements Tagged { tag: String @unique @description("own") }
        """,
        "Crate",
    )
    (tag,) = crate.properties
    assert tag.annotations == (Annotation("description", "own"),)
    assert crate.constraints == (
        Group("index", ("tag",)),
        Group("key", ("tag",)),
        Group("unique", ("tag",)),
    )


def test_a_key_declared_and_inherited_is_one_key():
    crate = node(
        "interface I { tag: String @key } node Crate implements I { tag: String @key }", "Crate"
    )
    assert crate.constraints == (Group("key", ("tag",)),)


def test_a_redeclared_vector_drops_the_interface_embed():
    text = "interface I { t: String  v: Vector(2) @embed(t) } node A implements I { v: Vector(2) }"
    assert node(text, "A").property("v").embed is None
    text = "interface I { t: String  v: Vector(2) @embed(t) } node A implements I {}"
    assert node(text, "A").property("v").embed == Embed("t")


def test_interfaces_that_agree_inject_once():
    bin_ = node(
        'interface A { x: I32? @rename_from("y") } interface B { x: I32? } node Bin implements B, A {}',
        "Bin",
    )
    (prop,) = bin_.properties
    assert prop.satisfies == ("A", "B")
    assert prop.hint.old_name == "y"


@pytest.mark.parametrize(
    "second",
    ["x: I64?", "x: I32? @pii", "x: I32? @unique", 'x: I32? @rename_from("z")', "x: [I32]?"],
)
def test_interfaces_that_disagree_need_the_node_to_decide(second):
    interfaces = f'interface A {{ x: I32? @rename_from("y") }} interface B {{ {second} }}'
    for listed in ("A, B", "B, A"):
        with pytest.raises(CatalogError) as caught:
            shape(f"{interfaces} node Bin implements {listed} {{}}")
        assert "Bin.x" in str(caught.value)
        assert caught.value.details["entity"] == "node:Bin.x"


@pytest.mark.parametrize(
    ("bounds", "type_", "low", "high"),
    [
        ("-50..50", "I64", -50, 50),
        ("..100", "U32", None, 100),
        ("0.5..", "I32", 0.5, None),
        ("0..18446744073709551615", "U64", 0, 18446744073709551615),
        ("-9223372036854775808..", "I64", -9223372036854775808, None),
        ("..18446744073709551616", "U64", None, 18446744073709551616),
        ("-12.5..60.0", "F64", -12.5, 60.0),
        ("..9007199254740993", "F64", None, 9007199254740993),
        ("- 0007..7", "F32", -7.0, 7.0),
    ],
)
def test_bounds_are_exact(bounds, type_, low, high):
    found = node(f"node A {{ x: {type_} @range(x, {bounds}) }}", "A").constraints
    assert found == (Range("x", low, high),)


def test_a_bound_beyond_every_number_is_refused():
    huge = "9" * 400
    with pytest.raises(ParseError, match=r"`@range` cannot use `A\.x`"):
        shape(f"node A {{ x: F64 @range(x, 0..{huge}) }}")


def test_several_ranges_and_checks_on_one_property_all_hold():
    found = node(
        r"""
        node A {
          x: I32
          s: enum(aa, ab)
          @range(x, 0..9)
          @range(x, 5..)
          @range(x, 0..9)
          @check(s, "^a")
          @check(s, "\\w$")
        }
        """,
        "A",
    ).constraints
    assert found == (
        Check("s", r"\w$"),
        Check("s", "^a"),
        Range("x", 0, 9),
        Range("x", 5, None),
    )


def test_unique_and_index_on_an_edge_may_name_its_ends():
    text = "node A {} edge E: A -> A { x: I32? @unique(src, dst) @index(dst, x) }"
    (edge,) = shape(text).edges
    assert edge.constraints == (Group("index", ("dst", "x")), Group("unique", ("dst", "src")))


def test_a_repeated_unknown_annotation_is_kept_once_per_text():
    assert node("node A @x @x(1) @x @x(1) {}", "A").annotations == (
        Annotation("x"),
        Annotation("x", "1"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "node A { src: String  dst: String }",
        "interface I { id: String }",
        "node A { _row_id: I32  _ROWID: I32  _rowid2: I32 }",
        "node Same {} interface Same {} edge Same: Same -> Same",
        "node A { k: enum(a, b) @key }",
        "node A { v: Vector(2) @index }",
        "node A {} edge E: A -> A { v: Vector(2) @index }",
    ],
)
def test_allowed(text):
    shape(text)


@pytest.mark.parametrize("word", ["key", "unique", "index", "embed", "range", "check"])
@pytest.mark.parametrize("head", ["node A @{} {{}}", "node A {{}} edge E: A -> A @{}"])
def test_words_of_properties_cannot_stand_on_a_type(word, head):
    with pytest.raises(ParseError, match=f"`@{word}` cannot stand on (node|edge) type `[AE]`"):
        shape(head.format(word))
