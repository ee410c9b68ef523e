"""The options of a load, in one list that every door fills: Python, command line, data source.

Nothing heavy is imported here, because the command line reads its choices from this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, get_args

from omnigraph.errors import BadRequest
from omnigraph.manifest.branch_names import MAIN
from omnigraph.pipeline.progress import ProgressCallback
from omnigraph.runner.executors import EngineName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LoadMode = Literal["merge", "patch", "append", "overwrite"]
MODES: tuple[LoadMode, ...] = get_args(LoadMode)
OnBad = Literal["fail", "skip"]
ON_BAD: tuple[OnBad, ...] = get_args(OnBad)
FIRST_BAD = 20
"""How many bad records are listed unless the caller says otherwise."""
MOST_FIRST_BAD = 1_000
"""How many bad records can be listed; a file of rejects has them all."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What every load takes: how records meet what is there, where, and under which condition.

    ``mode`` is merge (the default), patch, append or overwrite. ``on_bad`` says what a bad record
    does: fail (the default), nothing is loaded; skip, it is left out. ``from_branch`` makes a missing ``branch``
    first. ``if_commit`` refuses unless the branch is at that commit. ``retries`` says
    how often a lost race is run again at most; None (the default) for as long as locks are waited for.
    ``operation_id`` is a ULID of the caller's choice by which its commit can be found; sent again under
    the same id, the load has no effect, and the answer is the first one, ``replayed``. ``message`` says
    what the commit is for, in at most 4 KiB. ``check`` judges every record by every rule and writes nothing: there is no commit, and no branch is made.
    ``embed`` fails the load where a vector cannot be made; otherwise one that may be null stays null.
    ``rejects`` names a file that gets every bad record; ``first_bad`` is how many of them the answer or the
    error lists, 20 unless it says otherwise and at most 1,000. ``progress`` is called with a
    ``Progress`` now and then. ``engine`` is auto, local or spark; ``spark`` is a session to run on,
    ``spark_master`` and ``spark_conf`` say how to make one.
    """

    mode: LoadMode = "merge"
    branch: str = MAIN
    from_branch: str | None = None
    engine: EngineName = "auto"
    spark: SparkSession | None = None
    spark_master: str | None = None
    spark_conf: Mapping[str, str] | None = None
    actor: str | None = None
    if_commit: str | None = None
    retries: int | None = None
    rejects: str | Path | None = None
    progress: ProgressCallback | None = None
    on_bad: OnBad = "fail"
    operation_id: str | None = None
    message: str | None = None
    check: bool = False
    embed: bool = False
    first_bad: int = FIRST_BAD

    def check_choices(self) -> None:
        """Refuse a mode, or a way with bad records, that there is not."""
        for name, given, choices in (("mode", self.mode, MODES), ("on_bad", self.on_bad, ON_BAD)):
            if given not in choices:
                raise BadRequest(f"{name} is {given!r}; give one of {', '.join(choices)}")

    @property
    def skips(self) -> bool:
        """Whether bad records are left out; otherwise they end the load."""
        return self.on_bad == "skip"


class CommitKeywords(TypedDict, total=False):
    """The options of a load that commits, for type checkers: all but ``check``."""

    mode: LoadMode
    branch: str
    from_branch: str | None
    engine: EngineName
    spark: SparkSession | None
    spark_master: str | None
    spark_conf: Mapping[str, str] | None
    actor: str | None
    if_commit: str | None
    retries: int | None
    rejects: str | Path | None
    progress: ProgressCallback | None
    on_bad: OnBad
    operation_id: str | None
    message: str | None
    embed: bool
    first_bad: int


class LoadKeywords(CommitKeywords, total=False):
    """``LoadOptions`` as keyword arguments, for type checkers, which read them from no dataclass.

    A test holds the two together.
    """

    check: bool
