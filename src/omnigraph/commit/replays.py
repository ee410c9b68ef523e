"""Run a write once, however often it is sent under one id.

1. Look the id up in the newest commits of the branch, before anything else is checked: the first
   write may have moved the head that `if_commit` names.
2. Run the write. Under its locks the protocol looks the id up again (``refuse_repeated``): of two
   writes in flight at most one commits.
3. A write that fails, or finds nothing to do, may have met the effect of the same write sent before: a key
   that is there already, a branch that is merged already. So the id is looked up once more.

The commit keeps what was asked and answered: that of a mutation with an id has ``facts["request"]`` with
`operation` and `operation_id`, and the rest of the answer, such as `affected_nodes`.

The micro-batches of a stream are published once in the same way. What is recorded of the stream decides
about a batch (``is_published``):

* a greater batch id than the recorded one: it is new;
* not greater, and from the same query: it was published before, and is left out;
* not greater, from another query: refused. That query began with a fresh checkpoint under the id of an
  older stream, so its first batches would be lost. Where a query is unknown, only a lower id tells;
* not greater, and for another table: refused. A function that writes two types for each batch would lose
  the rows of the second one under one id.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, cast

from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    OmniGraphError,
    RecoveryRequired,
    StorageError,
)
from omnigraph.manifest.actors import check_message, check_operation_id
from omnigraph.manifest.history.stream_records import StreamBatch, StreamRecord, find_stream
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GROUP, MESSAGE, GraphCommit
from omnigraph.manifest.workspace import Workspace


class Answer(Protocol):
    """The result of a write."""

    @property
    def commit(self) -> GraphCommit | None:
        """The commit it made, if any."""


Result = TypeVar("Result", bound=Answer)
OfBatch = TypeVar("OfBatch")


class Replayed(Exception):
    """The write was committed before, under the id of its caller."""

    def __init__(self, commit: GraphCommit) -> None:
        super().__init__(commit.graph_commit_id)
        self.commit = commit


def refuse_repeated(workspace: Workspace, state: BranchState, intent: Intent) -> None:
    """Raise ``Replayed`` if the branch holds a commit of this id; called under the locks of the write."""
    if intent.operation_id is not None:
        made = find_made(workspace, state, WriteRequest.of(intent))
        if made is not None:
            raise Replayed(made)
        return
    # Of mutations that share a commit, each one is judged when they are prepared again.
    for one in intent.operation_ids:
        made = workspace.operations.find(workspace.manifest, state, one)
        if made is not None:
            raise Replayed(made)


def run_once(
    workspace: Workspace,
    branches: Sequence[str],
    request: WriteRequest,
    run: Callable[[], Result],
    replay: Callable[[GraphCommit], Result],
) -> Result:
    """Run a write, or answer with what it did when it was sent before.

    ``branches`` is the branch to be written, and after it those it will be made from if it is missing.
    ``replay`` makes the answer from the first commit.
    """
    if request.operation_id is None:
        return run()
    made = _look_up(workspace, branches, request)
    if made is None:
        try:
            result = run()
        except Replayed as before:
            made = before.commit
        except OmniGraphError:
            with suppress(OmniGraphError):
                made = _look_up(workspace, branches, request)
            if made is None:
                raise
        else:
            if result.commit is None:
                made = _look_up(workspace, branches, request)
            if made is None:
                return result
    return replayed(made, replay)


def replayed(made: GraphCommit, replay: Callable[[GraphCommit], Result]) -> Result:
    """Return the answer that a commit keeps; refuse if it cannot be made from it."""
    try:
        return replay(made)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise unanswerable(made) from error


def _look_up(
    workspace: Workspace, branches: Sequence[str], request: WriteRequest
) -> GraphCommit | None:
    for branch in branches:
        # A branch that is not there holds no commit; what to do about that is the writer's affair.
        with suppress(BranchNotFound):
            return find_made(workspace, workspace.manifest.state(branch), request)
    return None


def find_made(
    workspace: Workspace, state: BranchState, request: WriteRequest
) -> GraphCommit | None:
    """Return the commit that answers a request with an id; None if there is none."""
    assert request.operation_id is not None
    made = workspace.operations.find(workspace.manifest, state, request.operation_id)
    return made if made is not None and request.answered_by(made) else None


Operation = Literal["load", "mutate", "blob_write", "merge", "revert", "schema_apply", "embed"]

FACT = "request"
"""The fact of a commit that says what was asked and answered."""
REQUESTS = "requests"
"""The same by operation id, in the ``group`` of a commit that several mutations share."""
UNFINISHED = "unfinished"
"""Is true in the answer of a commit after which its operation went on."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Which operation is asked for, under which id, and with which message; None if its caller gave none."""

    operation: Operation
    operation_id: str | None = None
    message: str | None = None

    @classmethod
    def checked(cls, operation: Operation, operation_id: object, message: object) -> WriteRequest:
        """Return the request with what a caller gave, refusing what no commit can record."""
        return cls(operation, check_operation_id(operation_id), check_message(message))

    @classmethod
    def of(cls, intent: Intent) -> WriteRequest:
        """Return what was asked of a writer that is about to publish."""
        asked = intent.facts.get(FACT, {}).get("operation", intent.operation)
        return cls(cast("Operation", asked), intent.operation_id)

    def facts(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the commit keeps of the request: its message, and with an id the answer.

        The answer has JSON values only, and leaves out the commit. It may name files, and a file name
        need not be text: what has no UTF-8 form becomes a question mark.
        """
        said = {} if self.message is None else {MESSAGE: self.message}
        if self.operation_id is None:
            return said
        return {**said, FACT: self.kept(answer)}

    def kept(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is kept of a request with an id and of its answer."""
        kept = {"operation": self.operation, "operation_id": self.operation_id, **answer}
        text = json.dumps(kept, ensure_ascii=False).encode(errors="replace")
        return cast("dict[str, Any]", json.loads(text))

    def answered_by(self, commit: GraphCommit) -> bool:
        """Return whether a commit with this id answers this request; refuse another operation's."""
        made = kept_answer(commit, self.operation_id)
        operation = made.get("operation")
        if operation != self.operation:
            raise BadRequest(
                f"operation id {self.operation_id} belongs to commit {commit.graph_commit_id}, the "
                f"result of another operation ({operation}); choose a new id for this {self.operation}",
                operation_id=self.operation_id,
                graph_commit_id=commit.graph_commit_id,
            )
        return not made.get(UNFINISHED, False)


def kept_answer(commit: GraphCommit, operation_id: str | None = None) -> Mapping[str, Any]:
    """Return the answer that a commit keeps, with the request it belongs to.

    A commit that several mutations share keeps one for each ``operation_id``.
    """
    answer = commit.facts.get(FACT)
    if commit.members:
        answer = commit.facts[GROUP].get(REQUESTS, {}).get(operation_id)
    if not isinstance(answer, Mapping):
        raise unanswerable(commit)
    return answer


def unanswerable(commit: GraphCommit) -> StorageError:
    """Return the error for a commit that was made before and does not say what was answered then."""
    chosen = ", ".join(commit.operation_ids)
    return StorageError(
        f"commit {commit.graph_commit_id} was made under operation id {chosen} before, and "
        "does not say what was answered then; look at the commit, or choose a new id",
        graph_commit_id=commit.graph_commit_id,
        operation_id=chosen,
    )


def with_commit(
    answer: Mapping[str, Any], commit: GraphCommit | None, *, replayed: bool
) -> dict[str, Any]:
    """Return the public form of a result: its answer and its commit; ``replayed`` only if it is true."""
    return {
        **answer,
        "commit": None if commit is None else commit.to_json(),
        **({"replayed": True} if replayed else {}),
    }


def shown_commit(commit: GraphCommit, *, replayed: bool) -> str:
    """Return how a result shows its commit: its id, and whether it was there before."""
    before = " (made before, under this operation id)" if replayed else ""
    return f"{commit.graph_commit_id}{before}"


logger = logging.getLogger(__name__)


class BatchRepeated(Exception):
    """The micro-batch was published before."""


def refuse_repeated_batch(workspace: Workspace, state: BranchState, batch: StreamBatch) -> None:
    """Raise ``BatchRepeated`` if the branch has the batch; called under the locks of the write."""
    if is_published(find_stream(workspace.manifest, state, batch.app_id), batch):
        raise BatchRepeated


def publish_once(
    workspace: Workspace, branch: str, batch: StreamBatch, publish: Callable[[], OfBatch]
) -> OfBatch | None:
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
