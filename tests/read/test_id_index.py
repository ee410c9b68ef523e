"""An index of ids against a dict: every text is found where it stands, and no other one is."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.read.kernels.id_index import IdIndex

# Few letters, so that ids are beginnings of each other; NUL is what short words are filled with.
LETTERS = st.sampled_from(["a", "b", "\0", "é", "7"])
TEXTS = st.text(LETTERS, max_size=20)


def by_hand(ids, asked):
    places = {one: at for at, one in enumerate(ids)}
    return [-1 if one is None else places.get(one, -1) for one in asked]


@given(
    st.lists(TEXTS, unique=True, max_size=40),
    st.lists(st.one_of(TEXTS, st.none()), max_size=40),
    st.sampled_from([pa.string(), pa.large_string()]),
    st.sampled_from([pa.string(), pa.large_string()]),
)
def test_texts_are_found_where_they_stand(ids, asked, kind, other):
    index = IdIndex.of(pa.array(ids, kind))
    assert index is not None
    asked = [*asked, *ids]
    found = index.find(pa.array(asked, other))
    assert found.tolist() == by_hand(ids, asked)
    assert found.dtype == np.int32


@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 26, 36, 62])
def test_many_ids_of_one_length_in_several_pieces(length):
    rng = random.Random(length)
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    every = {"".join(rng.choices(letters, k=length)) for _ in range(1500)}
    ids = sorted(every)[::2]
    asked = [*every, *(one + "\0" for one in every), *(one[:-1] for one in every), "x" * 300, None]
    rng.shuffle(asked)
    index = IdIndex.of(pa.array(ids), piece=100)
    assert index is not None
    assert index.find(pa.array(asked)).tolist() == by_hand(ids, asked)


def test_numbers_as_text_that_mean_the_same_are_different_ids():
    ids = ["7", "07", "7.0", "0x7", "+7", " 7", "1000000", "0xF4240"]
    index = IdIndex.of(pa.array(ids))
    assert index is not None
    asked = [*ids, "007", "-7", "0xf4240", "01000000"]
    assert index.find(pa.array(asked)).tolist() == by_hand(ids, asked)


def test_parts_of_arrays_and_chunks():
    ids = [f"n{at}" for at in range(50)]
    index = IdIndex.of(pa.array(["before", *ids, "after"]).slice(1, 50))
    assert index is not None
    part = pa.array(["x", "n3", None, "n49", "before"]).slice(1, 3)
    assert index.find(part).tolist() == [3, -1, 49]
    chunks = pa.chunked_array([part, pa.array([], pa.string()), pa.array(["n0", "after"])])
    assert index.find(chunks).tolist() == [3, -1, 49, 0, -1]
    assert index.find(pa.chunked_array([], pa.string())).tolist() == []


def test_no_ids():
    index = IdIndex.of(pa.array([], pa.string()))
    assert index is not None
    assert index.find(pa.array(["a", "", None])).tolist() == [-1, -1, -1]


def test_long_ids_have_no_index():
    assert IdIndex.of(pa.array(["a", "x" * 63])) is not None
    assert IdIndex.of(pa.array(["a", "x" * 64])) is None
