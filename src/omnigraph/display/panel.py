"""`Shown`: values that show themselves in a terminal (`repr`, `print`) and in a notebook (HTML).

A value describes what people look at as a `Panel`; this module draws it, so that every result looks
alike, is cut where it would be long, and cannot carry markup or terminal codes of the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from omnigraph.display.text import (
    cell_text,
    counted,
    fitted,
    fitting_columns,
    grid,
    natural_widths,
    padded,
    printable,
    rule,
    screen_width,
    shortened,
    width_of,
)

SHOWN_ROWS: Final = 10
"""This many rows of a result are shown."""

LISTED_ROWS: Final = 60
"""This many rows are shown of results that have one row for each table, step or phase."""

CELL_CHARACTERS: Final = 200
"""At most this many characters of one value are shown."""

REMARK_CHARACTERS: Final = 2_000
"""At most this many characters of a title or a remark are shown."""

EMPTY: Final = "-"
"""What stands where there is no value."""


@dataclass(frozen=True, slots=True)
class Panel:
    """What people look at: a title, then facts by name, then a table, then remarks.

    Values of cells are texts, numbers, or None where there is nothing. ``numeric`` says which columns
    are aligned right, by default those of numbers. ``hidden`` rows are counted below the table, or
    ``more`` says in words what is left out.
    """

    title: str
    facts: Sequence[tuple[str, Any]] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    hidden: int = 0
    more: str | None = None
    notes: Sequence[str] = ()
    numeric: Sequence[bool] | None = None

    @classmethod
    def of_rows(
        cls,
        title: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        facts: Sequence[tuple[str, Any]] = (),
        notes: Sequence[str] = (),
    ) -> Panel:
        """Return a panel of a row for each table or step; of very many the first are shown."""
        listed = list(rows)
        hidden = max(len(listed) - LISTED_ROWS, 0)
        return cls(title, facts, columns, listed[:LISTED_ROWS], hidden, notes=notes)

    def text(self, width: int | None = None) -> str:
        """The panel as lines that fit a screen, by default the terminal's."""
        room = screen_width() if width is None else width
        lines = [_remark(self.title), *_fact_lines(self.facts)]
        if self.columns:
            lines += self._table_lines(room)
        return "\n".join([*lines, *map(_remark, self._remarks())])

    def html(self) -> str:
        """The panel as HTML, with all texts escaped: the title, a table of facts, one of rows, remarks."""
        from html import escape

        parts = [f"<div{_align(False)}>{escape(_remark(self.title))}</div>"]
        if self.facts:
            parts.append("<table><tbody>")
            for name, value in self.facts:
                shown = f"<td{_align(False)}>{escape(_cell(value))}</td>"
                parts.append(f"<tr><th{_align(False)}>{escape(_cell(name))}</th>{shown}</tr>")
            parts.append("</tbody></table>")
        if self.columns:
            right = self._aligned_right()
            head = _html_row("th", map(_cell, self.columns), right)
            body = "".join(_html_row("td", map(_cell, row), right) for row in self.rows)
            parts.append(f"<table><thead>{head}</thead><tbody>{body}</tbody></table>")
        parts += [
            f"<div{_align(False)}>{escape(_remark(remark))}</div>" for remark in self._remarks()
        ]
        return f"<div>{''.join(parts)}</div>"

    def _remarks(self) -> list[str]:
        more = self.more
        if more is None and self.hidden:
            more = f"… {self.hidden:,} more"
        return [*([] if more is None else [more]), *self.notes]

    def _table_lines(self, width: int) -> list[str]:
        lines = [list(map(_cell, line)) for line in (self.columns, *self.rows)]
        natural = natural_widths(lines)
        count = fitting_columns(natural, width)
        widths = fitted(natural[:count], width)
        head, *body = grid((line[:count] for line in lines), widths, self._aligned_right()[:count])
        drawn = [head, rule(widths), *body]
        left_out = lines[0][count:]
        if left_out:
            drawn.append(f"{counted(len(left_out), 'column')} not shown: {', '.join(left_out)}")
        return drawn

    def _aligned_right(self) -> Sequence[bool]:
        if self.numeric is not None:
            return self.numeric
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.columns)
        return [
            any(value is not None for value in column)
            and all(value is None or type(value) in {int, float} for value in column)
            for column in columns
        ]


def _cell(value: Any) -> str:
    if value is None:
        return EMPTY
    if isinstance(value, float):
        return f"{value:,.2f}"
    text = f"{value:,}" if type(value) is int else cell_text(value)
    # Cut before it is spelled out, so that a value of megabytes costs nothing.
    return printable(shortened(text, CELL_CHARACTERS))


def _remark(text: str) -> str:
    return printable(shortened(text, REMARK_CHARACTERS))


def _fact_lines(facts: Sequence[tuple[str, Any]]) -> list[str]:
    names = [_cell(name) for name, _ in facts]
    size = max(map(width_of, names), default=0)
    return [
        f"{padded(name, size)}  {_cell(value)}".rstrip()
        for name, (_, value) in zip(names, facts, strict=True)
    ]


def _html_row(tag: str, cells: Iterable[str], right: Sequence[bool]) -> str:
    from html import escape

    drawn = (
        f"<{tag}{_align(at)}>{escape(text)}</{tag}>" for text, at in zip(cells, right, strict=True)
    )
    return f"<tr>{''.join(drawn)}</tr>"


def _align(right: bool) -> str:
    side = "right" if right else "left"
    return f' style="text-align:{side};white-space:pre-wrap;padding:0 0.6em 0 0"'


class Shown:
    """A value that shows itself by its panel. A dataclass of it is declared with ``repr=False``."""

    __slots__ = ()

    def _panel(self) -> Panel:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._panel().text()

    def __str__(self) -> str:
        return self._panel().text()

    def _repr_html_(self) -> str:
        return self._panel().html()
