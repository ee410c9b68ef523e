"""Holding documents against the types of answers: every member is known, every required one is there.

JSON schemas are made from the types of ``omnigraph.service.answers``, and closed: a member that no type
names is a fault here, while clients must be ready for it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from jsonschema import Draft202012Validator

from omnigraph.server.handling.routing import ROUTES, Matched
from omnigraph.service.answers import answer_type
from omnigraph.service.documents import Streamed
from omnigraph.service.operations import INVOKE_MUTATION, OPERATIONS


def answer_faults(name: str, document: Any) -> list[str]:
    """Return what is wrong with a document that should be the answer of this name."""
    found = sorted(_validator(name).iter_errors(document), key=lambda error: error.json_path)
    return [f"{name} {error.json_path}: {error.message}" for error in found]


def check_answer(name: str, document: Any) -> None:
    """Fail if a document is not the answer of this name."""
    if faults := answer_faults(name, document):
        raise AssertionError("\n".join(faults))


LARGEST = 4 << 20
"""Larger bodies are rows of a benchmark's size, which would take minutes to check."""
OWN_ANSWERS = {"healthz": "HealthAnswer", "graphs": "GraphsAnswer"}


def check_http_answer(
    method: str, path: str, status: int, content_type: str | None, body: bytes
) -> None:
    """Fail if what a server answered is JSON, and neither the answer of its route nor an error."""
    if content_type != "application/json" or not body or len(body) > LARGEST:
        return
    document = json.loads(body)
    if path.endswith("/mcp") and "jsonrpc" in document:
        return  # a message of another protocol, which its own tests read
    if status >= HTTPStatus.BAD_REQUEST and document != {"status": "draining"}:
        check_answer("ErrorAnswer", document)
        return
    found = ROUTES.match(path.partition("?")[0].encode(), method)
    if isinstance(found, Matched):
        # A stored query answers as the query or mutation that it is.
        writes = found.operation.name == "invoke" and "affected_nodes" in document
        check_answer((INVOKE_MUTATION if writes else found.operation).answer, document)
    elif found in OWN_ANSWERS:
        check_answer(OWN_ANSWERS[found], document)


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    (schema,), parts = msgspec.json.schema_components([answer_type(name)])
    for part in parts.values():
        if "properties" in part:
            part["additionalProperties"] = False
    return Draft202012Validator({**schema, "$defs": parts})


class CheckedStreamed(Streamed):
    """A document in pieces that is checked whole, as soon as its list has been read."""

    __slots__ = ("answer",)
    answer: str

    @classmethod
    def of(cls, streamed: Streamed, answer: str) -> CheckedStreamed:
        """The same document, which will be held against the type of this name."""
        checked = cls(streamed.head, streamed.name, (), streamed.tail)
        object.__setattr__(checked, "answer", answer)
        object.__setattr__(checked, "pieces", checked._checked(streamed))
        return checked

    def _checked(self, streamed: Streamed) -> Iterator[list[str]]:
        """The pieces; what stands before them, and an item of every piece, are held against the type."""
        shown: list[Any] = []
        for texts in streamed.pieces:
            if texts:
                shown.append(msgspec.json.decode(texts[0]))
            yield texts
        check_answer(self.answer, {**self.head, self.name: shown, **self.end()})


def checked(answer: str, document: Any) -> Any:
    """Return a document that is the answer of this name, or one that will be checked when it is read."""
    if isinstance(document, Streamed):
        return CheckedStreamed.of(document, answer)
    check_answer(answer, document)
    return document


ANSWERS_OF_SERVICE: Mapping[str, str] = {
    "blobs.put_blob": "PutBlobAnswer",
    "blobs.stat_blob": "BlobAnswer",
    "branches.create_branch": "NewBranchAnswer",
    "branches.create_tag": "TagAnswer",
    "branches.delete_branch": "DeletedBranchAnswer",
    "branches.delete_tag": "DeletedTagAnswer",
    "branches.list_branches": "BranchesAnswer",
    "branches.list_tags": "TagsAnswer",
    "branches.merge": "MergeAnswer",
    "branches.revert": "RevertAnswer",
    "history.baseline": "BaselineAnswer",
    "history.commit_changes": "CommitChangesAnswer",
    "maintenance.purge": "PurgeAnswer",
    "history.commit_changes_page": "CommitChangesAnswer",
    "history.diff": "DiffAnswer",
    "history.diff_page": "DiffAnswer",
    "history.entity_blame": "EntityBlameAnswer",
    "history.entity_history": "EntityHistoryAnswer",
    "history.history": "HistoryAnswer",
    "history.list_commits": "CommitsAnswer",
    "history.poll": "FeedAnswer",
    "history.poll_page": "FeedAnswer",
    "history.show_commit": "CommitAnswer",
    "loads.embed": "EmbedAnswer",
    "loads.export": "ExportAnswer",
    "loads.load": "LoadAnswer",
    "permissions.permissions": "PermissionsAnswer",
    "query.explain": "ExplainAnswer",
    "query.lint": "LintAnswer",
    "query.lint_with_schema": "LintAnswer",
    "query.mutate": "MutationAnswer",
    "query.query": "QueryAnswer",
    "schema.apply_schema": "SchemaApplyAnswer",
    "schema.diff_schemas": "SchemaDiffAnswer",
    "schema.plan_schema": "SchemaPlanAnswer",
    "schema.show_schema": "SchemaAnswer",
    "states.catalog": "CatalogAnswer",
    "states.entity": "EntityAnswer",
    "states.neighbors": "NeighborsAnswer",
    "states.snapshot": "SnapshotAnswer",
    "states.status": "StatusAnswer",
    "states.subgraph": "SubgraphAnswer",
    "stored.list_queries": "QueriesAnswer",
}
"""The functions of the service that give documents, and the answers that these are."""

#: A plan is the answer of a dry run, which `merge` gives as well.
GIVEN_BY_OTHERS = {"MergePlanAnswer"}


def unnamed_answers() -> set[str]:
    """Answers of the table of operations that no function above is said to give."""
    of_table = {operation.answer for operation in OPERATIONS.values()}
    return of_table - set(ANSWERS_OF_SERVICE.values()) - GIVEN_BY_OTHERS
