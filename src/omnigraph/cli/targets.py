"""The flags and words that choose which state of the graph a command looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.register import BranchOption

if TYPE_CHECKING:
    from omnigraph.service.requests import TargetValues

SnapshotOption = Annotated[
    str | None, typer.Option("--snapshot", metavar="ID", help="The state at this commit.")
]
TagOption = Annotated[
    str | None, typer.Option("--tag", metavar="NAME", help="The state that this tag names.")
]
AtVersionOption = Annotated[
    int | None,
    typer.Option("--at-version", metavar="N", help="The branch as it was at this version."),
]
AtTimeOption = Annotated[
    str | None,
    typer.Option(
        "--at-time",
        metavar="T",
        help="The branch as it was at this time: a date (its end, UTC), or a date and time.",
    ),
]


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """Flags of a command that reads one state of a graph."""

    branch: BranchOption = None
    snapshot: SnapshotOption = None
    tag: TagOption = None
    at_version: AtVersionOption = None
    at_time: AtTimeOption = None

    def read(self) -> TargetValues:
        """Return the target as a request takes it.

        A commit id or a tag stands alone: it already determines the branch and the version.
        """
        on_branch = (self.branch, self.at_version, self.at_time)
        alone = {"--snapshot": self.snapshot, "--tag": self.tag}
        given = [flag for flag, value in alone.items() if value is not None]
        if len(given) > 1:
            raise typer.BadParameter("--snapshot excludes --tag")
        if given and any(value is not None for value in on_branch):
            raise typer.BadParameter(f"{given[0]} excludes --branch, --at-version and --at-time")
        if self.at_version is not None and self.at_time is not None:
            raise typer.BadParameter("--at-version excludes --at-time")
        return {
            "branch": self.branch,
            "snapshot": self.snapshot,
            "version": self.at_version,
            "tag": self.tag,
            "time": self.at_time,
        }
