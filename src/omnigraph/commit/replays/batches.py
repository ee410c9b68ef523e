"""Publish every micro-batch of a stream once, however often it is sent.

What is recorded of the stream decides about a batch (``is_published``):

* a greater batch id than the recorded one: it is new;
* not greater, and from the same query: it was published before, and is left out;
* not greater, from another query: refused. That query began with a fresh checkpoint under the id of an
  older stream, so its first batches would be lost. Where a query is unknown, only a lower id tells;
* not greater, and for another table: refused. A function that writes two types for each batch would lose
  the rows of the second one under one id.

The record is looked up before the batch is prepared, again under its locks, and once more when it fails:
the same batch, sent by another process, may have come first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from omnigraph.errors import BadRequest, BranchNotFound, OmniGraphError, RecoveryRequired
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.streams import StreamBatch, StreamRecord, find_stream
from omnigraph.manifest.workspace import Workspace

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


class BatchRepeated(Exception):
    """The micro-batch was published before."""


def refuse_repeated_batch(workspace: Workspace, state: BranchState, batch: StreamBatch) -> None:
    """Raise ``BatchRepeated`` if the branch has the batch; called under the locks of the write."""
    if is_published(find_stream(workspace.manifest, state, batch.app_id), batch):
        raise BatchRepeated


def publish_once(
    workspace: Workspace, branch: str, batch: StreamBatch, publish: Callable[[], Result]
) -> Result | None:
    """Publish a micro-batch and return the result; None if the branch has it already."""

    def is_there() -> bool:
        # A branch that is not there holds no batch; what to do about that is the writer's affair.
        with suppress(BranchNotFound):
            state = workspace.manifest.state(branch)
            return is_published(find_stream(workspace.manifest, state, batch.app_id), batch)
        return False

    if not is_there():
        try:
            return publish()
        except BatchRepeated:
            pass
        except OmniGraphError as error:
            if not _is_settled(error, is_there):
                raise
    logger.warning(
        "batch %d of the stream `%s` is on branch `%s` already and was left out",
        batch.batch_id,
        batch.app_id,
        branch,
    )
    return None


def _is_settled(error: OmniGraphError, is_there: Callable[[], bool]) -> bool:
    """Return whether a batch that failed was committed nevertheless, by another process that sent it too."""
    if isinstance(error, RecoveryRequired):
        return False  # it may be there after a recovery, which the next attempt runs
    with suppress(OmniGraphError):
        return is_there()
    return False


def is_published(recorded: StreamRecord | None, batch: StreamBatch) -> bool:
    """Return whether a batch was published before; refuse one of another query, or for another table."""
    if recorded is None or batch.batch_id > recorded.batch.batch_id:
        return False
    tables = {recorded.batch.table_key, batch.table_key}
    if len(tables) > 1 and None not in tables:
        raise _for_another_table(recorded, batch)
    known, given = recorded.batch.query_id, batch.query_id
    if known is None or given is None:
        others = batch.batch_id < recorded.batch.batch_id
    else:
        others = known != given
    if others:
        raise _from_another_query(recorded, batch)
    return True


def _for_another_table(recorded: StreamRecord, batch: StreamBatch) -> BadRequest:
    last = recorded.batch
    return BadRequest(
        f"batch {last.batch_id} of the stream `{batch.app_id}` was written to {last.table_key} (commit "
        f"{recorded.graph_commit_id}), so batch {batch.batch_id} for {batch.table_key} would be taken for one "
        "that is there; give each type an app_id of its own",
        app_id=batch.app_id,
        batch_id=batch.batch_id,
        table_key=batch.table_key,
        recorded_batch_id=last.batch_id,
        recorded_table_key=last.table_key,
        graph_commit_id=recorded.graph_commit_id,
    )


def _from_another_query(recorded: StreamRecord, batch: StreamBatch) -> BadRequest:
    last = recorded.batch
    return BadRequest(
        f"batch {batch.batch_id}{_query(batch)} is not above batch {last.batch_id}{_query(last)}, the last "
        f"one of the stream `{batch.app_id}` on this branch (commit {recorded.graph_commit_id}), so its "
        "rows would be taken for ones that are there; choose another app_id, or go on from the old "
        "checkpoint",
        app_id=batch.app_id,
        batch_id=batch.batch_id,
        query_id=batch.query_id,
        recorded_batch_id=last.batch_id,
        recorded_query_id=last.query_id,
        graph_commit_id=recorded.graph_commit_id,
    )


def _query(batch: StreamBatch) -> str:
    return "" if batch.query_id is None else f" of query {batch.query_id}"
