"""The period of a type when two schemas meet: one attribute of the type, not two members of a set."""

import pytest

from tests.lang.schema.merge.three_schemas import edited, graph, merge

FREE = "node P {\n  slug: String @key\n  a: Date?\n  b: Date?\n  c: Date?\n}\n"
AB, AC = "  @valid(a, b)\n}", "  @valid(a, c)\n}"
HELD = edited(FREE, [("}", AB)])


def merged(base, source, target, resolve=None):
    start = graph(base)
    sides = [start.branch("side").apply(source), start.branch("main").apply(target)]
    return merge(start, *sides, resolve)


@pytest.mark.parametrize(
    ("base", "source", "target", "stays"),
    [
        (FREE, HELD, FREE, True),
        (FREE, FREE, HELD, True),
        (FREE, HELD, HELD, True),
        (HELD, FREE, HELD, False),
        (HELD, HELD, FREE, False),
        (HELD, HELD, edited(HELD, [("slug: String", "code: I64?\n  slug: String")]), True),
    ],
)
def test_one_side_changed_it(base, source, target, stays):
    found = merged(base, source, target)
    assert not found.conflicts
    assert ("@valid(a, b)" in found.schema.text) is stays


def test_both_sides_gave_it_other_ends():
    other = edited(FREE, [("}", AC)])
    (conflict,) = merged(FREE, HELD, other).conflicts
    assert conflict.kind == "divergent_schema"
    assert conflict.detail["element"] == "node:P"
    assert (conflict.detail["source"], conflict.detail["target"]) == (
        "@valid(a, b)",
        "@valid(a, c)",
    )
    assert "@valid(a, c)" in merged(FREE, HELD, other, "ours").schema.text
    # The target cannot get another period in one step.
    (refused,) = merged(FREE, HELD, other, "theirs").conflicts
    assert refused.kind == "schema_invalid"


def test_it_follows_a_rename_of_the_other_side():
    renamed = edited(FREE, [("b: Date?", 'ended: Date? @rename_from("b")')])
    assert "@valid(a, ended)" in merged(FREE, HELD, renamed).schema.text


def test_it_falls_with_a_property_that_the_other_side_dropped():
    found = merged(FREE, HELD, edited(FREE, [("  b: Date?\n", "")]))
    assert not found.conflicts
    assert "@valid" not in found.schema.text


def test_two_types_that_were_added_alike_are_joined():
    more = "edge E: P -> P {\n  since: Date?\n  until: Date?\n  @valid(since, until)\n}\n"
    found = merged(FREE, FREE + more, FREE + more)
    assert not found.conflicts
    assert found.schema.text.count("@valid(since, until)") == 1
    swapped = more.replace("(since, until)", "(until, since)")
    assert merged(FREE, FREE + more, FREE + swapped).conflicts
