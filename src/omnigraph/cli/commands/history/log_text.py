"""The document of `log` as text: the commits in lanes, or as a list.

●    01M7J7JKC556HXC3ATV98VPSCY  2026-11-16 13:08:37Z  bob  branch_merge  main, tag:v1
├─╮
│ ●  01M7J7JK5AP594HCMEGRNSE934  2026-11-16 13:08:37Z  ada  load          side  "the May dump"
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.cli.commands.history.commit_lanes import DRAWN, TYPED, DrawnLine, draw
from omnigraph.cli.output import is_utf8_output, on_terminal, put
from omnigraph.cli.text_tables import GAP, moment, put_table
from omnigraph.display.panel import EMPTY
from omnigraph.display.text import printable, shortened

if TYPE_CHECKING:
    from rich.text import Text

Commit = Mapping[str, Any]

LANE_COLOURS = ("green", "yellow", "blue", "magenta", "cyan", "red")
BRANCH_STYLE, TAG_STYLE, TIME_STYLE, MESSAGE_STYLE = "bold cyan", "bold yellow", "dim", "italic"
NARROW_ACTOR = 8
"""On a screen that is too narrow an actor is cut to this width, not further."""
LONGEST_LINE = 80
"""How many characters of a message stand beside its commit; `commit show` has all of it."""


def put_flat(document: Mapping[str, Any]) -> None:
    """Write the commits of a history as a list."""
    rows = [(*_facts(commit), ", ".join(_names(commit)) or None) for commit in document["commits"]]
    put_with_messages(("commit", "time", "actor", "operation", "names"), rows, document["commits"])


def put_with_messages(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], commits: Sequence[Commit]
) -> None:
    """Write a table of commits, with a column of their messages if one of them has any."""
    said = [message_line(commit) for commit in commits]
    if any(said):
        columns = (*columns, "message")
        rows = [(*row, line) for row, line in zip(rows, said, strict=True)]
    put_table(columns, rows)


def message_line(commit: Commit) -> str | None:
    """Return the first line of the message of a commit, cut if it is long; None if it has none.

    Mutations that share a commit may have one each.
    """
    own = commit["facts"].get("message")
    said = [one["message"] for one in members(commit) if "message" in one] if own is None else [own]
    if not said:
        return None
    lines = dict.fromkeys(message.splitlines()[0] for message in said)
    return shortened(printable("; ".join(lines)), LONGEST_LINE)


def members(commit: Commit) -> Sequence[Mapping[str, Any]]:
    """Return the mutations that share a commit; none if it is of one operation."""
    found: Sequence[Mapping[str, Any]] = commit["facts"].get("group", {}).get("members", ())
    return found


def actors_text(commit: Commit) -> str | None:
    """Return who made a commit; of mutations that share it, everybody once."""
    if commit["actor_id"] is not None or not members(commit):
        actor: str | None = commit["actor_id"]
        return actor
    return ", ".join(dict.fromkeys(one["actor_id"] or EMPTY for one in members(commit)))


def put_drawn(document: Mapping[str, Any]) -> None:
    """Write the commits of a history in lanes; on a terminal in colours, and as wide as that is."""
    commits = {commit["graph_commit_id"]: commit for commit in document["commits"]}
    parents = (
        (commit["graph_commit_id"], [commit[name] for name in _PARENTS if commit[name] is not None])
        for commit in document["commits"]
    )
    lines = list(draw(parents, DRAWN if is_utf8_output() else TYPED))
    width = max((len(line.signs) for line in lines if line.commit is not None), default=0)
    drawing = _Drawing(commits, lines, width)
    put(drawing.on_screen(shutil.get_terminal_size().columns) if on_terminal() else drawing.plain())


_PARENTS = ("parent_commit_id", "merged_parent_commit_id")


def _facts(commit: Commit) -> tuple[str, str, str, str]:
    """Return what is said of a commit: id, time, actor and operation."""
    actor = actors_text(commit) or EMPTY
    time = moment(commit["created_at"])
    return commit["graph_commit_id"], time, printable(actor), commit["operation"]


def _names(commit: Commit) -> list[str]:
    """Return the heads and tags at a commit, as one-word targets are written."""
    return [*commit["branches"], *(f"tag:{name}" for name in commit["tags"])]


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Commits, and the lines that show them; the lanes are ``width`` wide."""

    commits: Mapping[str, Commit]
    lines: Sequence[DrawnLine]
    width: int

    def plain(self) -> str:
        """Return the drawing without colours, however wide."""
        facts = {name: _facts(commit) for name, commit in self.commits.items()}
        widths = [max(map(len, column)) for column in zip(*facts.values(), strict=True)]
        lines = []
        for line in self.lines:
            text = ""
            if line.commit is not None:
                cells = [*map(str.ljust, facts[line.commit], widths)]
                commit = self.commits[line.commit]
                text = GAP.join([*cells, *filter(None, (", ".join(_names(commit)), _said(commit)))])
            lines.append(f"{line.signs:<{self.width}}{GAP}{text}".rstrip())
        return "\n".join(lines)

    def on_screen(self, columns: int) -> str:
        """Return the drawing with colours, in lines that fit the screen."""
        from rich.cells import cell_len
        from rich.console import Console

        facts = {name: _facts(commit) for name, commit in self.commits.items()}
        widths = [max(map(cell_len, column)) for column in zip(*facts.values(), strict=True)]
        over = self._line_width(widths) - columns
        if over > 0:
            widths[2] = min(widths[2], max(NARROW_ACTOR, widths[2] - over))
        console = Console(file=sys.stdout, width=columns)
        with console.capture() as captured:
            for line in self.lines:
                rows = [self._lanes(line)]
                if line.commit is not None:
                    names = _painted_names(self.commits[line.commit])
                    self._add_cells(rows[0], facts[line.commit], widths)
                    if names and rows[0].cell_len + len(GAP) + names.cell_len > columns:
                        rows.append(self._lanes(line, below=self.commits[line.commit]))
                    rows[-1].append(GAP).append(names)
                    if said := _said(self.commits[line.commit]):
                        rows[-1].append(GAP if names else "").append(said, MESSAGE_STYLE)
                for row in rows:
                    row.rstrip()
                    row.truncate(columns, overflow="ellipsis")
                    console.print(row, no_wrap=True, highlight=False)
        return captured.get()

    def _line_width(self, widths: Sequence[int]) -> int:
        """Return how wide a line is with all its names."""
        names = max((len(", ".join(_names(commit))) for commit in self.commits.values()), default=0)
        return self.width + sum(widths) + len(GAP) * (len(widths) + bool(names)) + names

    def _lanes(self, line: DrawnLine, below: Commit | None = None) -> Text:
        """Return the lanes of a line; ``below`` its commit, where they go on, with a wider margin."""
        from rich.text import Text

        signs, margin = line.signs, 0
        if below is not None:
            is_root = below[_PARENTS[0]] is None
            style = DRAWN if is_utf8_output() else TYPED
            signs = signs.replace(style.commit, " " if is_root else style.lane)
            margin = 2
        text = Text()
        for sign, lane in zip(signs, line.lanes, strict=True):
            text.append(sign, LANE_COLOURS[lane % len(LANE_COLOURS)])
        return text.append(" " * (self.width - len(signs) + margin))

    @staticmethod
    def _add_cells(row: Text, facts: Sequence[str], widths: Sequence[int]) -> None:
        from rich.text import Text

        for at, (fact, width) in enumerate(zip(facts, widths, strict=True)):
            cell = Text(fact, TIME_STYLE if at == 1 else "")
            cell.truncate(width, overflow="ellipsis", pad=True)
            row.append(GAP).append(cell)


def _said(commit: Commit) -> str:
    """Return the message of a commit as it stands beside it, in quotes; empty if it has none."""
    line = message_line(commit)
    return "" if line is None else f'"{line}"'


def _painted_names(commit: Commit) -> Text:
    """Return the heads and tags at a commit in their colours."""
    from rich.text import Text

    names = [
        Text(name, TAG_STYLE if name.startswith("tag:") else BRANCH_STYLE)
        for name in _names(commit)
    ]
    return Text(", ").join(names)
