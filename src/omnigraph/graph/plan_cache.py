"""Plans of queries that were run before, kept for as long as the schema is the same."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Literal

from omnigraph.errors import BadRequest
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import MutationPlan, Plan, ReadPlan
from omnigraph.lang.schema.catalog import Catalog

MAX_PLANS = 256
MAX_TEXT = 2_000_000
"""Characters of all texts together: a plan takes about ten times the memory of its text."""

Kind = Literal["read", "mutation"]


class Plans:
    """The plans of one handle, by text and name; safe to share between threads.

    Faults are never remembered: the next call may name another file.
    """

    def __init__(self, max_plans: int = MAX_PLANS, max_text: int = MAX_TEXT) -> None:
        self._max_plans = max_plans
        self._max_text = max_text
        self._known: OrderedDict[tuple[str, str | None, Kind], tuple[Catalog, Plan]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def read(self, catalog: Catalog, text: str, name: str | None, filename: str | None) -> ReadPlan:
        """The plan of a read; a mutation is refused."""
        plan = self._plan("read", catalog, text, name, filename)
        assert isinstance(plan, ReadPlan)
        return plan

    def mutation(
        self, catalog: Catalog, text: str, name: str | None, filename: str | None
    ) -> MutationPlan:
        """The plan of a mutation; a read is refused."""
        plan = self._plan("mutation", catalog, text, name, filename)
        assert isinstance(plan, MutationPlan)
        return plan

    def _plan(
        self, want: Kind, catalog: Catalog, text: str, name: str | None, filename: str | None
    ) -> Plan:
        if not isinstance(name, str | None):
            raise BadRequest(f"a query is named by a text, not by {type(name).__name__}")
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
