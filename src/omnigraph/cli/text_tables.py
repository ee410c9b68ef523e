"""Tables for people: plain columns, and on a terminal as rich draws them.

Rich folds long cells at words, which `display.text.grid` does not: there a cell is cut, or broken at
the edge of its column.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from omnigraph.cli.output import on_terminal, put
from omnigraph.display.panel import EMPTY
from omnigraph.display.text import grid, natural_widths, printable

GAP = "  "


def put_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], right: Collection[str] = ()
) -> None:
    """Write a table to stdout. ``None`` is shown as `-`.

    Columns of whole numbers are aligned right, and those that ``right`` names.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [
        name in right or (bool(rows) and all(isinstance(row[at], int) for row in rows))
        for at, name in enumerate(columns)
    ]
    put((_draw_table if on_terminal() else _plain_table)(columns, cells, numeric))


def put_names(column: str, names: Sequence[str]) -> None:
    """Write a table of one column, without a heading if a program reads it."""
    if on_terminal():
        put_table((column,), [(name,) for name in names])
    else:
        put("\n".join(_cell(name) for name in names))


def put_facts(facts: Sequence[tuple[str, Any]]) -> None:
    """Write `name: value` lines to stdout, with the values aligned."""
    width = max(len(name) for name, _ in facts) + 1
    put("\n".join(f"{name + ':':<{width}} {_cell(value)}" for name, value in facts))


def moment(microseconds: int) -> str:
    """Return a time in microseconds since the epoch as text for people."""
    # Integer division, because a float would round the last digits of a time far in the future.
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _cell(value: Any) -> str:
    return EMPTY if value is None else printable(str(value))


def _plain_table(
    columns: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]
) -> str:
    """Return the table as text columns, aligned by spaces."""
    lines = [columns, *cells]
    return "\n".join(grid(lines, natural_widths(lines), numeric, gap=GAP))


def _draw_table(
    columns: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]
) -> str:
    """Return the table as rich draws it on a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in cells:
        # Text, not str: rich would read square brackets in a str as markup.
        table.add_row(*map(Text, row))
    console = Console(file=sys.stdout)
    with console.capture() as captured:
        console.print(table)
    return captured.get()
