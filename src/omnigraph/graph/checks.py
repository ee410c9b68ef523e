"""Checks at opening and refreshing: root, format on disk, purges owed, mirrors of the schema."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from omnigraph.errors import BranchNotFound
from omnigraph.graph.state import GraphState, Mode
from omnigraph.manifest import refs
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.graph_identity import is_settled
from omnigraph.manifest.migrations import read_internal_version, refuse_newer
from omnigraph.manifest.publisher import current_state
from omnigraph.manifest.rows import SchemaRow
from omnigraph.manifest.schema_row import mirrors_agree, settle_mirrors
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage import layout
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.stores import probe_compare_and_set, probe_put_if_absent
from omnigraph.storage.tables.table import Table
from omnigraph.storage.uris import Root
from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__


def check_graph(workspace: Workspace, mode: Mode, *, moved: bool = False) -> None:
    """Look whether there is a graph; for writing, settle it where it lies and migrate an older format.

    ``moved``: if it lies elsewhere than before, it is the same graph as there and not a copy.
    """
    head = workspace.manifest.state(MAIN).head
    if mode == "rw":
        if not is_settled(head, workspace.root):
            from omnigraph.commit.relocation import settle

            settle(workspace, keep_id=moved)
        check_format(workspace)


def recorded_alias(workspace: Workspace) -> Root | None:
    """Return the root that the graph records, if that is another path to the very same directory.

    For example, a directory that is mounted at a second place. All that is written names the first one.
    """
    root, recorded = workspace.root, workspace.manifest.state(MAIN).head.root
    if recorded == root.canonical or not (root.is_local and recorded.startswith("/")):
        return None
    try:
        return replace(root, path=recorded) if Path(root.path).samefile(recorded) else None
    except OSError:
        return None


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


def finish_drops(state: GraphState) -> None:
    """Remove what a hard drop or a purge that was interrupted has left on disk, and in the caches of this user."""
    workspace = state.workspace
    if workspace.store.exists(layout.PURGING) or workspace.manifest.purges_owed(()):
        from omnigraph.graph.facets.purging import forget_tables
        from omnigraph.write.purges import try_purges

        owed = workspace.manifest.purges_owed()
        try_purges(state.workspace)
        purged = [purge.location for purge in owed if purge.is_of_entities]
        if purged:
            forget_tables(state, purged)


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
