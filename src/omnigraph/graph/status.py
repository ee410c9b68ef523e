"""`graph.status()`: a summary of a graph as plain data."""

from __future__ import annotations

from typing import Any

from omnigraph.commit.sidecar import pending_and_strays
from omnigraph.manifest import refs
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.migrations import read_internal_version
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.tables.indexes import list_indexes
from omnigraph.storage.tables.table import open_table
from omnigraph.version import __version__


def graph_status(workspace: Workspace) -> dict[str, Any]:
    """Return branches, head, and for each table of `main` its versions, fragments and indexes."""
    state = workspace.manifest.state(MAIN)
    pending, strays = pending_and_strays(workspace)
    return {
        "uri": workspace.root.canonical,
        "graph_id": state.head.graph_id,
        "omnigraph": __version__,
        "internal_schema_version": read_internal_version(state.table),
        "branches": refs.list_refs(workspace.manifest),
        "head": state.head.commit.to_json(),
        "manifest": {
            "version": state.table.version,
            "fragments": len(state.table.fragments()),
        },
        "pending_recoveries": len(pending),
        "stray_files": strays,
        "purges_owed": [purge.to_json() for purge in state.head.purges],
        "tables": [_table_status(workspace, pinned) for pinned in state.head.tables.values()],
    }


def _table_status(workspace: Workspace, pinned: TableState) -> dict[str, Any]:
    table = open_table(workspace.pinned(pinned))
    return {
        **pinned.to_json(),
        "head_version": table.head_version(),
        "versions": len(table.versions()),
        "fragments": len(table.fragments()),
        "indexes": [
            {"column": index.column, "kind": index.kind, "coverage": index.coverage}
            for index in list_indexes(table)
        ],
    }
