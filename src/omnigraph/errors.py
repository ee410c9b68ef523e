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
    ├── Unauthenticated                a server does not know the caller
    ├── Busy                           a server has no slot free
    ├── NotFound                       a name refers to nothing
    │   ├── BranchNotFound, TagNotFound, CommitNotFound, VersionNotFound, EntityNotFound
    │   ├── GraphNotFound, StoredQueryNotFound
    ├── Conflict                       state or another actor prevents the operation
    │   ├── BranchExists, TagExists, BranchNameClash, BranchInUse, Contention, Drift
    │   ├── SchemaApplyInProgress, SchemaConflict, GraphMoved, GraphReplaced, AlreadyInitialised
    │   ├── ExpectedVersionMismatch    a lost race
    │   ├── SchemaViolation            stored rows do not fit a step of a schema change
    │   ├── PurgeBlocked               a kept state holds what shall be purged
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
    ├── StorageError                   the store failed
    │   ├── CorruptSidecar, NewerFormat, NotAGraph
    └── ApiError                       an answer of a server that is none of these

Every class has a stable ``code``; ``details`` carries the facts. Exit codes of the command line and
HTTP bodies come from the class attributes and are defined nowhere else; ``OmniGraphError.from_body`` makes
the error again from its body.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from omnigraph.error_base import OmniGraphError as OmniGraphError
from omnigraph.error_base import SourceError as SourceError
from omnigraph.error_base import shortened as shortened


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

    def read_body(self, body: Mapping[str, Any]) -> None:
        """Take the name of the parameter out of a body."""
        self.details |= {"param": body["param"]} if "param" in body else {}


class InputError(OmniGraphError):
    """A record cannot be read as its declared type."""

    code = "input"
    label = "input error"
    http_status = 400
    wire_code = "bad_request"

    def body(self) -> dict[str, Any]:
        """Return the JSON body, with the records that were refused."""
        return _with_bad_records(super().body(), self.details)

    def read_body(self, body: Mapping[str, Any]) -> None:
        """Take the records that were refused out of a body."""
        self.details |= _with_bad_records({}, body)


class ConstraintError(OmniGraphError):
    """Data breaks a declared rule, in a load, a mutation or a merge."""

    code = "constraint"
    label = "write error"
    http_status = 400
    wire_code = "bad_request"

    def body(self) -> dict[str, Any]:
        """Return the JSON body, with the records of a load that break a rule of their type."""
        return _with_bad_records(super().body(), self.details)

    def read_body(self, body: Mapping[str, Any]) -> None:
        """Take the records that break a rule out of a body."""
        self.details |= _with_bad_records({}, body)


def _with_bad_records(body: dict[str, Any], details: Mapping[str, Any]) -> dict[str, Any]:
    return {**body, "bad_records": details["bad_records"]} if "bad_records" in details else body


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

    def advise(self, text: str) -> None:
        """Add a next step to the message, and to the reason that is the message."""
        if self.details.get("reason") == self.message:
            self.details["reason"] = f"{self.message}; {text}"
        super().advise(text)

    def read_body(self, body: Mapping[str, Any]) -> None:
        """Take the message for the reason, as a new error does."""
        super().read_body(body)
        self.details["reason"] = self.message


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


class Unauthenticated(OmniGraphError):
    """A server needs a token and got none, or one that it does not know."""

    code = "unauthenticated"
    http_status = 401
    wire_code = "unauthorized"


class Busy(OmniGraphError):
    """A server has no slot free for the request; nothing was done, and it can be sent again later."""

    code = "too_many_requests"
    http_status = 429
    wire_code = "too_many_requests"


class NotFound(OmniGraphError):
    """A name refers to nothing that exists."""

    code = "not_found"
    http_status = 404
    wire_code = "not_found"
    wire_detail = "not_found"

    def _wire_fields(self) -> Any:
        return {name: self.details[name] for name in _NAMED if name in self.details}


_NAMED = ("branch", "tag", "graph_commit_id", "version", "graph", "entity", "stored_query")


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


class GraphNotFound(NotFound):
    """A server has no graph of that id."""

    code = "graph_not_found"
    fields = ("graph",)


class StoredQueryNotFound(NotFound):
    """A server has no stored query of that name, or the caller may not know of it."""

    code = "stored_query_not_found"
    fields = ("stored_query",)


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

    def read_body(self, body: Mapping[str, Any]) -> None:
        """Take the details out of a body, without the code, which the class has."""
        super().read_body(body)
        if self.wire_detail in ("conflict", "change_diff_refusal"):
            self.details.pop("code", None)


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


class SchemaViolation(Conflict):
    """Stored rows do not fit a step of a schema change; ``violations`` names rules and rows."""

    code = "schema_violation"
    wire_detail = "schema_violation"
    fields = ("violations",)

    def _wire_fields(self) -> Any:
        return self.details.get("violations")

    def read_body(self, body: Mapping[str, Any]) -> None:
        """Take the rules and rows out of a body."""
        if "schema_violation" in body:
            self.details["violations"] = body["schema_violation"]


class PurgeBlocked(Conflict):
    """A state of the graph that is kept holds what shall be purged; ``obstacles`` names them."""

    code = "purge_blocked"
    wire_detail = "purge_blocked"
    fields = ("obstacles",)


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
        return self.details.get("conflicts")

    def read_body(self, body: Mapping[str, Any]) -> None:
        """Take the conflicts out of a body."""
        if "merge_conflicts" in body:
            self.details["conflicts"] = body["merge_conflicts"]


class NoParent(Conflict):
    """The commit has no parent to compare with."""

    code = "no_parent"
    wire_detail = "change_diff_refusal"
    fields = ("graph_commit_id",)

    def _wire_fields(self) -> Any:
        return {"code": self.code, **self.details}


class SchemaBoundary(Conflict):
    """Rows on the two sides of a schema change cannot be compared or merged."""

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
        super().__init__(message, **details)
        self._set_missing(missing)

    def _set_missing(self, missing: bool) -> None:
        self.details["missing"] = missing
        if missing:
            self.http_status, self.wire_code = 400, "bad_request"

    def read_body(self, body: Mapping[str, Any]) -> None:
        """See by the code whether the provider is missing."""
        self._set_missing(body.get("code") == "bad_request")


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


class ApiError(OmniGraphError):
    """An answer of a server that no other class stands for: its ``status``, ``code``, ``kind`` and body."""

    code = "api"
    http_status = 502

    def __init__(
        self,
        message: str,
        *,
        status: int = 502,
        code: str | None = None,
        kind: str | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        named = {"kind": kind, "code": code}
        told = {name: value for name, value in named.items() if value is not None}
        self.read_body({"error": str(self), **told} if body is None else body)
        self.http_status = status

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return self.http_status

    def body(self) -> dict[str, Any]:
        """Return the body of the answer as it came."""
        return dict(self._body)

    def read_body(self, body: Mapping[str, Any]) -> None:
        """Keep a body, and what it says of itself."""
        kind, code = body.get("kind"), body.get("code")
        self.kind = kind if isinstance(kind, str) else None
        self.wire_code = code if isinstance(code, str) else None
        self.code = self.wire_code or self.kind or "api"
        self._body = dict(body)
