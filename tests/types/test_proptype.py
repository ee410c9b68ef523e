import subprocess
import sys

import pyarrow as pa
import pytest

from omnigraph.types import PropType, Scalar, Unfit

UTC_MS = pa.timestamp("ms", tz="UTC")

# Spelling, the type, its storage (schema.md 3.1 and 3.2).
TYPES = [
    ("String", PropType(Scalar.STRING), pa.utf8()),
    ("Bool", PropType(Scalar.BOOL), pa.bool_()),
    ("I32", PropType(Scalar.I32), pa.int32()),
    ("I64", PropType(Scalar.I64), pa.int64()),
    ("U32", PropType(Scalar.U32), pa.uint32()),
    ("U64", PropType(Scalar.U64), pa.uint64()),
    ("F32", PropType(Scalar.F32), pa.float32()),
    ("F64", PropType(Scalar.F64), pa.float64()),
    ("Date", PropType(Scalar.DATE), pa.date32()),
    ("DateTime", PropType(Scalar.DATETIME), UTC_MS),
    ("Blob", PropType(Scalar.BLOB), pa.large_binary()),
    ("[String]", PropType(Scalar.STRING, is_list=True), pa.list_(pa.utf8())),
    ("[DateTime]", PropType(Scalar.DATETIME, is_list=True), pa.list_(UTC_MS)),
    ("Vector(4)", PropType(Scalar.F32, dim=4), pa.list_(pa.float32(), 4)),
    ("enum(a, b-2)", PropType(Scalar.STRING, enum_values=("a", "b-2")), pa.utf8()),
]


@pytest.mark.parametrize(("text", "t", "storage"), TYPES)
def test_a_type_is_shown_and_stored_as_the_language_says(text, t, storage):
    assert t.display == text
    assert str(t.as_nullable()) == f"{text}?"
    assert t.arrow_type() == storage
    assert t.arrow_field("p") == pa.field("p", storage, nullable=False)
    assert t.as_nullable().arrow_field("p") == pa.field("p", storage, nullable=True)


@pytest.mark.parametrize(("text", "t", "storage"), TYPES)
def test_spelling_and_stored_form_read_back(text, t, storage):
    for each in (t, t.as_nullable()):
        assert PropType.parse(each.display) == each
        assert PropType.from_ir(each.to_ir()) == each


@pytest.mark.parametrize("text", ["[I64]", "Vector(3)"])
def test_items_of_lists_and_vectors_are_nullable_and_named_item(text):
    item = PropType.parse(text).arrow_type().value_field
    assert (item.name, item.nullable) == ("item", True)


def test_enum_order_carries_no_meaning():
    assert PropType.parse("enum(b, a)") == PropType.parse("enum(a, b)")
    assert PropType.parse("enum(b, a)").display == "enum(a, b)"
    assert PropType.parse("enum(a)") != PropType.parse("enum(a, b)")
    assert PropType.parse("enum(a)") != PropType(Scalar.STRING)


def test_equality_takes_in_base_list_flag_nullability_and_dimension():
    spellings = ["I32", "I64", "[I32]", "I32?", "[I32]?", "F32", "Vector(2)", "Vector(3)"]
    assert len({PropType.parse(text) for text in spellings}) == len(spellings)


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        ("I32", {"is_integer", "is_numeric"}),
        ("U64?", {"is_integer", "is_numeric"}),
        ("F64", {"is_float", "is_numeric"}),
        ("F32?", {"is_float", "is_numeric"}),
        ("[F32]", set()),
        ("[I64]", set()),
        ("Vector(2)", {"is_vector"}),
        ("enum(a)", {"is_enum"}),
        ("Blob?", {"is_blob"}),
        ("String", set()),
        ("Bool", set()),
        ("Date", set()),
    ],
)
def test_traits(text, traits):
    t = PropType.parse(text)
    names = {"is_vector", "is_enum", "is_blob", "is_integer", "is_float", "is_numeric"}
    assert {name for name in names if getattr(t, name)} == traits


@pytest.mark.parametrize(
    ("text", "element"),
    [("[String]?", "String"), ("[U64]", "U64"), ("I32?", "I32"), ("Vector(2)?", "Vector(2)")],
)
def test_element(text, element):
    assert PropType.parse(text).element == PropType.parse(element)


def test_only_enums_restrict_their_values():
    t = PropType.parse("enum(draft, final)?")
    assert t.allows("draft")
    assert t.allows(None)
    assert not t.allows("Draft")
    assert PropType(Scalar.STRING).allows("anything")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "string",
        "Int",
        "String??",
        "[String",
        "[[I32]]",
        "[Blob]",
        "[Vector(2)]",
        "[enum(a)]",
        "Vector(0)",
        "Vector(2147483648)",
        "Vector()",
        "Vector(-1)",
        "enum()",
        "enum(a b)",
    ],
)
def test_what_is_not_a_type_is_unfit(text):
    with pytest.raises(Unfit):
        PropType.parse(text)


def test_the_largest_vector():
    assert PropType.parse("Vector(2147483647)").dim == 2147483647


@pytest.mark.parametrize(
    "ir",
    [
        None,
        "String",
        {},
        {"scalar": "Text"},
        {"scalar": ["String"]},
        {"scalar": "String", "nullable": 1},
        {"scalar": "String", "nullable": False},
        {"scalar": "String", "extra": 1},
        {"scalar": "String", "enum": []},
        {"scalar": "String", "enum": ["b", "a"]},
        {"scalar": "String", "enum": ["a", "a"]},
        {"scalar": "String", "enum": "ab"},
        {"scalar": "String", "enum": [1]},
        {"scalar": "I32", "enum": ["a"]},
        {"scalar": "String", "enum": ["a"], "list": True},
        {"scalar": "Blob", "list": True},
        {"scalar": "F32", "dim": 0},
        {"scalar": "F32", "dim": True},
        {"scalar": "F32", "dim": 2.0},
        {"scalar": "F64", "dim": 2},
        {"scalar": "F32", "dim": 2, "list": True},
    ],
)
def test_a_malformed_stored_type_is_unfit(ir):
    with pytest.raises(Unfit):
        PropType.from_ir(ir)


def test_importing_the_types_loads_neither_arrow_nor_numpy():
    code = "import sys, omnigraph.types; print({'pyarrow', 'numpy', 'pandas'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "set()"
