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

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

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
    def replay(cls, commit: GraphCommit, operation_id: str | None = None) -> MutationResult:
        """Return the answer that a commit keeps, of several that share it the one to this id."""
        kept = kept_answer(commit, operation_id)
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

    def replay(self, commit: GraphCommit) -> MutationResult:
        """Return the answer that a commit keeps to this request."""
        return MutationResult.replay(commit, self.asked.operation_id)


def mutate(workspace: Workspace, request: Request) -> MutationResult:
    """Run a mutation, after finishing what dead writers left."""
    heal(workspace)
    return mutate_alone(workspace, request)


def mutate_alone(workspace: Workspace, request: Request) -> MutationResult:
    """Run a mutation; one whose operation id is known is not repeated.

    A mutation that lost a race is run again on the new head. ``now()`` keeps the time of the first
    try.
    """
    started = stamp_us()
    attempts = Attempts(workspace, request.branch, request.retries, request.if_commit)
    vectors = TextVectors(request.embedder)

    def attempt_once(attempt: Attempt) -> MutationResult:
        checked = request.check(attempt.state)
        graph = PendingGraph(workspace, attempt.state, checked.catalog)
        with closing(LocalRunner()) as runner:
            prepared = prepare(request, checked, graph, started, vectors, runner)
        if prepared.is_changed:
            commit = attempt.commit(write_of(graph, lone_intent(prepared, started)))
            graph.note_committed(commit)
            return prepared.answer(commit)
        # Without a publish nothing else checks ``if_commit`` at the end.
        check_precondition(workspace, workspace.manifest.state(request.branch), request.if_commit)
        return prepared.answer(None)

    return run_once(
        workspace,
        [request.branch],
        request.asked,
        lambda: attempts.run(attempt_once),
        request.replay,
    )


class MutatedRows(Protocol):
    """The rows of one table that a mutation changes."""

    def changed_ids(self, limit: int) -> list[str]:
        """Return the first ids of the rows that are written, and of those that are deleted."""


@dataclass(frozen=True, slots=True)
class PreparedMutation:
    """A mutation that was run on one state of its branch and may be committed.

    ``changed`` are the rows that it changes, by table key.
    """

    request: Request
    checked: CheckedMutation
    state: BranchState
    changed: Mapping[str, MutatedRows]
    result: MutationResult
    returned: pa.Table | None = None

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.changed)

    def answer(self, commit: GraphCommit | None) -> MutationResult:
        """Return the result, with its commit and the rows of `return`."""
        result = replace(self.result, commit=commit)
        wanted = self.checked.plan.returned
        if self.returned is None or wanted is None:
            return result
        head = self.state.head.commit if commit is None else commit
        types = {one.name: one.type_name for one in self.checked.plan.variables}
        returned = QueryResult(
            self.returned,
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


def prepare(
    request: Request,
    checked: CheckedMutation,
    graph: PendingGraph,
    started: int,
    vectors: TextVectors,
    runner: LocalRunner,
) -> PreparedMutation:
    """Run the statements on an empty graph of pending rows, and check the result.

    The graph may lie over that of other mutations, which then count as committed. ``started`` is the time that
    ``now()`` gives.
    """
    from omnigraph.write.statements.aggregated import returned
    from omnigraph.write.statements.asked import Asked
    from omnigraph.write.statements.assign import Scene
    from omnigraph.write.statements.rows import source_rows
    from omnigraph.write.statements.run import Statements

    refuse_other_schema(checked, graph.state)

    def view() -> View:
        return request.view(Snapshot.of(request.branch, graph.state.head), checked.catalog)

    graph.read |= matched_tables(checked)
    params = params_at(checked, started)
    asked = Asked.of(checked.plan, params)
    rows = source_rows(asked, checked.catalog, params, view, request.embedder)
    scene = Scene(rows, graph.table, params, request.blobs)
    statements = Statements(graph, scene)
    statements.run_all(asked.statements)
    for table in graph.tables.values():
        fill_vectors(table, vectors)
    result = MutationResult(
        request.branch,
        checked.plan.name,
        statements.nodes,
        statements.edges,
        request.actor_id,
        None,
        columns=None if asked.returned is None else [c.name for c in asked.returned.columns],
    )
    shown = None
    if asked.returned is not None:
        shown = returned(asked.returned, rows, graph.table, params)
    prepared = PreparedMutation(request, checked, graph.state, graph.changed, result, shown)
    if prepared.is_changed:
        validate(graph, runner)
    return prepared


def refuse_other_schema(checked: CheckedMutation, state: BranchState) -> None:
    """Raise ``SchemaConflict`` if the mutation was checked against another schema than the state has."""
    if checked.ir_hash != state.head.ir_hash:
        raise SchemaConflict("the schema changed while the mutation was checked; run it again")


def params_at(checked: CheckedMutation, started: int) -> dict[str, Any]:
    """Return the parameters of a mutation, with the time that ``now()`` gives."""
    return {**checked.params, ir.NOW_PARAM: started // 1000}


def matched_tables(checked: CheckedMutation) -> set[str]:
    """Return the keys of the tables that the match reads."""
    nodes, edges = checked.catalog.nodes, checked.catalog.edges
    return {
        (nodes[name] if kind == "node" else edges[name]).table_key
        for kind, name in types_matched(checked.plan)
    }


def validate(graph: PendingGraph, runner: LocalRunner) -> None:
    """Check the final rows, and note the tables that were read for it."""
    import pyarrow as pa

    for table in graph.tables.values():
        broken = row_violations(table.entity, table.rows)
        if broken:
            raise violation_error(broken)
    deltas = {}
    for key, table in graph.tables.items():
        names = ["id", *needed_columns(table.entity)]
        pending = table.rows.select(names).append_column(
            ORDER, pa.array(range(table.rows.num_rows), pa.int64())
        )
        removed = table.removed
        deltas[key] = TableDelta(
            table.entity,
            runner.frame(pending) if pending.num_rows else None,
            runner.frame(pa.table({"id": pa.array(removed, pa.string())})) if removed else None,
        )
    committed = Committed(
        runner,
        graph.state.head.tables,
        graph.workspace.pinned,
        overlays={} if graph.beneath is None else graph.beneath.changed,
    )
    broken = first_set_violations(ChangeSet(graph.catalog, deltas), committed)
    graph.read |= committed.relied_on
    if broken:
        raise violation_error(broken)


def lone_intent(prepared: PreparedMutation, started: int) -> Intent:
    """Return who commits what, for a mutation with a commit of its own."""
    asked = prepared.request.asked
    return Intent(
        new_ulid(),
        "mutation",
        started,
        prepared.request.actor_id,
        facts=asked.facts(prepared.result.answer()),
        operation_id=asked.operation_id,
    )


def write_of(graph: PendingGraph, intent: Intent) -> Write:
    """Return a write of the changed tables; the others that were read are relied on."""
    graph.find_new()
    changed = graph.changed
    head = graph.state.head
    return Write(
        writer="mutation",
        pin=graph.state.pin,
        ir_hash=head.ir_hash,
        intent=intent,
        tables=tuple(TableChange(table.pin, table.write_steps()) for table in changed.values()),
        relied_on=tuple(
            head.tables[key]
            for key in sorted(graph.read | graph.tables.keys())
            if key not in changed
        ),
    )
