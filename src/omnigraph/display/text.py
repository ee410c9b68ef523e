"""Text for a screen: nothing in it steers a terminal, and columns are as wide as they look."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any, Final

MAX_COLUMN_WIDTH: Final = 80
MIN_COLUMN_WIDTH: Final = 8
SEPARATOR: Final = " | "
CUT: Final = "…"
ABSENT: Final = "–"
"""Stands for the value of a property that is not there at all; null is something else."""

# Parts of one visible character: emoji and several scripts are spelled with them.
_JOINERS: Final = "\u200c\u200d"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def printable(text: str, keep: str = "") -> str:
    """The text without anything that could steer a terminal, on one line unless line breaks are kept."""
    return text if text.isprintable() else "".join(_spelled(char, keep) for char in text)


def _spelled(char: str, keep: str) -> str:
    if char.isprintable() or char in _JOINERS or char in keep or unicodedata.category(char) == "Zs":
        return char
    return char.encode("unicode_escape").decode("ascii")


def cell_text(value: Any) -> str:
    """A value in a cell: text as it is, everything else as compact JSON."""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def query_text(name: str | None) -> str:
    """The name of a query, or that it has none."""
    return "(anonymous)" if name is None else name


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and `…` if it has more characters than that."""
    return text if len(text) <= most else text[: most - 1] + CUT


def width_of(text: str) -> int:
    """How many cells of a screen the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def padded(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly that many cells of a screen, cut if it is too long."""
    size = width_of(text)
    if size > width:
        from rich.cells import set_cell_size

        text = set_cell_size(text, width - 1).rstrip() + CUT
        size = width_of(text)
    room = " " * (width - size)
    return room + text if right else text + room


def wrapped(text: str, width: int) -> list[str]:
    """The text in pieces that fit into that many cells of a screen."""
    if width_of(text) <= width:
        return [text]
    if text.isascii():
        return [text[at : at + width] for at in range(0, len(text), width)]
    from rich.cells import chop_cells

    return chop_cells(text, width)


def natural_widths(lines: Iterable[Sequence[str]]) -> list[int]:
    """How wide each column is if no cell is cut."""
    return [max(map(width_of, column)) for column in zip(*lines, strict=True)]


def grid(
    lines: Iterable[Sequence[str]],
    widths: Sequence[int],
    right: Sequence[bool] = (),
    *,
    gap: str = SEPARATOR,
    wraps: bool = False,
) -> Iterator[str]:
    """The lines of a table, each cell as wide as its column; ``right`` says which are aligned right.

    A longer cell is cut, or goes on below if it ``wraps``.
    """
    sides = right or (False,) * len(widths)
    for line in lines:
        below = zip_longest(*map(wrapped, line, widths), fillvalue="") if wraps else [line]
        for cells in below:
            sized = zip(cells, widths, sides, strict=True)
            yield gap.join(padded(text, size, right=side) for text, size, side in sized).rstrip()


def rule(widths: Iterable[int]) -> str:
    """The line below the heading of a grid."""
    return "-+-".join("-" * size for size in widths)


def fitted(natural: Sequence[int], width: int | None, most: int = MAX_COLUMN_WIDTH) -> list[int]:
    """The widths of the columns, each ``most`` at most: the widest give way until the screen holds all."""
    widths = [min(size, most) for size in natural]
    if width is None:
        return widths
    room = width - len(SEPARATOR) * (len(widths) - 1)
    for cap in range(max(widths), MIN_COLUMN_WIDTH - 1, -1):
        if sum(min(size, cap) for size in widths) <= room:
            return [min(size, cap) for size in widths]
    return [min(size, MIN_COLUMN_WIDTH) for size in widths]


def fitting_columns(natural: Sequence[int], width: int) -> int:
    """How many of the columns, from the left, a screen holds if all of them give way; at least one."""
    used = -len(SEPARATOR)
    for count, size in enumerate(natural):
        used += len(SEPARATOR) + min(size, MIN_COLUMN_WIDTH)
        if used > width:
            return max(count, 1)
    return len(natural)


def screen_width() -> int:
    """The width of the terminal, or a usual one where there is none."""
    import shutil

    return max(shutil.get_terminal_size((120, 40)).columns, 40)


def counted(count: int, thing: str, things: str | None = None) -> str:
    """A number and what it counts: `1 row`, `2,000 rows`."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def moment_text(microseconds: int) -> str:
    """A time in microseconds since 1970, to the second, in UTC."""
    # From an integer, because a float would round the last digits of a time far in the future.
    moment = _EPOCH + timedelta(seconds=microseconds // 1_000_000)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def size_text(size: float) -> str:
    """A number of bytes in the unit that fits: `512 bytes`, `1.5 MB`."""
    if size < 1_000:
        return f"{size:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1_000
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1_000:.1f} TB"
