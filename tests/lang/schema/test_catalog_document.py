"""The document of the types of a schema: every member, once as it is and once as it is not."""

from __future__ import annotations

import omnigraph as og
from omnigraph.lang.schema.catalog_document import catalog_document

SCHEMA = """
interface Named { name: String }
node Person @description("who") implements Named {
  name: String @key
  mail: String? @unique
  bio: String? @index @description("in words")
  age: I32? @index
  mood: enum(good, bad)?
  tags: [String]?
  vec: Vector(3)? @embed("bio", model="m") @index
  first: String?
  last: String?
  photo: Blob?
  @unique(first, last)
  @range(age, 0..150)
  @check(mail, "@")
}
node Pair { a: I64  b: String  @key(a, b) }
edge MemberOf: Person -> Pair @card(1..3) { since: Date? }
edge Knows: Person -> Person
"""


def document():
    return catalog_document(og.parse_schema(SCHEMA).catalog, "hash")


def named(entries):
    return {entry["name"]: entry for entry in entries}


def test_every_type_is_there():
    shown = document()
    assert list(shown) == ["schema_hash", "nodes", "edges", "interfaces"]
    assert shown["schema_hash"] == "hash"
    person = named(shown["nodes"])["Person"]
    assert (person["key"], person["implements"], person["description"]) == (
        ["name"],
        ["Named"],
        "who",
    )
    assert sorted(named(shown["nodes"])["Pair"]["key"]) == ["a", "b"]
    edges = named(shown["edges"])
    assert {key: value for key, value in edges["MemberOf"].items() if key != "properties"} == {
        "name": "MemberOf",
        "word": "memberOf",
        "from": "Person",
        "to": "Pair",
        "card": {"min": 1, "max": 3},
    }
    assert edges["Knows"]["card"] == {"min": 0}
    assert [one["name"] for one in edges["MemberOf"]["properties"]] == ["since"]
    (interface,) = shown["interfaces"]
    assert [one["name"] for one in interface["properties"]] == ["name"]


def test_every_fact_of_a_property():
    person = named(named(document()["nodes"])["Person"]["properties"])
    plain = {"nullable": True, "list": False, "unique": False, "constraints": []}
    assert person == {
        "name": {"name": "name", "type": "String", **plain, "nullable": False, "unique": True},
        "mail": {
            "name": "mail",
            "type": "String",
            **plain,
            "unique": True,
            "index": "btree",
            "constraints": ['@check(mail, "@")'],
        },
        "bio": {
            "name": "bio",
            "type": "String",
            **plain,
            "index": "text",
            "description": "in words",
        },
        "age": {
            "name": "age",
            "type": "I32",
            **plain,
            "index": "btree",
            "constraints": ["@range(age, 0..150)"],
        },
        "mood": {"name": "mood", "type": "enum", **plain, "enum": ["bad", "good"]},
        "tags": {"name": "tags", "type": "String", **plain, "list": True},
        "vec": {
            "name": "vec",
            "type": "Vector",
            **plain,
            "vector_dim": 3,
            "metric": "l2",
            "index": "vector",
            "embed": {"source": "bio", "model": "m"},
        },
        "first": {
            "name": "first",
            "type": "String",
            **plain,
            "index": "btree",
            "constraints": ["@unique(first, last)"],
        },
        "last": {
            "name": "last",
            "type": "String",
            **plain,
            "index": "btree",
            "constraints": ["@unique(first, last)"],
        },
        "photo": {"name": "photo", "type": "Blob", **plain},
    }


def test_the_hash_changes_with_the_schema(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        first = graph.catalog_document()
        assert first == {**document(), "schema_hash": first["schema_hash"]}
        graph.load([{"type": "Person", "data": {"name": "ada"}}])
        assert graph.catalog_document() == first
        graph.schema.apply(SCHEMA + "node City { name: String @key }")
        assert graph.catalog_document()["schema_hash"] != first["schema_hash"]
