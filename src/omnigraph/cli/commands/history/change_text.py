"""Changes as text for people: an entity a line, and below it what its properties became.

~ node Person ann
    age: 30 -> 31
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from omnigraph.cli.output import on_terminal, one_line

if TYPE_CHECKING:
    from omnigraph.changes.diff import Change, Image

_SIGNS = {"insert": "+", "update": "~", "delete": "-"}
_COLOURS = {"insert": "32", "update": "33", "delete": "31"}
_LONGEST = 100
"""So many characters of a value are shown."""


def change_lines(change: Change) -> Iterator[str]:
    """Yield the lines of one change, coloured on a terminal."""
    title = f"{_SIGNS[change.op]} {change.kind} {change.type} {one_line(change.id)}"
    yield coloured(title, _COLOURS[change.op])
    before, after = _values(change.before), _values(change.after)
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if change.op != "update":
            shown = new if change.op == "insert" else old
            if shown is not None:
                yield f"    {name}: {_text(shown)}"
        elif old != new:
            yield f"    {name}: {_text(old)} -> {_text(new)}"


def coloured(text: str, colour: str) -> str:
    """Return a text in a colour if a person reads it on a terminal."""
    return f"\x1b[{colour}m{text}\x1b[0m" if on_terminal() else text


def _values(image: Image | None) -> dict[str, Any]:
    """Return what an image shows, with the ends of an edge first."""
    if image is None:
        return {}
    return {**image.get("endpoints", {}), **image.get("properties", {})}


def _text(value: Any) -> str:
    text = one_line(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
