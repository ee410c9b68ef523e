"""Draw the diagrams of `docs/dev` as SVG, from what the project says of itself.

    python docs/diagram.py

The layers are those of the import contract in `pyproject.toml`, with the first sentence of each package's
docstring. A test compares the files with what this would draw.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "docs" / "dev"
SOURCE = ROOT / "src" / "omnigraph"
WIDTH, ROW = 980, 40
COLOURS = ("#0f766e", "#0369a1", "#4338ca", "#7e22ce", "#b45309", "#475569")
NOT_YET = "#94a3b8"
# The last layer of each band: edges, API, work, reading, commits, languages and below.
BANDS = ("service", "policy", "write", "read", "storage", "spans")

WRITE_PATH = (
    ("heal", "finish or undo what dead writers left"),
    ("prepare", "check every rule on a pinned snapshot; stage files"),
    ("lock", "the head of the branch and each written table"),
    ("look again", "branch, head and pins are the expected ones"),
    ("A  sidecar", "the plan is noted in __recovery"),
    ("B  tables", "each table commits its staged version"),
    ("C  publish", "one write to __manifest makes all of it visible"),
    ("D  clean", "the sidecar is deleted"),
)


def layers_svg() -> str:
    """Return the packages, from the edges down; a row may import the rows below it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = contracts["contracts"][0]["layers"]
    drawn, band, y = [], 0, 20
    for layer in layers:
        names = re.findall(r"[\w]+", layer)
        colour = COLOURS[band % len(COLOURS)]
        if any(name in BANDS for name in names):
            band += 1
        # Those of one layer do not import each other: they stand close together.
        for name in names:
            purpose = _purpose(name)
            drawn.append(_box(20, y, 170, name, colour if purpose else NOT_YET))
            drawn += _lines(205, y + 20, purpose or "not built yet", 115)
            y += 32
        y += ROW - 32
    return _svg(y + 12, drawn)


def write_path_svg() -> str:
    """Return the steps of a write, in order, with what a crash in each of them means."""
    drawn = []
    for row, (step, text) in enumerate(WRITE_PATH):
        y = 20 + row * ROW
        visible = step.startswith(("C", "D"))
        drawn.append(_box(20, y, 150, step, COLOURS[0] if visible else COLOURS[1]))
        drawn.append(_text(185, y + 20, text))
        if row + 1 < len(WRITE_PATH):
            drawn.append(f'<path d="M95 {y + 30}v{ROW - 30}" stroke="#94a3b8" stroke-width="2"/>')
    fates = (
        (0, 4, "killed here: nothing has happened"),
        (4, 6, "killed here: whoever comes next finishes it if all tables landed, else undoes it"),
        (6, 8, "killed here: it is there"),
    )
    for first, last, fate in fates:
        top, bottom = 22 + first * ROW, 12 + last * ROW
        drawn.append(f'<path d="M530 {top}h8V{bottom}h-8" stroke="#94a3b8" fill="none"/>')
        drawn += _lines(548, (top + bottom) / 2 + 4, fate, 62)
    return _svg(len(WRITE_PATH) * ROW + 30, drawn)


def _purpose(name: str) -> str:
    """The first sentence of a package's or module's docstring; empty if it is not there yet."""
    for path in (SOURCE / name / "__init__.py", SOURCE / f"{name}.py"):
        if path.is_file():
            text = " ".join((ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split())
            return re.split(r"(?<=[.])\s", text)[0].rstrip(".:").replace("`", "")
    return ""


def _box(x: float, y: float, width: float, text: str, colour: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="30" rx="5" fill="{colour}"/>'
        f'<text x="{x + width / 2}" y="{y + 20}" text-anchor="middle" fill="white" '
        f'font-size="13" font-weight="600">{escape(text)}</text>'
    )


def _lines(x: float, y: float, text: str, width: int) -> list[str]:
    """A text on as many lines as it needs, the middle of them at ``y``."""
    lines = textwrap.wrap(text, width)
    top = y - (len(lines) - 1) * 7
    return [_text(x, top + at * 14, line) for at, line in enumerate(lines)]


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="12" fill="#334155">{escape(text)}</text>'


def _svg(height: int, drawn: list[str]) -> str:
    inside = "\n".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="system-ui, sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n'
        f"{inside}\n</svg>\n"
    )


FIGURES = {"layers.svg": layers_svg, "write_path.svg": write_path_svg}


if __name__ == "__main__":
    for name, draw in FIGURES.items():
        (PLACE / name).write_text(draw(), "utf-8")
        print(f"wrote {PLACE / name}")
