"""`@default`: what it may be, where it may stand, and what it changes in a schema."""

import pickle

import pytest

from omnigraph.errors import IdentityError, ParseError
from omnigraph.lang.schema import compile_schema, create, plan
from omnigraph.lang.schema.catalog_document import catalog_document
from omnigraph.lang.schema.catalog_of import catalog_of
from omnigraph.lang.schema.read_ir import read_ir

DOMAIN = "01J00000000000000000000000"


def ir_of(text):
    return create(compile_schema(text).shape, DOMAIN)


def default_of(declared):
    prop = compile_schema(f"node T {{ p: {declared} }}").catalog.nodes["T"].properties["p"]
    return prop.default


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ('String @default("a\\nb")', "a\nb"),
        ('String @default("")', ""),
        ("I32 @default(-2147483648)", -(2**31)),
        ("U64 @default(18446744073709551615)", 2**64 - 1),
        ("F64? @default(5)", 5.0),
        ("F32 @default(0.5)", 0.5),
        ("Bool @default(false)", False),
        ("enum(up, Down, x-1) @default(x-1)", "x-1"),
        ('enum(up, Down)? @default("Down")', "Down"),
        ("enum(1, true) @default(1)", "1"),
        ("enum(1, true) @default(true)", "true"),
        ('Date @default("1970-01-03")', 2),
        ('DateTime @default("1970-01-01T00:00:01Z")', 1000),
        ("[I64] @default([1, -2])", (1, -2)),
        ("[String]? @default([])", ()),
        ('[Date] @default(["1970-01-02"])', (1,)),
    ],
)
def test_a_default_is_a_value_of_its_type(declared, stored):
    found = default_of(declared)
    assert found == stored
    assert type(found) is type(stored)


@pytest.mark.parametrize(
    ("members", "literal", "words"),
    [
        ("p: I32 @default(1.5)", "1.5", "I32"),
        ("p: I32 @default(2147483648)", "2147483648", "I32"),
        ("p: U32 @default(-1)", "-1", "U32"),
        ('p: I64? @default("7")', '"7"', "I64"),
        ("p: String @default(7)", "7", "quotes"),
        ("p: String @default(word)", "word", "quotes"),
        ("p: String? @default(null)", "null", "left out"),
        ("p: Bool @default(1)", "1", "Bool"),
        ("p: enum(a, b) @default(c)", "c", "enum(a, b)"),
        ('p: Date @default("2023-02-29")', '"2023-02-29"', "Date"),
        ("p: [I32] @default(1)", "1", "[I32]"),
        ('p: [I32] @default([1, "x"])', '[1, "x"]', "element 2"),
        ("p: I32 @default([1])", "[1]", "I32"),
        ("p: F32 @default(1" + "0" * 39 + ")", "1" + "0" * 39, "F32"),
        ("p: F64 @default(1" + "0" * 5000 + ")", "1" + "0" * 5000, "digits"),
        ("p: I32 @default(5) @range(p, 0..4)", "5", "@range"),
        ("p: F64 @default(-0.5) @range(p, 0..)", "-0.5", "@range"),
        ('p: String @default("A1") @check(p, "^[a-z]+$")', '"A1"', "@check"),
        ('p: String @key @default("x")', '"x"', "@key"),
        ('p: String @default("x") q: I32 @key(p, q)', '"x"', "@key"),
        ('p: Blob @default("base64:")', "@default", "Blob"),
        ("p: Vector(2) @default([1, 2])", "@default", "vector"),
        ("q: String  p: Vector(2) @embed(q) @default(1)", "@default", "vector"),
        ("p: I32? @default", "@default", "value"),
    ],
)
def test_anything_else_is_refused_at_its_place(members, literal, words):
    source = f"node T {{ {members} }}"
    with pytest.raises(ParseError) as caught:
        compile_schema(source)
    error = caught.value
    assert "@default" in str(error)
    assert "T.p" in str(error)
    assert words in error.render()
    assert error.span is not None
    assert source[error.span.start : error.span.end] == literal


@pytest.mark.parametrize(
    "text",
    [
        'node T @default("x") { p: I32 }',
        "edge E: T -> T @default(1)  node T { p: I32 }",
        "node T { p: I32 @default(1) @default(2) }",
        "interface I { p: I32 @key @default(1) }",
        "interface I { p: I32 @default(7) }  node T implements I { @range(p, 0..5) }",
        "interface I { p: String @default(7) }",
        "node T { p: I32 @default() }",
        "node T { p: I32 @default(1, two=2) }",
        "node T { p: [I32] @default([[1]]) }",
    ],
)
def test_a_default_stands_once_and_on_properties_alone(text):
    with pytest.raises(ParseError) as caught:
        compile_schema(text)
    assert caught.value.span is not None


def test_a_value_within_its_rules_is_taken():
    text = 'node T { a: I32 @default(4) b: String @default("ab") @range(a, 0..4) @check(b, "^[a-z]+$") }'
    assert dict(compile_schema(text).catalog.nodes["T"].defaults) == {"a": 4, "b": "ab"}


def test_the_default_of_an_interface_is_that_of_its_nodes():
    text = (
        "interface I { p: I32 @default(7) }  node T implements I {}  node U implements I { p: I32 }"
    )
    nodes = compile_schema(text).catalog.nodes
    assert (nodes["T"].defaults, nodes["U"].defaults) == ({"p": 7}, {})


def test_edges_have_defaults():
    catalog = compile_schema("node T {}  edge E: T -> T { w: F64 @default(1) }").catalog
    assert catalog.edges["E"].defaults == {"w": 1.0}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("F64 @default(5)", "F64 @default(5.0)"),
        ("F32 @default(0.1)", "F32 @default(0.10)"),
        ("enum(a, b) @default(a)", 'enum(b, a) @default("a")'),
        ('Date @default("2024-02-29")', "Date @default(19782)"),
        ('DateTime @default("2024-01-01")', 'DateTime @default("2024-01-01T00:00:00Z")'),
        ("I32 @default(7)", "I32 @default(007)"),
        ("[I32] @default([1,2])", "[I32] @default([ 1 , 2 ])"),
    ],
)
def test_the_spelling_of_a_default_means_nothing(one, other):
    shapes = [compile_schema(f"node T {{ p: {each} }}").shape for each in (one, other)]
    assert shapes[0].shape_hash == shapes[1].shape_hash


def test_another_default_is_another_schema():
    texts = ("I32", "I32 @default(1)", "I32 @default(2)")
    hashes = {ir_of(f"node T {{ p: {each} }}").ir_hash for each in texts}
    assert len(hashes) == 3


def test_a_schema_without_defaults_has_the_hash_it_had_before_there_were_any():
    ir = ir_of('node T { p: I32 @description("d") }')
    digest = "66d075930c34439c7a93db6f533bfa0627b9088df3067ea5863422e97ad9086f"
    assert ir.ir_hash == f"sha256:{digest}"


def test_defaults_survive_storing_and_pickling():
    text = 'node T { a: [Date] @default(["2024-02-29"]) b: String? @default("[1]") c: F32 @default(0.1) }'
    ir = ir_of(text)
    again = read_ir(ir.to_json())
    assert again == ir
    catalog = pickle.loads(pickle.dumps(catalog_of(again)))
    assert catalog.nodes["T"].defaults == compile_schema(text).catalog.nodes["T"].defaults


def test_a_stored_default_that_does_not_fit_is_malformed():
    body = ir_of("node T { p: I32 @default(1) }").to_json()
    body["nodes"][0]["properties"][0]["annotations"][0]["value"] = "one"
    with pytest.raises(IdentityError, match="malformed"):
        read_ir(body)


def test_the_catalog_document_shows_defaults_as_json():
    text = 'node T { a: Date @default("2024-02-29") b: [F32]? @default([0.1]) c: I32 }'
    document = catalog_document(compile_schema(text).catalog, "h")
    shown = {one["name"]: one.get("default", "none") for one in document["nodes"][0]["properties"]}
    assert shown == {"a": "2024-02-29", "b": [0.1], "c": "none"}


@pytest.mark.parametrize(
    ("before", "after", "annotations"),
    [
        ("I32", "I32 @default(1)", [{"name": "default", "value": "1"}]),
        ("I32 @default(1)", "I32 @default(2)", [{"name": "default", "value": "2"}]),
        ("I32 @default(1)", "I32", []),
        (
            'String? @description("d")',
            'String? @description("d") @default("x")',
            [{"name": "default", "value": "x"}, {"name": "description", "value": "d"}],
        ),
    ],
)
def test_a_changed_default_is_metadata(before, after, annotations):
    accepted = ir_of(f"node T {{ p: {before} }}")
    found = plan(accepted, f"node T {{ p: {after} }}")
    assert [step.to_json() for step in found.steps] == [
        {
            "kind": "update_property_metadata",
            "type_kind": "node",
            "type_name": "T",
            "property_name": "p",
            "annotations": annotations,
        }
    ]
    assert found.supported


def test_a_default_respelled_is_no_change():
    assert (
        plan(ir_of("node T { p: F64 @default(1) }"), "node T { p: F64 @default(1.0) }").steps == ()
    )
