"""Which ids mean one element, and which a schema has given up (schema-branches.md, section 2)."""

import copy
from dataclasses import replace

import pytest

from omnigraph.errors import IdentityError
from omnigraph.lang.schema import compile_schema, create
from omnigraph.lang.schema.identities import Numbering, evolve
from omnigraph.lang.schema.joins import Joins, has_dropped
from omnigraph.lang.schema.migrate.migration import plan
from omnigraph.lang.schema.read_ir import read_ir

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def shape(source):
    return compile_schema(source).shape


def accepted(source):
    return create(shape(source), DOMAIN)


def test_a_schema_that_dropped_and_joined_nothing_is_stored_as_before():
    stored = accepted("node A { x: I32? }").to_json()
    assert "joined" not in stored
    assert "dropped" not in stored


def test_a_schema_lists_the_ids_it_dropped():
    first = accepted("node A { x: I32?  y: I32? } node B { z: I32? }")
    a, b = first.type("node", "A"), first.type("node", "B")
    without, _ = evolve(first, shape("node A { y: I32? }"))
    gone = [a.property_ids["x"], b.type_id, b.table_incarnation_id, b.property_ids["z"]]
    assert without.dropped == tuple(sorted(gone))
    assert without.to_json()["dropped"] == sorted(gone)
    later, _ = evolve(without, shape("node A { y: I32?  x: I32? }"))
    assert later.dropped == without.dropped
    assert later.type("node", "A").property_ids["x"] not in later.dropped
    assert read_ir(later.to_json()) == later


def test_a_renamed_element_is_not_dropped():
    first = accepted("node A { x: I32? }")
    after, _ = evolve(first, shape('node B @rename_from("A") { y: I32? @rename_from("x") }'))
    assert after.dropped == ()


def test_dropping_one_of_two_joined_ids_drops_both():
    first = replace(accepted("node A { x: I32? }"), next_identity_id=20, joined=((2, 19), (12, 19)))
    assert first.type("node", "A").property_ids["x"] == 2
    without, _ = evolve(first, shape("node A {}"))
    assert without.dropped == (2, 12, 19)
    assert without.joined == first.joined


def test_joins_hold_transitively_and_for_every_schema_in_play():
    one = replace(accepted("node A {}"), next_identity_id=40, joined=((12, 5), (31, 30)))
    other = replace(accepted("node A {}"), next_identity_id=40, joined=((20, 12),))
    joins = Joins(one, other)
    assert joins.all(20) == joins.all(5) == {5, 12, 20}
    assert joins.one(20) == joins.one(12) == joins.one(5) == 5
    assert joins.one(31) == 30
    assert joins.one(7) == 7
    assert joins.all(7) == {7}


def test_new_ids_come_from_the_counter_of_the_graph():
    first = accepted("node A {}")
    wanted = shape("node A { x: I32?  y: I32? } node B {}")
    assert plan(first, wanted).new_ids(first) == 4
    after, _ = evolve(first, wanted, Numbering(100))
    assert after.type("node", "B").type_id == 100
    assert set(after.type("node", "A").property_ids.values()) == {101, 102}
    assert after.type("node", "B").table_incarnation_id == 103
    assert after.next_identity_id == 104


def test_a_change_that_needs_no_ids_leaves_the_counter_of_the_schema():
    first = accepted("node A { x: I32? }")
    after, _ = evolve(first, shape('node A { x: I32? @description("d") }'), Numbering(100))
    assert after.next_identity_id == first.next_identity_id


def test_what_a_schema_never_had_it_has_not_dropped():
    main = accepted("node A { x: I32? }")
    without, _ = evolve(main, shape("node A {}"))
    joins = Joins(main, without)
    x = main.type("node", "A").property_ids["x"]
    assert has_dropped(without, x, joins)
    assert not has_dropped(without, 100, joins)


def test_a_schema_from_before_drops_were_recorded_dropped_the_numbers_it_lacks():
    first = accepted("node A { x: I32? }")
    x = first.type("node", "A").property_ids["x"]
    without = replace(evolve(first, shape("node A {}"))[0], dropped=())
    later, _ = evolve(without, shape("node A { y: I32? }"))
    later = replace(later, dropped=())
    y = later.type("node", "A").property_ids["y"]
    line = later.next_identity_id
    joins = Joins()
    assert has_dropped(later, x, joins, line)
    assert has_dropped(without, x, joins, line)
    # It was added later: the schema before it never had it.
    assert not has_dropped(without, y, joins, line)
    assert not has_dropped(first, y, joins, line)
    # The next change records it.
    recorded, _ = evolve(later, shape("node A { y: I32?  z: I32? }"), Numbering(line + 9, line))
    assert recorded.dropped == (x,)
    assert has_dropped(recorded, x, joins, line)
    # A branch made from the first schema, and changed there, never had what came after it.
    branch, _ = evolve(first, shape("node A { x: I32?  w: I32? }"), Numbering(line + 9, line))
    assert not has_dropped(branch, y, joins, line)


@pytest.fixture
def stored():
    ir = accepted("node A { x: I32? }")
    return replace(ir, next_identity_id=20, joined=((12, 2), (13, 2)), dropped=(15, 17)).to_json()


def changed(stored, **members):
    return {**copy.deepcopy(stored), **members}


def test_it_reads_back_joins_and_drops(stored):
    again = read_ir(stored)
    assert again.joined == ((12, 2), (13, 2))
    assert again.dropped == (15, 17)
    assert again.to_json() == stored


@pytest.mark.parametrize(
    "members",
    [
        {"dropped": []},
        {"joined": []},
        {"dropped": [17, 15]},
        {"dropped": [15, 15]},
        {"dropped": [20]},
        {"dropped": [0]},
        {"dropped": [2]},
        {"dropped": ["15"]},
        {"joined": [[13, 2], [12, 2]]},
        {"joined": [[12, 2], [12, 2]]},
        {"joined": [[12]]},
        {"joined": [12, 2]},
        {"joined": [[1, 2]]},
        {"joined": [[1, 12], [12, 2]]},
        {"joined": [[20, 2]]},
    ],
)
def test_malformed_joins_and_drops_are_refused(stored, members):
    with pytest.raises(IdentityError, match="malformed"):
        read_ir(changed(stored, **members))
