"""What `verify` found: one row per branch of each table, with its problems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted, size_text

ProblemKind = Literal["lost", "damaged", "rows", "index", "rule", "state", "schema", "recovery"]

RESTORE = "restore the file from a backup"
REBUILD = "omnigraph ensure-indices --rebuild"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it should be, and how it can be mended.

    ``file`` is a path below the root of the graph, if one file is to blame. ``states`` say what needs it:
    `version 7`, `head:main`, `tag:v1`.
    """

    kind: ProblemKind
    detail: str
    mend: str
    file: str | None = None
    states: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {
            "kind": self.kind,
            "file": self.file,
            "states": list(self.states),
            "detail": self.detail,
            "mend": self.mend,
        }


@dataclass(frozen=True, slots=True)
class VerifiedTable:
    """What was read of a table on a branch: numbers of versions, files, bytes and rows, each counted once.

    ``table_key`` is `graph` for what belongs to no table: branches, tags, the schema, recovery. Files that
    several branches share count where they were met first.
    """

    table_key: str
    branch: str
    versions: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    problems: tuple[Problem, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {**asdict(self), "problems": [one.to_json() for one in self.problems]}

    def with_problems(self, found: Iterator[Problem] | list[Problem]) -> VerifiedTable:
        """Return this row with further problems."""
        return replace(self, problems=(*self.problems, *found))


@dataclass(frozen=True, slots=True, repr=False)
class VerifyReport(Shown):
    """All that was verified; ``problems`` are those of all rows."""

    deep: bool
    tables: tuple[VerifiedTable, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Every problem of every table."""
        return tuple(problem for table in self.tables for problem in table.problems)

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems

    def __iter__(self) -> Iterator[VerifiedTable]:
        return iter(self.tables)

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {
            "deep": self.deep,
            "ok": self.ok,
            "tables": [table.to_json() for table in self.tables],
        }

    def _panel(self) -> Panel:
        title = counted(len(self.problems), "problem") if self.problems else "no problem found"
        return Panel.of_rows(
            title,
            ("table", "branch", "versions", "files", "size", "rows", "problems"),
            [
                (
                    one.table_key,
                    one.branch,
                    one.versions,
                    one.files,
                    size_text(one.bytes),
                    one.rows,
                    len(one.problems),
                )
                for one in self.tables
            ],
            facts=[("read", "all pages" if self.deep else "sizes and footers")],
            notes=[
                f"{table.table_key} on {table.branch}: {problem.detail}"
                + (f" ({problem.file})" if problem.file else "")
                + f"; {problem.mend}"
                for table in self.tables
                for problem in table.problems
            ],
        )


def not_opened(why: str, *, deep: bool) -> VerifyReport:
    """Return the report on a graph that cannot be opened."""
    problem = Problem("state", why, "restore the graph from a backup")
    return VerifyReport(deep, (VerifiedTable("graph", "main", problems=(problem,)),))
