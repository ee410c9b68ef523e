"""`@valid(since, until)` in a schema: what is refused, what the catalog says, and how it migrates."""

import pickle

import pytest

from omnigraph.errors import ParseError
from omnigraph.lang.schema import compile_schema, create, plan
from omnigraph.lang.schema.catalog import Period
from omnigraph.lang.schema.catalog_document import catalog_document
from omnigraph.lang.schema.migrate.read_steps import read_step
from omnigraph.lang.schema.read_ir import read_ir
from omnigraph.lang.schema.shape import Valid
from omnigraph.lang.schema.syntax.parser import parse
from omnigraph.lang.schema.syntax.printer import render
from omnigraph.types import Scalar

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
HELD = "node P { slug: String @key  since: DateTime?  until: DateTime?  @valid(since, until) }"
FREE = "node P { slug: String @key  since: DateTime?  until: DateTime? }"


def accepted(text):
    return create(compile_schema(text).shape, DOMAIN)


def steps(old, new):
    planned = plan(accepted(old), new)
    assert read_ir(planned.target_ir.to_json()) == planned.target_ir
    return [step.to_json() for step in planned.steps]


REFUSED = {
    "one property": ("node P { a: Date? @valid(a) }", "P.a"),
    "three properties": ("node P { a: Date? b: Date? c: Date? @valid(a, b, c) }", "P.(a, b, c)"),
    "the same twice": ("node P { a: Date? @valid(a, a) }", "P.a"),
    "lists": ("node P { a: [Date]? b: [Date]? @valid(a, b) }", "P.a"),
    "a list as its end": ("node P { a: Date? b: [Date]? @valid(a, b) }", "P.b"),
    "texts": ("node P { a: Date? b: String? @valid(a, b) }", "P.b"),
    "both kinds": ("node P { a: Date? b: DateTime? @valid(a, b) }", "P.b"),
    "a required end": ("node P { a: Date? b: Date @valid(a, b) }", "P.b"),
    "an end in the key": ("node P { a: Date b: Date @key(a, b) @valid(a, b) }", "P.b"),
    "a nullable end in the key": ("node P { a: Date b: Date? @valid(a, b) @key(a, b) }", "P.b"),
    "an interface": ("interface I { a: Date? b: Date? @valid(a, b) }", "I.a"),
    "two periods": ("node P { a: Date? b: Date? c: Date? @valid(a, b) @valid(a, c) }", "P.(a, c)"),
    "the same period twice": ("node P { a: Date? b: Date? @valid(a, b) @valid(a, b) }", "P.(a, b)"),
    "an end of an edge": ("node P {} edge E: P -> P { b: Date? @valid(src, b) }", "src"),
    "an unknown property": ("node P { a: Date? @valid(a, z) }", "z"),
    "no brackets": ("node P { a: Date? @valid }", "P.a"),
    "the head of a type": ("node P @valid { a: Date? }", "P"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_period(name):
    text, place = REFUSED[name]
    with pytest.raises(ParseError) as refused:
        compile_schema(text)
    assert "@valid" in str(refused.value)
    assert place in str(refused.value)


def test_the_catalog_says_which_properties_form_the_period():
    found = compile_schema(
        "node P { a: Date b: Date? @valid(a, b) @key(a) } node Q {} "
        "edge E: P -> Q { since: DateTime? until: DateTime? @valid(since, until) }"
    ).catalog
    assert found.nodes["P"].period == Period("a", "b", Scalar.DATE)
    assert found.nodes["P"].period.is_date
    assert found.nodes["Q"].period is None
    assert found.edges["E"].period == Period("since", "until", Scalar.DATETIME)
    assert not found.edges["E"].period.is_date
    assert pickle.loads(pickle.dumps(found)) == found
    shown = catalog_document(found, "hash")["nodes"][0]["properties"]
    assert [prop["constraints"] for prop in shown] == [["@valid(a, b)"]] * 2


def test_a_period_may_come_of_an_interface():
    found = compile_schema(
        "interface Held { since: Date? until: Date? } node P implements Held { @valid(since, until) }"
    ).catalog
    assert found.nodes["P"].period == Period("since", "until", Scalar.DATE)


def test_the_word_stays_a_name():
    found = compile_schema("node P { valid: Date? @index  until: Date?  @valid(valid, until) }")
    assert found.catalog.nodes["P"].period.since == "valid"


def test_print_and_store():
    text = HELD.replace("@valid(since, until)", "@valid(until, since)")
    assert parse(render(parse(text))) == parse(text)
    assert compile_schema(text).shape.shape_hash != compile_schema(HELD).shape.shape_hash
    stored = accepted(text).to_json()
    assert read_ir(stored).nodes[0].shape.constraints[-1] == Valid("until", "since")
    assert stored["nodes"][0]["constraints"][-1]["kind"] == "valid"


def test_adding_and_removing_are_one_step_each():
    constraint = {"kind": "valid", "properties": ["since", "until"]}
    place = {"type_kind": "node", "type_name": "P"}
    added = {"kind": "add_constraint", **place, "constraint": constraint}
    assert steps(FREE, HELD) == [added]
    assert steps(HELD, FREE) == [{**added, "kind": "drop_constraint"}]
    assert read_step(added).describe() == "add @valid(since, until) on node P"


@pytest.mark.parametrize(
    "new",
    [
        HELD.replace("(since, until)", "(until, since)"),
        HELD.replace("  @valid", "  late: DateTime?  @valid").replace("until)", "late)"),
        HELD.replace("until", "late"),
    ],
    ids=["order", "another end", "its end dropped for another"],
)
def test_another_period_is_no_step(new):
    (change,) = [step for step in steps(HELD, new) if step["kind"] == "unsupported_change"]
    assert change["entity"] == "node:P"
    assert "@valid(since, until)" in change["reason"]


def test_a_period_follows_the_renames_of_its_properties():
    new = HELD.replace("since: DateTime?", 'begun: DateTime? @rename_from("since")')
    assert [step["kind"] for step in steps(HELD, new.replace("(since,", "(begun,"))] == [
        "rename_property"
    ]


def test_a_period_falls_with_its_property():
    new = "node P { slug: String @key  since: DateTime? }"
    assert [step["kind"] for step in steps(HELD, new)] == ["drop_property"]
