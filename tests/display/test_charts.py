"""Charts are well-formed SVG that shows every value it was given, in proportion."""

import xml.etree.ElementTree as ET

import pytest

from omnigraph.display.charts import bars, lines, network

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


@pytest.mark.parametrize(
    "chart",
    [bars("t", {}), lines("t", [], {}), lines("t", ["a"], {"s": [0]}), network("t", {}, [])],
)
def test_nothing_to_draw_is_drawn_too(chart):
    assert texts(chart)[0] == "t"
