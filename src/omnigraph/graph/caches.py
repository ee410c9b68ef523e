"""What an open graph remembers: its accepted schemas as catalogs, and the plans of queries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from omnigraph.errors import BadRequest
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import MutationPlan, Plan, ReadPlan
from omnigraph.lang.query.syntax.ast import QueryKind
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import Head, SchemaRow
from omnigraph.manifest.schema_row import check_contract, read_accepted

MAX_SCHEMAS = 128
"""How many schemas a handle remembers: every branch may have one of its own."""
MAX_PLANS = 256
MAX_TEXT = 2_000_000
"""The limit for all cached texts together, in characters. A plan takes ten times its text."""


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
        self._schemas: OrderedDict[str, AcceptedSchema] = OrderedDict()
        self._checked: OrderedDict[str, Head] = OrderedDict()

    def of(self, branch: str) -> AcceptedSchema:
        """Return the schema that is accepted for a branch now."""
        return self.at(self._manifest.state(branch))

    def is_of(self, ir_hash: str, catalog: Catalog) -> bool:
        """Whether a catalog that was given out is that of the schema with this hash."""
        with self._lock:
            known = self._schemas.get(ir_hash)
        return known is not None and known.catalog is catalog

    def at(self, state: BranchState) -> AcceptedSchema:
        """Return the schema of a state of a branch that was just read.

        Raises ``SchemaConflict`` if the tables of that state are not those of its schema.
        """
        wanted = state.head.ir_hash
        with self._lock:
            known = self._schemas.get(wanted)
            if known is None:
                row = self._manifest.schema(state)
                _, catalog = read_accepted(row, state.head)
                known = self._schemas[wanted] = AcceptedSchema(wanted, row, catalog)
                if len(self._schemas) > MAX_SCHEMAS:
                    self._schemas.popitem(last=False)
            self._schemas.move_to_end(wanted)
        # Every read comes here, mostly with the state of the read before.
        if self._checked.get(state.name) is not state.head:
            check_contract(known.catalog, state.head)
            with self._lock:
                self._checked[state.name] = state.head
                if len(self._checked) > MAX_SCHEMAS:
                    self._checked.popitem(last=False)
        return known


_PlanKey = tuple[int, str, str | None, QueryKind]


class PlanCache:
    """The cached plans of one handle, by schema, text and name; safe to share between threads.

    Errors are not cached, because they name the file, and the next call may name another one.
    """

    def __init__(self, max_plans: int = MAX_PLANS, max_text: int = MAX_TEXT) -> None:
        self._max_plans = max_plans
        self._max_text = max_text
        self._plans: OrderedDict[_PlanKey, tuple[Catalog, Plan]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def read(self, catalog: Catalog, text: str, name: str | None, filename: str | None) -> ReadPlan:
        """Return the plan of a read; a mutation is refused."""
        plan = self._plan("read", catalog, text, name, filename)
        assert isinstance(plan, ReadPlan)
        return plan

    def mutation(
        self, catalog: Catalog, text: str, name: str | None, filename: str | None
    ) -> MutationPlan:
        """Return the plan of a mutation; a read is refused."""
        plan = self._plan("mutation", catalog, text, name, filename)
        assert isinstance(plan, MutationPlan)
        return plan

    def _plan(
        self, want: QueryKind, catalog: Catalog, text: str, name: str | None, filename: str | None
    ) -> Plan:
        """Return a cached plan of this very catalog, or compile one and drop the oldest if too many.

        The plan keeps its catalog, so no other catalog has the same number meanwhile.
        """
        if not isinstance(name, str | None):
            raise BadRequest(
                f"a query is named by a text, not by a Python {type(name).__name__}; parameters are a "
                "dict, and a state of the graph is given as `at=`"
            )
        key = (id(catalog), text, name, want)
        with self._lock:
            known = self._plans.get(key)
            if known is not None:
                self._plans.move_to_end(key)
                return known[1]
        plan = compile_query(catalog, text, name, want, filename)
        with self._lock:
            if key not in self._plans:
                self._size += len(text)
            self._plans[key] = (catalog, plan)
            self._plans.move_to_end(key)
            while len(self._plans) > self._max_plans or self._size > self._max_text:
                (_, dropped, _, _), _ = self._plans.popitem(last=False)
                self._size -= len(dropped)
        return plan
