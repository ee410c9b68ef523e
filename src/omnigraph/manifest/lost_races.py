"""Lost races: what an operation is told when another one came first."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.errors import ExpectedVersionMismatch, SchemaConflict
from omnigraph.manifest.rows import Head, TableState

MANIFEST_KEY = "__manifest"


def check_expected(
    head: Head, expected: Iterable[TableState], head_commit_id: str | None = None
) -> None:
    """Refuse when a table moved or was replaced; the first one in key order is reported.

    With ``head_commit_id`` the head must also be that commit.
    """
    for wanted in sorted(expected, key=lambda state: state.table_key):
        pinned = head.tables.get(wanted.table_key)
        if pinned is None or pinned.identity != wanted.identity:
            raise moved_error(wanted, pinned)
    if head_commit_id not in {None, head.commit.graph_commit_id}:
        raise ExpectedVersionMismatch(
            f"the branch moved from commit {head_commit_id} to {head.commit.graph_commit_id} "
            "meanwhile; read again and retry",
            table_key=MANIFEST_KEY,
            expected=0,
            actual=head.commit.manifest_version,
        )


def moved_error(wanted: TableState, pinned: TableState | None) -> ExpectedVersionMismatch:
    """Return the error for a moved table. ``actual`` is 0 if another table has its name now."""
    actual = 0
    if pinned is not None and pinned.incarnation == wanted.incarnation:
        actual = pinned.table_version
    if actual == wanted.table_version:
        actual = 0  # the same number, but on another table branch
    became = f"moved from version {wanted.table_version} to {actual}" if actual else "was replaced"
    return ExpectedVersionMismatch(
        f"{wanted.table_key} {became} meanwhile; read again and retry",
        table_key=wanted.table_key,
        expected=wanted.table_version,
        actual=actual,
    )


def branch_remade(branch: str, pins: Iterable[TableState] = ()) -> ExpectedVersionMismatch:
    """Return the lost race of an operation whose branch was deleted and made again."""
    first = min(pins, key=lambda state: state.table_key, default=None)
    return ExpectedVersionMismatch(
        f"branch `{branch}` was deleted and made again meanwhile; read again and retry",
        table_key=MANIFEST_KEY if first is None else first.table_key,
        expected=0 if first is None else first.table_version,
        actual=0,
    )


def version_removed(table_key: str, version: int) -> ExpectedVersionMismatch:
    """Return the lost race of an operation whose pinned version of a table is not there any more."""
    return ExpectedVersionMismatch(
        f"version {version} of {table_key}, for which rows were written, was removed meanwhile, by cleanup, a purge or "
        "a schema change that removes data; run the write again",
        table_key=table_key,
        expected=version,
        actual=0,
    )


def schema_changed() -> SchemaConflict:
    """Return the lost race of an operation that was prepared under an earlier schema."""
    return SchemaConflict("the schema changed while the write was prepared; run it again")
