import pickle

import pyarrow as pa
import pytest

from omnigraph.lang.schema import compile_schema, create, evolve
from omnigraph.lang.schema.catalog import Property
from omnigraph.lang.schema.catalog_of import catalog_of
from omnigraph.lang.schema.indexes import declared_indexes, index_kind
from omnigraph.lang.schema.shape import Check, Embed, Range
from omnigraph.types import PropType, Scalar

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def catalog(text):
    return compile_schema(text).catalog


def test_a_node_as_the_engine_sees_it():
    crate = catalog(
        """
        interface Tagged { tag: String @key }
        interface Noted { note: String? @index }
        node Crate @description("a box") implements Tagged, Noted {
          mass: F64
          size: I32?
          body: String
          scan: Blob?
          vec: Vector(8)? @embed(body, model="acme")
          @range(size, 1..9)
          @range(mass, 0..)
          @check(body, ".")
          @unique(size, mass)
        }
        """
    ).nodes["Crate"]
    assert crate.implements == ("Noted", "Tagged")
    assert crate.key == ("tag",)
    assert crate.index == (("note",), ("tag",))
    assert crate.unique == (("mass", "size"),)
    assert crate.ranges == (Range("mass", 0.0, None), Range("size", 1, 9))
    assert crate.checks == (Check("body", "."),)
    assert dict(crate.embeds) == {"vec": Embed("body", "acme")}
    assert crate.blob_properties == ("scan",)
    assert crate.table_key == "node:Crate"
    assert [(each.name, each.value) for each in crate.annotations] == [("description", "a box")]


def test_a_catalog_travels_to_other_processes():
    found = catalog("interface I { x: I32? } node A implements I {} edge E: A -> A")
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert again.edge("e") == found.edges["E"]


def test_edges_are_found_without_regard_to_case():
    found = catalog("node Ship {} edge TowedBy: Ship -> Ship edge Leads: Ship -> Ship")
    for word in ("TowedBy", "towedby", "TOWEDBY", "towedBy"):
        assert found.edge(word) is found.edges["TowedBy"]
    assert found.edge("towed_by") is None


def test_a_composite_key_keeps_the_order_of_its_ids_under_renames():
    old = create(
        compile_schema("node Slot { bay: String  wing: String @key(wing, bay) }").shape, DOMAIN
    )
    assert catalog_of(old).nodes["Slot"].key == ("bay", "wing")
    new, _ = evolve(
        old,
        compile_schema(
            """
            node Slot {
              aisle: String @rename_from("wing")
              zone: String @rename_from("bay")
              @key(aisle, zone)
            }
            """
        ).shape,
    )
    slot = catalog_of(new).nodes["Slot"]
    assert slot.key == ("zone", "aisle")
    assert slot.index == (("aisle", "zone"),)


def test_the_columns_of_a_node():
    found = catalog("node A { z: I32?  b: [String]  v: Vector(3)  t: DateTime }").nodes["A"]
    schema = found.arrow_schema()
    assert schema.names == ["id", "z", "b", "v", "t"]
    assert schema.field("id") == pa.field("id", pa.utf8(), nullable=False)
    assert schema.field("z") == pa.field("z", pa.int32(), nullable=True)
    assert schema.field("b").type == pa.list_(pa.field("item", pa.utf8()))
    assert schema.field("v").type == pa.list_(pa.field("item", pa.float32()), 3)
    assert schema.field("t") == pa.field("t", pa.timestamp("ms", tz="UTC"), nullable=False)
    assert schema.field("id").metadata == {b"lance-schema:unenforced-primary-key": b"true"}
    for name, prop in found.properties.items():
        assert schema.field(name).metadata == {
            b"omnigraph.stable_property_id": str(prop.property_id).encode()
        }


def test_the_columns_of_an_edge():
    edge = catalog("node A {} edge E: A -> A { w: F64? }").edges["E"]
    schema = edge.arrow_schema()
    assert schema.names == ["id", "src", "dst", "w"]
    for name in ("id", "src", "dst"):
        assert schema.field(name).type == pa.utf8()
        assert not schema.field(name).nullable
    assert schema.field("src").metadata is None
    assert edge.table_key == "edge:E"
    assert (edge.cardinality.min, edge.cardinality.max) == (0, None)


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        *((PropType(scalar), "btree") for scalar in Scalar if scalar not in ("String", "Blob")),
        (PropType(Scalar.STRING), "fts"),
        (PropType(Scalar.STRING, enum_values=("a",)), "btree"),
        (PropType(Scalar.F32, dim=4), "vector"),
        (PropType(Scalar.STRING, is_list=True), None),
        (PropType(Scalar.BLOB), None),
    ],
)
def test_one_kind_of_index_for_each_type(type_, kind):
    assert index_kind(Property("p", type_, 1)) == kind


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("k: String @key", []),
        ("k: String @key @index", [("k", "fts")]),
        ("k: I64 @key", [("k", "btree")]),
        ("k: enum(a, b) @key", [("k", "btree")]),
        ("a: String  b: I32 @key(a, b)", [("a", "fts"), ("b", "btree")]),
        ("a: Date?  b: String? @index(a, b)", [("a", "btree"), ("b", "fts")]),
        ("a: String @unique", [("a", "btree")]),
        ("a: String @unique @index", [("a", "btree"), ("a", "fts")]),
        ("a: I32 @unique", []),
        ("v: Vector(2) @index  b: Bool @index @index(b)", [("b", "btree"), ("v", "vector")]),
        ("a: String  b: String", []),
    ],
)
def test_what_is_declared_is_built(body, expected):
    assert list(declared_indexes(catalog(f"node A {{ {body} }}").nodes["A"])) == expected


def test_edge_properties_are_indexed_and_its_ends_are_anyway():
    edges = catalog("node A {} edge E: A -> A { s: Date? @index @unique(src, dst) @index(src) }")
    assert list(declared_indexes(edges.edges["E"])) == [("s", "btree")]
