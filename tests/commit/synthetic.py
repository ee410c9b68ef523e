"""A writer made for tests: it appends rows to any tables of a branch through the one protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from omnigraph import failpoints
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.changes import StagedStep, TableChange, Write, Writer
from omnigraph.commit.heal import heal
from omnigraph.commit.protocol import commit
from omnigraph.graph import Graph
from omnigraph.manifest.history.stream_records import StreamBatch
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.tables.staging import stage_append
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_commits import commit_staged
from tests.opened import workspace_of

PERSON, TEAM, MEMBER_OF = "node:Person", "node:Team", "edge:MemberOf"
ALL = (PERSON, TEAM, MEMBER_OF)


class Died(RuntimeError):
    """No error of the product: it goes through the protocol without any clean-up."""


@contextmanager
def dying_at(point: str, **times: int) -> Iterator[None]:
    """The block must reach the point, and stops there as if the process had died."""
    with failpoints.arm(point, Died(point), **times), pytest.raises(Died):
        yield


def rows_of(table_key: str, ids: Iterable[str], schema: pa.Schema) -> pa.Table:
    """One row per id, all other required columns filled with the id."""
    ids = list(ids)
    columns = [
        pa.array(ids if pa.types.is_string(field.type) and not field.nullable else [None] * len(ids),
                 field.type)
        for field in schema
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=schema)


def appending(pin: TableState, ids: Iterable[str]) -> TableChange:
    """Append one row per id to a table."""
    wanted = list(ids)

    def stage(table: Table):
        return stage_append(table, rows_of(pin.table_key, wanted, table.schema))

    return TableChange(pin, (StagedStep(stage),))


def prepare(
    workspace: Workspace,
    rows: dict[str, Iterable[str]],
    *,
    branch: str = "main",
    writer: Writer = "load",
    actor: str | None = None,
    relying_on: Iterable[str] = (),
    batch: StreamBatch | None = None,
) -> Write:
    """A write of these ids into these tables, prepared on the newest snapshot."""
    state = workspace.manifest.state(branch)
    pins = state.head.tables
    return Write(
        writer=writer,
        pin=state.pin,
        intent=Intent(
            new_ulid(), writer, stamp_us(), actor, facts={} if batch is None else batch.facts()
        ),
        tables=tuple(appending(pins[key], ids) for key, ids in rows.items()),
        relied_on=tuple(pins[key] for key in relying_on),
        batch=batch,
    )


def write(workspace: Workspace, rows: dict[str, Iterable[str]], **options) -> GraphCommit:
    """What every real writer does: heal, prepare, commit."""
    heal(workspace)
    return commit(workspace, prepare(workspace, rows, **options))


def foreign_append(graph: Graph, table_key: str, ids: Iterable[str], branch: str = "main") -> Table:
    """What another program does that knows Lance and not this product."""
    pin = graph.snapshot(branch=branch).tables[table_key]
    head = open_table(workspace_of(graph).ref(pin.location).on(pin.table_branch))
    return commit_staged(stage_append(head, rows_of(table_key, ids, head.schema)))


def contents(graph: Graph, branch: str = "main") -> dict[str, list[str]]:
    """The ids in every table of a branch as a reader sees them."""
    found = {}
    for key, pin in graph.snapshot(branch=branch).tables.items():
        table = open_table(workspace_of(graph).pinned(pin))
        assert table.count_rows() == pin.row_count
        found[key] = sorted(table.read(["id"]).column("id").to_pylist())
    return found


def drifted(graph: Graph, branch: str = "main") -> list[str]:
    """Tables whose HEAD is not their pin."""
    return [
        key
        for key, pin in graph.snapshot(branch=branch).tables.items()
        if not open_table(workspace_of(graph).pinned(pin)).is_head()
        and pin.table_branch == (None if branch == "main" else branch)
    ]
