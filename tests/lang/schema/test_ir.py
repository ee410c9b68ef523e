import copy
import json

import pytest

from omnigraph.errors import IdentityError
from omnigraph.lang.schema import compile_schema, create
from omnigraph.lang.schema.catalog_of import catalog_of
from omnigraph.lang.schema.read_ir import read_ir
from omnigraph.lang.schema.shape import canonical_json, digest

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
SOURCE = """
interface Named {
  name: String @index
  vec: Vector(4)? @embed("bio")
}
interface Noted { name: String @index  note: String? @description("free") }
node Person @description("someone") @owner("ops", since=2020, area="x") implements Named, Noted {
  mail: String @unique
  bio: String?
  age: I32?
  born: Date
  face: Blob?
  tags: [String]
  mood: enum(good, bad)
  @key(mail, born)
  @range(age, 0..150)
  @check(mail, "@")
}
edge Knows: Person -> Person @card(0..5) {
  since: Date? @index
  weight: F64?
  @unique(src, dst)
}
"""


@pytest.fixture
def ir():
    return create(compile_schema(SOURCE).shape, DOMAIN)


def test_it_reads_back_what_it_wrote(ir):
    for stored in (ir.to_json(), json.dumps(ir.to_json()), canonical_json(ir.to_json()).encode()):
        again = read_ir(stored)
        assert again == ir
        assert again.ir_hash == ir.ir_hash
        assert again.shape.shape_hash == compile_schema(SOURCE).shape.shape_hash
        assert catalog_of(again) == catalog_of(ir)


def test_it_keeps_the_order_of_the_source(ir):
    person = catalog_of(read_ir(ir.to_json())).nodes["Person"]
    assert list(person.properties) == [
        "mail",
        "bio",
        "age",
        "born",
        "face",
        "tags",
        "mood",
        "name",
        "vec",
        "note",
    ]


def test_it_says_what_it_is(ir):
    stored = ir.to_json()
    assert stored["ir_version"] == 2
    assert stored["schema_identity_domain"] == DOMAIN
    assert stored["next_identity_id"] == ir.next_identity_id
    assert [node["name"] for node in stored["nodes"]] == ["Person"]
    (edge,) = stored["edges"]
    person = stored["nodes"][0]
    reference = {"type_id": person["type_id"], "name": "Person"}
    assert edge["from"] == edge["to"] == reference
    unique = next(each for each in edge["constraints"] if each["kind"] == "unique")
    assert unique["properties"] == [{"role": "dst"}, {"role": "src"}]
    properties = {each["name"]: each for each in person["properties"]}
    assert [each["name"] for each in person["properties"]] == sorted(properties)
    vec, bio = properties["vec"], properties["bio"]
    assert vec["declared_directly"] is False
    assert vec["embed"]["source"] == {"property_id": bio["property_id"], "name": "bio"}
    assert [each["interface"]["name"] for each in properties["name"]["satisfies"]] == [
        "Named",
        "Noted",
    ]


def test_the_hash_covers_every_member(ir):
    stored = ir.to_json()
    assert ir.ir_hash == digest(stored)
    stored["next_identity_id"] += 1
    assert read_ir(stored).ir_hash != ir.ir_hash


def _set(path, value):
    def change(stored):
        *parents, last = path
        for step in parents:
            stored = stored[step]
        stored[last] = value(stored[last]) if callable(value) else value

    return change


def _delete(*path):
    def change(stored):
        *parents, last = path
        for step in parents:
            stored = stored[step]
        del stored[last]

    return change


PERSON = ("nodes", 0)
AGE = (*PERSON, "properties", 0)
MALFORMED = {
    "version": _set(["ir_version"], 3),
    "no version": _delete("ir_version"),
    "domain": _set(["schema_identity_domain"], "mine"),
    "unknown member": _set(["colour"], "blue"),
    "missing section": _delete("edges"),
    "section that is no list": _set(["nodes"], {}),
    "type that is no object": _set(PERSON, "Person"),
    "type name": _set([*PERSON, "name"], "person"),
    "type id zero": _set([*PERSON, "type_id"], 0),
    "type id text": _set([*PERSON, "type_id"], "3"),
    "type id true": _set([*PERSON, "type_id"], True),
    "id at the counter": _set(["next_identity_id"], 5),
    "counter beyond u64": _set(["next_identity_id"], 2**64),
    "id used twice": _set([*PERSON, "table_incarnation_id"], 1),
    "no incarnation": _delete(*PERSON, "table_incarnation_id"),
    "incarnation of an interface": _set(["interfaces", 0, "table_incarnation_id"], 99),
    "types out of order": _set(["interfaces"], lambda types: types[::-1]),
    "properties out of order": _set([*PERSON, "properties"], lambda each: each[::-1]),
    "constraints out of order": _set([*PERSON, "constraints"], lambda each: each[::-1]),
    "interfaces out of order": _set([*PERSON, "implements"], lambda each: each[::-1]),
    "keywords out of order": _set(
        [*PERSON, "annotations", 1, "keywords"], lambda pairs: pairs[::-1]
    ),
    "keyword that is no pair": _set([*PERSON, "annotations", 1, "keywords", 0], ["area"]),
    "type twice": _set(["nodes"], lambda nodes: [*nodes, copy.deepcopy(nodes[0])]),
    "property twice": _set([*PERSON, "properties"], lambda all_: [all_[0], *all_]),
    "property name": _set([*AGE, "name"], "Age"),
    "reserved property": _set([*AGE, "name"], "_rowid"),
    "implicit column": _set([*AGE, "name"], "id"),
    "property type": _set([*AGE, "type"], {"scalar": "Int"}),
    "position": _set([*AGE, "position"], 7),
    "negative position": _set([*AGE, "position"], -1),
    "direct as text": _set([*AGE, "declared_directly"], "yes"),
    "marker": _set(["interfaces", 0, "properties", 0, "markers"], ["range"]),
    "unknown interface": _set([*PERSON, "implements", 0, "name"], "Nemo"),
    "interface id of another": _set([*PERSON, "implements", 0, "type_id"], 2),
    "unknown endpoint": _set(["edges", 0, "to", "name"], "Robot"),
    "endpoint id of another": _set(["edges", 0, "to", "type_id"], 1),
    "no endpoint": _delete("edges", 0, "from"),
    "cardinality": _set(["edges", 0, "cardinality", "max"], 2**32),
    "constraint kind": _set([*PERSON, "constraints", 0, "kind"], "rule"),
    "constraint of a stranger": _set(["edges", 0, "constraints", 0, "properties"], [{"name": "x"}]),
    "bound": _set(
        [*PERSON, "constraints"],
        lambda all_: [{**each, "min": "0"} if each["kind"] == "range" else each for each in all_],
    ),
    "embed of a stranger": _set(
        [*PERSON, "properties"],
        lambda all_: [
            {**each, "embed": {"source": {"name": "x"}, "model": None}} if each["embed"] else each
            for each in all_
        ],
    ),
    "satisfied stranger": _set(
        [*PERSON, "properties"],
        lambda all_: [
            {**each, "satisfies": [{"interface": {"type_id": 1, "name": "Named"}}]} for each in all_
        ],
    ),
}


@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_record_is_refused(ir, change):
    stored = copy.deepcopy(ir.to_json())
    change(stored)
    with pytest.raises(IdentityError, match="malformed"):
        read_ir(stored)


@pytest.mark.parametrize(
    "stored", ["", "{", "[]", "null", "7", b"\xff", "[" * 100_000, '{"ir_version": 2}', None, 5.0]
)
def test_what_is_no_record_is_refused(stored):
    with pytest.raises(IdentityError, match="malformed"):
        read_ir(stored)


def test_an_empty_schema_is_a_record():
    ir = create(compile_schema("").shape, DOMAIN)
    assert ir.next_identity_id == 1
    assert read_ir(ir.to_json()) == ir


def test_a_repeated_member_is_refused_in_stored_text(ir):
    text = json.dumps(ir.to_json())
    with pytest.raises(IdentityError, match=r"'next_identity_id'.* repeated"):
        read_ir(f'{{"next_identity_id": 1, {text[1:]}')
    with pytest.raises(IdentityError, match="repeated"):
        read_ir(text.replace('"type_id":', '"type_id": 1, "type_id":', 1))


@pytest.mark.parametrize("word", ["", "two words", "é", "\ud800", "a,b"])
def test_an_enum_value_that_no_source_can_write_is_refused(ir, word):
    stored = ir.to_json()
    (mood,) = [each for each in stored["nodes"][0]["properties"] if each["name"] == "mood"]
    mood["type"]["enum"] = sorted(["bad", word])
    with pytest.raises(IdentityError, match="'mood'"):
        read_ir(stored)
