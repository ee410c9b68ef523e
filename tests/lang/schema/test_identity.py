import pytest

from omnigraph.errors import IdentityError
from omnigraph.lang.schema import compile_schema, create, evolve
from omnigraph.lang.schema.ir import MAX_ID, Ir
from omnigraph.lang.schema.read_ir import read_ir

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def shape(text):
    return compile_schema(text).shape


def accepted(text):
    return create(shape(text), DOMAIN)


def ids(ir):
    """Every id by the entity it belongs to; incarnations are marked `#`."""
    found = {}
    for type_ in ir:
        entity = type_.shape.entity
        found[entity] = type_.type_id
        found |= {f"{entity}.{name}": each for name, each in type_.property_ids.items()}
        if type_.table_incarnation_id is not None:
            found[f"{entity}#"] = type_.table_incarnation_id
    return found


def test_ids_are_given_by_kind_and_name_then_by_owner_then_to_tables():
    ir = accepted(
        """
        edge Calls: Ship -> Port { at: Date }
        node Ship implements Named { imo: I64 }
        node Port { code: String  berth: I32 }
        interface Named { name: String }
        """
    )
    assert ids(ir) == {
        "interface:Named": 1,
        "node:Port": 2,
        "node:Ship": 3,
        "edge:Calls": 4,
        "interface:Named.name": 5,
        "node:Port.berth": 6,
        "node:Port.code": 7,
        "node:Ship.imo": 8,
        "node:Ship.name": 9,
        "edge:Calls.at": 10,
        "node:Port#": 11,
        "node:Ship#": 12,
        "edge:Calls#": 13,
    }
    assert ir.next_identity_id == 14
    assert ir.schema_identity_domain == DOMAIN


def test_a_domain_is_minted_when_none_is_given():
    first, second = create(shape("")), create(shape(""))
    assert len(first.schema_identity_domain) == 26
    assert first.schema_identity_domain != second.schema_identity_domain
    assert read_ir(first.to_json()) == first


def test_names_and_hints_carry_identities_over():
    old = accepted("node Boat { reg: String  len: F64? } edge Passes: Boat -> Boat")
    new, diagnostics = evolve(
        old,
        shape(
            """
            node Vessel @rename_from("Boat") { len: F64?  registry: String @rename_from("reg") }
            edge Passes: Vessel -> Vessel { at: Date? }
            node Quay {}
            """
        ),
    )
    before, after = ids(old), ids(new)
    assert diagnostics == ()
    assert after["node:Vessel"] == before["node:Boat"]
    assert after["node:Vessel#"] == before["node:Boat#"]
    assert after["node:Vessel.registry"] == before["node:Boat.reg"]
    assert after["node:Vessel.len"] == before["node:Boat.len"]
    assert after["edge:Passes#"] == before["edge:Passes#"]
    fresh = old.next_identity_id
    assert after["node:Quay"] == fresh
    assert after["edge:Passes.at"] == fresh + 1
    assert after["node:Quay#"] == fresh + 2
    assert new.next_identity_id == fresh + 3


def test_what_was_dropped_never_comes_back():
    first = accepted("node A { x: I32? } node B {}")
    without, _ = evolve(first, shape("node A {}"))
    again, _ = evolve(without, shape("node A { x: I32? } node B {}"))
    spent = set(ids(first).values())
    assert ids(again)["node:A"] == ids(first)["node:A"]
    for entity in ("node:A.x", "node:B", "node:B#"):
        assert ids(again)[entity] not in spent
    assert without.next_identity_id == first.next_identity_id


def test_two_properties_may_cross():
    old = accepted("node Slot { bay: String  wing: String  @key(bay, wing) }")
    new, _ = evolve(
        old,
        shape(
            """
            node Slot {
              aisle: String @rename_from("wing")
              zone: String @rename_from("bay")
              @key(aisle, zone)
            }
            """
        ),
    )
    assert ids(new)["node:Slot.zone"] == ids(old)["node:Slot.bay"]
    assert ids(new)["node:Slot.aisle"] == ids(old)["node:Slot.wing"]


def test_a_hint_on_an_interface_moves_the_injected_properties():
    old = accepted("interface I { a: I32? } node N implements I {} node M implements I { a: I32? }")
    new, diagnostics = evolve(
        old,
        shape(
            """
            interface I { b: I32? @rename_from("a") }
            node N implements I {}
            node M implements I { a: I32? }
            """
        ),
    )
    assert diagnostics == ()
    assert ids(new)["interface:I.b"] == ids(old)["interface:I.a"]
    assert ids(new)["node:N.b"] == ids(old)["node:N.a"]
    # M still declares `a` itself, so the injected `b` is new there.
    assert ids(new)["node:M.a"] == ids(old)["node:M.a"]
    assert ids(new)["node:M.b"] >= old.next_identity_id


def test_hints_of_accepted_names_are_remarked_once():
    text = """
    interface I { a: I32? @rename_from("z") }
    node N @rename_from("O") implements I { x: I32? @rename_from("y") }
    """
    _, diagnostics = evolve(accepted(text), shape(text))
    assert sorted(each.entity for each in diagnostics) == ["interface:I.a", "node:N", "node:N.x"]
    assert all("rename_from" in each.message for each in diagnostics)


def test_hints_are_inert_at_creation():
    compiled = compile_schema('node Vessel @rename_from("Boat") { hull: String @rename_from("s") }')
    assert [each.entity for each in compiled.diagnostics] == ["node:Vessel", "node:Vessel.hull"]
    assert ids(create(compiled.shape, DOMAIN)) == ids(accepted("node Vessel { hull: String }"))


def test_an_identity_error_points_at_the_hint():
    text = 'node A {}\nnode B @rename_from("C") {}'
    with pytest.raises(IdentityError) as caught:
        evolve(accepted("node A {}"), shape(text))
    span = caught.value.span
    assert (span.line, text[span.start : span.end]) == (2, "@rename_from")
    assert caught.value.details["entity"] == "node:B"


def test_numbers_run_out_some_day():
    old = accepted("node A {}")
    last = Ir(DOMAIN, MAX_ID - 1, old.interfaces, old.nodes, old.edges)
    grown, _ = evolve(last, shape("interface I {} node A {}"))
    assert grown.next_identity_id == MAX_ID
    with pytest.raises(IdentityError, match="used up"):
        evolve(last, shape("node A {} node B {}"))
