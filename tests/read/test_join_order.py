"""The order in which the variables of a match are bound: the cheapest by estimates that see skew."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from omnigraph.lang.query import ir
from omnigraph.read.kernels.csr import csr_of
from omnigraph.read.match.candidates import Candidates
from omnigraph.read.match.links.edge_link import EdgeLink
from omnigraph.read.match.listing.join_order import order_of, steps_of
from omnigraph.read.match.listing.steps import Close, Estimates, Expand, Intersect, Scan
from omnigraph.read.match.pattern import Traversal
from omnigraph.read.thresholds import MatchThresholds


class Edges:
    """Adjacency in both directions, as a link asks for it."""

    def __init__(self, src, dst, shape):
        src, dst = np.asarray(src, np.int32), np.asarray(dst, np.int32)
        self._out = csr_of(src, dst, shape)
        self._into = csr_of(dst, src, shape[::-1])

    def csr(self, direction):
        return self._out if direction is ir.Direction.OUT else self._into


def link(left, right, src, dst, shape):
    traversal = Traversal(left, right, "N", "N", ("E",), ir.Direction.OUT)
    return EdgeLink(traversal, Edges(src, dst, shape), None, MatchThresholds())


def functional(left, right, size, targets):
    """Every code of the left has one neighbour, the rights have many."""
    return link(left, right, np.arange(size), np.arange(size) % targets, (size, targets))


def estimates(sizes, links, given=None):
    candidates = {name: Candidates(size) for name, size in sizes.items()}
    return Estimates(candidates, links, [], given or {})


def test_it_starts_where_every_step_has_one_neighbour():
    # Answers to posts: 10 persons, 3,000 messages; from a person there would be 300 ways at once.
    sizes = {"a": 10, "b": 10, "c": 3000, "p": 3000}
    rng = np.random.default_rng(1)
    knows = rng.integers(0, 10, (2, 40))
    links = [
        link("a", "b", *knows, (10, 10)),
        functional("c", "a", 3000, 10),
        link("c", "p", np.arange(1500), np.arange(1500, 3000), (3000, 3000)),
        functional("p", "b", 3000, 10),
    ]
    guess = estimates(sizes, links)
    order = order_of(guess, frozenset())
    assert order[0] in ("c", "p")
    rows = [step.estimated for step in steps_of(guess, order, frozenset())]
    # Persons and what they wrote would be 3,000 rows, with those who know them 12,000.
    assert max(rows) <= 3000


def test_a_hub_is_seen_in_the_estimate():
    # One of 100 has 901 of 1,000 edges on either side: 811,801 paths go through it.
    ends = np.concatenate([np.arange(99), np.full(901, 99)])
    others = np.arange(1000)
    into = link("a", "b", others, ends, (1000, 100))
    out = link("b", "c", ends, others, (100, 1000))
    guess = estimates({"a": 1000, "b": 100, "c": 1000}, [into, out])
    steps = steps_of(guess, ["a", "b", "c"], frozenset())
    assert steps[-1].estimated == pytest.approx(99 + 901**2, rel=0.01)


def test_the_order_is_the_cheapest_of_all():
    """Judged by running every order: the rows on the way are never more than twice the best."""
    rng = np.random.default_rng(3)
    for _ in range(8):
        sizes = {name: int(rng.integers(5, 200)) for name in "abcd"}
        links = []
        for left, right in [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]:
            count = int(rng.integers(5, 400))
            src = (rng.random(count) ** 3 * sizes[left]).astype(np.int32)
            dst = (rng.random(count) ** 3 * sizes[right]).astype(np.int32)
            links.append(link(left, right, src, dst, (sizes[left], sizes[right])))
        chosen = order_of(estimates(sizes, links), frozenset())
        made = {
            order: rows_on_the_way(order, sizes, links) for order in itertools.permutations("abcd")
        }
        connected = [rows for rows in made.values() if rows is not None]
        assert made[tuple(chosen)] is not None
        assert made[tuple(chosen)] <= 2 * min(connected)


def rows_on_the_way(order, sizes, links):
    """The rows after every step of an order, counted with matrices; None where it is not connected."""
    total = 0
    for place, name in enumerate(order):
        bound = order[: place + 1]
        inner = [one for one in links if one.ends.names <= set(bound)]
        if place and not any(name in one.ends.names for one in inner):
            return None
        parts = [(one.ends.left + one.ends.right, matrix(one)) for one in inner]
        parts += [(name, np.ones(sizes[name], int)) for name in bound]
        script = ",".join(names for names, _ in parts)
        total += int(np.einsum(f"{script}->", *(array for _, array in parts), optimize=True))
    return total


def matrix(one):
    csr = one.csr(one.ends.left)
    found = np.zeros(csr.shape, int)
    found[np.repeat(np.arange(csr.shape[0]), csr.degrees), csr.indices] = 1
    return found


def test_a_cycle_is_closed_by_an_intersection():
    rng = np.random.default_rng(5)
    ends = rng.integers(0, 50, (2, 400))
    links = [link(*names, *ends, (50, 50)) for names in ("ab", "bc", "ca")]
    guess = estimates(dict.fromkeys("abc", 50), links)
    order = order_of(guess, frozenset())
    assert [type(step) for step in steps_of(guess, order, frozenset())] == [Scan, Expand, Intersect]
    counted = steps_of(guess, order, frozenset(order[-1]))
    assert [step.counted for step in counted if isinstance(step, Intersect)] == [True]


def test_a_third_link_is_a_check():
    rng = np.random.default_rng(6)
    ends = rng.integers(0, 50, (2, 400))
    links = [link(*names, *ends, (50, 50)) for names in ("ab", "bc", "ca", "ad", "bd", "cd")]
    guess = estimates(dict.fromkeys("abcd", 50), links)
    order = order_of(guess, frozenset())
    steps = steps_of(guess, order, frozenset(order[-1]))
    assert [type(step) for step in steps] == [Scan, Expand, Intersect, Intersect, Close]
    assert not any(step.counted for step in steps if isinstance(step, Intersect))


def test_given_variables_come_first():
    ends = np.random.default_rng(7).integers(0, 20, (2, 60))
    links = [link("a", "b", *ends, (20, 20)), link("b", "c", *ends, (20, 20))]
    guess = estimates(dict.fromkeys("abc", 20), links, given={"c": 3})
    order = order_of(guess, frozenset())
    assert order == ["b", "a"]
    assert steps_of(guess, order, frozenset())[0].text == "given $c"


def test_a_match_of_very_many_variables_is_ordered():
    names = [f"v{number}" for number in range(300)]
    ends = np.arange(40)
    links = [link(*pair, ends, ends, (40, 40)) for pair in itertools.pairwise(names)]
    order = order_of(estimates(dict.fromkeys(names, 40), links), frozenset())
    assert sorted(order) == sorted(names)
    places = {name: place for place, name in enumerate(order)}
    for name in order[1:]:
        near = [one.ends.other(name) for one in links if name in one.ends.names]
        assert any(places[one] < places[name] for one in near)
