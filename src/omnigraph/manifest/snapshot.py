"""Snapshots: immutable maps from table key to table state, and the targets that name them.

For example, ``Target.of(branch="review", version=12)`` names one version of a branch;
``Target.of_text("review@12")`` is the same. ``manifest.history.resolve`` turns it into a ``Snapshot`` whose tables are ``{"node:Person": version
8 on table branch "review", "edge:Knows": version 3 on the main lineage}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, TypedDict

from omnigraph.clock import is_ulid_prefix
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted, printable
from omnigraph.errors import BadRequest
from omnigraph.lang.query.ir import EVER
from omnigraph.manifest.branch_names import MAIN, trim_branch_name, trim_tag_name
from omnigraph.manifest.rows import GraphCommit, Head, TableState
from omnigraph.types.temporal import format_moment, milliseconds_of, moment_of


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot(Shown):
    """Everything a read needs to stay on one state of the graph from start to end."""

    branch: str
    graph_id: str
    ir_hash: str
    commit: GraphCommit
    tables: Mapping[str, TableState]

    @property
    def graph_commit_id(self) -> str:
        """The id of this snapshot: that of its head commit."""
        return self.commit.graph_commit_id

    @property
    def manifest_version(self) -> int:
        """The version of the head commit on the branch where it was made."""
        return self.commit.manifest_version

    @classmethod
    def of(cls, branch: str, head: Head) -> Snapshot:
        """Return the snapshot that a head row describes."""
        return cls(branch, head.graph_id, head.ir_hash, head.commit, head.tables)

    def to_json(self) -> dict[str, Any]:
        """Return the public form, with tables ordered by key."""
        return {
            "graph_commit_id": self.graph_commit_id,
            "branch": self.branch,
            "manifest_version": self.manifest_version,
            "schema_hash": self.ir_hash,
            "tables": [self.tables[key].to_json() for key in sorted(self.tables)],
        }

    def _panel(self) -> Panel:
        tables = [self.tables[key] for key in sorted(self.tables)]
        return Panel.of_rows(
            f"snapshot {self.graph_commit_id} of branch {self.branch}, version "
            f"{self.manifest_version}: {counted(len(tables), 'table')}",
            ("table", "rows", "version", "stored on"),
            [
                (one.table_key, one.row_count, one.table_version, one.table_branch or MAIN)
                for one in tables
            ],
        )


class TargetKeywords(TypedDict, total=False):
    """The keyword arguments with which every reading call names a target; see ``Target.of``."""

    branch: str | None
    snapshot: str | None
    version: int | None
    tag: str | None
    time: datetime | date | str | None
    at: TargetLike | None


@dataclass(frozen=True, slots=True, repr=False)
class Target:
    """What a read looks at: a branch head, a commit id, a tag, or a branch at a version or a time.

    ``time`` is in microseconds since the epoch. ``of`` checks what a caller gives; that a target names
    one state only holds however it was made. What it was made of is kept beside what it names:
    ``held_by`` is the branch of a ``Snapshot``, and ``tagged`` the commit of a tag that was looked up,
    which is then the only one that it may name. ``is_prefix``: the commit is the only one whose id
    begins with ``snapshot``.
    """

    branch: str | None = None
    snapshot: str | None = None
    version: int | None = None
    tag: str | None = None
    time: int | None = None
    held_by: str | None = field(default=None, compare=False, repr=False)
    tagged: str | None = field(default=None, compare=False, repr=False)
    is_prefix: bool = False

    def __post_init__(self) -> None:
        # A policy is asked about the branch of a target, so no other state may hide behind it.
        on_branch = any(one is not None for one in (self.branch, self.version, self.time))
        if (self.snapshot is not None) + (self.tag is not None) + on_branch > 1:
            raise _several_states()

    @classmethod
    def of(
        cls,
        branch: object = None,
        snapshot: object = None,
        version: object = None,
        tag: object = None,
        time: object = None,
        at: object = None,
    ) -> Target:
        """Return a checked target; without arguments, the head of `main`.

        ``at`` is a target of its own: one that ``og.at`` made, a snapshot, a commit, a text of
        ``of_text``, or a time of `main`.
        """
        on_branch = [value for value in (branch, version, time) if value is not None]
        if sum((snapshot is not None, tag is not None, at is not None, bool(on_branch))) > 1:
            raise _several_states()
        if at is not None:
            return cls.of_value(at)
        if snapshot is not None:
            if not isinstance(snapshot, str):
                raise BadRequest(
                    "a snapshot is named by its commit id, a text; give a Snapshot or a commit as `at`"
                )
            return cls(snapshot=snapshot.strip())
        if tag is not None:
            return cls(tag=trim_tag_name(tag))
        if version is not None and time is not None:
            raise BadRequest("give a version or a time of the branch, not both")
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise BadRequest("a version is a whole number")
        name = MAIN if branch is None else trim_branch_name(branch)
        return cls(branch=name, version=version, time=None if time is None else _moment(time))

    @classmethod
    def of_value(cls, value: object) -> Target:
        """Return the target that one value names; a text is one of ``of_text``, a time one of `main`."""
        if isinstance(value, Target):
            return value
        if isinstance(value, Snapshot):
            return cls(snapshot=value.graph_commit_id, held_by=value.branch)
        if isinstance(value, GraphCommit):
            return cls(snapshot=value.graph_commit_id)
        if isinstance(value, str):
            return cls.of_text(value)
        if isinstance(value, date):  # a datetime is one
            return cls.of(time=value)
        raise BadRequest(
            f"a Python {type(value).__name__} names no state of a graph; give a value of `og.at`, a "
            f"Snapshot, a commit, a datetime, or a text: {TEXT_FORMS}"
        )

    @classmethod
    def of_text(cls, text: str) -> Target:
        """Return the target that a text names: BRANCH, BRANCH@VERSION, commit:ID or tag:NAME.

        Neither `@` nor `:` can be part of a name. Of an id the beginning will do, if no other commit
        has it.
        """
        kind, colon, name = (part.strip() for part in text.partition(":"))
        if colon and kind in {"commit", "tag"}:
            if not name:
                raise BadRequest(f"`{text}` names no {kind}; give {TEXT_FORMS}")
            if kind == "tag":
                return cls.of(tag=name)
            return cls(snapshot=name.upper(), is_prefix=is_ulid_prefix(name.upper()))
        if colon:
            is_time = _is_moment(text)
            way = "give a time as `time` (--at-time), or" if is_time else "give"
            raise BadRequest(f"`{text}` names no state of a graph; {way} {TEXT_FORMS}")
        branch, at, version = text.partition("@")
        if not at:
            return cls(branch=trim_branch_name(branch))
        if re.fullmatch(r"\s*[0-9]{1,18}\s*", version) is None:
            raise BadRequest(f"`{text}` has no version after its `@`; give {TEXT_FORMS}")
        return cls.of(branch, version=int(version))

    @property
    def names_a_head(self) -> bool:
        """Whether this target means the newest commit of a branch at the time of the read."""
        return all(given is None for given in (self.snapshot, self.version, self.tag, self.time))

    def to_json(self) -> dict[str, Any]:
        """Return the public form; version, tag and time (in microseconds) appear only if given."""
        named: dict[str, Any] = {"branch": self.branch, "snapshot": self.snapshot}
        given = {"version": self.version, "tag": self.tag, "time": self.time}
        return named | {name: value for name, value in given.items() if value is not None}

    def __str__(self) -> str:
        if self.snapshot is not None:
            return f"snapshot {self.snapshot}{'…' if self.is_prefix else ''}"
        if self.tag is not None:
            return f"tag {self.tag}"
        at = "" if self.version is None else f" at version {self.version}"
        at = at if self.time is None else f" at {format_moment(self.time)}"
        return f"branch {self.branch}{at}"

    def __repr__(self) -> str:
        return f"<omnigraph.Target {printable(str(self))}>"


TEXT_FORMS = "BRANCH, BRANCH@VERSION, commit:ID or tag:NAME"
"""How a text names a state of a graph, here and on the command line."""

TargetLike = Target | Snapshot | GraphCommit | datetime | date | str
"""What ``at`` may be: a target, or a value that stands for one."""


def _several_states() -> BadRequest:
    return BadRequest(
        "more than one state is named; give a snapshot, a tag, a target as `at`, or a branch with an "
        "optional version or time"
    )


AsOf = datetime | date | str | None
"""What ``as_of`` of a read may be: a moment, a text that names one, or "ever"."""


def check_as_of(as_of: object) -> int | str:
    """Return the moment that ``as_of`` of a read names, in milliseconds since the epoch, or "ever"."""
    if as_of == EVER:
        return EVER
    try:
        return milliseconds_of(as_of)
    except ValueError as error:
        raise BadRequest(
            f"as_of names no moment: {error}; give a datetime, a date, a text such as 2026-05-04 or "
            '2026-05-04T10:30:00Z, or "ever"'
        ) from None


def _is_moment(text: str) -> bool:
    try:
        moment_of(text)
    except ValueError:
        return False
    return True


def _moment(time: object) -> int:
    """Return a time in microseconds since the epoch."""
    try:
        return moment_of(time)
    except ValueError as error:
        raise BadRequest(
            f"{error}; give a datetime, a date, or a text such as 2026-05-04 or "
            "2026-05-04T10:30:00.000000Z"
        ) from None
