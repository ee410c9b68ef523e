"""`omnigraph log`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph
from omnigraph.cli.commands.history.lanes import DRAWN, TYPED, Line, draw
from omnigraph.cli.output import is_utf8_output, note, on_terminal, one_line, put
from omnigraph.cli.register import UriArgument, add
from omnigraph.cli.tables import EMPTY, GAP, moment, put_table

if TYPE_CHECKING:
    from omnigraph.manifest.history.history import History

COLOURS = ("green", "yellow", "blue", "magenta", "cyan", "red")


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, reads_graph("log"), log)


def log(
    call: Call,
    uri: UriArgument = None,
    branch: Annotated[
        list[str] | None,
        typer.Option("--branch", metavar="NAME", help="Only this branch; may be repeated."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="At most N commits.")
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="ID", help="Start after this commit.")
    ] = None,
    flat: Annotated[bool, typer.Option("--flat", help="Leave the drawing out.")] = False,
) -> None:
    """Draw the commits of all branches, newest first."""
    with call.open(call.address(uri)) as graph:
        found = graph.commits.history(branch, limit, before)
    call.answer(found.to_json(), lambda: _put_flat(found) if flat else _put_drawn(found))
    if found.next is not None and not call.flags.json:
        note(f"there is more: --before {found.next}")


def _facts(found: History) -> dict[str, tuple[str, str, str, str, str]]:
    """Return what is said of each commit: id, time, actor, operation, and its heads and tags."""
    return {
        commit.graph_commit_id: (
            commit.graph_commit_id,
            moment(commit.created_us),
            commit.actor_id or EMPTY,
            commit.operation,
            _names(found, commit.graph_commit_id),
        )
        for commit in found.commits
    }


def _names(found: History, graph_commit_id: str) -> str:
    """Return the heads and tags at a commit, as one-word targets are written."""
    tags = (f"tag:{name}" for name in found.tags_at(graph_commit_id))
    return ", ".join([*found.branches_at(graph_commit_id), *tags])


def _put_flat(found: History) -> None:
    rows = [(*facts[:4], facts[4] or None) for facts in _facts(found).values()]
    put_table(("commit", "time", "actor", "operation", "names"), rows)


def _put_drawn(found: History) -> None:
    """Write one line per commit, with its lanes on the left."""
    facts = {name: [one_line(one) for one in said] for name, said in _facts(found).items()}
    widths = [max(map(len, column)) for column in zip(*facts.values(), strict=True)]
    shown = ((commit.graph_commit_id, commit.parent_ids) for commit in found.commits)
    lines = list(draw(shown, DRAWN if is_utf8_output() else TYPED))
    texts = [
        "" if line.commit is None else GAP.join(map(str.ljust, facts[line.commit], widths)).rstrip()
        for line in lines
    ]
    width = max((len(line.signs) for line in lines if line.commit is not None), default=0)
    put("\n".join((_coloured if on_terminal() else _plain)(lines, texts, width)))


def _plain(lines: list[Line], texts: list[str], width: int) -> Iterator[str]:
    for line, text in zip(lines, texts, strict=True):
        yield f"{line.signs:<{width}}  {text}".rstrip()


def _coloured(lines: list[Line], texts: list[str], width: int) -> Iterator[str]:
    """Return the lines with one colour per lane, and the names bold."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stdout, soft_wrap=True)
    for line, text in zip(lines, texts, strict=True):
        row = Text()
        for sign, lane in zip(line.signs, line.lanes, strict=True):
            row.append(sign, COLOURS[lane % len(COLOURS)])
        row.append(" " * (width - len(line.signs) + 2))
        row.append(text)
        with console.capture() as captured:
            console.print(row, soft_wrap=True)
        yield captured.get().rstrip("\n")
