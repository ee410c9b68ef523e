"""Streams: the newest micro-batch that each streaming sink has published on a branch.

A sink may be sent a micro-batch again: after its driver was lost, after its answer was lost, from a copy
of its checkpoint. For example, once batch 7 of the stream `orders` is published by commit C9, the row
``stream:orders`` holds 7 and C9, written by the publish of C9 itself. A batch up to 7 is then known to be
there, and one row says so, however long the history is. A branch inherits the rows of the one it was made
from; a merge takes the greater batch of each stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.clock import derived_ulid
from omnigraph.manifest import rows
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import GraphCommit, Row

FACT = "stream"
"""The fact of a commit that says which micro-batch it is."""
FIRST_LOOK = 4
"""This many of the newest fragments are searched first."""


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One micro-batch: the stream it belongs to, its number, and the query that sent it, if that is known.

    ``table_key`` is the table that its rows are for, where that is known.
    """

    app_id: str
    batch_id: int
    query_id: str | None = None
    table_key: str | None = None

    @property
    def operation_id(self) -> str:
        """The operation id of its commit, which is the same whoever sends the batch."""
        return derived_ulid(f"batch {self.batch_id} of {self.app_id}")

    @property
    def stream_key(self) -> str:
        """A ULID that all batches of the stream have in common."""
        return derived_ulid(f"stream {self.app_id}")

    def facts(self) -> dict[str, Any]:
        """Return what its commit records of it."""
        known = {"query_id": self.query_id, "table_key": self.table_key}
        known = {name: value for name, value in known.items() if value is not None}
        return {FACT: {"app_id": self.app_id, "batch_id": self.batch_id, **known}}


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """The newest batch of a stream on a branch, and the commit that published it."""

    batch: StreamBatch
    graph_commit_id: str

    @property
    def app_id(self) -> str:
        """The stream."""
        return self.batch.app_id

    def row(self) -> Row:
        """Return the row of the stream."""
        batch = self.batch
        document = {
            "app_id": batch.app_id,
            "query_id": batch.query_id,
            "table_key": batch.table_key,
            "batch_id": batch.batch_id,
            "graph_commit_id": self.graph_commit_id,
        }
        return Row(
            _object_id(batch.app_id),
            rows.STREAM,
            base_objects=(f"commit:{self.graph_commit_id}",),
            metadata=rows.dump(document),
        )


def find_stream(manifest: Manifest, state: BranchState, app_id: str) -> StreamRecord | None:
    """Return what a branch records of a stream; None if it published nothing there.

    Every batch writes the row again, so that of a running stream is in one of the newest fragments.
    """
    for some in _newest_first(state.table.fragments()):
        found = manifest.metadata(state, "object_id", _object_id(app_id), some)
        if found and found[0] is not None:
            return rows.decode(rows.STREAM, found[0], _record)
    return None


def newer_streams(
    manifest: Manifest, state: BranchState, adopted: Iterable[GraphCommit]
) -> tuple[StreamRecord, ...]:
    """Return the records that a branch takes over with commits of another one: the greater batches.

    The commits are all those of the other branch that this one does not hold, so what the other one
    records and this one does not was published by one of them.
    """
    newest: dict[str, StreamRecord] = {}
    for commit in adopted:
        fact = commit.facts.get(FACT)
        if fact is not None:
            record = StreamRecord(_batch(fact), commit.graph_commit_id)
            if _is_newer(record, newest.get(record.app_id)):
                newest[record.app_id] = record
    return tuple(
        record
        for app_id, record in sorted(newest.items())
        if _is_newer(record, find_stream(manifest, state, app_id))
    )


def _is_newer(record: StreamRecord, than: StreamRecord | None) -> bool:
    return than is None or record.batch.batch_id > than.batch.batch_id


def _newest_first(fragments: list[Any]) -> Iterator[list[Any]]:
    """Yield the fragments in growing groups, from the newest on."""
    end, size = len(fragments), FIRST_LOOK
    while end > 0:
        yield fragments[max(0, end - size) : end]
        end, size = end - size, 4 * size


def _object_id(app_id: str) -> str:
    return f"stream:{app_id}"


def _record(document: Mapping[str, Any]) -> StreamRecord:
    return StreamRecord(_batch(document), document["graph_commit_id"])


def _batch(document: Mapping[str, Any]) -> StreamBatch:
    return StreamBatch(
        document["app_id"],
        document["batch_id"],
        document.get("query_id"),
        document.get("table_key"),
    )
