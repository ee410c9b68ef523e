"""Changes as people see them in a terminal or a notebook: a row for each entity, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from omnigraph.changes.diff import Change, image_values
from omnigraph.display.panel import Panel
from omnigraph.display.text import cell_text, shortened

_SIGNS: Final = {"insert": "+", "update": "~", "delete": "-"}
_VALUE_CHARACTERS: Final = 40


def changes_panel(
    title: str,
    changes: Sequence[Change],
    *,
    hidden: int = 0,
    more: str | None = None,
    notes: Sequence[str] = (),
) -> Panel:
    """Return a panel of some changes; others are ``hidden``, or ``more`` says so in words."""
    rows = [(_SIGNS[one.op], one.kind, one.type, one.id, change_text(one)) for one in changes]
    if not rows:
        return Panel(title, notes=notes)
    columns = ("", "kind", "type", "id", "values")
    return Panel(title, columns=columns, rows=rows, hidden=max(hidden, 0), more=more, notes=notes)


def change_text(change: Change) -> str:
    """What an entity has, or what its properties became: `age: 30 -> 31`."""
    before, after = image_values(change.before), image_values(change.after)
    if change.op != "update":
        whole = after or before
        return ", ".join(f"{k}: {_text(v)}" for k, v in whole.items() if v is not None)
    return ", ".join(
        f"{name}: {_text(before.get(name))} -> {_text(after.get(name))}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    )


def _text(value: Any) -> str:
    return shortened(cell_text(value), _VALUE_CHARACTERS)
