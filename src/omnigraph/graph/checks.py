"""Checks at opening and refreshing: root, format on disk, purges owed, mirrors of the schema."""

from __future__ import annotations

import contextlib

from omnigraph.errors import BranchNotFound, GraphMoved
from omnigraph.graph.state import Mode
from omnigraph.manifest import refs
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.migrations import read_internal_version, refuse_newer
from omnigraph.manifest.publisher import current_state
from omnigraph.manifest.rows import SchemaRow
from omnigraph.manifest.schema_row import mirrors_agree, settle_mirrors
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.probe import probe_compare_and_set, probe_put_if_absent
from omnigraph.storage.tables.table import Table
from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__


def check_graph(workspace: Workspace, mode: Mode) -> None:
    """Refuse a graph that was moved or is newer; for writing, migrate an older format."""
    check_place(workspace)
    if mode == "rw":
        check_format(workspace)


def check_place(workspace: Workspace) -> None:
    """Refuse a graph with branches that is not at its recorded root.

    Lance branches hold absolute paths, so such a graph must stay where it was made.
    """
    recorded, actual = workspace.manifest.state(MAIN).head.root, workspace.root.canonical
    if recorded != actual and workspace.manifest.branch_names():
        raise GraphMoved(
            f"the graph at {actual} has branches and was made at {recorded}; move it back there",
            recorded=recorded,
            actual=actual,
        )


def check_format(workspace: Workspace) -> None:
    """Refuse a newer format on any branch, and migrate an older one.

    A graph last written by another version of the product also gets its store probed again.
    """
    state = workspace.manifest.state(MAIN)
    refuse_newer(state.table)
    if state.head.product != __version__:
        probe(workspace.store)
    tables = _manifest_tables(workspace)
    for table in tables:
        refuse_newer(table)
    if all(read_internal_version(table) == INTERNAL_SCHEMA_VERSION for table in tables):
        return
    with workspace.locks.acquire(workspace.locks.graph_lock()):
        for branch in refs.list_refs(workspace.manifest):
            with contextlib.suppress(BranchNotFound):
                current_state(workspace.manifest, branch)


def probe(store: ObjectStore) -> None:
    """Prove that the store keeps the promises that commits and locks are built on."""
    probe_put_if_absent(store)
    probe_compare_and_set(store)


def _manifest_tables(workspace: Workspace) -> list[Table]:
    """Return the manifest of every branch; a branch deleted in the meantime is left out."""
    tables = []
    for branch in refs.list_refs(workspace.manifest):
        with contextlib.suppress(BranchNotFound):
            tables.append(workspace.manifest.state(branch).table)
    return tables


def finish_drops(workspace: Workspace) -> None:
    """Remove what a hard drop that was interrupted has left on disk."""
    if workspace.manifest.state(MAIN).head.purges:
        from omnigraph.write.purges import try_purges

        try_purges(workspace)


def verify_mirrors(workspace: Workspace, row: SchemaRow) -> None:
    """Rewrite stale files that mirror the schema; refuse edited ones.

    If the graph lock is taken, nothing is done: a schema change holds it until its files are
    written.
    """
    if mirrors_agree(workspace.store, row):
        return
    held = workspace.locks.try_acquire(workspace.locks.graph_lock())
    if held is not None:
        with held:
            accepted = workspace.manifest.schema(workspace.manifest.state(MAIN))
            settle_mirrors(workspace.store, accepted)
