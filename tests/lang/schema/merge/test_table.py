"""Every row of the table of schema-branches.md 4.1, in both directions."""

import pytest

from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema.joins import Joins
from omnigraph.lang.schema.merge.conflicts import in_order
from tests.lang.schema.merge.table import BASE, THEN
from tests.lang.schema.merge.table_everyday import CASES
from tests.lang.schema.merge.three_schemas import edited, graph, merge, mirrored


def applied(branch, edits, data):
    text = branch.text
    for edit in (*edits, THEN):
        if edit == THEN:
            if text != branch.text:
                branch.apply(text)
        else:
            text = edited(text, [edit])
    for element, row_ids in data.items():
        branch.wrote(element, *row_ids)
    return branch


def branches(case):
    base = graph(BASE)
    source = applied(base.branch("feature"), case.source, case.source_data)
    target = applied(base.branch("main"), case.target, case.target_data)
    return base, source, target


def found(merged):
    return [{"kind": each.kind, "detail": dict(each.detail)} for each in merged.conflicts]


def expected(conflicts, swapped=False):
    return [
        {**each, "detail": mirrored(each["detail"]) if swapped else each["detail"]}
        for each in conflicts
    ]


def without_messages(conflicts):
    return [
        {
            **each,
            "detail": {
                key: value
                for key, value in each["detail"].items()
                if key not in {"rule", "message"}
            },
        }
        for each in conflicts
    ]


def by_element(conflicts):
    return sorted(
        conflicts,
        key=lambda each: (
            each["detail"]["element"],
            each["kind"],
            each["detail"].get("attribute", ""),
        ),
    )


@pytest.mark.parametrize("swapped", [False, True], ids=["into main", "into feature"])
@pytest.mark.parametrize("case", CASES)
def test_the_table(case, swapped):
    base, source, target = branches(case)
    if swapped:
        source, target = target, source
    merged = merge(base, source, target)
    assert without_messages(found(merged)) == by_element(expected(case.conflicts, swapped))
    assert list(merged.conflicts) == list(in_order(merged.conflicts))
    for conflict in merged.conflicts:
        assert conflict.table_key == conflict.element.split(".")[0]
        assert conflict.message.startswith(conflict.element)
    if case.merged is not None:
        wanted = compile_schema(edited(BASE, case.merged)).shape
        assert merged.schema is not None
        assert merged.schema.ir.shape.to_json() == wanted.to_json()
        check_ids(merged.schema.ir, source.ir, target.ir)


def check_ids(merged, source, target):
    """Every id of either side is there, joined with one that is, or dropped; the target's are kept."""
    joins = Joins(merged, source, target)
    live = {joins.one(number) for number in merged.ids}
    assert len(live) == len(merged.ids)
    for side in (source, target):
        for number in side.ids:
            assert (joins.one(number) in live) != (number in merged.dropped)
    assert {number for number in target.ids if joins.one(number) in live} <= merged.ids


def test_there_are_enough_cases():
    assert len(CASES) >= 150


def test_a_required_property_comes_with_the_rows_of_the_source():
    """Added, filled and made required on a branch: no apply could do that at once, and a merge can."""
    base = graph(BASE)
    added = edited(BASE, [("// +Ship", "built: I32?\n    // +Ship")])
    feature = base.branch("feature").apply(added)
    feature.apply(edited(added, [("built: I32?", "built: I32")]))
    merged = merge(base, feature, base.branch("main")).schema
    assert merged.ir == feature.ir
    place = {"type_kind": "node", "type_name": "Ship", "property_name": "built"}
    assert [step.to_json() for step in merged.steps] == [
        {"kind": "add_property", **place, "property_type": "I32?"},
        {"kind": "require_property", **place},
    ]
    # The other way round nothing is to do.
    assert merge(base, base.branch("main"), feature).schema.steps == ()


def test_what_no_step_leads_to_is_invalid():
    """The word takes the source's type, which does not hold the values of the target's."""
    base = graph(BASE)
    feature = base.branch("feature").apply(edited(BASE, [("calls: U32?", "calls: U64?")]))
    main = base.branch("main").apply(edited(BASE, [("calls: U32?", "calls: I64?")]))
    (conflict,) = merge(base, feature, main, "theirs").conflicts
    assert (conflict.kind, conflict.element) == ("schema_invalid", "node:Ship.calls")
    assert conflict.detail["rule"] == "OG-MF-106"
    kept = merge(base, feature, main, "ours")
    assert kept.schema.ir == main.ir
    assert kept.resolved == ("node:Ship.calls",)


def test_an_enum_that_lost_every_value_is_named_beside_other_faults():
    old = "node A { k: String @key  e: enum(x, y)? }\nnode B { k: String @key  n: I32? }"
    base = graph(old)
    main = base.branch("main").apply(edited(old, [("(x, y)", "(x)"), ("I32?", "I32? @default(9)")]))
    feature = base.branch("feature").apply(
        edited(old, [("(x, y)", "(y)"), ("I32?", "I32? @range(n, 0..5)")])
    )
    empty, default = merge(base, feature, main).conflicts
    assert {empty.kind, default.kind} == {"schema_invalid"}
    assert (empty.element, default.element) == ("node:A.e", "node:B.n")
    assert "no value is left in its enum" in empty.message
