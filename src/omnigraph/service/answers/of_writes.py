"""Answers of the operations that write."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from omnigraph.service.answers.shared import (
    BadRecords,
    BlobName,
    CommitOutput,
    ConflictOutput,
    MergeStatsOutput,
    SchemaChangeOutput,
    StepOutput,
)
from omnigraph.service.wire import Mode


class MutationAnswer(TypedDict):
    """What a mutation did; `commit` is null if nothing changed.

    A mutation with a `return` has `columns` and `rows`. `replayed`, here and elsewhere: it was made before, under the
    same operation id, and had no effect now; `rows` are then null.
    """

    branch: str
    query_name: str | None
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    columns: NotRequired[list[str]]
    rows: NotRequired[list[dict[str, Any]] | None]
    commit: CommitOutput | None
    replayed: NotRequired[bool]


class ObstacleOutput(TypedDict):
    """Something that must keep a state of a table which holds what shall be purged."""

    kind: Literal["branch", "tag", "lease", "lance_tag", "sidecar"]
    name: str
    table_key: str


class VerifiedOutput(TypedDict):
    """What was read and searched after a purge, and when."""

    files: int
    bytes: int
    at: int


class PurgeAnswer(TypedDict):
    """What a purge removed, by type, and how many of the ids are nowhere.

    A dry run has `obstacles`, and the commits that would be `unreadable`, and nothing of what follows. `salt` proves
    which entities the audit of the graph speaks of; it is null in the answer to a repeated request.
    """

    purged: dict[str, int]
    not_found: int
    dry_run: bool
    obstacles: NotRequired[list[ObstacleOutput]]
    unreadable: NotRequired[list[str]]
    operation_id: NotRequired[str]
    commits: NotRequired[list[str]]
    versions_removed: NotRequired[int]
    files_removed: NotRequired[int]
    bytes_removed: NotRequired[int]
    external_blobs: NotRequired[int]
    verified: NotRequired[VerifiedOutput | None]
    salt: NotRequired[str | None]
    not_reached: NotRequired[list[str]]


class LoadedTableOutput(TypedDict):
    """How many rows of a table were loaded."""

    table_key: str
    rows_loaded: int


class LoadAnswer(TypedDict):
    """What a load did; `commit` is null if it only checked the records."""

    uri: str
    branch: str
    base_branch: str | None
    branch_created: bool
    mode: Mode
    engine: str
    tables: list[LoadedTableOutput]
    total_rows: int
    bad_records: BadRecords
    skipped: int
    note: str | None
    timings: dict[str, float]
    indexes_built: list[list[str]]
    embeddings_pending: int
    actor_id: str | None
    truncated: NotRequired[dict[str, int]]
    commit: CommitOutput | None
    replayed: NotRequired[bool]


class EmbedAnswer(TypedDict):
    """Vectors that were filled, are still missing, and could not be made; repeat while some are pending."""

    uri: str
    branch: str
    filled: int
    pending: int
    failed: int
    commit: CommitOutput | None
    replayed: NotRequired[bool]


class PutBlobAnswer(TypedDict):
    """A blob that was written; `size` and `etag` are null if it was cleared."""

    selector: BlobName
    branch: str
    size: int | None
    etag: str | None
    actor_id: str | None
    commit: CommitOutput
    replayed: NotRequired[bool]


_NewBranchFrom = TypedDict("_NewBranchFrom", {"from": str})


class NewBranchAnswer(_NewBranchFrom):
    """A branch that was made, and where it begins."""

    uri: str
    name: str
    actor_id: str | None
    head_commit_id: str
    version: int


class DeletedBranchAnswer(TypedDict):
    """A branch that was deleted."""

    uri: str
    name: str
    actor_id: str | None


class MergeFields(TypedDict):
    """What a merge and a revert have in common; from `dry_run` on only a dry run has it."""

    target: str
    base_commit_id: str
    commit: CommitOutput | None
    stats: MergeStatsOutput
    replayed: NotRequired[bool]
    dry_run: NotRequired[bool]
    source_commit_id: NotRequired[str]
    target_commit_id: NotRequired[str]
    conflicts: NotRequired[list[ConflictOutput]]
    conflict_count: NotRequired[int]
    schema: NotRequired[SchemaChangeOutput]


class MergeAnswer(MergeFields):
    """What a merge did, or the plan of it. `branch_deleted` is there if the source was to be deleted."""

    source: str
    outcome: Literal["already_up_to_date", "fast_forward", "merged"]
    actor_id: NotRequired[str | None]
    branch_deleted: NotRequired[bool]
    branch_delete_error: NotRequired[str]


class RevertAnswer(MergeFields):
    """What a revert did, or would do; `reverted` is the commit that it undoes."""

    reverted: str
    outcome: Literal["reverted", "nothing_to_revert"]
    actor_id: str | None


class DeletedTagAnswer(TypedDict):
    """A tag that was deleted, and the commit it named."""

    name: str
    graph_commit_id: str
    actor_id: str | None


class SchemaApplyAnswer(TypedDict):
    """What a new schema changed; `commit` is null if it is the one that was there.

    `warnings` are there if something was destroyed or is left to do.
    """

    uri: str
    supported: bool
    step_count: int
    steps: list[StepOutput]
    applied: bool
    manifest_version: int
    commit: CommitOutput | None
    replayed: NotRequired[bool]
    warnings: NotRequired[list[str]]
