"""What a merge decides about entities: the truth table, properties, and resolutions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.write.merge.decide import DecideOptions, Side, units
from omnigraph.write.merge.resolutions import Image, Resolutions
from tests.merge.three_states import Sides, columns_of, equal_images, expected_merge
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
    "text": ["", "a", "b"],
    "vector": [[0.0, 1.0], [-0.0, 1.0], [2.0, 3.0]],
    "flag": [True, False],
    "count": [0, -1, 2**31 - 1],
    "large": [0, 2**64 - 1],
    "ratio": [0.0, -0.0, math.nan, math.inf],
    "narrow": [0.5, math.nan],
    "day": [0, 19782],
    "moment": [0, -1],
    "tags": [[], ["a"], ["a", None], ["b"]],
    "numbers": [[], [math.nan], [1.0, -0.0], [1.0, 0.0]],
    "shade": ["red", "green"],
    "photo": [b"", b"1", b"2"],
    "scan": [b"", b"22"],
}
IDS = ("a", "b", "c", "ä", "\U0001f600")
THINGS = st.fixed_dictionaries(
    {name: st.sampled_from([None, *values]) for name, values in VALUES.items()}
)
LINKS = st.builds(
    link,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from([None, 0.0, -0.0, math.nan]),
)


@st.composite
def three_states(draw, images):
    """Base, source and target of a few entities; sides mostly differ from the base in few values."""
    states = ({}, {}, {})
    for id_ in IDS:
        base = draw(st.none() | images)
        for number, state in enumerate(states):
            image = base if number == 0 else draw(st.sampled_from([base, None]) | images)
            if number and base is not None and image is not None:
                changed = draw(st.sets(st.sampled_from(sorted(image)), max_size=2))
                image = {k: image[k] if k in changed else base[k] for k in base}
            if image is not None:
                state[id_] = image
    return states


def resolves(entity, images):
    """No resolution, a word, or decisions about some entities."""

    def given_image(values):
        blobs = {
            name: None if values[name] is None else {"data": values[name]}
            for name in entity.blob_properties
        }
        return Image({**values, **blobs})

    decisions = st.sampled_from(["ours", "theirs", None]) | images.map(given_image)
    words = st.sampled_from([None, "ours", "theirs"])
    return words | st.dictionaries(st.sampled_from(IDS), decisions)


def check(entity, states, granularity, resolve):
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
    assert set(decided.cut_off.to_pylist()) <= set(decided.removed.to_pylist())
    assert decided.rows.column_names == ["id", *columns_of(entity)]


@given(st.data(), st.sampled_from(["entity", "property"]))
@settings(max_examples=150)
def test_nodes_of_every_property_type_are_merged_as_the_model_does(data, granularity):
    states = data.draw(three_states(THINGS))
    check(THING, states, granularity, data.draw(resolves(THING, THINGS)))


@given(st.data(), st.sampled_from(["entity", "property"]))
@settings(max_examples=150)
def test_edges_are_merged_as_the_model_does(data, granularity):
    states = data.draw(three_states(LINKS))
    check(LINK, states, granularity, data.draw(resolves(LINK, LINKS)))
