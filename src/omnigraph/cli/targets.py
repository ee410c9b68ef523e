"""Which state of the graph a reading command looks at."""

from __future__ import annotations

from typing import Annotated

import typer

SnapshotOption = Annotated[
    str | None, typer.Option("--snapshot", metavar="ID", help="The state at this commit.")
]
AtVersionOption = Annotated[
    int | None,
    typer.Option("--at-version", metavar="N", help="The branch as it was at this version."),
]


def refuse_two_targets(branch: str | None, snapshot: str | None, at_version: int | None) -> None:
    """A commit is on no branch in particular: it stands alone."""
    if snapshot is not None and (branch is not None or at_version is not None):
        raise typer.BadParameter("--snapshot excludes --branch and --at-version")
