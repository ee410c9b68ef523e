"""A line on stderr that shows how far a long command has come."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Generic, ParamSpec

from omnigraph.cli.command import Flags
from omnigraph.display.text import counted

if TYPE_CHECKING:
    from rich.text import Text

    from omnigraph.pipeline.progress import Progress, ProgressCallback

REFRESHES = 8
"""How many times per second the line is drawn."""

Facts = ParamSpec("Facts")
Counts = Callable[[int, int], None]


def load_progress(flags: Flags) -> AbstractContextManager[ProgressCallback | None]:
    """Show the progress of a load on stderr while the block runs, if stderr is a terminal.

    The block gets the function to call with each progress, or None if nothing is shown.
    """
    return _shown(flags, _Line(_load_words))


def embed_progress(flags: Flags) -> AbstractContextManager[Counts | None]:
    """Show how many vectors the embed job has filled, as ``load_progress`` does."""
    return _shown(flags, _Line(_embed_words))


def export_progress(flags: Flags) -> AbstractContextManager[Counts | None]:
    """Show how many records were written, as ``load_progress`` does."""
    return _shown(flags, _Line(lambda n, all_: f"{n:,} of {counted(all_, 'record')} written"))


def optimize_progress(flags: Flags) -> AbstractContextManager[Counts | None]:
    """Show how much of the work on tables is done, as ``load_progress`` does."""
    return _shown(flags, _Line(lambda n, all_: f"{n} of {all_} steps done"))


def verify_progress(flags: Flags) -> AbstractContextManager[Counts | None]:
    """Show how many files were read, as ``load_progress`` does."""
    return _shown(flags, _Line(lambda n, all_: f"{n} of {all_} files read"))


def _embed_words(filled: int, failed: int) -> str:
    return f"{counted(filled, 'vector')} filled" + (f", {failed:,} failed" if failed else "")


def _load_words(newest: Progress) -> str:
    words = f"stage {newest.stage} of {newest.stages}, {newest.phase}: "
    words += f"{counted(newest.records, 'record')} read"
    if newest.phase == "reading" and newest.rate:
        words += f", {newest.rate:,.0f}/s"
    if newest.staged:
        words += f", {newest.staged:,} staged"
    return words


class _Line(Generic[Facts]):
    """Words about the newest progress, and the seconds since the command began."""

    def __init__(self, words: Callable[Facts, str]) -> None:
        self._words = words
        self._newest: str | None = None
        self._began = time.monotonic()

    def update(self, *facts: Facts.args, **named: Facts.kwargs) -> None:
        self._newest = self._words(*facts, **named)

    def render(self) -> Text:
        from rich.text import Text

        if self._newest is None:
            return Text("opening")
        seconds = time.monotonic() - self._began
        return Text(f"{self._newest}, {seconds:.0f} s", no_wrap=True, overflow="ellipsis")


@contextmanager
def _shown(flags: Flags, line: _Line[Facts]) -> Iterator[Callable[Facts, None] | None]:
    """Draw the line while the block runs; the block gets None if nothing is drawn."""
    if flags.json or flags.quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(file=sys.stderr)
    if not console.is_interactive:
        yield None
        return
    with Live(
        get_renderable=line.render,
        console=console,
        transient=True,
        refresh_per_second=REFRESHES,
        # Results are written by `output`, not through rich.
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield line.update
