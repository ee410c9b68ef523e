"""Mutations: run the statements in order, validate the result once, commit once.

1. The match is solved once, on the state the mutation begins with; its rows are what the statements run
   for (``write/statements/``).
2. Each statement reads the committed rows overlaid by the pending ones (``write/pending.py``), and
   adds its own changes to the pending ones.
3. The final rows are checked by the row rules and the set rules.
4. Each changed table gets a step that deletes, one that writes (an append if all its rows are new, an
   upsert if not), or both.

For example, ``insert Person { name: "Ann" }`` followed by ``update Person set { age: 31 } where
name = "Ann"`` commits one row {name: Ann, age: 31}. Deleting a node also deletes its edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.attempts import Attempt, Attempts, check_precondition
from omnigraph.commit.changes import TableChange, Write
from omnigraph.commit.heal import heal
from omnigraph.commit.replays import WriteRequest, kept_answer, run_once, shown_commit, with_commit
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted
from omnigraph.embeddings.embedder import Embedder
from omnigraph.errors import SchemaConflict
from omnigraph.lang.query import ir
from omnigraph.lang.query.describe import types_matched
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.snapshot import Snapshot, Target
from omnigraph.manifest.workspace import Workspace
from omnigraph.read.output.query_result import QueryResult
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.storage.blob_policy import NO_POLICY, BlobPolicy
from omnigraph.validate.change_set import ORDER, ChangeSet, TableDelta, needed_columns
from omnigraph.validate.column_rules import row_violations
from omnigraph.validate.committed import Committed
from omnigraph.validate.evaluate import first_set_violations
from omnigraph.validate.violations import violation_error
from omnigraph.write.statements.pending_graph import PendingGraph
from omnigraph.write.vectors import TextVectors, fill_vectors

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.read.view.view import View
    from omnigraph.write.statements.asked import Asked
    from omnigraph.write.statements.rows import SourceRows


@dataclass(frozen=True, slots=True, repr=False)
class MutationResult(Shown):
    """What a mutation did; ``commit`` is None if nothing changed.

    ``returned`` has the rows of `return`, as a read has them; ``columns`` are their names and ``rows`` the rows as
    dicts. All three are None without a `return`. ``replayed``: it was made before, under the same operation id, and
    had no effect this time; its counts and names of columns are kept, its rows are not.
    """

    branch: str
    query_name: str | None
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit: GraphCommit | None
    replayed: bool = False
    columns: list[str] | None = None
    returned: QueryResult | None = None

    @property
    def rows(self) -> list[dict[str, Any]] | None:
        """The rows of `return` as dicts of plain JSON values; None if there are none to show."""
        return None if self.returned is None else self.returned.rows

    @classmethod
    def replay(cls, commit: GraphCommit) -> MutationResult:
        """Return the answer that a commit keeps."""
        kept = kept_answer(commit)
        names = ("branch", "query_name", "affected_nodes", "affected_edges", "actor_id")
        answer = {name: kept[name] for name in names}
        return cls(**answer, commit=commit, replayed=True, columns=kept.get("columns"))

    def to_json(self, js_safe: bool = False) -> dict[str, Any]:
        """Return the public form; ``replayed`` appears only if it is true, ``rows`` only after a `return`.

        ``js_safe`` writes integers that a JavaScript number cannot hold as text.
        """
        answer = self.answer()
        if self.columns is not None:
            shown = None if self.returned is None else self.returned.to_json(js_safe)["rows"]
            answer["rows"] = shown
        return with_commit(answer, self.commit, replayed=self.replayed)

    def answer(self) -> dict[str, Any]:
        """Return the public form without the rows and the commit."""
        answer = {
            "branch": self.branch,
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.actor_id,
        }
        return answer if self.columns is None else {**answer, "columns": self.columns}

    def _panel(self) -> Panel:
        nodes, edges = counted(self.affected_nodes, "node"), counted(self.affected_edges, "edge")
        commit = "none, nothing changed"
        if self.commit is not None:
            commit = shown_commit(self.commit, replayed=self.replayed)
        title = f"{self.query_name or 'the mutation'} changed {nodes} and {edges} of branch {self.branch}"
        facts = [("commit", commit)]
        if self.returned is None:
            return Panel(title, facts)
        rows = self.returned._panel()  # noqa: SLF001 - one result is shown as part of another
        return replace(rows, title=title, facts=facts)


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
    view: Callable[[Snapshot, Catalog], View]
    """Opens a snapshot for reading: a match is solved like a read."""
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
        self.checked = checked
        self.request = request
        self.started = started
        self.vectors = vectors
        self.params = {**checked.params, ir.NOW_PARAM: started // 1000}
        self.state = attempt.state
        self.graph = PendingGraph(self.workspace, self.state, checked.catalog)

    def run(self) -> MutationResult:
        """Run the statements, and commit if they changed anything."""
        from omnigraph.write.statements.asked import Asked
        from omnigraph.write.statements.assign import Scene
        from omnigraph.write.statements.rows import source_rows
        from omnigraph.write.statements.run import Statements

        if self.checked.ir_hash != self.state.head.ir_hash:
            raise SchemaConflict("the schema changed while the mutation was checked; run it again")
        asked = Asked.of(self.checked.plan, self.params)
        rows = source_rows(
            asked, self.checked.catalog, self.params, self._view, self.request.embedder
        )
        scene = Scene(rows, self.graph.table, self.params, self.request.blobs)
        statements = Statements(self.graph, scene)
        statements.run_all(asked.statements)
        for table in self.graph.tables.values():
            fill_vectors(table, self.vectors)
        result = MutationResult(
            self.request.branch,
            self.checked.plan.name,
            statements.nodes,
            statements.edges,
            self.request.actor_id,
            None,
            columns=None if asked.returned is None else [c.name for c in asked.returned.columns],
        )
        returned = self._returned(asked, rows)
        if self.graph.changed:
            result = replace(result, commit=self._commit(result))
        else:
            # Without a publish nothing else checks ``if_commit`` at the end.
            now = self.workspace.manifest.state(self.request.branch)
            check_precondition(self.workspace, now, self.request.if_commit)
        return self._with_rows(result, returned)

    def _view(self) -> View:
        snapshot = Snapshot.of(self.request.branch, self.state.head)
        return self.request.view(snapshot, self.checked.catalog)

    def _returned(self, asked: Asked, rows: SourceRows) -> pa.Table | None:
        from omnigraph.write.statements.grouped import returned

        if asked.returned is None:
            return None
        return returned(asked.returned, rows, self.graph.table, self.params)

    def _with_rows(self, result: MutationResult, table: pa.Table | None) -> MutationResult:
        wanted = self.checked.plan.returned
        if table is None or wanted is None:
            return result
        head = self.state.head.commit if result.commit is None else result.commit
        types = {one.name: one.type_name for one in self.checked.plan.variables}
        returned = QueryResult(
            table,
            wanted.columns,
            result.query_name,
            Target.of(branch=result.branch),
            head.graph_commit_id,
            node_types={
                one.name: types[one.expr.var]
                for one in wanted.columns
                if isinstance(one.expr, ir.NodeId)
            },
        )
        return replace(result, returned=returned)

    # -- the end

    def _commit(self, result: MutationResult) -> GraphCommit:
        """Validate, then commit the changed tables; the others that were read are relied on."""
        relied_on = self._validate() | set(self._matched_tables())
        changed = self.graph.changed
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
            tables=tuple(TableChange(table.pin, table.write_steps()) for table in changed.values()),
            relied_on=tuple(
                head.tables[key]
                for key in sorted(relied_on | set(self.graph.tables))
                if key not in changed
            ),
        )
        return self.attempt.commit(write)

    def _matched_tables(self) -> Iterator[str]:
        """The keys of the tables that the match reads."""
        catalog = self.checked.catalog
        for kind, name in types_matched(self.checked.plan):
            entity = catalog.nodes[name] if kind == "node" else catalog.edges[name]
            yield entity.table_key

    def _validate(self) -> set[str]:
        """Check the final rows; return the keys of the tables that were read for it."""
        import pyarrow as pa

        for table in self.graph.tables.values():
            broken = row_violations(table.entity, table.rows)
            if broken:
                raise violation_error(broken)
        runner = LocalRunner()
        try:
            deltas = {}
            for key, table in self.graph.tables.items():
                names = ["id", *needed_columns(table.entity)]
                pending = table.rows.select(names).append_column(
                    ORDER, pa.array(range(table.rows.num_rows), pa.int64())
                )
                removed = pa.table({"id": pa.array(table.removed, pa.string())})
                deltas[key] = TableDelta(
                    table.entity,
                    runner.frame(pending) if pending.num_rows else None,
                    runner.frame(removed) if removed.num_rows else None,
                )
            committed = Committed(runner, self.state.head.tables, self.workspace.pinned)
            broken = first_set_violations(ChangeSet(self.checked.catalog, deltas), committed)
        finally:
            runner.close()
        if broken:
            raise violation_error(broken)
        return committed.relied_on
