"""Rename hints after they did their work: no remark, and a text without them."""

import pytest

from omnigraph.lang.schema import compile_schema, create, plan
from omnigraph.lang.schema.migrate.migration import MigrationPlan
from omnigraph.lang.schema.syntax.hints import without_hints

FIRST = "node Boat { len: F64?  crew: I32? }"
RENAMED = 'node Vessel @rename_from("Boat") { length: F64? @rename_from("len")  crew: I32? }'


def step_from(accepted: str, desired: str, before: MigrationPlan | None = None) -> MigrationPlan:
    ir = create(compile_schema(accepted).shape) if before is None else before.target_ir
    return plan(ir, desired, accepted_source=accepted)


def test_a_hint_that_was_used_gets_no_remark():
    renamed = step_from(FIRST, RENAMED)
    assert [step.kind for step in renamed.steps] == ["rename_type", "rename_property"]
    assert renamed.diagnostics == ()
    again = step_from(RENAMED, RENAMED, renamed)
    assert (again.steps, again.diagnostics) == ((), ())
    clean = step_from(RENAMED, without_hints(RENAMED), renamed)
    assert (clean.steps, clean.diagnostics) == ((), ())


def test_a_used_hint_stays_harmless_beside_other_changes():
    renamed = step_from(FIRST, RENAMED)
    more = RENAMED.replace("crew: I32?", "crew: I32?  flag: String?")
    found = step_from(RENAMED, more, renamed)
    assert [step.kind for step in found.steps] == ["add_property"]
    assert found.diagnostics == ()
    other = RENAMED.replace('node Vessel @rename_from("Boat")', 'node Ship @rename_from("Vessel")')
    found = step_from(RENAMED, other, renamed)
    assert [step.kind for step in found.steps] == ["rename_type"]
    assert found.diagnostics == ()


def test_a_hint_that_never_did_anything_gets_a_remark():
    found = step_from(FIRST, 'node Boat @rename_from("Ship") { len: F64?  crew: I32? }')
    assert len(found.diagnostics) == 1
    assert "Ship" in found.diagnostics[0].message


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ('node A @rename_from("B") { p: I32 }', "node A { p: I32 }"),
        ('node A { p: I32 @rename_from("q") @index }', "node A { p: I32 @index }"),
        ('node A { p: I32 @rename_from("q")\n}', "node A { p: I32\n}"),
        ('node A {\n  p: I32\n    @rename_from("q")\n  // r\n}', "node A {\n  p: I32\n  // r\n}"),
        ('node A {}\nedge E: A -> A @rename_from("F")', "node A {}\nedge E: A -> A"),
        ("interface I { p: I32? @rename_from(q) }", "interface I { p: I32? }"),
        ('node A { p: I32 @rename_from( "q" /* ) */ ) // tail\n}', "node A { p: I32 // tail\n}"),
        ('// @rename_from("x")\nnode A {}', '// @rename_from("x")\nnode A {}'),
        (
            'node A { p: I32 @description("@rename_from(\\"q\\")") }',
            'node A { p: I32 @description("@rename_from(\\"q\\")") }',
        ),
    ],
)
def test_the_clean_text_lacks_hints_alone(text, clean):
    assert without_hints(text) == clean
    assert compile_schema(clean).shape.shape_hash == compile_schema(text).shape.shape_hash
