"""Loads of every mode, with bad records or without, give what plain dicts give."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.graphs import graph_of
from tests.pipeline.plain_load import SCHEMA, START, check_load
from tests.sampling import examples

ships = st.fixed_dictionaries(
    {"imo": st.sampled_from("abcd")},
    optional={
        "call": st.sampled_from([None, "x", "y"]),
        "rank": st.sampled_from(["mate", "mate", "cook", "king", None]),
        "age": st.sampled_from([None, 4, 5, 12, "wrong"]),
    },
)
ports = st.fixed_dictionaries({"code": st.sampled_from("pqr")})
calls = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["c1", "c2", "c3", "c4"]),
        "visits": st.sampled_from([None, 7, "wrong"]),
        "day": st.sampled_from([None, 2]),
    },
)
moored = st.fixed_dictionaries(
    {"id": st.sampled_from(["m1", "m2", "m3"])}, optional={"note": st.sampled_from([None, "o"])}
)


@st.composite
def edges(draw, kind, data):
    record = {"edge": kind, "data": draw(data)}
    for end, ids in (("from", "aaabbbcde"), ("to", "pppqqqrs")):
        # An end that is left out is of use to a patch alone; most records have both.
        if draw(st.integers(0, 4)):
            record[end] = draw(st.sampled_from(ids))
    return record


records = st.lists(
    st.one_of(
        ships.map(lambda data: {"type": "Ship", "data": data}),
        ports.map(lambda data: {"type": "Port", "data": data}),
        edges("Calls", calls),
        edges("Calls", calls),
        edges("Moored", moored),
    ),
    min_size=1,
    max_size=14,
)


graph = graph_of(SCHEMA, scope="module")


@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    records,
    st.sampled_from(["patch", "patch", "merge", "append"]),
    st.sampled_from(["skip", "skip", "fail"]),
)
def test_what_is_stored_and_left_out(graph, tmp_path, records, mode, on_bad):
    graph.load(START, mode="overwrite")
    check_load(graph, records, mode, on_bad, tmp_path)
