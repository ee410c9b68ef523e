"""The one exception tree of the product.

    OmniGraphError
    ├── SourceError                    an error in schema or query text; carries a span
    │   ├── ParseError                 the text breaks the grammar or a local rule
    │   ├── CatalogError               declarations do not fit together
    │   ├── IdentityError              a rename hint or a stored identity cannot be resolved
    │   └── TypeCheckError             a query does not fit the catalog (T1 to T28)
    ├── ParamError                     a query parameter cannot be bound
    ├── InputError                     a record cannot be read as its declared type
    ├── ConstraintError                data breaks a declared rule
    ├── UnsupportedMigration           apply of a plan with an unsupported step
    ├── BadRequest                     bad names, targets, filters
    │   ├── CursorRejected             a change cursor or page token is damaged or foreign
    │   └── QueryNotFound              no query of that name in the source
    ├── PolicyDenied                   the policy refuses the action
    ├── PolicyFailure                  the policy gave no decision
    ├── NotFound                       a name refers to nothing
    │   ├── BranchNotFound, TagNotFound, CommitNotFound, VersionNotFound, EntityNotFound
    ├── Conflict                       state or another actor prevents the operation
    │   ├── BranchExists, TagExists, BranchNameClash, BranchInUse, Contention, Drift
    │   ├── SchemaApplyInProgress, SchemaConflict, GraphMoved, GraphReplaced, AlreadyInitialised
    │   ├── ExpectedVersionMismatch    a lost race
    │   ├── KeyConflict                strict insert of an existing id
    │   ├── MergeConflicts             a person has to resolve the merge
    │   ├── NoParent, SchemaBoundary   the two sides of a diff cannot be compared
    │   └── RecoveryRequired           a half-finished write must be recovered first
    ├── Gone                           it existed once, and was removed
    │   ├── HistoryReclaimed, ChangeFeedGap
    ├── PreconditionFailed             the branch is not at the commit given as `if_commit`
    ├── ResourceLimit                  a size, slot or page limit was exceeded
    ├── QueryCancelled                 the caller's `Cancel` ended the call
    ├── BlobChanged                    a blob is not the one that a write was to replace
    ├── BlobRange                      the range to read lies behind the end of a blob
    ├── ExternalBlob                   the bytes of a blob are kept elsewhere and are not fetched
    ├── ProviderError                  embedding provider missing or failing
    └── StorageError                   the store failed
        ├── CorruptSidecar, NewerFormat, NotAGraph

Every class has a stable ``code``; ``details`` carries the facts. Exit codes of the command line and
HTTP bodies come from the class attributes and are defined nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from omnigraph.spans import Span, underline


class OmniGraphError(Exception):
    """Base of every error the product raises on purpose.

    Class attributes: ``code`` is the stable name of the error, ``label`` a prefix of the text,
    ``wire_detail`` the key of the details in a JSON body, ``fields`` the details that must be
    given.
    """

    code: ClassVar[str] = "internal"
    label: ClassVar[str | None] = None
    http_status: int = 500
    wire_code: str | None = "internal"
    wire_detail: ClassVar[str | None] = None
    exit_code: ClassVar[int] = 1
    fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, message: str, **details: Any) -> None:
        missing = [name for name in self.fields if name not in details]
        if missing:
            raise TypeError(f"{type(self).__name__} needs the details {', '.join(missing)}")
        self.message = shortened(_printable(message))
        self.details: dict[str, Any] = details
        super().__init__(f"{self.label}: {self.message}" if self.label else self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by message and details, because the shown text has the label in front."""
        return _rebuild, (type(self), self.message, self.details), self.__dict__

    def body(self) -> dict[str, Any]:
        """Return the JSON body of this error for HTTP, and for ``--json`` on the command line."""
        body: dict[str, Any] = {"error": str(self), "kind": self.code}
        if self.wire_code is not None:
            body["code"] = self.wire_code
        if self.wire_detail is not None and (detail := self._wire_fields()):
            body[self.wire_detail] = detail
        return body

    def diagnostic(self) -> dict[str, Any]:
        """Return what an editor shows beside the message: the kind of error and its place, if known."""
        return {"kind": self.code}

    def _wire_fields(self) -> Any:
        return dict(self.details)


_WORD = 1_000
_SHOWN_OF_WORD = 200
_MESSAGE = 4_000
_SHOWN_AT_END = 1_000
_LONG_WORDS = re.compile(rf"\S{{{_WORD + 1},}}")


def shortened(message: str) -> str:
    """Cut what a message quotes, which may be of any length: names, values, lines.

    A very long word (paths are shorter) is cut to its beginning, a message that is still too long in its
    middle, because its end says what to do. Whatever quotes a value by itself, as ``types.shown`` does, cuts it
    sooner.
    """
    if len(message) <= _WORD:
        return message
    message = _LONG_WORDS.sub(lambda word: f"{word[0][:_SHOWN_OF_WORD]}…", message)
    if len(message) <= _MESSAGE:
        return message
    return f"{message[: _MESSAGE - _SHOWN_AT_END]} … {message[-_SHOWN_AT_END:]}"


def _printable(message: str) -> str:
    """Return the message with lone surrogates escaped: quoted names may have them, UTF-8 may not."""
    return message if message.isascii() else message.encode(errors="backslashreplace").decode()


def _rebuild(kind: type[OmniGraphError], message: str, details: dict[str, Any]) -> OmniGraphError:
    return kind(message, **details)


class SourceError(OmniGraphError):
    """An error in schema or query text. ``render()`` shows the line with the fault underlined."""

    http_status = 400
    wire_code = "bad_request"

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        source: str | None = None,
        filename: str | None = None,
        hint: str | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message, **details)
        self.span = span
        self.source = source
        self.filename = filename
        self.hint = None if hint is None else shortened(hint)
        if span is not None and source is not None:
            self.add_note("\n".join(self._snippet()))

    def body(self) -> dict[str, Any]:
        """Return the JSON body, with the place in the source, the broken rule, and the hint."""
        body = super().body()
        if self.hint is not None:
            body["hint"] = self.hint
        for name in ("rule", "query"):
            if self.details.get(name) is not None:
                body[name] = self.details[name]
        if self.span is not None:
            body["span"] = self.span.to_json()
        return body

    def diagnostic(self) -> dict[str, Any]:
        """Return the kind of error with the rule it breaks, a hint, and the place in the source."""
        span = None if self.span is None else self.span.to_json()
        facts = {"rule": self.details.get("rule"), "hint": self.hint, "span": span}
        known = {name: value for name, value in facts.items() if value is not None}
        return {**super().diagnostic(), **known}

    def render(self) -> str:
        """Return the message, the place, the source line with an underline, and a hint."""
        return "\n".join([str(self), *self._snippet()])

    def _snippet(self) -> Iterator[str]:
        if self.span is not None and self.source is not None:
            yield from underline(self.source, self.span, self.filename)
        if self.hint is not None:
            yield f"  = hint: {self.hint}"


class ParseError(SourceError):
    """The text breaks the grammar or a local rule of the language."""

    code = "parse"
    label = "parse error"


class CatalogError(SourceError):
    """Declarations do not fit together."""

    code = "catalog"
    label = "catalog error"


class IdentityError(SourceError):
    """A rename hint cannot be resolved, or a stored identity record is malformed."""

    code = "identity"
    label = "identity error"


class TypeCheckError(SourceError):
    """A query does not fit the catalog. ``details['rule']`` is T1 to T28, or None where uncoded."""

    code = "type"
    label = "type error"


class ParamError(OmniGraphError):
    """A query parameter cannot be bound."""

    code = "param"
    label = "param error"
    http_status = 400
    wire_code = "bad_request"

    def body(self) -> dict[str, Any]:
        """Return the JSON body, with the name of the parameter."""
        body = super().body()
        if "param" in self.details:
            body["param"] = self.details["param"]
        return body


class InputError(OmniGraphError):
    """A record cannot be read as its declared type."""

    code = "input"
    label = "input error"
    http_status = 400
    wire_code = "bad_request"

    def body(self) -> dict[str, Any]:
        """Return the JSON body, with the records that were refused."""
        body = super().body()
        if "bad_records" in self.details:
            body["bad_records"] = self.details["bad_records"]
        return body


class ConstraintError(OmniGraphError):
    """Data breaks a declared rule, in a load, a mutation or a merge."""

    code = "constraint"
    label = "write error"
    http_status = 400
    wire_code = "bad_request"


class UnsupportedMigration(OmniGraphError):
    """A schema change was to be applied that the planner cannot carry out."""

    code = "unsupported_migration"
    http_status = 400
    wire_code = "bad_request"


class BadRequest(OmniGraphError):
    """A name, target, filter or token is not acceptable; ``details['reason']`` says why."""

    code = "bad_request"
    http_status = 400
    wire_code = "bad_request"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message, **{"reason": message, **details})


class CursorRejected(BadRequest):
    """A change cursor or page token is damaged, foreign or of the wrong kind."""

    code = "cursor_rejected"
    label = "change cursor rejected"


class QueryNotFound(BadRequest):
    """The source has no query of that name, or several queries and no name was given."""

    code = "query_not_found"


class PolicyDenied(OmniGraphError):
    """The policy refuses the action, or there is no actor to decide about."""

    code = "policy_denied"
    http_status = 403
    wire_code = "forbidden"
    fields = ("action", "actor")


class PolicyFailure(OmniGraphError):
    """The policy gave no decision, so that nothing was allowed and nothing was denied."""

    code = "policy_failure"
    label = "policy evaluation failure"


class NotFound(OmniGraphError):
    """A name refers to nothing that exists."""

    code = "not_found"
    http_status = 404
    wire_code = "not_found"
    wire_detail = "not_found"

    def _wire_fields(self) -> Any:
        named = ("branch", "tag", "graph_commit_id", "version", "entity")
        return {name: self.details[name] for name in named if name in self.details}


class BranchNotFound(NotFound):
    """No live branch has that name."""

    code = "branch_not_found"
    fields = ("branch",)


class TagNotFound(NotFound):
    """No tag has that name."""

    code = "tag_not_found"
    fields = ("tag",)


class CommitNotFound(NotFound):
    """No live branch holds that commit."""

    code = "commit_not_found"
    fields = ("graph_commit_id",)


class VersionNotFound(NotFound):
    """The branch has no such manifest version."""

    code = "version_not_found"
    fields = ("branch", "version")


class EntityNotFound(NotFound):
    """There is no such node or edge at the target."""

    code = "entity_not_found"


class Conflict(OmniGraphError):
    """State on disk or another actor prevents the operation."""

    code = "conflict"
    http_status = 409
    wire_code = "conflict"
    wire_detail: ClassVar[str | None] = "conflict"

    def _wire_fields(self) -> Any:
        if self.wire_detail == "conflict":
            return {"code": self.code, **self.details}
        return super()._wire_fields()


class BranchExists(Conflict):
    """A branch of that name exists already."""

    code = "branch_exists"
    fields = ("branch",)


class TagExists(Conflict):
    """A tag of that name exists already; tags never move."""

    code = "tag_exists"
    fields = ("tag",)


class BranchNameClash(Conflict):
    """The name is a path prefix of a live branch, or the other way round."""

    code = "branch_name_clash"
    fields = ("branch", "other")


class BranchInUse(Conflict):
    """Another branch still depends on this one."""

    code = "branch_in_use"
    fields = ("branch", "by")


class Contention(Conflict):
    """Other writers kept winning, or a lock could not be taken in time."""

    code = "contention"
    fields = ("attempts",)


class SchemaApplyInProgress(Conflict):
    """A schema apply holds the graph."""

    code = "schema_apply_in_progress"


class SchemaConflict(Conflict):
    """The schema on disk is not the accepted one, or branches forbid a change."""

    code = "schema_conflict"


class GraphMoved(Conflict):
    """A graph lies elsewhere than before, and what was asked for needs files of its forks."""

    code = "graph_moved"
    fields = ("recorded", "actual")


class GraphReplaced(Conflict):
    """Another graph, or an earlier state of this one, was put in its place under an open handle."""

    code = "graph_replaced"
    wire_detail = None


class AlreadyInitialised(Conflict):
    """There is already a graph at that root."""

    code = "already_initialised"


class Drift(Conflict):
    """A table's HEAD is ahead of what the manifest pins."""

    code = "drift"


class ExpectedVersionMismatch(Conflict):
    """A table moved between reading and publishing."""

    code = "expected_version_mismatch"
    wire_detail = "manifest_conflict"
    fields = ("table_key", "expected", "actual")


class KeyConflict(Conflict):
    """A strict insert met an existing id."""

    code = "key_conflict"
    wire_detail = "key_conflict"
    fields = ("table_key", "entity_id")


class MergeConflicts(Conflict):
    """A person has to resolve the merge."""

    code = "merge_conflicts"
    wire_detail = "merge_conflicts"
    fields = ("conflicts",)

    def _wire_fields(self) -> Any:
        return self.details["conflicts"]


class NoParent(Conflict):
    """The commit has no parent to compare with."""

    code = "no_parent"
    wire_detail = "change_diff_refusal"
    fields = ("graph_commit_id",)

    def _wire_fields(self) -> Any:
        return {"code": self.code, **self.details}


class SchemaBoundary(Conflict):
    """The two sides of a diff do not share a schema."""

    code = "schema_boundary"
    wire_detail = "change_diff_refusal"
    fields = ("graph_commit_id", "type_name")

    def _wire_fields(self) -> Any:
        return {"code": self.code, **self.details}


class RecoveryRequired(Conflict):
    """A write stopped half way; the next write or open finishes or undoes it."""

    code = "recovery_required"
    wire_detail = "recovery_required"
    fields = ("operation_id",)


class Gone(OmniGraphError):
    """What was asked for existed once, and was removed."""

    code = "gone"
    http_status = 410
    wire_code = None


class HistoryReclaimed(Gone):
    """Cleanup removed the table version."""

    code = "history_reclaimed"
    wire_detail = "history_reclaimed"
    fields = ("table_key", "version")


class ChangeFeedGap(Gone):
    """The change feed cannot continue from that position."""

    code = "change_feed_gap"
    wire_detail = "change_feed_gap"
    fields = ("cursor", "first_unreadable_commit_id")


class PreconditionFailed(OmniGraphError):
    """The branch head is not the commit the caller expected."""

    code = "precondition_failed"
    http_status = 412
    wire_code = None
    wire_detail = "precondition_failure"
    exit_code = 4
    fields = ("branch", "expected", "actual")


class ResourceLimit(OmniGraphError):
    """A size, slot or page limit was exceeded."""

    code = "resource_limit"
    http_status = 413
    wire_code = "bad_request"
    wire_detail = "resource_limit"
    fields = ("resource", "limit", "actual")


class QueryCancelled(OmniGraphError):
    """The caller's ``Cancel`` ended the call, which changed nothing."""

    code = "query_cancelled"
    exit_code = 130


class BlobChanged(OmniGraphError):
    """A blob is not the one whose ETag a write was to replace; nothing was changed."""

    code = "blob_changed"
    http_status = 412
    wire_code = "conflict"


class BlobRange(OmniGraphError):
    """The range to read begins at or behind the end of a blob."""

    code = "blob_range"
    http_status = 416
    wire_code = "bad_request"
    wire_detail = "blob_range"
    fields = ("start", "end", "length")


class ExternalBlob(OmniGraphError):
    """The bytes of a blob are kept elsewhere and are not fetched; ``uri`` says where."""

    code = "external_blob_source"
    http_status = 424
    wire_code = None
    wire_detail = "external_blob_source"
    fields = ("uri", "reason")


class ProviderError(OmniGraphError):
    """The embedding provider failed (500), or is ``missing``: not set up, or without a key (400)."""

    code = "provider"
    label = "runtime error"

    def __init__(self, message: str, *, missing: bool = False, **details: Any) -> None:
        super().__init__(message, missing=missing, **details)
        if missing:
            self.http_status, self.wire_code = 400, "bad_request"


class StorageError(OmniGraphError):
    """The store failed, or holds something that cannot be used."""

    code = "storage"
    label = "runtime error"


class CorruptSidecar(StorageError):
    """A recovery sidecar cannot be read; it is left where it is."""

    code = "corrupt_sidecar"


class NewerFormat(StorageError):
    """The graph was written by a newer product."""

    code = "newer_format"


class NotAGraph(StorageError):
    """There is no graph at that root."""

    code = "not_a_graph"
    http_status = 404
    wire_code = "not_found"
