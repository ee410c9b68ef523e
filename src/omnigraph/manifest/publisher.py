"""The publisher: the only writer of `__manifest`.

A publish is one merge-insert on `object_id` that Lance may not rebase. Every publish rewrites the
branch's head row, so two publishers of one branch always collide on it and exactly one lands.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph import failpoints
from omnigraph.errors import (
    BranchNotFound,
    Contention,
    ExpectedVersionMismatch,
    OmniGraphError,
    StorageError,
)
from omnigraph.manifest import rows
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.manifest import BranchState, Manifest, branch_not_found
from omnigraph.manifest.migrations import INTERNAL_SCHEMA_VERSION, migrate, stamp_of
from omnigraph.manifest.rows import GraphCommit, Head, SchemaRow, TableState
from omnigraph.storage.tables.rewriting import stage_rewrite
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_commits import commit_staged, merge_insert_exclusive
from omnigraph.storage.tables.table_errors import RowCollision
from omnigraph.version import __version__

PUBLISHER_RETRY_BUDGET = 5
MANIFEST_KEY = "__manifest"

# A publish leaves one small fragment behind. Left alone they make every later publish slower;
# fragments that reached the target are never rewritten again, so the cost of tidying is bounded.
COMPACT_AT_FRAGMENTS = 32
COMPACT_TARGET_ROWS = 8192

BEFORE_WRITE = failpoints.declare("publish.before_write")
AFTER_WRITE = failpoints.declare("publish.after_write")
BEFORE_COMPACT = failpoints.declare("publish.before_compact")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Intent:
    """Who publishes what kind of operation, under which commit id; fixed before any retry."""

    graph_commit_id: str
    operation: str
    created_at: int
    actor_id: str | None = None
    merged_parent_commit_id: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """What a publish changes besides the commit and the head.

    ``tables`` are new pins of registered tables, ``registered`` new incarnations with their first
    pin, ``renamed`` maps an incarnation to its new table key, ``dropped`` lists incarnations,
    ``adopted`` are commit records taken over from a merged branch.
    """

    tables: tuple[TableState, ...] = ()
    registered: tuple[TableState, ...] = ()
    renamed: Mapping[int, str] = field(default_factory=dict)
    dropped: tuple[int, ...] = ()
    schema: SchemaRow | None = None
    adopted: tuple[GraphCommit, ...] = ()


def publish(
    manifest: Manifest,
    branch: str,
    changes: Changes,
    expected: Iterable[TableState],
    intent: Intent,
    *,
    identifier: str | None = None,
    head_commit_id: str | None = None,
    unchecked: bool = False,
    may_have_landed: bool = False,
) -> GraphCommit:
    """Make table versions, schema and commit visible at once, or nothing.

    ``expected`` are the pins of all tables written or relied on. ``identifier`` is that of the branch
    the operation is meant for (None for `main`): another branch of that name does not get it. With
    ``head_commit_id`` the head must still be that commit. Only an operation that relies on nothing
    says ``unchecked``. A caller that tried before says ``may_have_landed``: a commit of that id that
    is there already is then the answer.
    """
    expected = tuple(expected)
    if not expected and head_commit_id is None and not unchecked:
        raise ValueError("a publish without expected versions must say that it is unchecked")
    for attempt in range(PUBLISHER_RETRY_BUDGET):
        state = _current(manifest, branch)
        if state.identifier != identifier:
            raise branch_not_found(branch)
        landed = (
            manifest.commit(state, intent.graph_commit_id) if attempt or may_have_landed else None
        )
        if landed is not None:
            return landed
        check_expected(state.head, expected, head_commit_id)
        commit = _commit_of(state, intent)
        head, new_rows = _rows(manifest, state, changes, commit)
        try:
            failpoints.hit(BEFORE_WRITE)
            published = merge_insert_exclusive(
                state.table, rows.to_table(new_rows, state.table.schema)
            )
            failpoints.hit(AFTER_WRITE)
        except RowCollision:
            time.sleep(random.uniform(0.5, 1.5) * 0.004 * (attempt + 1))
            continue
        except StorageError:
            # The store may have failed after the write landed: the commit id tells.
            landed = _landed(manifest, branch, intent.graph_commit_id)
            if landed is None:
                raise
            return landed
        if published.version != commit.manifest_version:
            raise StorageError(
                f"the publish of {intent.graph_commit_id} landed at version {published.version} "
                f"of the manifest instead of {commit.manifest_version}; report this as a bug"
            )
        manifest.advanced(state, published, head)
        tidy(published)
        return commit
    raise _contention(branch)


def _contention(branch: str) -> Contention:
    return Contention(
        f"other writers of branch `{branch}` won {PUBLISHER_RETRY_BUDGET} times in a row; try again",
        attempts=PUBLISHER_RETRY_BUDGET,
    )


def _current(manifest: Manifest, branch: str) -> BranchState:
    """The newest state, raised to the current internal version where it is older."""
    state = manifest.state(branch)
    if stamp_of(state.table) != INTERNAL_SCHEMA_VERSION:
        migrate(state.table)
        state = manifest.state(branch)
    return state


def _landed(manifest: Manifest, branch: str, graph_commit_id: str) -> GraphCommit | None:
    try:
        return manifest.commit(manifest.state(branch), graph_commit_id)
    except BranchNotFound:
        raise  # deleted under the writer: that is why the store failed
    except OmniGraphError:
        return None


def record_place(manifest: Manifest) -> None:
    """Write down where the graph lies now, if it was moved; no commit. Under the graph lock.

    From its first branch on a graph is bound to the place the record names.
    """
    for _ in range(PUBLISHER_RETRY_BUDGET):
        state = _current(manifest, MAIN)
        if state.head.root == manifest.root.canonical:
            return
        head = replace(state.head, root=manifest.root.canonical)
        try:
            table = merge_insert_exclusive(
                state.table, rows.to_table([rows.head_row(head)], state.table.schema)
            )
        except RowCollision:
            continue  # a publish writes it down too
        manifest.advanced(state, table, head)
        return
    raise _contention(MAIN)


def check_expected(
    head: Head, expected: Iterable[TableState], head_commit_id: str | None = None
) -> None:
    """Refuse when a table moved, or became another one; the first in key order is reported.

    With ``head_commit_id`` the head must be that commit, too.
    """
    for wanted in sorted(expected, key=lambda state: state.table_key):
        pinned = head.tables.get(wanted.table_key)
        if pinned is None or pinned.identity != wanted.identity:
            raise _moved(wanted, pinned)
    if head_commit_id not in {None, head.commit.graph_commit_id}:
        raise ExpectedVersionMismatch(
            f"the branch moved from commit {head_commit_id} to {head.commit.graph_commit_id} "
            "meanwhile; read again and retry",
            table_key=MANIFEST_KEY,
            expected=0,
            actual=head.commit.manifest_version,
        )


def _moved(wanted: TableState, pinned: TableState | None) -> ExpectedVersionMismatch:
    """A table that was replaced by another one under its name has no version any more: 0."""
    actual = 0
    if pinned is not None and pinned.incarnation == wanted.incarnation:
        actual = pinned.table_version
    if actual == wanted.table_version:
        actual = 0  # the same number on another branch
    became = f"moved from version {wanted.table_version} to {actual}" if actual else "was replaced"
    return ExpectedVersionMismatch(
        f"{wanted.table_key} {became} meanwhile; read again and retry",
        table_key=wanted.table_key,
        expected=wanted.table_version,
        actual=actual,
    )


def branch_remade(branch: str, pins: Iterable[TableState] = ()) -> ExpectedVersionMismatch:
    """The lost race of an operation whose branch was deleted and made again under its name."""
    first = min(pins, key=lambda state: state.table_key, default=None)
    return ExpectedVersionMismatch(
        f"branch `{branch}` was deleted and made again meanwhile; read again and retry",
        table_key=MANIFEST_KEY if first is None else first.table_key,
        expected=0 if first is None else first.table_version,
        actual=0,
    )


def _commit_of(state: BranchState, intent: Intent) -> GraphCommit:
    return GraphCommit(
        graph_commit_id=intent.graph_commit_id,
        branch=None if state.name == MAIN else state.name,
        manifest_version=state.table.version + 1,
        parent_commit_id=state.head.commit.graph_commit_id,
        merged_parent_commit_id=intent.merged_parent_commit_id,
        actor_id=intent.actor_id,
        created_at=intent.created_at,
        operation=intent.operation,
        facts=intent.facts,
    )


def _rows(
    manifest: Manifest, state: BranchState, changes: Changes, commit: GraphCommit
) -> tuple[Head, list[rows.Row]]:
    tables = apply_changes(state.head.tables, changes)
    by_incarnation = {table.incarnation: table for table in tables.values()}
    before = {table.incarnation: table for table in state.head.tables.values()}
    head = replace(
        state.head,
        root=manifest.root.canonical,
        product=__version__,
        commit=commit,
        tables=tables,
        ir_hash=changes.schema.ir_hash if changes.schema is not None else state.head.ir_hash,
    )
    registered = {table.incarnation for table in changes.registered} | set(changes.renamed)
    moved = {table.incarnation for table in (*changes.tables, *changes.registered)}
    out = [rows.table_row(by_incarnation[number]) for number in sorted(registered)]
    out += [rows.version_row(by_incarnation[number]) for number in sorted(moved)]
    out += [rows.tombstone_row(before[number]) for number in sorted(changes.dropped)]
    out += [rows.commit_row(adopted) for adopted in changes.adopted]
    if changes.schema is not None:
        out.append(rows.schema_row(changes.schema))
    return head, [*out, rows.commit_row(commit), rows.head_row(head)]


def apply_changes(tables: Mapping[str, TableState], changes: Changes) -> dict[str, TableState]:
    """The pins after a publish, by table key."""
    states = {table.incarnation: table for table in tables.values()}
    for incarnation in changes.dropped:
        del states[incarnation]
    for table in (*changes.registered, *changes.tables):
        states[table.incarnation] = table
    for incarnation, table_key in changes.renamed.items():
        states[incarnation] = replace(states[incarnation], table_key=table_key)
    return {table.table_key: table for table in sorted(states.values(), key=lambda t: t.table_key)}


def tidy(table: Table) -> None:
    """Compact the manifest when its fragments pile up; a user's write never fails because of it."""
    if len(table.fragments()) < COMPACT_AT_FRAGMENTS:
        return
    try:
        failpoints.hit(BEFORE_COMPACT)
        staged = stage_rewrite(table, COMPACT_TARGET_ROWS)
        if staged is not None:
            commit_staged(staged)
    except OmniGraphError as error:
        logger.debug("manifest not compacted: %s", error)
