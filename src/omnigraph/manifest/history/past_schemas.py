"""The schema of a snapshot, which may be older than the accepted one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from omnigraph.errors import BranchNotFound, HistoryReclaimed
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.lang.schema.catalog_of import catalog_of
from omnigraph.lang.schema.read_ir import read_ir
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.rows import SchemaRow
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.tables.table_errors import TableMissing, VersionMissing

_MAX_CATALOGS: Final = 8
_catalogs: OrderedDict[tuple[str, str], Catalog] = OrderedDict()
_lock = threading.Lock()


def catalog_at(manifest: Manifest, snapshot: Snapshot) -> Catalog:
    """Return the types that were accepted when the head commit of a snapshot was made."""
    key = snapshot.graph_id, snapshot.ir_hash
    with _lock:
        known = _catalogs.get(key)
        if known is not None:
            _catalogs.move_to_end(key)
            return known
    built = catalog_of(read_ir(schema_row_at(manifest, snapshot).ir))
    with _lock:
        _catalogs[key] = built
        if len(_catalogs) > _MAX_CATALOGS:
            _catalogs.popitem(last=False)
    return built


def schema_row_at(manifest: Manifest, snapshot: Snapshot) -> SchemaRow:
    """Return the schema under which the head commit of a snapshot was made.

    Raises ``HistoryReclaimed`` if that version of the manifest is gone.
    """
    commit = snapshot.commit
    try:
        row = manifest.schema_at(commit.branch or MAIN, commit.manifest_version)
    except (BranchNotFound, VersionMissing, TableMissing):
        row = None
    # A branch of that name that was made again has other commits at these versions.
    if row is None or row.ir_hash != snapshot.ir_hash:
        raise HistoryReclaimed(
            f"the schema of commit `{commit.graph_commit_id}` was removed with its version of the "
            "manifest; read a newer state of the graph",
            table_key="__manifest",
            version=commit.manifest_version,
        )
    return row
