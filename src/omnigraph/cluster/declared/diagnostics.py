"""What commands of a cluster find: every code there is, and a collector that goes on after the first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

Severity = Literal["error", "warning"]


class Code(StrEnum):
    """Every code of a diagnostic; the manual has the same list."""

    CONFIG_DIR_NOT_FOUND = "config_dir_not_found"
    CLUSTER_CONFIG_READ_ERROR = "cluster_config_read_error"
    DUPLICATE_YAML_KEY = "duplicate_yaml_key"
    INVALID_CLUSTER_YAML = "invalid_cluster_yaml"
    FUTURE_PHASE_FIELD = "future_phase_field"
    UNSUPPORTED_CLUSTER_CONFIG_VERSION = "unsupported_cluster_config_version"
    EMPTY_METADATA_NAME = "empty_metadata_name"
    INVALID_STORAGE_ROOT = "invalid_storage_root"
    INVALID_RESOURCE_ID = "invalid_resource_id"
    INVALID_RESOURCE_PATH = "invalid_resource_path"
    SCHEMA_FILE_MISSING = "schema_file_missing"
    SCHEMA_PARSE_ERROR = "schema_parse_error"
    SCHEMA_CATALOG_ERROR = "schema_catalog_error"
    QUERY_FILE_MISSING = "query_file_missing"
    QUERY_DIR_UNREADABLE = "query_dir_unreadable"
    QUERY_PARSE_ERROR = "query_parse_error"
    DUPLICATE_QUERY_NAME = "duplicate_query_name"
    QUERY_KEY_MISMATCH = "query_key_mismatch"
    QUERY_TYPECHECK_ERROR = "query_typecheck_error"
    DUPLICATE_TOOL_NAME = "duplicate_tool_name"
    RESERVED_TOOL_NAME = "reserved_tool_name"
    POLICY_FILE_MISSING = "policy_file_missing"
    POLICY_INVALID = "policy_invalid"
    POLICY_MISSING_APPLIES_TO = "policy_missing_applies_to"
    POLICY_MIXED_BINDING_KINDS = "policy_mixed_binding_kinds"
    DUPLICATE_POLICY_BINDING = "duplicate_policy_binding"
    DANGLING_GRAPH_REFERENCE = "dangling_graph_reference"
    DANGLING_EMBEDDING_PROVIDER_REFERENCE = "dangling_embedding_provider_reference"
    WRONG_KIND_REFERENCE = "wrong_kind_reference"
    INVALID_EMBEDDING_PROVIDER = "invalid_embedding_provider"
    EMBEDDING_API_KEY_REQUIRED = "embedding_api_key_required"
    EMBEDDING_API_KEY_INLINE = "embedding_api_key_inline"
    INVALID_EXTERNAL_BLOB_BASE = "invalid_external_blob_base"
    INVALID_EXTERNAL_BLOB_POLICY = "invalid_external_blob_policy"
    INVALID_STATE_JSON = "invalid_state_json"
    UNSUPPORTED_STATE_VERSION = "unsupported_state_version"
    STATE_READ_ERROR = "state_read_error"
    STATE_WRITE_ERROR = "state_write_error"
    STATE_MISSING = "state_missing"
    STATE_ALREADY_EXISTS = "state_already_exists"
    STATE_CAS_MISMATCH = "state_cas_mismatch"
    STATE_LOCK_HELD = "state_lock_held"
    STATE_LOCK_ERROR = "state_lock_error"
    STATE_LOCK_MISSING = "state_lock_missing"
    STATE_LOCK_ID_MISMATCH = "state_lock_id_mismatch"
    INVALID_STATE_LOCK = "invalid_state_lock"
    UNSUPPORTED_STATE_LOCK_VERSION = "unsupported_state_lock_version"
    ACTOR_REQUIRED = "actor_required"
    GRAPH_CREATE_FAILED = "graph_create_failed"
    GRAPH_CREATE_INCOMPLETE = "graph_create_incomplete"
    SCHEMA_APPLY_FAILED = "schema_apply_failed"
    ACTUAL_APPLIED_STATE_PENDING = "actual_applied_state_pending"
    GRAPH_DELETE_FAILED = "graph_delete_failed"
    GRAPH_OBSERVATION_ERROR = "graph_observation_error"
    GRAPH_NOT_APPLIED = "graph_not_applied"
    RESOURCE_CONTENT_CHANGED = "resource_content_changed"
    RESOURCE_PAYLOAD_WRITE_ERROR = "resource_payload_write_error"
    PAYLOAD_READ_ERROR = "payload_read_error"
    RECOVERY_SIDECAR_WRITE_ERROR = "recovery_sidecar_write_error"
    CLUSTER_RECOVERY_UNATTRIBUTED = "cluster_recovery_unattributed"
    APPROVAL_WRITE_ERROR = "approval_write_error"
    APPROVAL_NOT_REQUIRED = "approval_not_required"
    APPROVAL_STALE = "approval_stale"
    EXTERNAL_BLOB_INGRESS_DEFAULT_DENY = "external_blob_ingress_default_deny"
    QUERY_DIR_EMPTY = "query_dir_empty"
    QUERY_TYPECHECK_SKIPPED = "query_typecheck_skipped"
    SCHEMA_PREVIEW_UNAVAILABLE = "schema_preview_unavailable"
    APPLY_UNSUPPORTED_CHANGE = "apply_unsupported_change"
    APPLY_DEPENDENCY_BLOCKED = "apply_dependency_blocked"
    GRAPH_CREATE_SKIPPED = "graph_create_skipped"
    SCHEMA_APPLY_SKIPPED = "schema_apply_skipped"
    GRAPH_DELETE_SKIPPED = "graph_delete_skipped"
    GRAPH_DELETE_INCOMPLETE = "graph_delete_incomplete"
    CLUSTER_RECOVERY_PENDING = "cluster_recovery_pending"
    CLUSTER_RECOVERY_ROLLED_FORWARD = "cluster_recovery_rolled_forward"
    CATALOG_PAYLOAD_MISMATCH = "catalog_payload_mismatch"


@dataclass(frozen=True, slots=True)
class ClusterDiagnostic:
    """Something found: its code, where it is (a path in cluster.yaml, a file or an address), and what to do."""

    code: Code
    severity: Severity
    path: str
    message: str
    line: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the public form; ``line`` is there for places in cluster.yaml."""
        document: dict[str, Any] = {
            "code": str(self.code),
            "severity": self.severity,
            "path": self.path,
            "message": self.message,
        }
        return document if self.line is None else {**document, "line": self.line}

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        line = f"line {self.line}, " if self.line is not None else ""
        return f"{line}{place}{self.message} ({self.code})"


@dataclass(slots=True)
class Diagnostics:
    """Everything found so far."""

    found: list[ClusterDiagnostic] = field(default_factory=list)

    def error(self, code: Code, path: str, message: str, line: int | None = None) -> None:
        """Add something that makes the command fail."""
        self.found.append(ClusterDiagnostic(code, "error", path, message, line))

    def warn(self, code: Code, path: str, message: str, line: int | None = None) -> None:
        """Add something that the command goes on after."""
        self.found.append(ClusterDiagnostic(code, "warning", path, message, line))

    @property
    def is_ok(self) -> bool:
        """Whether nothing makes the command fail."""
        return all(one.severity != "error" for one in self.found)

    def __iter__(self) -> Iterator[ClusterDiagnostic]:
        return iter(self.found)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the public form, in the order of the lines and then as found."""
        return [one.to_json() for one in sorted(self.found, key=lambda each: each.line or 0)]


class Refused(Exception):
    """A command cannot go on; the diagnostics say why."""
