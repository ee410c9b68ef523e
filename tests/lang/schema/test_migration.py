import dataclasses

import pytest

from omnigraph.errors import UnsupportedMigration
from omnigraph.lang.schema import compile_schema, create, plan
from omnigraph.lang.schema.catalog_of import catalog_of
from omnigraph.lang.schema.lint import CODES, Severity, Tier
from omnigraph.lang.schema.migrate import data_steps
from omnigraph.lang.schema.migrate import plan_steps as all_steps
from omnigraph.lang.schema.migrate.plan_steps import SchemaStep
from omnigraph.lang.schema.migrate.read_steps import read_step
from omnigraph.lang.schema.shape import Check, Embed, Group, Range

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def accepted(text):
    return create(compile_schema(text).shape, DOMAIN)


def test_a_plan_leads_to_the_desired_catalog():
    old = accepted("node Boat { reg: String @key  len: F64? }")
    desired = 'node Vessel @rename_from("Boat") { lamp: String? @index  reg: String @key }'
    found = plan(old, desired)
    assert found.supported
    vessel = catalog_of(found.target_ir).nodes["Vessel"]
    assert list(vessel.properties) == ["lamp", "reg"]
    assert vessel.type_id == old.nodes[0].type_id
    assert plan(found.target_ir, desired).steps == ()


def test_planning_takes_a_text_or_a_shape():
    old = accepted("node A {}")
    text = "node A { x: I32? }"
    assert plan(old, text) == plan(old, compile_schema(text).shape)


def test_the_json_of_a_plan():
    found = plan(accepted("node A {}"), "node A {} node B {}")
    assert found.to_json() == {
        "supported": True,
        "step_count": 1,
        "steps": [{"kind": "add_type", "type_kind": "node", "name": "B"}],
    }


def test_an_unsupported_plan_is_refused_with_its_first_reason():
    found = plan(accepted("node A { x: I32 }"), "node A { x: String  y: I32 }")
    assert not found.supported
    with pytest.raises(UnsupportedMigration) as caught:
        found.require_supported()
    assert str(caught.value).startswith("[OG-MF-106] ")
    assert caught.value.details == {"code": "OG-MF-106", "entity": "node:A.x"}
    assert found.steps[0].describe().startswith("unsupported [OG-MF-106, destructive], node:A.x: ")


@pytest.mark.parametrize(
    ("desired", "remedy"),
    [
        (
            "node A { x: String }",
            "add a property of the new type, fill it by a mutation, and drop the old one",
        ),
        (
            "node A { x: I32  y: I32 }",
            "write I32?, or `@default(value)`; declare it like that, and fill what is null",
        ),
        (
            "node A { x: I32 @key }",
            "load the nodes into it under their new ids, and drop the old one",
        ),
        ("node A { x: I32 @owner }", "declare a new type with the change and move the data there"),
    ],
)
def test_a_refusal_says_what_to_do_instead(desired, remedy):
    found = plan(accepted("node A { x: I32 }"), desired)
    with pytest.raises(UnsupportedMigration) as caught:
        found.require_supported()
    assert str(caught.value).endswith(remedy)


def test_a_reason_without_code_has_no_label():
    found = plan(accepted("node A { x: I32 }"), "node A { x: I32 @owner }")
    with pytest.raises(UnsupportedMigration) as caught:
        found.require_supported()
    reason = "the annotations of `A.x` cannot change: `@owner`"
    assert str(caught.value).startswith(f"{reason}; ")
    assert caught.value.details == {"code": None, "entity": "node:A.x"}
    assert found.steps[0].describe() == f"unsupported, node:A.x: {reason}"


def test_a_supported_plan_is_not_refused():
    plan(accepted("node A {}"), "").require_supported()


def test_a_difference_no_step_describes_is_unsupported():
    # Markers belong to interface properties; on a node they say nothing a step could change.
    old = accepted("node A { x: I32 @index }")
    (node,) = old.nodes
    marked = dataclasses.replace(node.shape.properties[0], markers=("index",))
    shape = dataclasses.replace(node.shape, properties=(marked,))
    record = dataclasses.replace(node, shape=shape)
    odd = dataclasses.replace(old, nodes=(record,))
    found = plan(odd, "node A { x: I32 @index }")
    assert [step.to_json()["entity"] for step in found.steps] == ["schema"]
    assert not found.supported


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("node A {}", "node A {} node B {}", "add node B"),
        ("node A {}", 'node B @rename_from("A") {}', "rename node A to B"),
        ("node A {}", "node A { x: I32? }", "add A.x: I32?"),
        ("node A { x: I32? }", "node A {}", "drop A.x (soft)"),
        ("node A { x: I32 }", "node A { x: I32? }", "make A.x nullable"),
        ("node A { x: I32 }", "node A { x: I32 @index }", "add @index(x) on node A"),
        ("node A { x: I32 @index }", "node A { x: I32 }", "drop @index(x) on node A"),
        ("node A { x: enum(a) }", "node A { x: enum(a, b, c) }", "add to A.x: b, c"),
        (
            "node A {} edge E: A -> A @card(0..1)",
            "node A {} edge E: A -> A @card(0..2)",
            "relax the cardinality of E from 0..1 to 0..2",
        ),
        (
            "node A {} edge E: A -> A @card(0..2)",
            "node A {} edge E: A -> A @card(1..2)",
            "tighten the cardinality of E from 0..2 to 1..2",
        ),
        ("node A { x: I32? }", "node A { x: I32 }", "make A.x required"),
        ("node A { x: F32 }", "node A { x: F64 }", "widen A.x from F32 to F64"),
        ("node A { x: enum(a, b, c) }", "node A { x: enum(b) }", "remove from A.x: a, c"),
        (
            "node A { x: I32  y: String }",
            'node A { x: I32  y: String  @range(x, ..9)  @check(y, "a\\\\d\\"") }',
            'add @check(y, "a\\\\d\\"") on node A\nadd @range(x, ..9) on node A',
        ),
        (
            "node A { x: I32  @range(x, 0..)  @unique(x) }",
            "node A { x: I32 }",
            "drop @range(x, 0..) on node A\ndrop @unique(x) on node A",
        ),
        (
            "node A { t: String  v: Vector(2)? @embed(t) }",
            'node A { t: String  v: Vector(2)? @embed(t, model="m") }',
            "change the @embed of A.v from t to t by m",
        ),
    ],
)
def test_steps_in_words(old, new, words):
    assert "\n".join(step.describe() for step in plan(accepted(old), new).steps) == words


def test_the_codes_are_the_published_ones():
    emitted = {code.code for code in CODES.values() if code.emitted}
    assert emitted == {"OG-DS-102", "OG-DS-103", "OG-DS-104", "OG-MF-103", "OG-MF-106"}
    assert set(CODES) - emitted == {"OG-DS-101", "OG-DS-105", "OG-MF-104"}
    assert {code.tier for code in CODES.values() if code.code.startswith("OG-DS")} == {
        Tier.DESTRUCTIVE
    }
    assert CODES["OG-MF-103"].tier is Tier.VALIDATED
    assert CODES["OG-MF-106"].tier is Tier.DESTRUCTIVE
    assert CODES["OG-DS-104"].severity is Severity.WARN


STEP_KINDS = [
    kind
    for kind in {**vars(all_steps), **vars(data_steps)}.values()
    if isinstance(kind, type) and issubclass(kind, SchemaStep) and "kind" in vars(kind)
]
OF_FIELDS = {
    "constraint": Group("unique", ("a", "b")),
    "added_values": ("x",),
    "removed_values": ("x",),
    "annotations": ({"name": "description", "value": "d"},),
    "warnings": ("W1",),
    "type_kind": "edge",
    "mode": "hard",
}


@pytest.mark.parametrize("kind", STEP_KINDS)
def test_a_step_can_be_read_back_from_its_json(kind):
    given = {one.name: OF_FIELDS.get(one.name, one.name) for one in dataclasses.fields(kind)}
    if kind is data_steps.ChangeEmbed:
        given |= {"from_": Embed("a", None), "to": Embed("b", "m")}
    step = kind(**given)
    assert read_step(step.to_json()) == step
    plain = kind(**{**given, **({"warnings": ()} if "warnings" in given else {})})
    assert read_step(plain.to_json()) == plain


@pytest.mark.parametrize("constraint", [Range("x", 1, None), Range("x", -1.5, 2), Check("x", "^a")])
def test_every_kind_of_constraint_can_be_read_back(constraint):
    step = all_steps.AddConstraint("node", "A", constraint)
    assert read_step(step.to_json()) == step


def test_every_kind_of_step_is_tried():
    assert len(STEP_KINDS) == 20
