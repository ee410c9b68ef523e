"""The accepted schema of a branch as a catalog: built once per schema, looked up at every call."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import Head, SchemaRow
from omnigraph.manifest.schema_row import check_contract, read_accepted

MAX_SCHEMAS = 4
"""How many schemas a handle remembers; a branch may still have an older one than another."""


@dataclass(frozen=True, slots=True)
class AcceptedSchema:
    """One accepted schema: the hash that names it, its row in the manifest, and its types."""

    ir_hash: str
    row: SchemaRow
    catalog: Catalog


class AcceptedSchemas:
    """Looks up the accepted schema of a branch; safe to share between threads.

    Every branch of the manifest has a schema row of its own. A caller that also needs the pins of
    the branch reads its state first and asks ``at``, so that both come from one publish.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._lock = threading.Lock()
        self._known: OrderedDict[str, AcceptedSchema] = OrderedDict()
        self._checked: Head | None = None

    def of(self, branch: str) -> AcceptedSchema:
        """Return the schema that is accepted for a branch now."""
        return self.at(self._manifest.state(branch))

    def at(self, state: BranchState) -> AcceptedSchema:
        """Return the schema of a state of a branch that was just read.

        Raises ``SchemaConflict`` if the tables of that state are not those of its schema.
        """
        wanted = state.head.ir_hash
        with self._lock:
            known = self._known.get(wanted)
            if known is None:
                row = self._manifest.schema(state)
                _, catalog = read_accepted(row, state.head)
                known = self._known[wanted] = AcceptedSchema(wanted, row, catalog)
                if len(self._known) > MAX_SCHEMAS:
                    self._known.popitem(last=False)
            self._known.move_to_end(wanted)
        # Every read comes here, mostly with the state of the read before.
        if self._checked is not state.head:
            check_contract(known.catalog, state.head)
            self._checked = state.head
        return known
