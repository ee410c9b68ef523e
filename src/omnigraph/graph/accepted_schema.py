"""The schema a graph has accepted, as a catalog: read once for each schema, checked at every call."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import SchemaRow
from omnigraph.manifest.schema_row import read_catalog


@dataclass(frozen=True, slots=True)
class Accepted:
    """One accepted schema: the hash that names it, its row in the manifest, and its types."""

    ir_hash: str
    row: SchemaRow
    catalog: Catalog


class AcceptedSchemas:
    """Looks up the accepted schema of a branch; safe to share between threads.

    All branches share the schema of `main` today. Callers name the branch they work on all the same,
    so that branches can have schemas of their own without a change in any caller.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._lock = threading.Lock()
        self._known: Accepted | None = None

    def of(self, branch: str) -> Accepted:  # noqa: ARG002
        """The schema accepted for a branch by now."""
        return self.at(self._manifest.state(MAIN))

    def at(self, main: BranchState) -> Accepted:
        """The schema of a state of `main` that was just read."""
        with self._lock:
            if self._known is None or self._known.ir_hash != main.head.ir_hash:
                row = self._manifest.schema(main)
                self._known = Accepted(main.head.ir_hash, row, read_catalog(row))
            return self._known
