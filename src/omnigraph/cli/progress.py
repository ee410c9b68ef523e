"""A line on stderr that shows how far a long command has come."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from omnigraph.cli.command import Flags

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
    if flags.json or flags.quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(file=sys.stderr)
    if not console.is_interactive:
        yield None
        return
    line = _Line()
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


class _Line:
    """The newest progress, shown with the seconds since the load began."""

    def __init__(self) -> None:
        self._newest: Progress | None = None
        self._began = time.monotonic()

    def update(self, progress: Progress) -> None:
        self._newest = progress

    def render(self) -> Text:
        from rich.text import Text

        return Text(self._words(), no_wrap=True, overflow="ellipsis")

    def _words(self) -> str:
        newest = self._newest
        if newest is None:
            return "opening"
        words = f"stage {newest.stage} of {newest.stages}, {newest.phase}: "
        words += f"{newest.records:,} records read"
        if newest.phase == "reading" and newest.rate:
            words += f", {newest.rate:,.0f}/s"
        if newest.staged:
            words += f", {newest.staged:,} staged"
        return f"{words}, {time.monotonic() - self._began:.0f} s"
