"""`graph.status()`: how a graph stands and what it needs.

Three listings say what lies on the store, and each table of `main` is opened once at its pin. Nothing is
written, so it works on a graph that may only be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from omnigraph import settings
from omnigraph.commit.heal import dead_writers
from omnigraph.commit.sidecar import pending_and_strays
from omnigraph.commit.stage_tables import needs_fork
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted, moment_text, size_text
from omnigraph.errors import OmniGraphError
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.maintenance.drifted import (
    drifted_on_branches,
    drifted_tables,
    files_of,
    with_own_tables,
)
from omnigraph.maintenance.effort import SMALL_ROWS, Effort
from omnigraph.maintenance.status_advice import (
    Advice,
    GraphFigures,
    IndexFigures,
    TableFigures,
    advise_graph,
    advise_table,
)
from omnigraph.maintenance.table_work import table_work
from omnigraph.manifest import refs
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.graph_identity import is_settled
from omnigraph.manifest.history.records import BranchRecords, first_parents
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.migrations import read_internal_version
from omnigraph.manifest.rows import GraphCommit, Purge, TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage import layout
from omnigraph.storage.table_files import LineageFiles, TableFiles, table_files
from omnigraph.storage.tables.indexing.table_indexes import list_indexes
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.version import __version__

LOOK_BACK: Final = 1_024
"""At most this many commits are searched for the last `optimize`."""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One table of `main`: its pin, the newest version that is there, and how it is stored.

    ``fragments`` is None if the pinned version cannot be opened. ``manifest_bytes`` is the size of the
    pinned version's manifest, ``versions`` how many versions there are.
    """

    pin: TableState
    head_version: int
    versions: int
    fragments: int | None
    manifest_bytes: int
    indexes: tuple[IndexFigures, ...] = ()
    advice: tuple[Advice, ...] = ()

    @property
    def table_key(self) -> str:
        """The table: `node:<Type>` or `edge:<Type>`."""
        return self.pin.table_key

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {
            **self.pin.to_json(),
            "head_version": self.head_version,
            "versions": self.versions,
            "fragments": self.fragments,
            "manifest_bytes": self.manifest_bytes,
            "indexes": [index.to_json() for index in self.indexes],
            "advice": [one.to_json() for one in self.advice],
        }


@dataclass(frozen=True, slots=True, repr=False)
class Status(Shown):
    """How a graph stands. Printed, it is a summary for people; ``status[name]`` reads its document.

    ``bytes_by_branch`` are the bytes on the store that each branch holds alone. ``advice`` concerns the
    whole graph; that of single tables is with the tables.
    """

    uri: str
    graph_id: str
    omnigraph: str
    internal_schema_version: int
    branches: tuple[str, ...]
    head: GraphCommit
    manifest: Mapping[str, int]
    pending_recoveries: int
    stray_files: tuple[str, ...]
    bytes_by_branch: Mapping[str, int]
    purges_owed: tuple[Purge, ...]
    last_optimize: int | None
    """When `optimize` or upkeep last did something on `main`, in microseconds since 1970."""
    advice: tuple[Advice, ...]
    tables: tuple[TableStatus, ...]

    def __getitem__(self, name: str) -> Any:
        return self.to_json()[name]

    @property
    def all_advice(self) -> tuple[Advice, ...]:
        """The advice for the whole graph, then that for each table."""
        return (*self.advice, *(one for table in self.tables for one in table.advice))

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {
            "uri": self.uri,
            "graph_id": self.graph_id,
            "omnigraph": self.omnigraph,
            "internal_schema_version": self.internal_schema_version,
            "branches": list(self.branches),
            "head": self.head.to_json(),
            "manifest": dict(self.manifest),
            "pending_recoveries": self.pending_recoveries,
            "stray_files": list(self.stray_files),
            "bytes_by_branch": dict(self.bytes_by_branch),
            "purges_owed": [purge.to_json() for purge in self.purges_owed],
            "last_optimize": self.last_optimize,
            "advice": [one.to_json() for one in self.advice],
            "tables": [table.to_json() for table in self.tables],
        }

    def _panel(self) -> Panel:
        facts: list[tuple[str, Any]] = [
            ("head of main", f"{self.head.graph_commit_id} ({self.head.operation})"),
            ("made", moment_text(self.head.created_us)),
            ("branches", ", ".join(self.branches)),
            ("size", size_text(sum(self.bytes_by_branch.values()))),
        ]
        if self.last_optimize is not None:
            facts.append(("last optimize", moment_text(self.last_optimize)))
        if self.pending_recoveries:
            facts.append(("pending recoveries", self.pending_recoveries))
        return Panel.of_rows(
            f"{self.uri}: {counted(len(self.tables), 'table')}",
            ("table", "rows", "version", "versions", "fragments", "indexes"),
            [
                (
                    one.table_key,
                    one.pin.row_count,
                    one.pin.table_version,
                    one.versions,
                    one.fragments,
                    len(one.indexes),
                )
                for one in self.tables
            ],
            facts=facts,
            notes=[
                f"{one.code}: {one.message}" + (f"; {one.command}" if one.command else "")
                for one in self.all_advice
            ],
        )


def graph_status(
    workspace: Workspace, catalog_at: Callable[[BranchState], Catalog], uri: str
) -> Status:
    """Return how a graph stands; ``catalog_at`` gives the types of a state of `main`.

    ``uri`` is the address that is shown for the graph, and named in the commands that are advised.
    """
    state = workspace.manifest.state(MAIN)
    catalog = catalog_at(state)
    branches = refs.list_refs(workspace.manifest)
    files = _files(workspace)
    pins = list(state.head.tables.values())
    drifted = drifted_tables(workspace, MAIN, pins, files)
    tables = [
        _table_status(
            workspace, pin, catalog.entity(pin.table_key), files_of(files, pin), drifted, uri
        )
        for pin in pins
    ]
    held = _bytes_by_branch(files, branches)
    is_at_home = is_settled(state.head, workspace.root)
    pending, strays = pending_and_strays(workspace)
    stuck, can_recover = _stuck(workspace) if pending else (None, True)
    owed = workspace.manifest.purges_owed(with_own_tables(branches, files))
    figures = GraphFigures(
        max((table.versions for table in tables), default=0),
        stuck,
        can_recover,
        [purge.table_key for purge in owed],
        [name for name in held if name not in branches],
        None if is_at_home else state.head.root,
        drifted_on_branches(workspace, branches, files) if is_at_home else [],
    )
    return Status(
        uri=uri,
        graph_id=state.head.graph_id,
        omnigraph=__version__,
        internal_schema_version=read_internal_version(state.table),
        branches=tuple(branches),
        head=state.head.commit,
        manifest={"version": state.table.version, "fragments": len(state.table.fragments())},
        pending_recoveries=len(pending),
        stray_files=tuple(strays),
        bytes_by_branch=held,
        purges_owed=owed,
        last_optimize=_last_optimize(workspace, state),
        advice=tuple(advise_graph(uri, figures)),
        tables=tuple(tables),
    )


# ------------------------------------------------------------------ what lies on the store


def _files(workspace: Workspace) -> dict[str, TableFiles]:
    sizes: dict[str, int] = {}
    for place in (*layout.TABLE_DIRS, layout.MANIFEST):
        sizes |= workspace.store.sizes(place)
    return table_files(sizes)


def _bytes_by_branch(files: Mapping[str, TableFiles], branches: Sequence[str]) -> dict[str, int]:
    """Add up the bytes of each branch over all tables; `main` first, branches without files too."""
    held = dict.fromkeys(branches, 0)
    for table in files.values():
        for branch, found in table.items():
            name = MAIN if branch is None else branch
            held[name] = held.get(name, 0) + found.bytes
    return {MAIN: held.pop(MAIN), **dict(sorted(held.items()))}


def _last_optimize(workspace: Workspace, state: BranchState) -> int | None:
    records = BranchRecords(workspace.manifest, state)
    chain = islice(first_parents(records, records.head), LOOK_BACK)
    return next((one.created_us for one in chain if one.operation == "optimize"), None)


# ------------------------------------------------------------------ tables


def _table_status(
    workspace: Workspace,
    pin: TableState,
    entity: Entity,
    found: LineageFiles,
    drifted: Mapping[int, str],
    uri: str,
) -> TableStatus:
    head = pin.table_version if needs_fork(pin, MAIN) else max(found.newest, pin.table_version)
    try:
        table = open_table(workspace.pinned(pin))
        fragments = [fragment.num_rows for fragment in table.fragments()]
        indexes = tuple(_indexes(table))
        missing = _missing(table, entity, pin)
    except OmniGraphError as error:
        drift = f"cannot be opened at its pinned version ({error})"
        advice = _advise(uri, TableFigures(pin.table_key, pin.row_count, drift=drift))
        return TableStatus(pin, head, len(found.versions), None, 0, (), advice)
    figures = TableFigures(
        pin.table_key,
        pin.row_count,
        sum(rows < SMALL_ROWS for rows in fragments),
        found.versions.get(pin.table_version, 0),
        indexes,
        missing,
        drifted.get(pin.incarnation),
    )
    return TableStatus(
        pin,
        head,
        len(found.versions),
        len(fragments),
        figures.manifest_bytes,
        indexes,
        _advise(uri, figures),
    )


def _missing(table: Table, entity: Entity, pin: TableState) -> list[str]:
    """Return the properties whose index could be built, of a table that is large enough for one."""
    if pin.row_count < settings.INDEX_MIN_ROWS.get():
        return []
    damaged = {index.column for index in list_indexes(table) if index.damage is not None}
    missing = table_work(table, entity, Effort.INDEXES).missing
    return [name for name, _ in missing if name not in damaged]


def _advise(uri: str, figures: TableFigures) -> tuple[Advice, ...]:
    at_least, fragments = settings.INDEX_MIN_ROWS.get(), settings.UPKEEP_FRAGMENTS.get()
    return tuple(advise_table(uri, figures, at_least, fragments))


def _indexes(table: Table) -> Iterator[IndexFigures]:
    for index in list_indexes(table, examine=True):
        kind = None if index.kind is None else index.kind.value
        yield IndexFigures(
            index.column,
            kind,
            index.coverage.value,
            len(index.tail),
            index.unindexed_rows,
            index.damage,
        )


# ------------------------------------------------------------------ recovery


def _stuck(workspace: Workspace) -> tuple[str | None, bool]:
    """Return why a recovery is needed, if it is, and whether opening the graph for writing is enough."""
    try:
        dead = dead_writers(workspace)
    except OmniGraphError as error:
        return str(error), False
    if not dead:
        return None, True
    names = ", ".join(one.operation_id for one in dead)
    return f"stopped half way and must be finished or undone: {names}", True
