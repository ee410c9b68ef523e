"""Changes as text for people: an entity a line, and below it what its properties became.

~ node Person ann
    age: 30 -> 31
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.cli.output import in_colour, on_terminal
from omnigraph.display.text import ABSENT, printable

Document = Mapping[str, Any]

_SIGNS = {"insert": "+", "update": "~", "delete": "-"}
_OLD, _CHANGED, _NEW = "31", "33", "32"
_COLOURS = {"insert": _NEW, "update": _CHANGED, "delete": _OLD}
_BOLD = "1"
_LONGEST = 100
"""This many characters of a value are shown."""
_BEFORE = 20
"""This many of them stand before the first difference, if that would be cut off otherwise."""
_MARGIN = "    "


@dataclass(frozen=True, slots=True)
class ChangeText:
    """How changes are written: whether in colours, and the width of the screen if there is one."""

    is_coloured: bool = False
    width: int | None = None

    @classmethod
    def for_stdout(cls) -> ChangeText:
        """Return the way that suits stdout."""
        width = shutil.get_terminal_size().columns if on_terminal() else None
        return cls(in_colour(), width)

    def title(self, text: str) -> str:
        """Return the line above the changes of a commit."""
        return self._painted(printable(text), _BOLD)

    def lines(self, change: Document) -> Iterator[str]:
        """Yield the lines of one change, as documents have it."""
        op = change["op"]
        name = f"{change['kind']} {change['type']} {printable(change['id'])}"
        yield self._painted(f"{_SIGNS[op]} {name}", _COLOURS[op])
        before, after = _values(change.get("before")), _values(change.get("after"))
        for name in {**before, **after}:
            old, new = before.get(name), after.get(name)
            if op == "update":
                if old != new:
                    was, became = (_side_text(name, side) for side in (before, after))
                    yield from self._changed(name, was, became)
            elif (shown := new if op == "insert" else old) is not None:
                yield f"{_MARGIN}{name}: {_text(shown)}"

    def _changed(self, name: str, old: str, new: str) -> Iterator[str]:
        """Yield the two values of a property, below each other if the line is too short for both."""
        was, became = _differing(old, new)
        painted = self._painted(was, _OLD), self._painted(became, _NEW)
        size = len(f"{_MARGIN}{name}: {was} -> {became}")
        if self.width is None or size <= self.width:
            yield f"{_MARGIN}{name}: {' -> '.join(painted)}"
            return
        yield f"{_MARGIN}{name}:"
        yield f"{_MARGIN}  - {painted[0]}"
        yield f"{_MARGIN}  + {painted[1]}"

    def _painted(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self.is_coloured else text


def _values(image: Document | None) -> dict[str, Any]:
    """Return what an image shows, with the ends of an edge first."""
    if image is None:
        return {}
    return {**image.get("endpoints", {}), **image.get("properties", {})}


def _side_text(name: str, side: Mapping[str, Any]) -> str:
    """Return the value of a property, or the sign for a side that does not have the property at all."""
    return _json(side[name]) if name in side else ABSENT


def _text(value: Any) -> str:
    return _cut(_json(value), 0)


def _differing(old: str, new: str) -> tuple[str, str]:
    """Return the parts of two texts in which a reader sees how they differ."""
    same = next(
        (at for at, (sign, other) in enumerate(zip(old, new, strict=False)) if sign != other),
        min(len(old), len(new)),
    )
    start = 0 if same < _LONGEST - _BEFORE else same - _BEFORE
    return _cut(old, start), _cut(new, start)


def _cut(text: str, start: int) -> str:
    """Return as much of a text as is shown, from a place on, with signs where it was cut."""
    shown = text if start == 0 else f"…{text[start:]}"
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def _json(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False))
