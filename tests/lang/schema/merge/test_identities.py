"""Which ids a merged schema has, joins and drops (schema-branches.md 2)."""

from omnigraph.lang.schema.joins import Joins
from tests.lang.schema.merge.three_schemas import edited, graph, merge

YARD = """\
interface Named {
    label: String?
}

node Ship {
    imo: String @key
    flag: String?
}

node Port implements Named {
    code: String @key
}
"""
FLAG = "    flag: String?\n"
BUILT = (FLAG, FLAG + "    built: I32?\n")
TAG = "\nnode Tag {\n    word: String @key\n    note: String?\n}\n"


def pair(text=YARD):
    base = graph(text)
    return base, base.branch("feature"), base.branch("main")


def property_id(branch, name, type_="Ship"):
    return branch.ir.type("node", type_).property_ids[name]


def test_an_added_property_keeps_the_id_of_the_source():
    base, feature, main = pair()
    feature.apply(edited(YARD, [BUILT]))
    number = property_id(feature, "built")
    main.accept(merge(base, feature, main))
    assert property_id(main, "built") == number
    assert main.ir == feature.ir


def test_a_joined_property_keeps_the_id_of_the_target():
    base, feature, main = pair()
    feature.apply(edited(YARD, [BUILT]))
    main.apply(edited(YARD, [BUILT]))
    theirs, ours = property_id(feature, "built"), property_id(main, "built")
    merged = merge(base, feature, main)
    assert merged.schema.steps == ()
    main.accept(merged)
    assert property_id(main, "built") == ours
    assert main.ir.joined == ((theirs, ours),)
    assert main.ir.dropped == ()
    # The other way round, and again: nothing is left to join.
    feature.accept(merge(feature.branch("shared"), main, feature))
    assert property_id(feature, "built") == theirs
    assert feature.ir.joined == ((ours, theirs),)
    again = merge(main.branch("shared"), feature, main)
    assert again.schema.ir == main.ir


def test_a_joined_type_joins_its_table_and_properties():
    base, feature, main = pair()
    feature.apply(YARD + TAG)
    main.apply(YARD + TAG)
    theirs, ours = feature.ir.type("node", "Tag"), main.ir.type("node", "Tag")
    main.accept(merge(base, feature, main))
    assert main.ir.type("node", "Tag") == ours
    assert main.ir.joined == tuple(
        sorted(
            [
                (theirs.type_id, ours.type_id),
                (theirs.table_incarnation_id, ours.table_incarnation_id),
                (theirs.property_ids["word"], ours.property_ids["word"]),
                (theirs.property_ids["note"], ours.property_ids["note"]),
            ]
        )
    )


def test_three_branches_that_added_the_same_are_one_transitively():
    base, a, main = pair()
    b = base.branch("b")
    for each in (a, b, main):
        each.apply(edited(YARD, [BUILT]))
    numbers = {property_id(each, "built") for each in (a, b, main)}
    main.accept(merge(base, a, main))
    main.accept(merge(base, b, main))
    kept = property_id(main, "built")
    assert main.ir.joined == tuple(sorted((other, kept) for other in numbers - {kept}))
    assert Joins(main.ir).all(kept) == numbers
    # `a` never heard of `b`, and meets its id through main.
    a.accept(merge(a.branch("shared"), main, a))
    assert Joins(a.ir).all(property_id(a, "built")) == numbers
    assert merge(base, b, a).schema.steps == ()


def test_dropping_what_was_joined_drops_all_its_ids():
    base, feature, main = pair()
    feature.apply(edited(YARD, [BUILT]))
    main.apply(edited(YARD, [BUILT]))
    ids = (property_id(feature, "built"), property_id(main, "built"))
    main.accept(merge(base, feature, main))
    shared = feature.branch("shared")
    main.apply(YARD)
    assert main.ir.dropped == ids
    # The feature still has it under its own id, which main dropped.
    feature.apply(edited(feature.text, [("code: String @key", "code: String @key  city: String?")]))
    main.accept(merge(shared, feature, main))
    assert "built" not in main.ir.type("node", "Ship").property_ids
    assert main.ir.dropped == ids
    feature.accept(merge(feature.branch("now"), main, feature))
    assert "built" not in feature.ir.type("node", "Ship").property_ids
    assert feature.ir.dropped == ids


def test_what_was_dropped_on_either_side_is_recorded():
    text = YARD + TAG
    base, feature, main = pair(text)
    flag = property_id(base, "flag")
    tag = base.ir.type("node", "Tag")
    feature.apply(edited(text, [(FLAG, "")]))
    main.apply(YARD)
    main.accept(merge(base, feature, main))
    gone = {flag, tag.type_id, tag.table_incarnation_id, *tag.property_ids.values()}
    assert main.ir.dropped == tuple(sorted(gone))


def test_what_a_word_kept_stays_without_another_word():
    base, feature, main = pair()
    feature.apply(edited(YARD, [(FLAG, "")]))
    main.wrote("node:Ship.flag", "S1")
    main.accept(merge(base, feature, main, "ours"))
    assert main.ir.dropped == ()
    shared = feature.branch("shared")
    feature.apply(edited(feature.text, [("code: String @key", "code: String @key  city: String?")]))
    merged = merge(shared, feature, main)
    assert merged.conflicts == ()
    assert "flag" in merged.schema.ir.type("node", "Ship").property_ids
    # Into the feature it comes back as an addition: its values are in main.
    feature.accept(merge(feature.branch("now"), main.accept(merged), feature))
    assert property_id(feature, "flag") == property_id(main, "flag")
    assert feature.ir.dropped == ()


def test_what_only_a_third_branch_shares_counts_as_dropped_too():
    """Both have `built` from a third branch, and their common commit does not have it."""
    base, a, main = pair()
    b = base.branch("b")
    a.apply(edited(YARD, [BUILT]))
    built = property_id(a, "built")
    main.accept(merge(base, a, main))
    b.accept(merge(base, a, b))
    main.apply(YARD)
    assert main.ir.dropped == (built,)
    merged = merge(base, b, main)
    assert merged.conflicts == ()
    assert merged.schema.steps == ()
    assert merged.schema.ir.dropped == (built,)
    b.wrote("node:Ship.built", "S1")
    (conflict,) = merge(base, b, main).conflicts
    assert conflict.detail["changed"] == ["data"]
    assert conflict.detail["dropped_by"] == "target"


def test_a_property_that_a_merge_gives_to_a_type_takes_a_new_id():
    base, feature, main = pair()
    feature.apply(edited(YARD, [("label: String?", "label: String?\n    rank: I32?")]))
    main.apply(YARD + "\nnode Pier implements Named {\n    no: I32 @key\n}\n")
    next_id = base.counter.next_id
    merged = merge(base, feature, main)
    ir = merged.schema.ir
    assert ir.type("node", "Pier").property_ids["rank"] == next_id
    assert ir.next_identity_id == next_id + 1
    assert ir.type("node", "Port").property_ids["rank"] == property_id(feature, "rank", "Port")
    assert [step.to_json()["kind"] for step in merged.schema.steps] == ["add_property"] * 3


def test_a_table_of_the_targets_own_is_joined_with_the_sources():
    base, feature, main = pair()
    feature.apply(YARD + TAG)
    theirs = feature.ir.type("node", "Tag")
    next_id = base.counter.next_id
    asked = []

    def own_table(type_):
        asked.append(type_.name)
        return True

    merged = merge(base, feature, main, own_table=own_table)
    tag = merged.schema.ir.type("node", "Tag")
    assert asked == ["Tag"]
    assert tag.type_id == theirs.type_id
    assert tag.table_incarnation_id == next_id
    assert merged.schema.ir.joined == ((theirs.table_incarnation_id, next_id),)
    main.accept(merged)
    # And back: the feature keeps its own table.
    feature.accept(merge(feature.branch("shared"), main, feature, own_table=own_table))
    assert feature.ir.type("node", "Tag").table_incarnation_id == theirs.table_incarnation_id


def test_a_merge_that_changes_nothing_leaves_the_target_as_it_is():
    base, feature, main = pair()
    other = base.branch("other").apply(YARD + TAG)
    assert other.counter.next_id > base.ir.next_identity_id
    described = edited(YARD, [("node Ship", 'node Ship @description("x")')])
    feature.apply(described)
    main.apply(described)
    assert merge(base, feature, main).schema.ir is main.ir
