"""The flags that choose which state of the graph a reading command looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

import typer

from omnigraph.cli.register import BranchOption

SnapshotOption = Annotated[
    str | None, typer.Option("--snapshot", metavar="ID", help="The state at this commit.")
]
AtVersionOption = Annotated[
    int | None,
    typer.Option("--at-version", metavar="N", help="The branch as it was at this version."),
]


class Target(TypedDict):
    """The arguments of a read that choose the state it sees."""

    branch: str | None
    snapshot: str | None
    version: int | None


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """Flags of a command that reads one state of a graph: a branch head, a commit, or a version."""

    branch: BranchOption = None
    snapshot: SnapshotOption = None
    at_version: AtVersionOption = None

    def read(self) -> Target:
        """Return the target as the methods of a graph take it.

        A commit id stands alone: it already determines the branch and the version.
        """
        if self.snapshot is not None and not (self.branch is None and self.at_version is None):
            raise typer.BadParameter("--snapshot excludes --branch and --at-version")
        return Target(branch=self.branch, snapshot=self.snapshot, version=self.at_version)
