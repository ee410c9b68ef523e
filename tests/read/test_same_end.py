"""Links whose two ends lead to the same node: narrowed once, with the same answers as without."""

from __future__ import annotations

import itertools
import random

import pytest

import omnigraph
from tests.oracle.graph import Graph
from tests.stored import fill

SCHEMA = """
    node Person { name: String @key }
    node City { name: String @key  size: I32 }
    node Country { name: String @key }
    edge Knows: Person -> Person
    edge LivesIn: Person -> City
    edge PartOf: City -> Country
    edge BornIn: Person -> City
"""
PERSONS = [f"p{at:02d}" for at in range(60)]
BORN = {one: f"city{at * at % 5}" for at, one in enumerate(PERSONS) if at % 8}
HOMES = "$a livesIn $x  $x partOf $k  $b livesIn $y  $y partOf $k  $c livesIn $z  $z partOf $k"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A graph, who knows whom, and the city and the country of those who have one."""
    rng = random.Random(2)
    persons = PERSONS
    cities = {f"city{at}": rng.choice(["far", "near", None]) for at in range(9)}
    cities |= {"city0": "far", "city1": "near"}
    home = {one: rng.choice(list(cities)) for one in persons if rng.random() < 0.9}
    knows = {(rng.choice(persons), rng.choice(persons)) for _ in range(600)}
    plain = Graph(
        {
            "Person": {name: {"name": name} for name in persons},
            "City": {name: {"name": name, "size": at} for at, name in enumerate(cities)},
            "Country": {name: {"name": name} for name in ("far", "near", "empty")},
        },
        {
            "Knows": [(f"k{at}", a, b, {}) for at, (a, b) in enumerate(sorted(knows))],
            "LivesIn": [(f"l{at}", a, b, {}) for at, (a, b) in enumerate(home.items())],
            "PartOf": [(f"o{at}", a, b, {}) for at, (a, b) in enumerate(cities.items()) if b],
            "BornIn": [(f"b{at}", a, b, {}) for at, (a, b) in enumerate(BORN.items())],
        },
    )
    place = tmp_path_factory.mktemp("same_end") / "graph"
    with omnigraph.init(place, SCHEMA) as graph:
        fill(graph, plain)
        country = {one: cities[city] for one, city in home.items() if cities[city]}
        yield graph, knows, home, country


def ask(graph, body, output="count($a) as n"):
    text = f"query q() {{ match {{ {body} }} return {{ {output} }} }}"
    profiled = graph.profile(text)
    return profiled.result.rows, [one for one in profiled.text.splitlines() if "to one $k" in one]


def triangles(knows):
    for (a, b), (c, d) in itertools.product(knows, repeat=2):
        if b == c and (d, a) in knows:
            yield a, b, d


def test_triangles_within_a_country(world):
    graph, knows, _, country = world
    rows, shown = ask(graph, f"$a knows $b  $b knows $c  $c knows $a  {HOMES}")
    same = [
        found
        for found in triangles(knows)
        if all(one in country for one in found) and len({country[one] for one in found}) == 1
    ]
    assert rows == [{"n": len(same)}]
    assert len(shown) == 3


def test_the_shared_end_may_be_shown_and_tested(world):
    graph, knows, _, country = world
    rows, shown = ask(
        graph,
        '$a knows $b  $a livesIn $x  $x partOf $k  $b livesIn $y  $y partOf $k  $k.name != "near"',
        "$k.name as k, count($a) as n",
    )
    pairs = [(a, b) for a, b in knows if country.get(a) == country.get(b) == "far"]
    assert rows == [{"k": "far", "n": len(pairs)}]
    assert len(shown) == 1


def test_what_is_between_may_be_tested(world):
    graph, knows, home, country = world
    rows, _ = ask(
        graph,
        "$a knows $b  $a livesIn $x  $x partOf $k  $b livesIn $y  $y partOf $k  $y.size > 3",
    )
    same = [
        (a, b)
        for a, b in knows
        if a in country and country[a] == country.get(b) and int(home[b][4:]) > 3
    ]
    assert rows == [{"n": len(same)}]


def test_one_step_to_the_shared_end(world):
    graph, knows, home, _ = world
    rows, shown = ask(graph, "$a knows $b  $a livesIn $k  $b livesIn $k")
    assert rows == [{"n": sum(a in home and home[a] == home.get(b) for a, b in knows)}]
    assert len(shown) == 1


def test_a_link_between_two_shared_ends_is_narrowed_to_both(world):
    graph, knows, home, _ = world
    rows, shown = ask(
        graph, "$a knows $b  $a livesIn $k  $b livesIn $k  $a bornIn $m  $b bornIn $m"
    )
    same = [
        (a, b)
        for a, b in knows
        if a in home and home[a] == home.get(b) and a in BORN and BORN[a] == BORN.get(b)
    ]
    assert same
    assert rows == [{"n": len(same)}]
    assert len(shown) == 1


def test_a_shared_end_that_many_have_several_of_is_left_alone(world):
    graph, knows, _, _ = world
    rows, shown = ask(graph, "$a knows $b  $a knows $k  $b knows $k")
    assert rows == [{"n": sum(1 for _ in ((a, b, c) for a, b in knows for d, c in knows
                                          if d == a and (b, c) in knows))}]  # fmt: skip
    assert not shown
