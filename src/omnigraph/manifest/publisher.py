"""The publisher: the only writer of `__manifest`.

A publish is one write that Lance must not move onto a newer version (rebase):

1. Read the newest state, and check that the expected pins are still current.
2. Build the rows: changed tables, the commit, and the head row with all pins.
3. Write them. Every publish rewrites the head row of its branch, so two publishers of one
   branch always collide on it and exactly one lands. The other starts again at 1.

There are two ways to write them, which collide with each other. Where all rows but the head are known to be new, as
in every ordinary commit, the new head takes the place of the old one, and the others are added. Otherwise it
is a merge-insert on `object_id`, which looks for the rows that are there already and costs three times as much.

For example, publishing Person at version 8 on a head with {Person: 7, Knows: 3} writes one version
row, one commit row and a head row with {Person: 8, Knows: 3}.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph import failpoints
from omnigraph.cancel import stop_looking
from omnigraph.errors import BranchNotFound, Contention, OmniGraphError, StorageError
from omnigraph.manifest import rows
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.stream_records import StreamRecord
from omnigraph.manifest.lost_races import check_expected
from omnigraph.manifest.manifest import BranchState, Manifest, branch_not_found
from omnigraph.manifest.migrations import migrate, read_internal_version
from omnigraph.manifest.row_reads import find_head_row, former_keys, without_purge
from omnigraph.manifest.rows import GraphCommit, Head, Purge, SchemaRow, TableState
from omnigraph.manifest.tidying import tidy
from omnigraph.storage.tables.row_places import RowPlace
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_commits import merge_insert_exclusive, replace_row_exclusive
from omnigraph.storage.tables.table_errors import CommitMisplaced, RowCollision, TableMoved
from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__

PUBLISHER_RETRY_BUDGET = 5

BEFORE_WRITE = failpoints.declare("publish.before_write")
AFTER_WRITE = failpoints.declare("publish.after_write")


@dataclass(frozen=True, slots=True)
class Intent:
    """Who publishes what kind of operation, under which commit id; it stays the same in every retry."""

    graph_commit_id: str
    operation: str
    created_at: int
    actor_id: str | None = None
    merged_parent_commit_id: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    operation_id: str | None = None
    """The id that the caller chose for the operation, if any."""

    @property
    def operation_ids(self) -> tuple[str, ...]:
        """The ids that callers chose for the operation, or for the mutations that share its commit."""
        return rows.operation_ids(self.operation_id, self.facts)


@dataclass(frozen=True, slots=True)
class NewPlace:
    """Where a graph lies from now on, and under which id."""

    root: str
    graph_id: str
    former_ids: tuple[str, ...] = ()
    is_copy: bool = False

    def settle(self, head: Head) -> Head:
        """Return a head that says so."""
        return replace(
            head,
            root=self.root,
            graph_id=self.graph_id,
            former_ids=self.former_ids,
            is_copy=self.is_copy,
            unsettled=False,
        )


@dataclass(frozen=True, slots=True)
class ManifestChanges:
    """What a publish changes besides the commit and the head.

    ``tables`` are new pins of registered tables, ``registered`` are new incarnations with their
    first pin, ``renamed`` maps an incarnation to its new table key, ``dropped`` lists incarnations,
    ``purged`` those of which a hard drop removes what is there now, ``adopted`` are commit
    records copied from a merged branch, ``streams`` say which micro-batches are there from now on,
    ``place`` where the graph lies, and ``gone`` has the marks of the rows that left each incarnation
    (``history/version_marks.py``). ``forgotten`` are versions that hold entities which are purged, and
    ``audit`` is what is kept of that purge. A run of versions that reaches to the pin of before ends
    with the version before the new pin.
    """

    tables: tuple[TableState, ...] = ()
    registered: tuple[TableState, ...] = ()
    renamed: Mapping[int, str] = field(default_factory=dict)
    dropped: tuple[int, ...] = ()
    purged: tuple[int, ...] = ()
    schema: SchemaRow | None = None
    adopted: tuple[GraphCommit, ...] = ()
    streams: tuple[StreamRecord, ...] = ()
    place: NewPlace | None = None
    gone: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    forgotten: tuple[Purge, ...] = ()
    audit: Mapping[str, Any] | None = None


def publish(
    manifest: Manifest,
    branch: str,
    changes: ManifestChanges,
    expected: Iterable[TableState],
    intent: Intent,
    *,
    identifier: str | None = None,
    head_commit_id: str | None = None,
    unchecked: bool = False,
    may_have_landed: bool = False,
) -> GraphCommit:
    """Make table versions, schema and commit visible at once, or change nothing.

    ``expected``: the pins of all tables written or relied on. ``identifier``: the Lance identifier
    of the branch the operation is meant for (None for `main`); another branch of that name is
    refused. ``head_commit_id``: the head must still be that commit. ``unchecked``: the operation
    relies on nothing, so ``expected`` may be empty. ``may_have_landed``: an earlier try may have
    succeeded without an answer; if a commit of that id exists, it is returned.
    """
    expected = tuple(expected)
    if not expected and head_commit_id is None and not unchecked:
        raise ValueError("a publish without expected versions must say that it is unchecked")
    # The store may take the write although its answer never comes: a caller that gives up here would not know.
    stop_looking()
    for attempt in range(PUBLISHER_RETRY_BUDGET):
        state = current_state(manifest, branch)
        manifest.ensure_settled()
        # A branch of the same name that was made again meanwhile is another one, and knows nothing of these
        # tables.
        if state.identifier != identifier:
            raise branch_not_found(branch)
        landed = (
            manifest.commit(state, intent.graph_commit_id) if attempt or may_have_landed else None
        )
        if landed is not None:
            return landed
        check_expected(state.head, expected, head_commit_id)
        commit = _new_commit(manifest, state, intent, changes.adopted)
        head, new_rows = _rows(manifest, state, changes, commit)
        try:
            failpoints.hit(BEFORE_WRITE)
            # The head row is among the rows of every publish, so two publishes collide there, whatever tables
            # they are about.
            published, place = _write(state, changes, intent, new_rows)
            failpoints.hit(AFTER_WRITE)
        except RowCollision:
            _pause(attempt)  # another publish came first
            continue
        except StorageError:
            # The store may have failed after the write landed; then the commit id is there.
            landed = _find_landed(manifest, branch, intent.graph_commit_id)
            if landed is None:
                raise
            return landed
        except CommitMisplaced as error:
            raise _misplaced(commit, error.details["actual"]) from error
        # The commit row already says which version it is, so Lance must not have rebased it.
        if published.version != commit.manifest_version:
            raise _misplaced(commit, published.version)
        # What was just written need not be read again by the next operation of this handle.
        manifest.remember_publish(state, published, head, place)
        tidy(published)
        return commit
    raise _contention(branch)


def _write(
    state: BranchState, changes: ManifestChanges, intent: Intent, new_rows: Iterable[rows.Row]
) -> tuple[Table, RowPlace | None]:
    """Write the rows of a publish, of which the head is the first; return where it is then, if that is known."""
    written = rows.to_table(new_rows, state.table.schema)
    if not _adds_only(state, changes, intent):
        return merge_insert_exclusive(state.table, written), None
    place = state.head_place or find_head_row(state.table)[1]
    return replace_row_exclusive(state.table, place, written)


def _adds_only(state: BranchState, changes: ManifestChanges, intent: Intent) -> bool:
    """Return whether no row that a publish writes can be there already, besides the head.

    These are a commit under an id that nobody used, and versions of tables on lineages that only this branch
    moves, and only forwards. A recovery publishes under the id of another process. A branch without a fork of its own
    may go back to an earlier state of `main`, and then forth again to one that it has a row of.
    """
    own = None if state.name == MAIN else state.name
    return (
        changes == ManifestChanges(tables=changes.tables, gone=changes.gone)
        and "recovery" not in intent.facts
        and all(table.table_branch == own for table in changes.tables)
    )


def _misplaced(commit: GraphCommit, version: int) -> StorageError:
    return StorageError(
        f"the publish of {commit.graph_commit_id} landed at version {version} of the manifest "
        f"instead of {commit.manifest_version}; report this as a bug"
    )


def _contention(branch: str) -> Contention:
    return Contention(
        f"other writers of branch `{branch}` won {PUBLISHER_RETRY_BUDGET} times in a row; try again",
        attempts=PUBLISHER_RETRY_BUDGET,
    )


def current_state(manifest: Manifest, branch: str) -> BranchState:
    """Return the newest state, after migrating it if its internal version is older."""
    for _ in range(PUBLISHER_RETRY_BUDGET):
        state = manifest.state(branch)
        if read_internal_version(state.table) == INTERNAL_SCHEMA_VERSION:
            return state
        # Another process may be migrating it too; then one of the two comes too late.
        with suppress(RowCollision, TableMoved):
            migrate(state.table)
    raise _contention(branch)


def _find_landed(manifest: Manifest, branch: str, graph_commit_id: str) -> GraphCommit | None:
    """Return the commit of that id if it was published; None if not, or if it cannot be read."""
    try:
        return manifest.commit(manifest.state(branch), graph_commit_id)
    except BranchNotFound:
        raise  # the branch was deleted during the publish, which is why the store failed
    except OmniGraphError:
        return None


def mark_unsettled(manifest: Manifest) -> None:
    """Record that forks are being settled, without a commit. The caller holds the graph lock.

    Until ``record_place`` nobody reads them: some may look for their files here, and others elsewhere.
    """

    def unsettled(state: BranchState) -> _Rewrite | None:
        return None if state.head.unsettled else (replace(state.head, unsettled=True), [])

    _rewrite_head(manifest, unsettled)


def record_place(manifest: Manifest, branch: str, place: NewPlace) -> None:
    """Record where the graph lies in the head of a branch, without a commit."""

    def settled(state: BranchState) -> _Rewrite | None:
        head = place.settle(state.head)
        return None if head == state.head else (head, [])

    _rewrite_head(manifest, settled, branch)


def publish_without_commit(manifest: Manifest, row: Callable[[BranchState], rows.Row]) -> None:
    """Write one row to `main` beside its commits. The caller holds the graph lock and its head lock.

    The head row is written again unchanged, so that this collides with every other publish. ``row``
    is asked again for the newest state after each collision; it may refuse by raising.
    """
    _rewrite_head(manifest, lambda state: (state.head, [row(state)]))


_Rewrite = tuple[Head, list[rows.Row]]
"""The head row to write, and the rows that are written with it."""


def _rewrite_head(
    manifest: Manifest, rewrite: Callable[[BranchState], _Rewrite | None], branch: str = MAIN
) -> None:
    """Write the head row of a branch again without a commit; ``rewrite`` returns None to leave it."""
    for attempt in range(PUBLISHER_RETRY_BUDGET):
        state = current_state(manifest, branch)
        manifest.ensure_settled()
        wanted = rewrite(state)
        if wanted is None:
            return
        head, new_rows = wanted
        written = rows.to_table([*new_rows, rows.head_row(head)], state.table.schema)
        try:
            table = merge_insert_exclusive(state.table, written)
        except RowCollision:
            _pause(attempt)  # another publish came first
            continue
        manifest.remember_publish(state, table, head)
        tidy(table)
        return
    raise _contention(branch)


def _pause(attempt: int) -> None:
    """Wait a random moment, which keeps two publishers from staying in step."""
    time.sleep(random.uniform(0.5, 1.5) * 0.004 * (attempt + 1))


def _new_commit(
    manifest: Manifest, state: BranchState, intent: Intent, adopted: Iterable[GraphCommit]
) -> GraphCommit:
    """Return the commit that a publish on top of this state makes."""
    depth = state.head.commit.depth
    if intent.merged_parent_commit_id is not None:
        # A merge lies deeper than both parents, so ancestors can be looked for by ranges of depths.
        depth = max(depth, _depth(manifest, state, intent.merged_parent_commit_id, adopted))
    return GraphCommit(
        graph_commit_id=intent.graph_commit_id,
        branch=None if state.name == MAIN else state.name,
        manifest_version=state.table.version + 1,
        parent_commit_id=state.head.commit.graph_commit_id,
        merged_parent_commit_id=intent.merged_parent_commit_id,
        actor_id=intent.actor_id,
        created_us=intent.created_at,
        operation=intent.operation,
        facts=intent.facts,
        depth=depth + 1,
        operation_id=intent.operation_id,
    )


def _depth(
    manifest: Manifest, state: BranchState, graph_commit_id: str, adopted: Iterable[GraphCommit]
) -> int:
    """Return the depth of a commit that is taken over now, or that the branch holds already."""
    for commit in adopted:
        if commit.graph_commit_id == graph_commit_id:
            return commit.depth
    known = manifest.commit(state, graph_commit_id)
    if known is None:
        raise StorageError(
            f"the merged parent {graph_commit_id} is neither on branch `{state.name}` nor taken "
            "over; report this as a bug"
        )
    return known.depth


def _rows(
    manifest: Manifest, state: BranchState, changes: ManifestChanges, commit: GraphCommit
) -> tuple[Head, list[rows.Row]]:
    """Return the new head and all rows that a publish writes, its own first."""
    tables = apply_changes(state.head.tables, changes)
    by_incarnation = {table.incarnation: table for table in tables.values()}
    before = {table.incarnation: table for table in state.head.tables.values()}
    purges = _purges_owed(state.head, before, by_incarnation, changes)
    head = replace(
        state.head if changes.place is None else changes.place.settle(state.head),
        product=__version__,
        commit=commit,
        tables=tables,
        purges=purges,
        purged=state.head.purged or changes.audit is not None,
        ir_hash=changes.schema.ir_hash if changes.schema is not None else state.head.ir_hash,
    )
    # A table that stays and loses columns for good: its row says below which version nothing may stay.
    shortened = set(changes.purged) - set(changes.dropped)
    former = _former_keys(manifest, state, set(changes.renamed) | shortened)
    for number in changes.renamed:
        former[number] = [*former[number], before[number].table_key]
    registered = {table.incarnation for table in changes.registered} | set(former)
    # A table that stayed where it was has its row already, which names the commit that moved it there.
    moved = {
        table.incarnation
        for table in (*changes.tables, *changes.registered)
        if table.incarnation not in before or table.identity != before[table.incarnation].identity
    }
    below = {one.incarnation: one.below for one in purges if not one.is_of_entities}
    out = [
        rows.table_row(by_incarnation[number], former.get(number, ()), below.get(number))
        for number in sorted(registered)
    ]
    out += [
        rows.version_row(
            by_incarnation[number], commit.graph_commit_id, changes.gone.get(number, ())
        )
        for number in sorted(moved)
    ]
    out += [
        rows.tombstone_row(before[number], purge=number in changes.purged)
        for number in sorted(changes.dropped)
    ]
    out += [rows.commit_row(adopted) for adopted in changes.adopted]
    out += [record.row() for record in changes.streams]
    if changes.schema is not None:
        out.append(rows.schema_row(changes.schema))
    if changes.audit is not None:
        out.append(rows.purge_row(changes.audit))
    return head, [rows.head_row(head), *out, rows.commit_row(commit)]


def _purges_owed(
    head: Head,
    before: Mapping[int, TableState],
    after: Mapping[int, TableState],
    changes: ManifestChanges,
) -> tuple[Purge, ...]:
    """Return the purges owed after a publish: those owed already, and those of this commit."""
    owed = [
        purge
        for purge in head.purges
        if purge.is_of_entities or purge.incarnation not in changes.purged
    ]
    for number in changes.purged:
        table = after.get(number)
        below = None if table is None else table.table_version
        state = before[number] if table is None else table
        owed.append(Purge(state.table_key, number, state.location, below))
    for purge in changes.forgotten:
        pin, new = before.get(purge.incarnation), after.get(purge.incarnation)
        # What the steps of this commit made on the way to the new pin goes, too.
        ends = pin is not None and new is not None and purge.removes(pin)
        owed.append(replace(purge, below=new.table_version) if ends and new else purge)
    return tuple(dict.fromkeys(owed))


def _former_keys(
    manifest: Manifest, state: BranchState, incarnations: AbstractSet[int]
) -> dict[int, list[str]]:
    """Return the former keys of registered tables, as their rows say."""
    if not incarnations:
        return {}
    known = {row.object_id: row for row in manifest.table_rows(state, [rows.TABLE])}
    return {number: former_keys(known[f"table:{number}"]) for number in incarnations}


def record_purges(manifest: Manifest, owed: Iterable[Purge], audit: Mapping[str, Any]) -> None:
    """Record on `main` that versions have to go, and what is kept of the purge, without a commit.

    The caller holds the graph lock. An audit of that id is replaced.
    """
    new = tuple(owed)

    def recorded(state: BranchState) -> _Rewrite:
        purges = tuple(dict.fromkeys((*state.head.purges, *new)))
        return replace(state.head, purges=purges, purged=True), [rows.purge_row(audit)]

    _rewrite_head(manifest, recorded)


def settle_purges(manifest: Manifest, done: Iterable[Purge]) -> None:
    """Record that purges are done, without a commit. The caller holds the graph lock."""
    settled = frozenset(done)

    def without(state: BranchState) -> _Rewrite | None:
        # A later hard drop of the same table owes more than what was done.
        left = tuple(purge for purge in state.head.purges if purge not in settled)
        if len(left) == len(state.head.purges):
            return None
        names = {
            f"{kind}:{purge.incarnation}"
            for purge in settled.intersection(state.head.purges)
            if not purge.is_of_entities
            for kind in ("table", "tombstone")
        }
        kinds = [rows.TABLE, rows.TABLE_TOMBSTONE]
        known = [row for row in manifest.table_rows(state, kinds) if row.object_id in names]
        return replace(state.head, purges=left), [without_purge(row) for row in known]

    if settled:
        for name in (MAIN, *manifest.branch_names()):
            with suppress(BranchNotFound):
                if settled.intersection(manifest.state(name).head.purges):
                    _rewrite_head(manifest, without, name)


def apply_changes(
    tables: Mapping[str, TableState], changes: ManifestChanges
) -> dict[str, TableState]:
    """Return the pins after a publish, by table key."""
    states = {table.incarnation: table for table in tables.values()}
    for incarnation in changes.dropped:
        del states[incarnation]
    for table in (*changes.registered, *changes.tables):
        states[table.incarnation] = table
    for incarnation, table_key in changes.renamed.items():
        states[incarnation] = replace(states[incarnation], table_key=table_key)
    return {table.table_key: table for table in sorted(states.values(), key=lambda t: t.table_key)}
