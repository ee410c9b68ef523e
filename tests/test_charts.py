"""Charts are well-formed SVG that shows every value it was given, in proportion."""

import math
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest

from examples.charts import NAMED, bars, lines, network

SVG = "{http://www.w3.org/2000/svg}"


def drawn(chart, kind):
    return list(ET.fromstring(chart).iter(f"{SVG}{kind}"))


def texts(chart):
    return [element.text for element in drawn(chart, "text")]


def test_bars_are_as_long_as_their_values():
    chart = bars("A < B & C", {"whole": 8, "half": 4, "none": 0}, unit=" kg")
    widths = [float(rect.get("width")) for rect in drawn(chart, "rect") if rect.get("rx")]
    assert widths[1] == pytest.approx(widths[0] / 2)
    assert widths[2] == 0
    assert texts(chart)[0] == "A < B & C"
    assert {"whole", "8 kg", "half", "4 kg"} <= set(texts(chart))


def test_lines_rise_with_their_values():
    chart = lines("t", ["a", "b", "c"], {"up": [0, 1, 2], "flat": [1, 1, 1]})
    up, flat = (
        [float(point.split(",")[1]) for point in line.get("points").split()]
        for line in drawn(chart, "polyline")
    )
    assert up[0] > up[1] > up[2]  # y grows downwards
    assert len(set(flat)) == 1
    assert flat[0] == up[1]


def test_a_network_draws_every_node_once_and_the_edges_between_them():
    nodes = {"a": "x", "b": "x", "c": "y", "alone": "y"}
    chart = network("t", nodes, [("a", "b"), ("b", "c"), ("c", "c"), ("a", "stranger")])
    assert len(drawn(chart, "circle")) == len(nodes)
    assert len(drawn(chart, "path")) == 2
    places = {(circle.get("cx"), circle.get("cy")) for circle in drawn(chart, "circle")}
    assert len(places) == len(nodes)
    assert chart == network("t", nodes, [("a", "b"), ("b", "c"), ("c", "c"), ("a", "stranger")])


def test_parts_of_a_network_that_nothing_joins_stay_apart_and_in_the_picture():
    nodes = dict.fromkeys(("a1", "b1", "a2", "b2", "a3", "b3"), "x")
    edges = [("a1", "a2"), ("a2", "a3"), ("b1", "b2"), ("b2", "b3")]
    circles = drawn(network("t", nodes, edges), "circle")
    places = [(float(circle.get("cx")), float(circle.get("cy"))) for circle in circles]
    place = dict(zip(nodes, places, strict=True))
    across = [math.dist(place[f"a{i}"], place[f"b{j}"]) for i in (1, 2, 3) for j in (1, 2, 3)]
    assert min(across) > 50
    assert not any(crosses(place, one, other) for one in edges[:2] for other in edges[2:])


def test_of_many_nodes_those_with_the_most_edges_are_named():
    nodes = {f"n{i}": "x" for i in range(NAMED + 10)}
    edges = [(f"n{i}", f"n{i + 1}") for i in range(NAMED + 9)]  # n0 and the last have one edge
    chart = network("t", nodes, edges)
    assert len(drawn(chart, "circle")) == len(nodes)
    shown = [text for text in texts(chart) if text in nodes]
    assert len(shown) == NAMED
    assert "n0" not in shown


def crosses(place, one, other):
    """Whether two edges cross: the ends of each lie on both sides of the other."""

    def side(edge, node):
        (ax, ay), (bx, by), (x, y) = place[edge[0]], place[edge[1]], place[node]
        return (bx - ax) * (y - ay) > (by - ay) * (x - ax)

    return side(one, other[0]) != side(one, other[1]) and side(other, one[0]) != side(other, one[1])


def test_labels_of_a_line_stay_inside_the_chart():
    chart = lines("t", ["first", "middle", "last"], {"s": [1, 2, 3]})
    anchors = {text.text: text.get("text-anchor") for text in drawn(chart, "text")}
    assert [anchors[label] for label in ("first", "middle", "last")] == ["start", "middle", "end"]


@pytest.mark.parametrize(
    "chart",
    [bars("t", {}), lines("t", [], {}), lines("t", ["a"], {"s": [0]}), network("t", {}, [])],
)
def test_nothing_to_draw_is_drawn_too(chart):
    assert texts(chart)[0] == "t"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([2, 3, 2], ["0", "1", "2", "3"]),
        ([1, 11], ["0", "5", "10", "15"]),
        ([0.25, 0.7], ["0", "0.20", "0.40", "0.60", "0.80"]),
        ([4100, 900], ["0", "1,000", "2,000", "3,000", "4,000", "5,000"]),
    ],
)
def test_the_axis_has_round_numbers_up_to_the_largest_value(values, expected):
    chart = lines("t", ["" for _ in values], {"s": values})
    beside = [text.text for text in drawn(chart, "text") if text.get("text-anchor") == "end"]
    assert [text for text in beside if text] == expected


def test_nodes_with_more_edges_are_larger():
    circles = drawn(network("t", dict.fromkeys("abcd", "x"), ["ab", "ac", "ad"]), "circle")
    hub, *others = (float(circle.get("r")) for circle in circles)
    assert all(hub > other for other in others)


def test_names_do_not_cover_each_other():
    nodes = {f"number {i:02}": "x" for i in range(20)}
    ids = list(nodes)
    edges = [(ids[i], ids[i * 3 % 20]) for i in range(20)]
    names = [text for text in drawn(network("t", nodes, edges), "text") if text.text in nodes]
    assert len(names) == len(nodes)
    assert not [(a.text, b.text) for a, b in combinations(names, 2) if covers(a, b)]


def covers(one, other):
    """Whether two names of nine letters lie over each other."""
    (ax, ay), (bx, by) = ((float(text.get("x")), float(text.get("y"))) for text in (one, other))
    shift = {"start": 27, "middle": 0, "end": -27}
    ax, bx = ax + shift[one.get("text-anchor")], bx + shift[other.get("text-anchor")]
    return abs(ax - bx) < 50 and abs(ay - by) < 8
