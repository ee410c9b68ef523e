"""Mutations: run the statements in order, validate the result once, commit once.

1. Each statement reads the committed rows overlaid by the pending ones (``write/pending.py``), and
   adds its own changes to the pending ones.
2. The final rows are checked by the row rules and the set rules.
3. Each changed table gets one step: an append if all its rows are new, an upsert if not, or a
   delete.

For example, ``insert Person { name: "Ann" }`` followed by ``update Person set { age: 31 } where
name = "Ann"`` commits one row {name: Ann, age: 31}. Deleting a node also deletes its edges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph import settings
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.attempts import Attempt, Attempts, check_precondition
from omnigraph.commit.changes import TableChange, Write
from omnigraph.commit.heal import heal
from omnigraph.commit.replays import WriteRequest, kept_answer, run_once, shown_commit, with_commit
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted
from omnigraph.embeddings.embedder import Embedder
from omnigraph.errors import ResourceLimit, SchemaConflict
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Catalog, Entity, NodeType
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.workspace import Workspace
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.storage.blob_policy import NO_POLICY, BlobPolicy
from omnigraph.storage.filters import Condition
from omnigraph.storage.tables.table import open_table
from omnigraph.validate.change_set import ORDER, ChangeSet, TableDelta, needed_columns
from omnigraph.validate.column_rules import row_violations
from omnigraph.validate.committed import Committed
from omnigraph.validate.evaluate import first_set_violations
from omnigraph.validate.violations import violation_error
from omnigraph.write.pending import PendingTable
from omnigraph.write.runnable import require_runnable
from omnigraph.write.statement_values import (
    column_of,
    id_text,
    key_id,
    new_id,
    null_error,
    require_values,
    settle_ids,
    stored_value,
)
from omnigraph.write.vectors import TextVectors, fill_vectors, follow_texts, note_inserted


@dataclass(frozen=True, slots=True, repr=False)
class MutationResult(Shown):
    """What a mutation did; ``commit`` is None if nothing matched.

    ``replayed``: it was made before, under the same operation id, and had no effect this time.
    """

    branch: str
    query_name: str | None
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit: GraphCommit | None
    replayed: bool = False

    @classmethod
    def replay(cls, commit: GraphCommit) -> MutationResult:
        """Return the answer that a commit keeps."""
        kept = kept_answer(commit)
        names = ("branch", "query_name", "affected_nodes", "affected_edges", "actor_id")
        return cls(**{name: kept[name] for name in names}, commit=commit, replayed=True)

    def to_json(self) -> dict[str, Any]:
        """Return the public form; ``replayed`` appears only if it is true."""
        return with_commit(self.answer(), self.commit, replayed=self.replayed)

    def answer(self) -> dict[str, Any]:
        """Return the public form without the commit."""
        return {
            "branch": self.branch,
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.actor_id,
        }

    def _panel(self) -> Panel:
        nodes, edges = counted(self.affected_nodes, "node"), counted(self.affected_edges, "edge")
        commit = "none, nothing matched"
        if self.commit is not None:
            commit = shown_commit(self.commit, replayed=self.replayed)
        return Panel(
            f"{self.query_name or 'the mutation'} changed {nodes} and {edges} of branch {self.branch}",
            [("commit", commit)],
        )


@dataclass(frozen=True, slots=True)
class CheckedMutation:
    """A mutation that was checked against one schema, which ``ir_hash`` names."""

    catalog: Catalog
    ir_hash: str
    plan: ir.MutationPlan
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One mutation to run. ``check`` returns its plan under the schema of a state of the branch."""

    check: Callable[[BranchState], CheckedMutation]
    branch: str
    actor_id: str | None = None
    if_commit: str | None = None
    retries: int | None = None
    embedder: Embedder | None = None
    blobs: BlobPolicy = NO_POLICY
    asked: WriteRequest = field(default_factory=lambda: WriteRequest("mutate"))
    """What a repetition is recognised by, and what the commit says about itself."""


def mutate(workspace: Workspace, request: Request) -> MutationResult:
    """Run a mutation, after finishing what dead writers left; one whose operation id is known is not
    repeated.

    A mutation that lost a race is run again on the new head. ``now()`` keeps the time of the first
    try.
    """
    heal(workspace)
    started = stamp_us()
    attempts = Attempts(workspace, request.branch, request.retries, request.if_commit)
    vectors = TextVectors(request.embedder)

    def run() -> MutationResult:
        return attempts.run(
            lambda attempt: _Mutation(
                attempt, request, request.check(attempt.state), started, vectors
            ).run()
        )

    return run_once(workspace, [request.branch], request.asked, run, MutationResult.replay)


class _Mutation:
    """One attempt to run a mutation, on one snapshot."""

    def __init__(
        self,
        attempt: Attempt,
        request: Request,
        checked: CheckedMutation,
        started: int,
        vectors: TextVectors,
    ) -> None:
        self.attempt = attempt
        self.workspace = attempt.workspace
        self.catalog = checked.catalog
        self.checked = checked
        self.request = request
        self.started = started
        self.vectors = vectors
        self.params = {**checked.params, ir.NOW_PARAM: started // 1000}
        self.state = attempt.state
        self.tables: dict[str, PendingTable] = {}
        self.nodes = 0
        self.edges = 0

    def run(self) -> MutationResult:
        """Run the statements, and commit if they changed anything."""
        if self.checked.ir_hash != self.state.head.ir_hash:
            raise SchemaConflict("the schema changed while the mutation was checked; run it again")
        require_runnable(self.checked.plan)
        for statement in self.checked.plan.statements:
            if isinstance(statement, ir.Insert):
                self._insert(statement)
            elif isinstance(statement, ir.Update):
                self._update(statement)
            else:
                self._delete(statement)
        for table in self.tables.values():
            settle_ids(table)
            fill_vectors(table, self.vectors)
        result = MutationResult(
            self.request.branch,
            self.checked.plan.name,
            self.nodes,
            self.edges,
            self.request.actor_id,
            None,
        )
        if self._has_changes():
            return replace(result, commit=self._commit(result))
        # Without a publish nothing else checks ``if_commit`` at the end.
        now = self.workspace.manifest.state(self.request.branch)
        check_precondition(self.workspace, now, self.request.if_commit)
        return result

    def _has_changes(self) -> bool:
        return any(table.rows.num_rows or table.removed for table in self.tables.values())

    def _table(self, entity: Entity) -> PendingTable:
        """Return the pending table of a type, opened on first use."""
        known = self.tables.get(entity.table_key)
        if known is None:
            pin = self.state.head.tables.get(entity.table_key)
            if pin is None or pin.incarnation != entity.table_incarnation_id:
                raise SchemaConflict(
                    f"{entity.name} was changed by a schema apply while the mutation was prepared; "
                    "run it again",
                    table_key=entity.table_key,
                )
            known = PendingTable(entity, pin, open_table(self.workspace.pinned(pin)))
            self.tables[entity.table_key] = known
        return known

    # -- statements

    def _stored(self, entity: Entity, assignment: ir.Assignment) -> Any:
        return stored_value(entity, assignment, self.params, self.request.blobs)

    def _insert(self, statement: ir.Insert) -> None:
        """Add one row: a node by its key or a new id, an edge under a new id."""
        entity: Entity
        if statement.kind == "edge":
            entity = self.catalog.edges[statement.type_name]
            self.edges += 1
        else:
            entity = self.catalog.nodes[statement.type_name]
            self.nodes += 1
        values = entity.with_defaults(
            {column_of(entity, a.property): self._stored(entity, a) for a in statement.assignments}
        )
        keyed = isinstance(entity, NodeType) and entity.key is not None
        require_values(entity, values)
        pending = self._table(entity)
        values["id"] = key_id(entity, values) if keyed else new_id(pending, values)
        note_inserted(pending, values)
        pending.insert(values, fresh=not keyed)
        self._check_size()

    def _update(self, statement: ir.Update) -> None:
        """Assign the values to all rows that match, committed or pending."""
        import pyarrow as pa

        entity = self.catalog.nodes[statement.type_name]
        pending = self._table(entity)
        rows = pending.rows_where(self._condition(entity, statement.where))
        self.nodes += rows.num_rows
        columns = dict(zip(rows.column_names, rows.columns, strict=True))
        # Takes the one assigned value as often as there are rows.
        repeated = pa.array([0] * rows.num_rows, pa.int64())
        for assignment in statement.assignments:
            value = self._stored(entity, assignment)
            if value is None and not entity.properties[assignment.property].type.nullable:
                raise null_error(entity, assignment.property)
            kind = columns[assignment.property].type
            columns[assignment.property] = pa.array([value], kind).take(repeated)
        follow_texts(pending, rows, columns, {one.property for one in statement.assignments})
        if rows.num_rows:
            pending.replace(pa.Table.from_arrays(list(columns.values()), schema=rows.schema))
            self._check_size()

    def _delete(self, statement: ir.Delete) -> None:
        """Remove the committed rows that match; for nodes, also the edges at them."""
        if statement.kind == "edge":
            edge = self.catalog.edges[statement.type_name]
            pending = self._table(edge)
            self.edges += pending.remove(pending.ids_where(self._condition(edge, statement.where)))
            return
        node = self.catalog.nodes[statement.type_name]
        pending = self._table(node)
        ids = pending.ids_where(self._condition(node, statement.where))
        self.nodes += pending.remove(ids)
        if ids:
            self._cascade(node, ids)

    def _condition(self, entity: Entity, where: ir.Condition | None) -> Condition:
        assert isinstance(where, ir.Compare)
        assert isinstance(where.left, ir.PropertyOf)
        assert isinstance(where.right, ir.Value)
        assert where.op != "suffix"
        name = where.left.property
        column, value = column_of(entity, name), ir.value_of(where.right, self.params)
        if where.op == "=" and isinstance(entity, NodeType) and entity.id_property == column:
            return Condition("id", where.op, value)  # the same rows, and `id` has an index
        is_endpoint = column != name
        return Condition(column, where.op, id_text(value) if is_endpoint else value)

    def _cascade(self, node: NodeType, ids: list[str]) -> None:
        """Remove the edges that begin or end at these nodes."""
        for edge in self.catalog.edges.values():
            for end, type_name in (("src", edge.from_type), ("dst", edge.to_type)):
                if type_name == node.name:
                    pending = self._table(edge)
                    self.edges += pending.remove(pending.ids_among(end, ids))

    def _check_size(self) -> None:
        """Refuse a mutation with more pending rows than OMNIGRAPH_MUTATION_MAX_ROWS."""
        limit = settings.MUTATION_MAX_ROWS.get()
        if limit is None:
            return
        rows = sum(table.rows.num_rows for table in self.tables.values())
        if rows > limit:
            raise ResourceLimit(
                f"the mutation holds {rows} rows and OMNIGRAPH_MUTATION_MAX_ROWS is {limit}; load "
                "the rows instead, or raise the limit",
                resource="mutation_rows",
                limit=limit,
                actual=rows,
            )

    # -- the end

    def _commit(self, result: MutationResult) -> GraphCommit:
        """Validate, then commit the changed tables; the others that were read are relied on."""
        relied_on = self._validate()
        changed = {
            key: table for key, table in self.tables.items() if table.rows.num_rows or table.removed
        }
        head = self.state.head
        write = Write(
            writer="mutation",
            pin=self.state.pin,
            ir_hash=self.state.head.ir_hash,
            intent=Intent(
                new_ulid(),
                "mutation",
                self.started,
                self.request.actor_id,
                facts=self.request.asked.facts(result.answer()),
                operation_id=self.request.asked.operation_id,
            ),
            tables=tuple(
                TableChange(table.pin, (table.write_step(),)) for table in changed.values()
            ),
            relied_on=tuple(
                head.tables[key]
                for key in sorted(relied_on | set(self.tables))
                if key not in changed
            ),
        )
        return self.attempt.commit(write)

    def _validate(self) -> set[str]:
        """Check the final rows; return the keys of the tables that were read for it."""
        import pyarrow as pa

        for table in self.tables.values():
            broken = row_violations(table.entity, table.rows)
            if broken:
                raise violation_error(broken)
        runner = LocalRunner()
        try:
            deltas = {}
            for key, table in self.tables.items():
                names = ["id", *needed_columns(table.entity)]
                pending = table.rows.select(names).append_column(
                    ORDER, pa.array(range(table.rows.num_rows), pa.int64())
                )
                deltas[key] = TableDelta(
                    table.entity,
                    runner.frame(pending) if table.rows.num_rows else None,
                    runner.frame(pa.table({"id": pa.array(table.removed, pa.string())}))
                    if table.removed
                    else None,
                )
            committed = Committed(runner, self.state.head.tables, self.workspace.pinned)
            broken = first_set_violations(ChangeSet(self.catalog, deltas), committed)
        finally:
            runner.close()
        if broken:
            raise violation_error(broken)
        return committed.relied_on
