"""Plain inserts of several members, prepared as one: one batch of rows a table, checked once.

Members whose statements are all plain inserts (``statements/plain.py``) look at nothing that those before them wrote,
so their rows can be put together. What they may do still depends on their order, through the rules. Rows that hold the
rules together hold them one after the other only if each row can make things no better for those before it:

* All of them insert nodes, or all edges: an edge needs its ends when it is inserted, not later.
* No row replaces another one: the other might have had a unique value that is free only from then on. That is looked
  at only where a type has such values.
* No edge counts towards a least number of edges.

Where that is not so, or a rule is broken, the members are prepared one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from omnigraph import settings
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.write.mutate import (
    CheckedMutation,
    MutationResult,
    PreparedMutation,
    Request,
    params_at,
    refuse_other_schema,
    validate,
)
from omnigraph.write.pending import PendingTable
from omnigraph.write.statements.identity import settle_ids
from omnigraph.write.statements.pending_graph import PendingGraph
from omnigraph.write.statements.plain import PlainInsert, inserted_together, is_plain


class Insertion(NamedTuple):
    """A mutation of plain inserts, and the time that ``now()`` gives it."""

    request: Request
    checked: CheckedMutation
    started: int

    @property
    def kind(self) -> str:
        """What all its statements insert: `node` or `edge`."""
        return self.checked.plan.statements[0].kind


def is_insertion(checked: CheckedMutation) -> bool:
    """Return whether a mutation consists of plain inserts that may be put together with those of others."""
    plan, catalog = checked.plan, checked.catalog
    limit = settings.MUTATION_MAX_ROWS.get()
    if plan.steps or plan.returned is not None or not plan.statements:
        return False
    if limit is not None and len(plan.statements) > limit:
        return False
    edges = [catalog.edges[one.type_name] for one in plan.statements if one.kind == "edge"]
    return (
        len(edges) in {0, len(plan.statements)}
        and not any(edge.cardinality.min for edge in edges)
        and all(map(is_plain, plan.statements))
    )


@dataclass(slots=True)
class _Rows:
    """The rows of one table: what to insert, which member wants each, and in the end their ids."""

    pending: PendingTable
    inserts: list[PlainInsert] = field(default_factory=list)
    members: list[int] = field(default_factory=list)


class _Ids(NamedTuple):
    """The ids of the rows that one member inserts into one table."""

    ids: list[str]

    def changed_ids(self, limit: int) -> list[str]:
        """Return the first ids."""
        return list(dict.fromkeys(self.ids))[:limit]


def prepare_together(
    insertions: Sequence[Insertion], graph: PendingGraph, runner: LocalRunner
) -> list[PreparedMutation] | None:
    """Put the rows of all of them into an empty graph of pending rows; return what each one did.

    None, or an error, if they have to be prepared one by one; the graph is of no use then.
    """
    tables: dict[str, _Rows] = {}
    for at, (request, checked, started) in enumerate(insertions):
        refuse_other_schema(checked, graph.state)
        params = params_at(checked, started)
        for statement in checked.plan.statements:
            assert isinstance(statement, ir.Insert)
            types = graph.catalog.edges if statement.kind == "edge" else graph.catalog.nodes
            pending = graph.table(types[statement.type_name])
            rows = tables.setdefault(pending.entity.table_key, _Rows(pending))
            rows.inserts.append(PlainInsert(statement, params, request.blobs))
            rows.members.append(at)
    made = inserted_together([(one.pending, one.inserts) for one in tables.values()])
    if made is None:
        return None
    found: list[dict[str, _Ids]] = [{} for _ in insertions]
    for (key, rows), given in zip(tables.items(), made, strict=True):
        settle_ids(rows.pending)
        ids: list[str] = given.to_pylist()
        if isinstance(rows.pending.entity, EdgeType):
            # Settled by now, and in the order of the statements: no edge has the id of another.
            ids = rows.pending.rows.column("id").to_pylist()
        elif not _all_new(rows.pending, ids):
            return None
        for at, one in zip(rows.members, ids, strict=True):
            found[at].setdefault(key, _Ids([])).ids.append(one)
    validate(graph, runner)
    return [
        PreparedMutation(one.request, one.checked, graph.state, changed, _result(one))
        for one, changed in zip(insertions, found, strict=True)
    ]


def _all_new(pending: PendingTable, ids: Sequence[str]) -> bool:
    """Return whether no row of a node type replaces another one, or none of them could matter if it did."""
    if not pending.entity.unique or pending.fresh_only:
        return True
    if len(set(ids)) < len(ids):
        return False
    return not pending.committed_ids(pending.rows.column("id").combine_chunks())


def _result(one: Insertion) -> MutationResult:
    count = len(one.checked.plan.statements)
    nodes, edges = (count, 0) if one.kind == "node" else (0, count)
    return MutationResult(
        one.request.branch, one.checked.plan.name, nodes, edges, one.request.actor_id, None
    )
