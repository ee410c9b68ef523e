"""A write as its caller asked for it, and what its commit keeps of that: a message, and the answer.

A write under an id of its caller's choice can be answered again.

For example, the commit of a mutation with an id has ``facts["request"]``: `operation` and
`operation_id`, which say what was asked, and the rest of the answer, such as `affected_nodes`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from omnigraph.errors import BadRequest, StorageError
from omnigraph.manifest.actors import check_message, check_operation_id
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import MESSAGE, GraphCommit

Operation = Literal["load", "mutate", "blob_write", "merge", "revert", "schema_apply", "embed"]

FACT = "request"
"""The fact of a commit that says what was asked and answered."""
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
        kept = {"operation": self.operation, "operation_id": self.operation_id, **answer}
        return {
            **said,
            FACT: json.loads(json.dumps(kept, ensure_ascii=False).encode(errors="replace")),
        }

    def answered_by(self, commit: GraphCommit) -> bool:
        """Return whether a commit with this id answers this request; refuse another operation's."""
        made = kept_answer(commit)
        operation = made.get("operation")
        if operation != self.operation:
            raise BadRequest(
                f"operation id {self.operation_id} belongs to commit {commit.graph_commit_id}, the "
                f"result of another operation ({operation}); choose a new id for this {self.operation}",
                operation_id=self.operation_id,
                graph_commit_id=commit.graph_commit_id,
            )
        return not made.get(UNFINISHED, False)


def kept_answer(commit: GraphCommit) -> Mapping[str, Any]:
    """Return the answer that a commit keeps, with the request it belongs to."""
    answer = commit.facts.get(FACT)
    if not isinstance(answer, Mapping):
        raise unanswerable(commit)
    return answer


def unanswerable(commit: GraphCommit) -> StorageError:
    """Return the error for a commit that was made before and does not say what was answered then."""
    return StorageError(
        f"commit {commit.graph_commit_id} was made under operation id {commit.operation_id} before, and "
        "does not say what was answered then; look at the commit, or choose a new id",
        graph_commit_id=commit.graph_commit_id,
        operation_id=commit.operation_id,
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
