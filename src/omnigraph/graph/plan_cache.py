"""A cache of query plans, valid for as long as the schema stays the same."""

from __future__ import annotations

import threading
from collections import OrderedDict

from omnigraph.errors import BadRequest
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import MutationPlan, Plan, ReadPlan
from omnigraph.lang.query.syntax.ast import QueryKind
from omnigraph.lang.schema.catalog import Catalog

MAX_PLANS = 256
MAX_TEXT = 2_000_000
"""The limit for all cached texts together, in characters. A plan takes ten times its text."""


class PlanCache:
    """The cached plans of one handle, by text and name; safe to share between threads.

    Errors are not cached, because they name the file, and the next call may name another one.
    """

    def __init__(self, max_plans: int = MAX_PLANS, max_text: int = MAX_TEXT) -> None:
        self._max_plans = max_plans
        self._max_text = max_text
        self._known: OrderedDict[tuple[str, str | None, QueryKind], tuple[Catalog, Plan]] = (
            OrderedDict()
        )
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
        """Return a cached plan of this very catalog, or compile one and drop the oldest if too many."""
        if not isinstance(name, str | None):
            raise BadRequest(
                f"a query is named by a text, not by a Python {type(name).__name__}; parameters are a "
                "dict, and a state of the graph is given as `at=`"
            )
        key = (text, name, want)
        with self._lock:
            known = self._known.get(key)
            if known is not None and known[0] is catalog:
                self._known.move_to_end(key)
                return known[1]
        plan = compile_query(catalog, text, name, want, filename)
        with self._lock:
            if key not in self._known:
                self._size += len(text)
            self._known[key] = (catalog, plan)
            self._known.move_to_end(key)
            while len(self._known) > self._max_plans or self._size > self._max_text:
                (dropped, _, _), _ = self._known.popitem(last=False)
                self._size -= len(dropped)
        return plan
