"""The accepted schema of a graph as a catalog: built once per schema, looked up at every call."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import SchemaRow
from omnigraph.manifest.schema_row import read_catalog


@dataclass(frozen=True, slots=True)
class AcceptedSchema:
    """One accepted schema: the hash that names it, its row in the manifest, and its types."""

    ir_hash: str
    row: SchemaRow
    catalog: Catalog


class AcceptedSchemas:
    """Looks up the accepted schema of a branch; safe to share between threads.

    All branches share the schema of `main` today. Callers still name their branch, so that branches
    can get schemas of their own without a change in any caller.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._lock = threading.Lock()
        self._known: AcceptedSchema | None = None

    def of(self, branch: str) -> AcceptedSchema:  # noqa: ARG002
        """Return the schema that is accepted for a branch now."""
        return self.at(self._manifest.state(MAIN))

    def at(self, state: BranchState) -> AcceptedSchema:
        """Return the schema of a branch in a state that was just read.

        Tables and schema of one state always fit together, whatever is published meanwhile.
        """
        with self._lock:
            if self._known is None or self._known.ir_hash != state.head.ir_hash:
                row = self._manifest.schema(state)
                self._known = AcceptedSchema(state.head.ir_hash, row, read_catalog(row))
            return self._known
