"""What a merge decides about entities: the truth table, properties, and resolutions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.write.merge.decide import units
from omnigraph.write.merge.decided import DecideOptions, Side
from omnigraph.write.merge.resolutions import Changed, Image, Resolutions
from tests.merge.three_states import Sides, columns_of, equal_images, expected_merge
from tests.sampling import examples
from tests.validate.schemas import catalog_of

CATALOG = catalog_of("""
node Thing {
    text: String?
    vector: Vector(2)? @embed(text)
    flag: Bool?
    count: I32?
    large: U64?
    ratio: F64?
    narrow: F32?
    day: Date?
    moment: DateTime?
    tags: [String]?
    numbers: [F64]?
    shade: enum(red, green)?
    photo: Blob?
    scan: Blob?
}
node Bare {
}
edge Link: Thing -> Bare {
    weight: F64?
}
""")
THING, BARE, LINK = CATALOG.nodes["Thing"], CATALOG.nodes["Bare"], CATALOG.edges["Link"]


def link(src="a", dst="b", weight=1.0):
    return {"src": src, "dst": dst, "weight": weight}


OLD, NEW, OTHER = link(), link(weight=2.0), link(src="c")

CELLS = {
    "2 added": (None, NEW, None, NEW, None),
    "4 added alike": (None, NEW, NEW, NEW, None),
    "5 added otherwise": (None, NEW, OTHER, OTHER, "divergent_insert"),
    "7 changed": (OLD, NEW, OLD, NEW, None),
    "9 changed alike": (OLD, NEW, NEW, NEW, None),
    "10 changed otherwise": (OLD, NEW, OTHER, OTHER, "divergent_update"),
    "11 deleted": (OLD, None, OLD, None, None),
    "13 deleted by both": (OLD, None, None, None, None),
    "14 deleted and changed": (OLD, None, NEW, NEW, "delete_vs_update"),
    "15 changed and deleted": (OLD, NEW, None, None, "delete_vs_update"),
}


@pytest.mark.parametrize("cell", CELLS.values(), ids=list(CELLS))
def test_cells_that_the_source_changed(cell):
    base, source, target, result, kind = cell
    states = [{} if state is None else {"x": state} for state in (base, source, target)]
    sides = Sides(LINK, *states)
    decided = sides.decide(DecideOptions())
    assert sides.merged(decided) == ({} if result is None else {"x": result})
    assert [conflict.kind for conflict in decided.conflicts] == ([kind] if kind else [])
    is_news = kind is None and result != target
    assert decided.rows.num_rows + len(decided.removed) == is_news


def test_a_replaced_row_is_known_by_its_row_id_in_the_target():
    sides = Sides(LINK, {"x": OLD}, {"x": NEW, "y": NEW}, {"x": OLD})
    decided = sides.decide(DecideOptions())
    assert decided.rows.column("id").to_pylist() == ["x", "y"]
    assert decided.replaces.to_pylist() == [1000 * Side.TARGET, None]


def test_a_type_without_properties_is_merged_by_id():
    sides = Sides(BARE, {"x": {}}, {"y": {}}, {"x": {}})
    decided = sides.decide(DecideOptions(granularity="property"))
    assert sides.merged(decided) == {"y": {}}


def test_a_text_and_its_vector_are_one_unit():
    assert ("text", "vector") in units(THING)
    assert units(LINK) == [("src", "dst"), ("weight",)]


def test_a_conflict_shows_the_images_that_were_asked_for():
    sides = Sides(LINK, {"x": OLD}, {"x": NEW}, {})

    def show(cells):
        return [{"side": cells.side.name, "weight": w.as_py()} for w in cells.table["weight"]]

    (conflict,) = sides.decide(DecideOptions(images=show)).conflicts
    assert conflict.detail == {
        "base": {"side": "BASE", "weight": 1.0},
        "source": {"side": "SOURCE", "weight": 2.0},
        "target": None,
    }


# ------------------------------------------------------------------ against the model

VALUES = {
    "text": [None, "", "a", "b"],
    "vector": [None, [0.0, 1.0], [-0.0, 1.0], [2.0, 3.0]],
    "flag": [None, True, False],
    "count": [None, 0, -1, 2**31 - 1],
    "large": [None, 0, 2**64 - 1],
    "ratio": [None, 0.0, -0.0, math.nan, math.inf],
    "narrow": [None, 0.5, math.nan],
    "day": [None, 0, 19782],
    "moment": [None, 0, -1],
    "tags": [None, [], ["a"], ["a", None], ["b"]],
    "numbers": [None, [], [math.nan], [1.0, -0.0], [1.0, 0.0]],
    "shade": [None, "red", "green"],
    "photo": [None, b"", b"1", b"2"],
    "scan": [None, b"", b"22"],
}
IDS = ("a", "b", "ä", "\U0001f600")
LINK_VALUES = {"src": ["a", "b"], "dst": ["a", "b"], "weight": [None, 0.0, -0.0, math.nan, 1.0]}


def plain(columns):
    """An image in which every column has its first value."""
    return {name: values[0] for name, values in columns.items()}


@st.composite
def merges(draw, entity, columns):
    """Three states that differ in a few columns, and what `resolve` says of them."""
    hot = draw(st.lists(st.sampled_from(sorted(columns)), min_size=1, max_size=3, unique=True))
    changes = st.fixed_dictionaries({}, optional={n: st.sampled_from(columns[n]) for n in hot})
    states = ({}, {}, {})
    decisions = {}
    for id_ in IDS:
        base = draw(st.none() | changes.map(lambda new: {**plain(columns), **new}))
        here = [base]
        for _ in ("source", "target"):
            how = draw(st.sampled_from(["same", "absent", "changed", "changed", "changed more"]))
            # The target often has some of the source's changes too.
            begun = here[-1] if how == "changed more" else base
            changed = {**(begun or plain(columns)), **draw(changes)}
            here.append({"same": base, "absent": None}.get(how, changed))
        for state, image in zip(states, here, strict=True):
            if image is not None:
                state[id_] = image
        images = [given_image(entity, one) for one in here if one is not None]
        chosen = ["leave", "ours", "theirs", None, None, *images]
        if None not in here[1:]:
            chosen += [draw(words_with_changes(entity, hot, changes))] * 4
        decisions[id_] = draw(st.sampled_from(chosen))
    named = {id_: decision for id_, decision in decisions.items() if decision != "leave"}
    return states, draw(st.sampled_from([None, "ours", "theirs", named, named, named]))


WORDS = st.sampled_from(["ours", "theirs"])


@st.composite
def words_with_changes(draw, entity, hot, changes):
    """A side with some values given and others taken from a side."""
    taken = draw(st.dictionaries(st.sampled_from(hot), WORDS, max_size=2))
    given = given_image(entity, draw(changes)).values
    given = {name: value for name, value in given.items() if name not in taken}
    return Changed(draw(WORDS), given, taken)


def given_image(entity, values):
    blobs = {
        name: None if values[name] is None else {"data": values[name]}
        for name in entity.blob_properties
        if name in values
    }
    return Image({**values, **blobs})


def check(entity, states, resolve, granularity):
    expected = expected_merge(entity, *states, granularity, resolve)
    resolutions = Resolutions(resolve if isinstance(resolve, str) else None)
    if isinstance(resolve, dict):
        named = {(entity.table_key, id_): decision for id_, decision in resolve.items()}
        resolutions = Resolutions(named=named)
    sides = Sides(entity, *states)
    decided = sides.decide(DecideOptions(granularity, resolutions))
    merged, target = sides.merged(decided), states[2]
    assert set(merged) == set(expected.result)
    assert all(equal_images(merged[id_], expected.result[id_]) for id_ in merged)
    found = [(one.row_id, one.kind, one.detail.get("properties")) for one in decided.conflicts]
    assert found == expected.conflicts
    assert decided.resolved == expected.resolved
    assert list(decided.named) == expected.named
    written = decided.rows.column("id").to_pylist()
    assert written == sorted(written)
    for id_, replaced in zip(written, decided.replaces.to_pylist(), strict=True):
        assert not equal_images(merged[id_], target.get(id_))  # nothing is written in vain
        assert (replaced is None) == (id_ not in target)
    assert decided.cut_off.to_pylist() == expected.cut_off
    assert decided.rows.column_names == ["id", *columns_of(entity)]


GRANULARITIES = st.sampled_from(["entity", "property"])


@given(merges(THING, VALUES), GRANULARITIES)
@settings(max_examples=examples(150))
def test_nodes_of_every_property_type_are_merged_as_the_model_does(merge, granularity):
    check(THING, *merge, granularity)


@given(merges(LINK, LINK_VALUES), GRANULARITIES)
@settings(max_examples=examples(100))
def test_edges_are_merged_as_the_model_does(merge, granularity):
    check(LINK, *merge, granularity)
