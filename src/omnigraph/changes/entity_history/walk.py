"""The way back from a state of the graph to the commits that made an entity what it is.

A walk stands at a commit and looks at the entity there. While a parent has the same image, it goes on
with that parent, the first one first; otherwise the commit made the image, and is a stop. It never looks at
the commits between: a row carries the version of the table in which it was changed last, the version says
which commit published it, and all commits since then have the same row.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, replace

from omnigraph.changes.entity_history.entity_states import EntityState, EntityStates
from omnigraph.changes.entity_history.table_line import TableLine
from omnigraph.changes.table_side import state_of
from omnigraph.errors import BranchNotFound, HistoryReclaimed
from omnigraph.lang.schema.catalog import Entity
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.purge_audits import knows_purges
from omnigraph.manifest.history.records import MayRead
from omnigraph.manifest.history.resolve import resolve_commit
from omnigraph.manifest.history.version_marks import Published
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit, TableState, read_commit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace, lance_branch
from omnigraph.storage.tables.table_errors import TableMissing, VersionMissing

Same = Callable[[EntityState, EntityState], bool]
"""Whether two states of the entity count as the same."""


@dataclass(frozen=True, slots=True)
class WalkState:
    """Where a walk stands: a state of the graph, and the entity there.

    ``branch`` is the branch on which its commit was made, or another that has its records. ``merge`` is the merge on the first-parent
    chain of the start through which the walk came here; None while it is on that chain.
    """

    branch: BranchState
    snapshot: Snapshot
    seen: EntityState
    merge: GraphCommit | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """A commit whose image of the entity is no parent's, and the places where the walk goes on.

    ``hidden`` is a merged parent whose branch is gone or may not be read. ``reclaimed``: a parent cannot
    be read any more; ``after`` is the commit of the older state that stands in for it, None if none is left.
    """

    commit: GraphCommit
    branch: BranchState
    seen: EntityState
    parents: tuple[WalkState, ...] = ()
    merge: GraphCommit | None = None
    hidden: GraphCommit | None = None
    reclaimed: bool = False
    after: str | None = None
    is_insert: bool | None = None
    """Where nothing is known of before: whether the row was made by this commit."""


class Walk:
    """Walks back from one state of the graph. ``is_complete`` turns false where deletions may be missed."""

    def __init__(self, workspace: Workspace, entity: Entity, id: str, may_read: MayRead) -> None:
        self.workspace = workspace
        self.manifest = workspace.manifest
        self.states = EntityStates(workspace, entity, id)
        self.line = TableLine(workspace, entity)
        self.is_complete = True
        self._may_read = may_read
        self._stops: dict[object, Stop | None] = {}
        self._purged: bool | None = None

    def start(self, branch: BranchState, snapshot: Snapshot) -> WalkState:
        """Return the place of a state of the graph; raises ``HistoryReclaimed`` if it is gone."""
        return WalkState(self._home(snapshot, branch), snapshot, self.states.at(snapshot))

    def next_stop(self, place: WalkState, same: Same) -> Stop | None:
        """Return the commit that made what the entity is at a place; None: it was never there before."""
        while True:
            stop = self._last_change(place)
            if stop is None:
                return None
            equal = next((one for one in stop.parents if same(stop.seen, one.seen)), None)
            if equal is None:
                is_end = not stop.parents and stop.hidden is None
                # What is absent, with nothing known of before, was never there as far as one can tell.
                return None if is_end and not stop.seen.is_there else stop
            place = equal

    def _last_change(self, place: WalkState) -> Stop | None:
        """Return the newest commit at or before a place that may have changed the entity, with its parents."""
        table = place.seen.table
        if table is None:
            return None  # the type was not there yet
        through = None if place.merge is None else place.merge.graph_commit_id
        commit = place.snapshot.graph_commit_id
        key = (place.branch.name, table.identity, commit, through)
        if key not in self._stops:
            self._stops[key] = self._find_last_change(place, table)
        return self._stops[key]

    def _find_last_change(self, place: WalkState, table: TableState) -> Stop | None:
        if table.table_branch != lance_branch(place.branch.name):
            return self._pinned_since(place, table)
        found = self._published(place, table)
        commit = None if found is None else self._commit(place.branch, found)
        if found is None or commit is None:
            return None
        stop = self._with_parents(place, commit)
        first = stop.parents[0] if stop.parents else None
        if first is None or first.snapshot.ir_hash == place.snapshot.ir_hash:
            return stop
        return self._through_schemas(place, table, found, stop)

    def _pinned_since(self, place: WalkState, table: TableState) -> Stop | None:
        """Return the commit with which a branch came to pin a version that another branch made."""
        commit, here = place.snapshot.commit, place.branch
        found = self.line.first(here, table, table.table_version)
        pinned = None if found is None else self._commit(here, found)
        if pinned is not None and pinned.branch == here.name:
            # It may have pinned that version again since.
            is_later = pinned.manifest_version > commit.manifest_version
            return self._with_parents(place, commit if is_later else pinned)
        # It has pinned the version since it was made: go on where it was made from.
        try:
            head = self.manifest.at_version(here.name, here.fork_version)
        except (BranchNotFound, VersionMissing, TableMissing):
            return self._with_parents(place, commit)
        snapshot = Snapshot.of(here.name, head)
        home = self._home(snapshot, here)
        fork_table = state_of(snapshot, self.states.entity)
        if home.name == here.name or fork_table is None or fork_table.identity != table.identity:
            return self._with_parents(place, commit)
        return self._last_change(replace(place, branch=home, snapshot=snapshot))

    def _home(self, snapshot: Snapshot, other: BranchState) -> BranchState:
        """Return the branch on which the commit of a snapshot was made; another if that is gone."""
        try:
            return self.manifest.state(snapshot.commit.branch or MAIN)
        except BranchNotFound:
            return other

    def _published(self, place: WalkState, table: TableState) -> Published | None:
        """Return the version that may have changed the row last; the first of a fork, if none there did."""
        if place.seen.is_there:
            return self.line.first(place.branch, table, place.seen.changed)
        left = self.line.left(place.branch, table, self.states.id)
        self.is_complete = self.is_complete and left.is_sure
        if left.newest is not None or table.table_branch is None:
            return left.newest
        return self.line.first(place.branch, table, 1)

    def _commit(self, branch: BranchState, published: Published) -> GraphCommit | None:
        if published.graph_commit_id is None:
            return self.line.head_that_published(branch, published)
        if published.record is not None:
            return read_commit(published.record)
        return self.manifest.commit(branch, published.graph_commit_id)

    def _through_schemas(
        self, place: WalkState, table: TableState, found: Published, stop: Stop
    ) -> Stop:
        """Look for a change of the schema since the last write that gave the row another value.

        Such a change writes no row, so the row does not say so.
        """
        if not place.seen.is_there:
            return stop

        def has_image(one: Published) -> bool:
            commit = self._commit(place.branch, one)
            if commit is None:
                return True
            try:
                there = self.states.at(resolve_commit(self.manifest, commit)[1])
            except HistoryReclaimed:
                return True
            return not self.states.differing(there, place.seen)

        if has_image(found):
            return stop
        versions = self.line.published(place.branch, table, found.version)
        at = bisect.bisect_left(versions, True, key=has_image)
        commit = self._commit(place.branch, versions[at]) if at < len(versions) else None
        return stop if commit is None else self._with_parents(place, commit)

    # -- parents

    def _with_parents(self, place: WalkState, commit: GraphCommit) -> Stop:
        stop = Stop(commit, place.branch, place.seen, merge=place.merge)
        if commit.parent_commit_id is None:
            return stop
        parents: list[WalkState] = []
        first = self._first_parent(place, commit)
        if first is None:
            stood_in = self._stand_in(place, commit)
            stop = replace(stop, reclaimed=True, is_insert=self._is_insert(place, commit))
            if stood_in is not None:
                stop = replace(stop, after=stood_in.snapshot.graph_commit_id)
                parents.append(stood_in)
        else:
            parents.append(first)
            if not self._is_readable(place, commit):
                # A purge takes states out of the middle: what changed between cannot be seen.
                stop = replace(stop, reclaimed=True, after=first.snapshot.graph_commit_id)
        if commit.merged_parent_commit_id is not None:
            stop = self._with_merged(place, stop, parents)
        return replace(stop, parents=tuple(parents))

    def _first_parent(self, place: WalkState, commit: GraphCommit) -> WalkState | None:
        name = commit.branch or MAIN
        try:
            # Before its publish, the head of the branch was its parent.
            head = self.manifest.at_version(name, commit.manifest_version - 1)
            if head.commit.graph_commit_id != commit.parent_commit_id:
                return None  # a branch of that name that was made again
            snapshot = Snapshot.of(name, head)
            seen = self.states.at(snapshot)
        except (BranchNotFound, VersionMissing, TableMissing, HistoryReclaimed):
            return None
        return WalkState(self._home(snapshot, place.branch), snapshot, seen, place.merge)

    def _is_readable(self, place: WalkState, commit: GraphCommit) -> bool:
        """Whether the state that a commit made is still there, which is a question only after a purge."""
        if commit.graph_commit_id == place.snapshot.graph_commit_id:
            return True
        if self._purged is None:
            self._purged = knows_purges(self.manifest, place.branch)
        if not self._purged:
            return True
        try:
            self.states.at(resolve_commit(self.manifest, commit)[1])
        except (BranchNotFound, VersionMissing, TableMissing, HistoryReclaimed):
            return False
        return True

    def _stand_in(self, place: WalkState, commit: GraphCommit) -> WalkState | None:
        found = self.line.older_readable(commit)
        if found is None:
            return None
        _, snapshot = found
        home = self._home(snapshot, place.branch)
        return WalkState(home, snapshot, self.states.at(snapshot), place.merge)

    def _is_insert(self, place: WalkState, commit: GraphCommit) -> bool:
        table = place.seen.table
        if table is None or not place.seen.is_there:
            return False
        if table.table_branch is not None:
            return place.seen.created == place.seen.changed
        made = self.line.first(place.branch, table, place.seen.created)
        return made is not None and made.graph_commit_id == commit.graph_commit_id

    def _with_merged(self, place: WalkState, stop: Stop, parents: list[WalkState]) -> Stop:
        """Add the merged parent to the parents, or say that it is hidden."""
        commit = stop.commit
        merged = self.manifest.commit(place.branch, commit.merged_parent_commit_id or "")
        if merged is None:
            return stop
        through = place.merge or commit
        if not self._may_read(merged.branch or MAIN) or self._is_gone(merged):
            return replace(stop, hidden=merged)
        try:
            state, snapshot = resolve_commit(self.manifest, merged)
            parents.append(WalkState(state, snapshot, self.states.at(snapshot), through))
        except HistoryReclaimed:
            found = self.line.older_readable(merged)
            if found is None:
                return replace(stop, hidden=merged)
            _, snapshot = found
            there = self.states.at(snapshot)
            parents.append(WalkState(self._home(snapshot, place.branch), snapshot, there, through))
            return replace(stop, reclaimed=True, after=stop.after or snapshot.graph_commit_id)
        return stop

    def _is_gone(self, commit: GraphCommit) -> bool:
        """Whether the branch of a commit was deleted, even if another one has its name today."""
        if commit.branch is None:
            return False
        live = self.manifest.branch(commit.branch)
        if live is None or commit.manifest_version <= live.parent_version:
            return True
        try:
            head = self.manifest.at_version(commit.branch, commit.manifest_version)
        except BranchNotFound:
            return True
        except (VersionMissing, TableMissing):
            return False
        return head.commit.graph_commit_id != commit.graph_commit_id
