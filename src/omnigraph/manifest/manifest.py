"""Read `__manifest`: one remembered state per branch, which notices publishes of other processes.

How the state of a branch is found, when version n is remembered:

1. Read the Lance identifier of the branch. If it differs, the branch was made again: open it anew.
2. Check that version n is still the file that was read, and whether the file of version n + 1 exists. If
   there is none, n is the newest. Otherwise open the newest version and read its head row; that one
   row is the whole state.
3. If version n is another file or none, cleanup has trimmed the history, or a backup was put back. In
   the history of the newest version the head commit of n tells which (``identity.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.errors import (
    BranchNotFound,
    GraphMoved,
    HistoryReclaimed,
    NotAGraph,
    StorageError,
)
from omnigraph.manifest import rows
from omnigraph.manifest.branch_names import MAIN, is_internal, is_possible_name
from omnigraph.manifest.graph_identity import GraphIdentity, graph_moved
from omnigraph.manifest.row_reads import (
    FEW_ROWS,
    find_head_row,
    read_head_row,
    read_metadata,
    read_schema_text,
)
from omnigraph.manifest.rows import GraphCommit, Head, Purge, Row, SchemaRow
from omnigraph.storage import layout
from omnigraph.storage.filters import Condition, Pushdown, filter_expression
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.tables.branch_refs import TableBranch, read_branch, read_branch_names
from omnigraph.storage.tables.row_places import RowPlace
from omnigraph.storage.tables.table import Table, manifest_path, open_table
from omnigraph.storage.tables.table_branches import list_branches
from omnigraph.storage.tables.table_errors import TableMissing
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.uris import Root
from omnigraph.storage.versions import PROBE_AHEAD, open_newest

REMADE_ATTEMPTS = 3
"""How many times a branch may be deleted and made again under a read before the read fails."""


@dataclass(frozen=True, slots=True)
class BranchPin:
    """A branch as an operation found it; what the operation prepares is valid for this state only.

    ``identifier`` is the Lance identifier of the manifest's branch, None for `main`. A branch of
    the same name with another identifier is another branch, whatever its version numbers are.
    """

    name: str
    identifier: str | None
    head_commit_id: str


@dataclass(frozen=True, slots=True)
class BranchState:
    """One branch of the manifest at one version.

    ``identifier`` is None for `main`, which never changes its identity. ``mark`` is a
    fingerprint of the file that was read.
    """

    name: str
    identifier: str | None
    parent: str | None
    """The branch it was made from; None for `main` as the parent, and for `main` itself."""
    fork_version: int
    table: Table
    head: Head
    head_place: RowPlace | None
    """Where the head row is; None if whoever wrote it cannot tell."""
    mark: str | None = None

    @property
    def pin(self) -> BranchPin:
        """What an operation that starts here remembers of the branch."""
        return BranchPin(self.name, self.identifier, self.head.commit.graph_commit_id)


class Manifest:
    """The manifest of one graph, with all its branches; safe to share between threads.

    ``relocating``: for the operation that settles a graph at its new place. Branches are read and
    written although they are not settled yet, and the id of the graph may change.
    """

    def __init__(
        self, root: Root, store: ObjectStore | None = None, *, relocating: bool = False
    ) -> None:
        self.root = root
        self._identity = GraphIdentity(root, relocating=relocating)
        self._store = open_store(root) if store is None else store
        self.ref = TableRef(root.child(layout.MANIFEST), storage_options=root.lance_options())
        self._states: dict[str, BranchState] = {}
        self.single_line_below: int | None = None
        """What the counter of identities says for good, once it was read (``history/identity_counter``)."""
        self._lock = threading.Lock()
        self._refreshing: dict[str, threading.Lock] = {}

    # -- branches

    def branch_names(self) -> list[str]:
        """Return the names of the live branches besides `main`, sorted, without internal ones."""
        names = read_branch_names(self._store, layout.MANIFEST)
        if not names:
            self.state(MAIN)  # refuses if there is no graph at all
        return [name for name in names if not is_internal(name)]

    def branches(self) -> dict[str, TableBranch]:
        """Return the live branches besides `main`, without internal ones, each read from its ref."""
        try:
            listed = list_branches(self.ref)
        except TableMissing:
            raise self._no_graph() from None
        return {name: listed[name] for name in sorted(listed) if not is_internal(name)}

    def branch(self, name: str) -> TableBranch | None:
        """Return one live branch besides `main`; None if there is none of that name."""
        return read_branch(self._store, layout.MANIFEST, name) if is_possible_name(name) else None

    def state(self, branch: str) -> BranchState:
        """Return the newest published state of a branch."""
        for _ in range(REMADE_ATTEMPTS):
            with suppress(_BranchRemade):
                return self._state(branch)
        return self._state(branch)

    def _state(self, branch: str) -> BranchState:
        """Return the newest state; raise ``_BranchRemade`` if the branch was remade during the read."""
        if branch != MAIN:
            self.ensure_settled()
        while True:
            self._identity.refuse_replaced()
            known = self._states.get(branch)
            ref = self._branch_ref(branch)
            with self._unless_deleted(branch, ref.identifier):
                current = known if known and known.identifier == ref.identifier else None
                is_there = current is not None and self._is_unchanged(current)
                if current is not None and is_there and not self._has_news(current):
                    return current
                # One thread reads what was published. Those that waited for it ask again: more may
                # have been published since it began.
                with self._refresh_lock(branch):
                    if self._states.get(branch) is known:
                        return self._read_state(branch, ref, current, is_there)

    def _read_state(
        self, branch: str, ref: _Ref, before: BranchState | None, is_there: bool
    ) -> BranchState:
        """Read and remember the newest state of a branch.

        ``before`` is the state that was known of it, and ``is_there`` whether its file is still the same.
        """
        if before is not None and is_there:
            table = self._newest_after(before)
        else:
            table = self._open(branch, ref.identifier)
        head, place = find_head_row(table)
        if branch != MAIN:
            head = self._identity.as_main_says(head, lambda: self.state(MAIN).head)
        mark = self._mark(branch, table)
        state = BranchState(
            branch, ref.identifier, ref.parent, ref.parent_version, table, head, place, mark
        )
        self._identity.check(head, goes_on=lambda: is_there or self._goes_on(state, before))
        self._look_where_it_lies(state)
        return self._remember(state)

    def _refresh_lock(self, branch: str) -> threading.Lock:
        with self._lock:
            return self._refreshing.setdefault(branch, threading.Lock())

    def purges_owed(self, branches: Iterable[str] | None = None) -> tuple[Purge, ...]:
        """Return what still has to be removed from disk, whatever branch it was dropped or purged on.

        ``branches`` are those besides `main` that have tables of their own; all of them are read if not said.
        """
        owed = dict.fromkeys(self.state(MAIN).head.purges)
        for name in self.branch_names() if branches is None else branches:
            with suppress(BranchNotFound, GraphMoved):
                owed.update(dict.fromkeys(self.state(name).head.purges))
        return tuple(owed)

    def remember_publish(
        self, state: BranchState, table: Table, head: Head, place: RowPlace | None = None
    ) -> None:
        """Remember what this process has just published; a store that fails now does no harm."""
        try:
            mark = self._mark(state.name, table)
        except StorageError:
            self.forget(state.name)
        else:
            self._remember(replace(state, table=table, head=head, head_place=place, mark=mark))

    def forget(self, branch: str | None = None) -> None:
        """Drop what is remembered of one branch, or of all."""
        with self._lock:
            if branch is None:
                self._states.clear()
                self.single_line_below = None
            else:
                self._states.pop(branch, None)

    def at_version(self, branch: str, version: int) -> Head:
        """Return the head row of a branch as it was at one Lance version."""
        if branch != MAIN:
            self.ensure_settled()
        identifier = self._branch_ref(branch).identifier
        with self._unless_deleted(branch, identifier):
            head = read_head_row(open_table(self._table_ref(branch, identifier).at(version)))
        # What was recorded before the graph was copied has the id of the other one.
        known = self._identity.graph_id
        return head if known is None else replace(head, graph_id=known)

    def _remember(self, state: BranchState) -> BranchState:
        """Remember a state, unless a newer one of the same branch is known."""
        with self._lock:
            known = self._states.get(state.name)
            stale = (
                known is not None
                and known.identifier == state.identifier
                and known.table.version > state.table.version
            )
            if not stale:
                self._states[state.name] = state
        return state

    def _branch_ref(self, branch: str) -> _Ref:
        if branch == MAIN:
            return _Ref(None, None, 1)
        found = self.branch(branch)
        if found is None:
            self.forget(branch)
            raise branch_not_found(branch)
        return _Ref(found.identifier, found.parent, found.parent_version)

    @contextmanager
    def _unless_deleted(
        self, branch: str, identifier: str | None, version: int | None = None
    ) -> Iterator[None]:
        """Turn a read error into ``BranchNotFound`` if the branch was deleted during the read.

        With a version: into ``HistoryReclaimed`` if a cleanup removed that one meanwhile.
        """
        try:
            yield
        except StorageError:
            if self._branch_ref(branch).identifier != identifier:
                raise _BranchRemade(
                    f"branch `{branch}` was deleted and made again while it was read; ask again",
                    branch=branch,
                ) from None
            if version is not None and version not in self._open(branch, identifier).versions():
                raise HistoryReclaimed(
                    f"version {version} of branch `{branch}` was removed by cleanup while it was "
                    "read; ask again",
                    table_key=layout.MANIFEST,
                    version=version,
                ) from None
            raise

    # -- where the graph lies, and whether it is still the same

    def ensure_settled(self) -> None:
        """Raise ``GraphMoved`` while the forks of the graph look for their files at another place."""
        if self._identity.is_settled or self._identity.relocating:
            return
        head = self.state(MAIN).head  # somebody may have settled it meanwhile
        if not self._identity.is_settled:
            raise graph_moved(head, self.root)

    def begin_anew(self) -> None:
        """Forget all that is remembered, the id of the graph included: it was settled at this place."""
        self.forget()
        self._identity.begin_anew()

    def _look_where_it_lies(self, state: BranchState) -> None:
        if state.name == MAIN:
            self._identity.note_place(state.head)
        elif self._identity.is_elsewhere(state.head):
            self._identity.is_settled = False
            self.ensure_settled()

    def _goes_on(self, state: BranchState, before: BranchState | None) -> bool:
        """Return whether the history of a state has what was known of the branch before."""
        return before is None or self.commit(state, before.head.commit.graph_commit_id) is not None

    def _table_ref(self, branch: str, identifier: str | None) -> TableRef:
        return self.ref if branch == MAIN else self.ref.on(branch, branch_id=identifier)

    def _open(self, branch: str, identifier: str | None) -> Table:
        try:
            return open_newest(self._table_ref(branch, identifier))
        except TableMissing:
            if branch == MAIN:
                raise self._no_graph() from None
            raise StorageError(
                f"branch `{branch}` is listed but its part of the manifest is gone; restore the "
                f"graph at {self.root.canonical} from a copy"
            ) from None

    def _no_graph(self) -> NotAGraph:
        return NotAGraph(
            f"there is no graph at {self.root.canonical}; create one with init, or check the address",
            root=self.root.canonical,
        )

    def _has_news(self, known: BranchState) -> bool:
        """Return whether a newer version was published."""
        return known.table.has_version(known.table.version + 1)

    def _newest_after(self, known: BranchState) -> Table:
        """Return the newest version of the manifest, which is newer than the known one."""
        table = known.table
        version = table.version + 1
        for _ in range(PROBE_AHEAD):
            if not table.has_version(version + 1):
                return open_table(table.ref.at(version))
            version += 1
        return open_newest(table.ref)

    def _is_unchanged(self, known: BranchState) -> bool:
        """Return whether the remembered version is still the file that was read."""
        return known.mark is not None and known.mark == self._mark(known.name, known.table)

    def _mark(self, branch: str, table: Table) -> str | None:
        """Return a fingerprint of the file of a version of the manifest; None if there is none."""
        place = layout.MANIFEST if branch == MAIN else f"{layout.MANIFEST}/tree/{branch}"
        return self._store.fingerprint(f"{place}/{manifest_path(table.version)}")

    # -- rows

    def commit(self, state: BranchState, graph_commit_id: str) -> GraphCommit | None:
        """Return the record of a commit as this branch knows it, or None.

        Commits inherited from the parent branch and adopted from a merged one are included.
        """
        if state.head.commit.graph_commit_id == graph_commit_id:
            return state.head.commit
        with self._unless_deleted(state.name, state.identifier, state.table.version):
            found = read_metadata(state.table, "object_id", f"commit:{graph_commit_id}")
        return rows.read_commit(found[0]) if found else None

    def commits_beginning(self, state: BranchState, prefix: str) -> list[GraphCommit]:
        """Return the records of the commits of a branch whose ids begin with a text."""
        wanted = [
            Condition("object_type", "=", rows.GRAPH_COMMIT),
            Condition("object_id", "prefix", f"commit:{prefix}"),
        ]
        where = filter_expression(state.table.schema, wanted)
        with self._unless_deleted(state.name, state.identifier, state.table.version):
            found = state.table.read(["metadata"], where).column("metadata").to_pylist()
        return [rows.read_commit(metadata) for metadata in found]

    def metadata(
        self, state: BranchState, column: str, value: str, fragments: Sequence[Any] | None = None
    ) -> list[str | None]:
        """Return the metadata of the rows whose column has this value, as this branch knows them.

        ``fragments`` are the only ones to look at.
        """
        with self._unless_deleted(state.name, state.identifier, state.table.version):
            return read_metadata(state.table, column, value, fragments)

    def commits(
        self, state: BranchState, depths: tuple[int, int] | None = None
    ) -> dict[str, GraphCommit]:
        """Return the commit records of a branch by id.

        ``depths`` are the least and the greatest depth wanted; None means all, however many.
        """
        wanted = [Condition("object_type", "=", rows.GRAPH_COMMIT)]
        if depths is not None:
            wanted.append(Condition(rows.DEPTH_COLUMN, ">=", depths[0]))
            wanted.append(Condition(rows.DEPTH_COLUMN, "<=", depths[1]))
        where = filter_expression(state.table.schema, wanted)
        with self._unless_deleted(state.name, state.identifier, state.table.version):
            found = state.table.read(["metadata"], where).column("metadata").to_pylist()
        records = (rows.read_commit(metadata) for metadata in found)
        return {record.graph_commit_id: record for record in records}

    def schema(self, state: BranchState) -> SchemaRow:
        """Return the accepted schema of the branch at this state."""
        with self._unless_deleted(state.name, state.identifier, state.table.version):
            return self._schema_row(state.table)

    def schema_at(self, branch: str, version: int) -> SchemaRow:
        """Return the schema that was accepted on a branch at one Lance version."""
        identifier = self._branch_ref(branch).identifier
        with self._unless_deleted(branch, identifier):
            return self._schema_row(open_table(self._table_ref(branch, identifier).at(version)))

    def _schema_row(self, table: Table) -> SchemaRow:
        found = read_schema_text(table)
        if found is None:
            raise StorageError(
                f"the manifest of {self.root.canonical} has no schema row; restore the graph from "
                "a copy"
            )
        return rows.read_schema(found)

    def read_rows(
        self, state: BranchState, where: Pushdown, columns: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return some columns of the rows that satisfy a filter, as this branch knows them."""
        with self._unless_deleted(state.name, state.identifier, state.table.version):
            found: list[dict[str, Any]] = state.table.read(columns, where).to_pylist()
        return found

    def rows_at(
        self, state: BranchState, row_ids: Iterable[int], columns: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return some columns of the rows with these row ids, as far as there are any, with ``_rowid``."""
        import pyarrow as pa

        with self._unless_deleted(state.name, state.identifier, state.table.version):
            found = state.table.find(pa.array(row_ids, pa.uint64()), columns)
        read: list[dict[str, Any]] = found.to_pylist()
        return read

    def newest_row_id(self, state: BranchState) -> int | None:
        """Return the greatest row id that the last publish wrote; None where reading it would take long."""
        with self._unless_deleted(state.name, state.identifier, state.table.version):
            last = state.table.fragments()[-1]
            if last.physical_rows > FEW_ROWS:
                return None
            found = state.table.read([], None, fragment_ids=[last.id], with_row_id=True)
        row_ids: list[int] = found.column("_rowid").to_pylist()
        return max(row_ids, default=None)

    def table_rows(self, state: BranchState, kinds: Sequence[str] = rows.OF_TABLES) -> list[Row]:
        """Return the rows about tables: registrations, published versions, tombstones."""
        wanted = Condition("object_type", "in", list(kinds))
        where = filter_expression(state.table.schema, [wanted])
        with self._unless_deleted(state.name, state.identifier, state.table.version):
            read = state.table.read(None, where)
        return [
            Row(**{**record, "base_objects": tuple(record["base_objects"] or ())})
            for record in read.to_pylist()
        ]


@dataclass(frozen=True, slots=True)
class _Ref:
    identifier: str | None
    parent: str | None
    parent_version: int


class _BranchRemade(BranchNotFound):
    """The branch was deleted, and another one now has its name."""


def branch_not_found(branch: str) -> BranchNotFound:
    """Return the error for a branch that does not exist."""
    return BranchNotFound(
        f"there is no branch `{branch}`; list the branches to see which there are", branch=branch
    )
