"""Small charts as SVG, for examples and demonstrations: bars, lines, and nodes with their edges.

    Path("stock.svg").write_text(bars("Stock", {"bolts": 120, "nuts": 80}))

A chart is a text that every browser and notebook shows. Nothing is loaded to draw it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

WIDTH = 720
COLOURS = ("#0f766e", "#b45309", "#4338ca", "#be123c", "#15803d", "#7e22ce", "#0369a1", "#a16207")
NAMED = 40
"""This many nodes of a network are named."""
_TEXT, _FAINT = "#334155", "#e2e8f0"


def bars(title: str, values: Mapping[str, float], unit: str = "") -> str:
    """Return a chart with a bar for each value, in the order given."""
    row, left = 26, 28 + max((_width(label) for label in values), default=0)
    most = max(values.values(), default=0) or 1
    drawn = []
    for place, (label, value) in enumerate(values.items()):
        y = 48 + place * row
        length = max(value, 0) / most * (WIDTH - left - 110)
        drawn += [
            _text(left - 8, y + 14, label, anchor="end"),
            f'<rect x="{left}" y="{y}" width="{length:.1f}" height="18" rx="3" fill="{COLOURS[0]}"/>',
            _text(left + length + 6, y + 14, f"{_number(value)}{unit}"),
        ]
    return _svg(title, 60 + len(values) * row, drawn)


def lines(title: str, at: Sequence[str], series: Mapping[str, Sequence[float]]) -> str:
    """Return a chart with a line for each series; ``at`` has the labels of its points."""
    left, right, top, bottom = 72, 20, 66, 266
    ticks = _ticks([value for values in series.values() for value in values])
    most = ticks[-1]
    step = (WIDTH - left - right) / max(len(at) - 1, 1)
    drawn = []
    for tick in ticks:
        y = bottom - tick / most * (bottom - top)
        drawn.append(f'<path d="M{left} {y:.1f}H{WIDTH - right}" stroke="{_FAINT}"/>')
        drawn.append(_text(left - 8, y + 4, _number(tick), anchor="end"))
    every = max(1, math.ceil(len(at) / 10))
    for place, label in enumerate(at):
        if place % every == 0:
            # The outermost labels stay inside.
            anchor = "start" if place == 0 else "end" if place == len(at) - 1 else "middle"
            drawn.append(_text(left + place * step, bottom + 18, label, anchor))
    for number, values in enumerate(series.values()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(
            f"{left + place * step:.1f},{bottom - value / most * (bottom - top):.1f}"
            for place, value in enumerate(values)
        )
        drawn.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        )
    return _svg(title, bottom + 60, [*drawn, *_legend(series)])


def network(
    title: str, nodes: Mapping[str, str], edges: Iterable[tuple[str, str]], size: int = 520
) -> str:
    """Return a drawing of nodes, each id with the group that colours it, and the edges among them.

    Of many nodes only those with the most edges are named.
    """
    pairs = [(a, b) for a, b in edges if a in nodes and b in nodes and a != b]
    places = _layout(list(nodes), pairs)
    groups = list(dict.fromkeys(nodes.values()))

    def at(node: str) -> tuple[float, float]:
        x, y = places[node]
        return 60 + x * (WIDTH - 120), 85 + y * (size - 115)

    ends = Counter(end for pair in pairs for end in pair)
    most = max(ends.values(), default=1)
    radii = {node: 4 + 5 * math.sqrt(ends[node] / most) for node in nodes}
    drawn = []
    for a, b in pairs:
        (ax, ay), (bx, by) = at(a), at(b)
        drawn.append(f'<path d="M{ax:.1f} {ay:.1f}L{bx:.1f} {by:.1f}" stroke="#94a3b8"/>')
    for node, group in nodes.items():
        x, y = at(node)
        colour = COLOURS[groups.index(group) % len(COLOURS)]
        drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radii[node]:.1f}" fill="{colour}"/>')
    # Names come after all circles, so that none is hidden; those of the largest choose their side first.
    named = sorted(nodes, key=lambda node: -ends[node])[:NAMED]
    drawn += _names({node: at(node) for node in nodes}, radii, named)
    return _svg(title, size, [*drawn, *_legend(groups)])


def _names(
    places: Mapping[str, tuple[float, float]], radii: Mapping[str, float], named: Iterable[str]
) -> list[str]:
    """Write names above, below or beside their nodes, where they cover the fewest other things."""
    taken = [
        (x - r, y - r, x + r, y + r)
        for (x, y), r in zip(places.values(), radii.values(), strict=True)
    ]
    drawn = []
    for node in named:
        (x, y), gap, wide = places[node], radii[node] + 4, _width(node, 11)
        boxes = {
            ("middle", x, y - gap): (x - wide / 2, y - gap - 9, x + wide / 2, y - gap),
            ("middle", x, y + gap + 8): (x - wide / 2, y + gap - 1, x + wide / 2, y + gap + 8),
            ("start", x + gap, y + 4): (x + gap, y - 5, x + gap + wide, y + 4),
            ("end", x - gap, y + 4): (x - gap - wide, y - 5, x - gap, y + 4),
        }
        (anchor, tx, ty), box = min(
            boxes.items(), key=lambda one: sum(_overlap(one[1], other) for other in taken)
        )
        taken.append(box)
        drawn.append(_text(tx, ty, node, anchor=anchor, size=11, halo=True))
    return drawn


_Box = tuple[float, float, float, float]
"""The left, upper, right and lower bound."""


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _ticks(values: Sequence[float]) -> list[float]:
    """Return round numbers from 0 to at least the largest value; whole ones if all values are whole."""
    most = max(values, default=0) or 1
    power = 10.0 ** math.floor(math.log10(most))
    step = next(part for part in (0.2, 0.5, 1, 2) if most <= 5 * part * power) * power
    if all(value == int(value) for value in values):
        step = max(1.0, step)
    return [number * step for number in range(math.ceil(most / step) + 1)]


def _layout(
    nodes: list[str], pairs: list[tuple[str, str]], rounds: int = 200
) -> dict[str, tuple[float, float]]:
    """Places from 0 to 1 at which joined nodes are near and others apart; always the same ones."""
    count = max(len(nodes), 1)
    angle = 2 * math.pi / count
    start = _walked(nodes, pairs)
    place = {node: [math.cos(i * angle), math.sin(i * angle)] for i, node in enumerate(start)}
    wanted = math.sqrt(4 / count)
    for turn in range(rounds):
        push = {node: [0.0, 0.0] for node in nodes}
        for i, a in enumerate(nodes):
            for b in nodes[i + 1 :]:
                _move(push, place, a, b, lambda far: wanted**2 / far)
        for a, b in pairs:
            _move(push, place, a, b, lambda far: -(far**2) / wanted)
        for node, (x, y) in place.items():  # what is joined to nothing must not fly away
            push[node][0] -= x / 4
            push[node][1] -= y / 4
        most = 0.1 * (1 - turn / rounds)
        for node, (dx, dy) in push.items():
            length = math.hypot(dx, dy) or 1
            place[node][0] += dx / length * min(length, most)
            place[node][1] += dy / length * min(length, most)
    return _within(place)


def _walked(nodes: Iterable[str], pairs: Iterable[tuple[str, str]]) -> list[str]:
    """The nodes in an order in which each connected group stands together."""
    beside: dict[str, list[str]] = {node: [] for node in nodes}
    for a, b in pairs:
        beside[a].append(b)
        beside[b].append(a)
    found: dict[str, None] = {}
    for node in beside:
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found[one] = None
                waiting += beside[one]
    return list(found)


_Places = dict[str, list[float]]


def _move(push: _Places, place: _Places, a: str, b: str, force: Callable[[float], float]) -> None:
    """Push two nodes apart by what ``force`` says of their distance; below 0 pulls them together."""
    dx, dy = place[a][0] - place[b][0], place[a][1] - place[b][1]
    far = math.hypot(dx, dy) or 1e-6
    strength = force(far) / far
    push[a][0] += dx * strength
    push[a][1] += dy * strength
    push[b][0] -= dx * strength
    push[b][1] -= dy * strength


def _within(place: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
    spans = []
    for axis in (0, 1):
        values = [at[axis] for at in place.values()] or [0.0]
        spans.append((min(values), max(max(values) - min(values), 1e-6)))
    (left, width), (top, height) = spans
    return {node: ((x - left) / width, (y - top) / height) for node, (x, y) in place.items()}


def _legend(names: Iterable[str]) -> list[str]:
    drawn, x = [], 20
    for number, name in enumerate(names):
        colour = COLOURS[number % len(COLOURS)]
        drawn.append(f'<rect x="{x}" y="33" width="10" height="10" fill="{colour}"/>')
        drawn.append(_text(x + 15, 42, name, size=11))
        x += 35 + 7 * len(name)
    return drawn


def _text(
    x: float, y: float, text: str, anchor: str = "start", size: int = 12, *, halo: bool = False
) -> str:
    around = ' stroke="white" stroke-width="3" paint-order="stroke"' if halo else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{_TEXT}"{around}>{escape(text)}</text>'
    )


def _width(text: str, size: int = 12) -> float:
    """Return about how wide a text is."""
    return 0.58 * size * len(text)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.2f}"


def _svg(title: str, height: float, drawn: Iterable[str]) -> str:
    inside = "\n".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" font-family="system-ui, sans-serif">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="20" y="24" font-size="15" font-weight="600" fill="{_TEXT}">{escape(title)}</text>\n'
        f"{inside}\n</svg>\n"
    )
