"""What holds for every merge of schemas, whatever the branches did."""

from hypothesis import event, given, settings
from hypothesis import strategies as st

from omnigraph.errors import BadRequest
from omnigraph.lang.schema.joins import Joins
from omnigraph.lang.schema.merge.merge import merge_steps
from tests.lang.schema.merge.random_schemas import changed, schemas
from tests.lang.schema.merge.test_table import check_ids
from tests.lang.schema.merge.three_schemas import graph, merge, mirrored
from tests.sampling import examples

FEW = settings(max_examples=examples(60), deadline=None)


@st.composite
def branches(draw, writes=True):
    """A base and two branches of it, each with up to two applies and some writes."""
    start = draw(schemas())
    base = graph(start.text)
    sides = []
    for name in ("feature", "main"):
        branch, model = base.branch(name), start
        for _ in range(draw(st.integers(0, 2))):
            model = draw(changed(model))
            if model.text != branch.text:
                branch.apply(model.text)
        sides.append(branch)
        for type_ in (*branch.ir.nodes, *branch.ir.edges) if writes else ():
            elements = [type_.shape.entity]
            elements += [f"{type_.shape.entity}.{prop}" for prop in type_.property_ids]
            for element in draw(st.lists(st.sampled_from(elements), max_size=1)):
                branch.wrote(element, "r1", "r2")
    return base, *sides


def told(conflicts, swapped=False):
    return sorted(
        str(
            (
                each.kind,
                sorted((mirrored(each.detail) if swapped else each.detail).items(), key=str),
            )
        )
        for each in conflicts
    )


def canonical(ir, joins):
    """A schema with one number for each element, whatever its id is on each side."""
    return {
        (type_.kind, type_.name): (
            joins.one(type_.type_id),
            {name: joins.one(number) for name, number in type_.property_ids.items()},
        )
        for type_ in ir
    }


@FEW
@given(branches())
def test_both_orders_agree(given_):
    base, feature, main = given_
    into_main, into_feature = merge(base, feature, main), merge(base, main, feature)
    assert told(into_main.conflicts) == told(into_feature.conflicts, swapped=True)
    event("conflicts" if into_main.conflicts else "merged")
    if into_main.schema is None:
        assert into_feature.schema is None
        return
    one, other = into_main.schema.ir, into_feature.schema.ir
    assert one.shape.to_json() == other.shape.to_json()
    check_ids(one, feature.ir, main.ir)
    check_ids(other, main.ir, feature.ir)
    joins = Joins(one, other)
    known = feature.ir.ids | main.ir.ids
    mine, theirs = canonical(one, joins), canonical(other, joins)
    for key, (number, properties) in mine.items():
        assert theirs[key][0] == number
        for name, property_id in properties.items():
            if property_id in known:
                assert theirs[key][1][name] == property_id
    assert {joins.one(each) for each in one.dropped} == {joins.one(each) for each in other.dropped}


@FEW
@given(branches(writes=False))
def test_an_unchanged_side_leaves_the_other(given_):
    base, feature, _ = given_
    same = base.branch("same")
    assert merge(base, same, feature).schema.ir == feature.ir
    taken = merge(base, feature, same).schema
    assert taken.ir == feature.ir
    # Renamed there and back, a schema is the one it was, and the target keeps its text.
    assert taken.text == (base if feature.ir == base.ir else feature).text
    assert taken.steps == merge_steps(base.ir, feature.ir)


@FEW
@given(branches())
def test_merging_again_changes_nothing(given_):
    base, feature, main = given_
    merged = merge(base, feature, main)
    if merged.schema is None:
        return
    shared = feature.branch("shared")
    feature.data.clear()
    main.data.clear()
    main.accept(merged)
    again = merge(shared, feature, main)
    assert again.conflicts == ()
    assert again.schema.ir == main.ir
    assert again.schema.text == main.text
    # Taken back, both have the same schema, and each its own ids.
    feature.accept(merge(shared, main, feature))
    assert feature.ir.shape.to_json() == main.ir.shape.to_json()
    check_ids(feature.ir, main.ir, shared.ir)
    last = merge(main.branch("both"), feature, main)
    assert last.schema.ir == main.ir


@FEW
@given(branches(), st.sampled_from(["ours", "theirs"]))
def test_a_word_leaves_only_what_no_word_decides(given_, word):
    base, feature, main = given_
    feature.data.clear()
    if word == "theirs":
        main, feature = feature, main
        if any(
            each.detail.get("dropped_by") == "target"
            for each in merge(base, feature, main).conflicts
        ):
            word = "ours"
    try:
        merged = merge(base, feature, main, word)
    except BadRequest:  # a drop of the target that showed only after another word
        event("refused")
        return
    assert {each.kind for each in merged.conflicts} <= {"schema_name_clash", "schema_invalid"}
    if merged.schema is not None:
        check_ids(merged.schema.ir, feature.ir, main.ir)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_branches_that_merge_back_and_forth_keep_one_identity(data):
    """Edits on both sides, and merges in turn; the shared commit is the source of the last merge."""
    model = data.draw(schemas())
    base = graph(model.text)
    sides = [base.branch("a"), base.branch("b")]
    models = [model, model]
    shared = base
    for at in range(data.draw(st.integers(2, 5))):
        for side in (0, 1):
            if models[side] is not None:
                models[side] = data.draw(changed(models[side], most=2))
                if models[side].text != sides[side].text:
                    sides[side].apply(models[side].text)
        source, target = sides[at % 2], sides[1 - at % 2]
        merged = merge(shared, source, target)
        if merged.schema is None:
            return
        shared = source.branch("shared")
        target.accept(merged)
        # The merged schema is no longer one of the models; it goes on as it is.
        models[1 - at % 2] = None
        joins = Joins(sides[0].ir, sides[1].ir)
        for ir in (sides[0].ir, sides[1].ir):
            live = [joins.one(number) for number in ir.ids]
            assert len(set(live)) == len(live)
            assert not set(live) & {joins.one(number) for number in ir.dropped}
