"""A line on stderr that shows how far a long command has come."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from omnigraph.cli.command import Flags
from omnigraph.display.text import counted

if TYPE_CHECKING:
    from rich.text import Text

    from omnigraph.pipeline.progress import Progress, ProgressCallback

REFRESHES = 8
"""How many times per second the line is drawn."""


@contextmanager
def load_progress(flags: Flags) -> Iterator[ProgressCallback | None]:
    """Show the progress of a load on stderr while the block runs, if stderr is a terminal.

    The block gets the function to call with each progress, or None if nothing is shown.
    """
    line = _LoadLine()
    with _shown(flags, line) as is_shown:
        yield line.update if is_shown else None


@contextmanager
def embed_progress(flags: Flags) -> Iterator[Callable[[int, int], None] | None]:
    """Show how many vectors the embed job has filled, as ``load_progress`` does."""
    line = _EmbedLine()
    with _shown(flags, line) as is_shown:
        yield line.update if is_shown else None


@contextmanager
def export_progress(flags: Flags) -> Iterator[Callable[[int, int], None] | None]:
    """Show how many records were written, as ``load_progress`` does."""
    line = _ExportLine()
    with _shown(flags, line) as is_shown:
        yield line.update if is_shown else None


@contextmanager
def optimize_progress(flags: Flags) -> Iterator[Callable[[int, int], None] | None]:
    """Show how much of the work on tables is done, as ``load_progress`` does."""
    line = _OptimizeLine()
    with _shown(flags, line) as is_shown:
        yield line.update if is_shown else None


@contextmanager
def verify_progress(flags: Flags) -> Iterator[Callable[[int, int], None] | None]:
    """Show how many files were read, as ``load_progress`` does."""
    line = _VerifyLine()
    with _shown(flags, line) as is_shown:
        yield line.update if is_shown else None


@contextmanager
def _shown(flags: Flags, line: _Line) -> Iterator[bool]:
    """Draw the line while the block runs; the block gets False if nothing is drawn."""
    if flags.json or flags.quiet or sys.stderr is None or not sys.stderr.isatty():
        yield False
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(file=sys.stderr)
    if not console.is_interactive:
        yield False
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
        yield True


class _Line:
    """Words about the newest progress, and the seconds since the command began."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def render(self) -> Text:
        from rich.text import Text

        words = self._words()
        if words is None:
            return Text("opening")
        seconds = time.monotonic() - self._began
        return Text(f"{words}, {seconds:.0f} s", no_wrap=True, overflow="ellipsis")

    def _words(self) -> str | None:
        raise NotImplementedError


class _EmbedLine(_Line):
    """The vectors filled so far."""

    def __init__(self) -> None:
        super().__init__()
        self._newest: tuple[int, int] | None = None

    def update(self, filled: int, failed: int) -> None:
        self._newest = filled, failed

    def _words(self) -> str | None:
        if self._newest is None:
            return None
        filled, failed = self._newest
        return f"{counted(filled, 'vector')} filled" + (f", {failed:,} failed" if failed else "")


class _ExportLine(_Line):
    """The records written so far, of those there are."""

    def __init__(self) -> None:
        super().__init__()
        self._newest: tuple[int, int] | None = None

    def update(self, records: int, total: int) -> None:
        self._newest = records, total

    def _words(self) -> str | None:
        if self._newest is None:
            return None
        records, total = self._newest
        return f"{records:,} of {counted(total, 'record')} written"


class _OptimizeLine(_Line):
    """The steps done so far, of those there are; each table has two."""

    def __init__(self) -> None:
        super().__init__()
        self._newest: tuple[int, int] | None = None

    def update(self, done: int, total: int) -> None:
        self._newest = done, total

    def _words(self) -> str | None:
        if self._newest is None:
            return None
        done, total = self._newest
        return f"{done} of {total} steps done"


class _VerifyLine(_OptimizeLine):
    """The files read so far, of those there are."""

    def _words(self) -> str | None:
        words = super()._words()
        return None if words is None else words.replace("steps done", "files read")


class _LoadLine(_Line):
    """The newest progress of a load."""

    def __init__(self) -> None:
        super().__init__()
        self._newest: Progress | None = None

    def update(self, progress: Progress) -> None:
        self._newest = progress

    def _words(self) -> str | None:
        newest = self._newest
        if newest is None:
            return None
        words = f"stage {newest.stage} of {newest.stages}, {newest.phase}: "
        words += f"{counted(newest.records, 'record')} read"
        if newest.phase == "reading" and newest.rate:
            words += f", {newest.rate:,.0f}/s"
        if newest.staged:
            words += f", {newest.staged:,} staged"
        return words
