"""The moves of a graph: create, migrate, delete. Each puts a recovery file down first; it goes after the ledger.

A move that failed and changed nothing takes its recovery file away again. One that may have changed
something leaves it, and the next command decides by looking at the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph import failpoints
from omnigraph.clock import new_ulid
from omnigraph.cluster.declared.diagnostics import Code, Diagnostics
from omnigraph.cluster.declared.resources import graph_address, schema_address
from omnigraph.cluster.graphs import delete_at, graph_uri, look_at, take_back_delete
from omnigraph.cluster.outcomes import Place, RootContents
from omnigraph.cluster.stored.recovery_files import (
    Approval,
    Operation,
    RecoveryFile,
    remove_recovery,
    write_recovery,
)
from omnigraph.cluster.stored.times import now_text
from omnigraph.errors import OmniGraphError
from omnigraph.graph import init as init_graph
from omnigraph.graph import open as open_graph
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.uris import Root

AFTER_MOVE = failpoints.declare("cluster.after_move")


@dataclass(frozen=True, slots=True)
class Preview:
    """What migrating a graph to the declared schema would do."""

    steps: list[Mapping[str, Any]]
    supported: bool


def preview(uri: str, source: str) -> Preview:
    """Return the steps from the live schema of a graph to another one. Nothing is written."""
    with open_graph(uri, mode="r") as graph:
        plan = graph.schema.plan(source)
    return Preview([step.to_json() for step in plan.steps], plan.supported)


@dataclass(slots=True)
class Mover:
    """Moves graphs of one cluster; ``made`` are the recovery files of moves that succeeded."""

    root: Root
    store: ObjectStore
    actor: str | None
    cas: str | None
    diagnostics: Diagnostics
    made: list[RecoveryFile] = field(default_factory=list)

    def create(self, graph: str, content: bytes, digest: str) -> Code | None:
        """Make a graph with a schema; return the code of what failed, if something did."""
        uri = graph_uri(self.root, graph)
        record = self._record("graph_create", graph, expected_schema_digest=digest)
        if not write_recovery(self.store, record, self.diagnostics):
            return Code.RECOVERY_SIDECAR_WRITE_ERROR
        try:
            init_graph(uri, content.decode(), actor=self.actor, upkeep="off").close()
        except OmniGraphError as error:
            hint = (
                "; run `omnigraph cluster refresh` to take it over"
                if error.code == "already_initialised"
                else ""
            )
            # A graph that was there before is not of this move.
            unmoved: tuple[Place, ...] = ("complete",) if hint else ("absent",)
            self._settle(record, look_at(uri).place in unmoved)
            return self._failed(
                Code.GRAPH_CREATE_FAILED, graph_address(graph), f"{error.message}{hint}"
            )
        self._moved(record)
        return None

    def migrate(self, graph: str, content: bytes, digest: str, before: RootContents) -> Code | None:
        """Give a graph another schema; return the code of what failed, if something did."""
        uri = graph_uri(self.root, graph)
        record = self._record(
            "schema_apply",
            graph,
            expected_schema_digest=digest,
            before_manifest_version=before.manifest_version,
        )
        if not write_recovery(self.store, record, self.diagnostics):
            return Code.RECOVERY_SIDECAR_WRITE_ERROR
        try:
            with open_graph(uri, actor=self.actor, upkeep="off") as opened:
                opened.schema.apply(content.decode())
        except OmniGraphError as error:
            self._settle(record, look_at(uri).digest == before.digest)
            return self._failed(Code.SCHEMA_APPLY_FAILED, schema_address(graph), error.message)
        self._moved(record)
        return None

    def delete(self, graph: str, approval: Approval) -> Code | None:
        """Delete a graph, as somebody approved; return the code of what failed, if something did."""
        uri = graph_uri(self.root, graph)
        record = self._record("graph_delete", graph, approval_id=approval.approval_id)
        if not write_recovery(self.store, record, self.diagnostics):
            return Code.RECOVERY_SIDECAR_WRITE_ERROR
        try:
            delete_at(uri)
        except OmniGraphError as error:
            self._settle(record, take_back_delete(uri))
            return self._failed(Code.GRAPH_DELETE_FAILED, graph_address(graph), error.message)
        self._moved(record)
        return None

    def _record(self, operation: Operation, graph: str, **facts: Any) -> RecoveryFile:
        return RecoveryFile(
            operation_id=new_ulid(),
            operation=operation,
            graph_id=graph,
            graph_uri=graph_uri(self.root, graph),
            actor=self.actor,
            started_at=now_text(),
            state_cas_base=self.cas,
            **facts,
        )

    def _moved(self, record: RecoveryFile) -> None:
        self.made.append(record)
        AFTER_MOVE.hit()

    def _failed(self, code: Code, address: str, message: str) -> Code:
        self.diagnostics.error(code, address, message)
        return code

    def _settle(self, record: RecoveryFile, unmoved: bool) -> None:
        if unmoved:
            remove_recovery(self.store, record, self.diagnostics)
