"""The marks of published table versions: which commit published each, and which rows left the table then.

The row `version:7@@v=9` of the manifest has in its ``base_objects``, besides the table,

    commit:01J…   the commit that published version 9
    gone:5f0a     a row left the table whose id has this hash
    gone:*        rows left the table, too many to be told, or it is not known which

So the history of one entity is found without looking at other commits: a row carries the version of its
last change, and a row that is absent left the table only in a version with its mark. Two ids may have one
hash: a mark says where to look. Rows of older releases have no marks.

The manifest has no index, and to search it for a name reads the names of all rows. Its row ids ascend with
time, and so do the versions of a table that `main` publishes, so ``VersionRows`` guesses where a row is:

    row ids    0 …            4,000            8,000
    versions   1 …          (1,850)            4,000     version 2,000 lies near row id 4,000, and a little above
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import TABLE_VERSION
from omnigraph.storage.filters import Condition, Pushdown, filter_expression, sql_literal
from omnigraph.storage.tables.staging import TOLD_ROWS, Staged

ANY_GONE: Final = ("gone:*",)
"""The mark of a version that any row may have left."""

_NEAR: Final = 8
"""A commit rarely makes more versions of a table than this: those are looked up by name."""
_WINDOW: Final = 48
"""How many rows are read around the place where a version is expected."""
_TURNS, _GUESSES = 16, 5
"""How often a version is looked for by its place; after some guesses the rows between are halved."""
_FEW: Final = 1024
"""So many rows are read one by one rather than that the marks of all rows are searched."""
_COLUMNS: Final = ("object_id", "base_objects", "table_version", "table_branch")


def gone_mark(id: str) -> str:
    """Return the mark of a row that left its table."""
    return f"gone:{hashlib.blake2b(id.encode('utf-8', 'surrogatepass'), digest_size=2).hexdigest()}"


def gone_marks(committed: Iterable[Staged]) -> tuple[str, ...]:
    """Return the marks of the rows that some transactions on one table removed."""
    ids: set[str] = set()
    for staged in committed:
        if staged.rows.deleted == 0:
            continue
        if staged.removed_ids is None:
            return ANY_GONE
        ids.update(staged.removed_ids)
    return ANY_GONE if len(ids) > TOLD_ROWS else tuple(sorted(map(gone_mark, ids)))


class Published(NamedTuple):
    """A published version of a table; ``graph_commit_id`` is None if its row has no marks.

    ``record`` is the metadata of the commit's row, if that was read along with it.
    """

    table_branch: str | None
    version: int
    graph_commit_id: str | None
    record: str | None = None


class _Row(NamedTuple):
    """Where a version of a table stands in the manifest."""

    row_id: int
    version: int
    published: Published | None = None


class VersionRows:
    """Finds versions of one table that `main` published by the place of their rows in the manifest.

    Each look-up narrows the next one down; a walk goes back from version to version.
    """

    def __init__(self, manifest: Manifest, state: BranchState, incarnation: int) -> None:
        self._manifest = manifest
        self._state = state
        self._prefix = f"version:{incarnation}@@v="
        self._known: list[_Row] | None = None
        self._newest = next(
            (
                one.table_version
                for one in state.head.tables.values()
                if one.incarnation == incarnation and one.table_branch is None
            ),
            None,
        )

    def first(self, low: int, high: int) -> Published | None:
        """Return the lowest published version between two, both included; None: it is not found this way."""
        rows = self._rows()
        above = next((at for at, row in enumerate(rows) if row.version >= low), 0)
        if above == 0:
            return None
        left, right, size = rows[above - 1], rows[above], _WINDOW
        for turn in range(_TURNS):
            begin = max(left.row_id, _guess(left, right, low, is_even=turn > _GUESSES) - size // 2)
            seen = self._read(begin, min(begin + size, right.row_id + _WINDOW))
            below = [row for row in seen if row.version < low]
            found = next((row for row in seen if row.version >= low), None)
            if found is not None and (below or found.version == low or begin == left.row_id):
                rows.insert(above, found)
                is_there = found.version <= high
                return found.published if is_there else None
            if found is not None:
                right = found
            elif below and below[-1].row_id > left.row_id:
                left = below[-1]
            else:
                size *= 4  # many rows of other tables lie here
        return None

    def it_left(self, id: str, high: int) -> list[Published] | None:
        """Return ``versions_it_left`` up to a version, if few rows are older than that; else None."""
        above = min((row.row_id for row in self._rows() if row.version > high), default=None)
        if above is None or above > _FEW:
            return None
        marks = {gone_mark(id), *ANY_GONE}
        read = self._manifest.rows_at(self._state, range(above), _COLUMNS)
        found = [
            _read(row)
            for row in read
            if row["object_id"].startswith(self._prefix)
            and (len(row["base_objects"]) < 2 or marks.intersection(row["base_objects"]))
        ]
        return sorted(found, key=lambda one: one.version)

    def _rows(self) -> list[_Row]:
        """Return what is known of the places of versions, ascending: at first only the two ends."""
        if self._known is None:
            last = None if self._newest is None else self._manifest.newest_row_id(self._state)
            ends = [_Row(0, 0)]
            if last is not None and self._newest is not None:
                ends.append(_Row(last, self._newest))
            self._known = ends
        return self._known

    def _read(self, begin: int, end: int) -> list[_Row]:
        """Return the versions of the table whose rows are between two row ids, with their commits."""
        read = self._manifest.rows_at(self._state, range(begin, end), (*_COLUMNS, "metadata"))
        records = {row["object_id"]: row["metadata"] for row in read}
        found = [row for row in read if row["object_id"].startswith(self._prefix)]
        return sorted(
            _Row(row["_rowid"], row["table_version"], _read(row, records)) for row in found
        )


def _guess(left: _Row, right: _Row, version: int, *, is_even: bool) -> int:
    """Return the row id at which a version is, if versions are spread evenly; or the middle of the two rows."""
    rows, versions = right.row_id - left.row_id, right.version - left.version
    if is_even or versions <= 0:
        return left.row_id + rows // 2
    return left.row_id + rows * (version - left.version) // versions


def first_published(
    manifest: Manifest,
    state: BranchState,
    incarnation: int,
    table_branch: str | None,
    versions: tuple[int, int],
) -> Published | None:
    """Return the lowest version between two of them that a branch of the graph published, both included."""
    low, high = versions
    near = [
        f"version:{incarnation}@{table_branch or ''}@v={version}"
        for version in range(low, min(low + _NEAR, high + 1))
    ]
    where = filter_expression(state.table.schema, [Condition("object_id", "in", near)])
    found = _published(manifest, state, where)
    if not found and high >= low + _NEAR:
        found = published_between(manifest, state, incarnation, table_branch, versions)
    return found[0] if found else None


def published_between(
    manifest: Manifest,
    state: BranchState,
    incarnation: int,
    table_branch: str | None,
    versions: tuple[int, int],
) -> list[Published]:
    """Return the versions between two of them that a branch of the graph published, ascending."""
    wanted = [
        Condition("object_type", "=", TABLE_VERSION),
        Condition("object_id", "prefix", f"version:{incarnation}@{table_branch or ''}@v="),
        Condition("table_version", ">=", versions[0]),
        Condition("table_version", "<=", versions[1]),
    ]
    return _published(manifest, state, filter_expression(state.table.schema, wanted))


def versions_it_left(
    manifest: Manifest, state: BranchState, incarnation: int, id: str
) -> list[Published]:
    """Return the versions in which a row of this id may have left the table, and all without marks.

    They are of all branches of the table that this branch of the graph knows, ascending.
    """
    kind = state.table.schema.field("base_objects").type.value_type
    marks = " OR ".join(
        f"array_has(base_objects, {sql_literal(mark, kind)})" for mark in (gone_mark(id), *ANY_GONE)
    )
    # One column is tested, because all rows are looked at, and columns are what costs.
    table = sql_literal(f"table:{incarnation}", kind)
    where = Pushdown(
        f"array_has(base_objects, {table}) AND ({marks} OR array_length(base_objects) < 2)",
        columns=frozenset({"base_objects"}),
    )
    return _published(manifest, state, where)


def _published(manifest: Manifest, state: BranchState, where: Pushdown | None) -> list[Published]:
    assert where is not None, "the filter tests something"
    read = manifest.read_rows(state, where, _COLUMNS)
    found = [_read(row) for row in read if row["object_id"].startswith("version:")]
    return sorted(found, key=lambda one: one.version)


def _read(row: dict[str, Any], records: Mapping[str, str] | None = None) -> Published:
    """Return what a row says; ``records`` are the metadata of rows around it."""
    commits = [one for one in row["base_objects"] or () if one.startswith("commit:")]
    if not commits:
        return Published(row["table_branch"], row["table_version"], None)
    name, record = commits[0].removeprefix("commit:"), (records or {}).get(commits[0])
    return Published(row["table_branch"], row["table_version"], name, record)
