"""The judge of random histories is right itself: cells, bases and orphans worked out by hand."""

from __future__ import annotations

import pytest

from tests.histories.model import Commit, Conflict, Home, merge_bases, three_way

A, B, C = {"n": 1, "m": 1}, {"n": 2, "m": 1}, {"n": 1, "m": 2}
KEY = ("node:Person", "ann")


@pytest.mark.parametrize(
    ("base", "source", "target", "result"),
    [
        (None, None, None, None),
        (None, A, None, A),
        (None, None, A, A),
        (None, A, A, A),
        (None, A, B, "divergent_insert"),
        (A, A, A, A),
        (A, B, A, B),
        (A, A, B, B),
        (A, B, B, B),
        (A, B, C, "divergent_update"),
        (A, None, A, None),
        (A, A, None, None),
        (A, None, None, None),
        (A, None, B, "delete_vs_update"),
        (A, B, None, "delete_vs_update"),
    ],
)
def test_the_fifteen_cells(base, source, target, result):
    sides = [{} if image is None else {KEY: image} for image in (base, source, target)]
    merged = three_way(*sides, by_property=False)
    if isinstance(result, str):
        assert merged.conflicts == {Conflict(result, *KEY)}
        ours = three_way(*sides, by_property=False, resolve="ours")
        theirs = three_way(*sides, by_property=False, resolve="theirs")
        assert (ours.content, theirs.content) == (sides[2], sides[1])
        assert ours.resolved == theirs.resolved == 1
    else:
        assert merged.content == ({} if result is None else {KEY: result})


def test_properties_that_only_one_side_changed_are_combined():
    merged = three_way({KEY: A}, {KEY: B}, {KEY: C}, by_property=True)
    assert merged.content == {KEY: {"n": 2, "m": 2}}
    clash = three_way({KEY: A}, {KEY: {"n": 3, "m": 2}}, {KEY: B}, by_property=True)
    assert clash.conflicts == {Conflict("divergent_update", *KEY, ("n",))}


def test_an_edge_without_its_end_is_an_orphan_unless_a_resolution_takes_it_along():
    edge = ("edge:Knows", "k")
    there = {("node:Person", name): {"n": 0} for name in ("a", "b")}
    base = {**there, edge: {"from": "a", "to": "b"}}
    gone = {("node:Person", "a"): {"n": 0}}
    assert three_way(there, gone, base, by_property=False).conflicts == {
        Conflict("orphan_edge", *edge)
    }
    node = ("node:Person", "b")
    sides = (base, {**base, node: {"n": 1}}, {**base, node: {"n": 2}})
    cut = three_way(*sides, by_property=False, resolve={node: None})
    assert cut.content == gone


def commit(name, *parents, operation="load", at=0):
    return Commit(name, parents, {}, operation, at, Home("main"))


def test_bases():
    """A criss-cross: x and y were merged into each other's children."""
    root = commit("root")
    x, y = commit("x", root, at=1), commit("y", root, at=2)
    left, right = commit("left", x, y), commit("right", y, x)
    assert merge_bases(left, right) == [y, x]
    assert merge_bases(x, y) == [root]
    assert merge_bases(left, x) == [x]


def test_the_nearer_base_comes_first_and_maintenance_is_no_step():
    root = commit("root")
    x, y = commit("x", root, at=9), commit("y", root, at=1)
    far = commit("far", x)
    left, right = commit("left", far, y), commit("right", y, far)
    right = commit("tidy", right, operation="optimize")
    assert merge_bases(left, right) == [y, far]
    older = commit("older", x, y)
    newer = commit("newer", commit("step", y), x)
    assert merge_bases(older, newer) == [x, y]
