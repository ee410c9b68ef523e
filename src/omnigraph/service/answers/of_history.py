"""Answers about commits, branches, tags, schemas, and what changed from one state to another."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from omnigraph.service.answers.shared import (
    BlockOutput,
    ChangeOutput,
    CommitOutput,
    ConflictOutput,
    DiffStatsOutput,
    EndIds,
    ExportStatsOutput,
    MergeStatsOutput,
    SchemaChangeOutput,
    SideOutput,
    StepOutput,
)
from omnigraph.service.wire import Kind


class DrawnCommitOutput(CommitOutput):
    """A commit with the branches that end and the tags that stand there."""

    branches: list[str]
    tags: list[str]


class HeadOutput(TypedDict):
    """Where a branch ends."""

    branch: str
    graph_commit_id: str


class HistoryAnswer(TypedDict):
    """A page of the commit graph, children before parents; `next` goes on after it."""

    commits: list[DrawnCommitOutput]
    heads: list[HeadOutput]
    next: NotRequired[str]


class ViaOutput(TypedDict):
    """A merged branch that is gone or may not be read: its last commit, and who made the commits it brought."""

    graph_commit_id: str
    branch: str | None
    actors: list[str]
    commits: int


class ReclaimedOutput(TypedDict):
    """The commit after which a change was made, where the state before it is gone; null if none is known."""

    after: str | None


class AuthorOutput(TypedDict):
    """The commit that made a change. `branch` is null for `main`, the time is in Unix microseconds.

    `merged_by` is the merge that brought the commit; null for commits of the branch itself.
    """

    graph_commit_id: str
    branch: str | None
    actor_id: str | None
    created_at: int
    operation: str
    merged_by: str | None
    via: NotRequired[ViaOutput]
    reclaimed: NotRequired[ReclaimedOutput]


class EntryOutput(ChangeOutput, AuthorOutput):
    """One change of an entity; `changed` are the names of what an update changed, as far as it is known."""

    changed: list[str] | None


class EntityHistoryAnswer(TypedDict):
    """A page of the changes of an entity, newest first; `next` is what `before` takes for the next page.

    `complete` is false where deletions may be missing, because an older release did not record them.
    """

    entries: list[EntryOutput]
    next: str | None
    complete: bool


class BlamedOutput(AuthorOutput):
    """A value, and the commit that gave it."""

    value: Any


class BlamedEndsOutput(AuthorOutput):
    """The ends of an edge, and the commit that gave them."""

    value: EndIds


class BlameOutput(TypedDict):
    """Which commit gave each property of a node or edge its value, and an edge its ends."""

    kind: Kind
    type: str
    id: str
    graph_commit_id: str
    properties: dict[str, BlamedOutput]
    endpoints: NotRequired[BlamedEndsOutput]


class EntityBlameAnswer(BlameOutput):
    """Which commit gave each property its value; `edges` are those of a node, if they were asked for."""

    edges: NotRequired[list[BlameOutput]]


_DiffFrom = TypedDict("_DiffFrom", {"from": SideOutput})


class DiffAnswer(_DiffFrom):
    """A page of what changed from one state to another; only the first has `stats`.

    `schema` is there where the schemas of the two differ.
    """

    to: SideOutput
    schema: NotRequired[SchemaChangeOutput]
    changes: list[ChangeOutput]
    stats: NotRequired[DiffStatsOutput]
    next_page_token: NotRequired[str]


class BranchesAnswer(TypedDict):
    """The names of the branches, `main` first, then by name, and the hash of the schema of each."""

    branches: list[str]
    schema_hashes: dict[str, str]


class MergePlanAnswer(TypedDict):
    """What a merge would do, and the first of the conflicts that would be left."""

    source: str
    target: str
    dry_run: Literal[True]
    outcome: Literal["already_up_to_date", "fast_forward", "merged"]
    base_commit_id: str
    source_commit_id: str
    target_commit_id: str
    commit: None
    stats: MergeStatsOutput
    conflicts: list[ConflictOutput]
    conflict_count: int
    schema: NotRequired[SchemaChangeOutput]


class ProposalAnswer(TypedDict):
    """What an agent's session proposes; all null before its first write."""

    branch: str | None
    head_commit_id: str | None
    diff: DiffAnswer | None
    merge_plan: MergePlanAnswer | None


class TagAnswer(TypedDict):
    """A name of a commit. `branch` is where the commit was made, null for `main`."""

    name: str
    graph_commit_id: str
    branch: str | None
    manifest_version: int
    actor_id: str | None
    created_at: int


class TagsAnswer(TypedDict):
    """The tags by name."""

    tags: list[TagAnswer]


class CommitsAnswer(TypedDict):
    """The commits of a branch, newest first."""

    commits: list[CommitOutput]


class CommitAnswer(CommitOutput):
    """One commit."""


class CommitChangesAnswer(BlockOutput):
    """A page of what a commit changed."""

    next_page_token: NotRequired[str]


class FeedAnswer(TypedDict):
    """The next commits of a branch. A page that ends inside a commit has the token of the next one.

    Any other has the `cursor` after it, and says whether there was nothing more.
    """

    blocks: list[BlockOutput]
    next_page_token: NotRequired[str]
    cursor: NotRequired[str]
    caught_up: NotRequired[bool]


class BaselineAnswer(TypedDict):
    """What was written, and the cursor that goes on after it."""

    snapshot_commit_id: str
    resume_cursor: str
    stats: ExportStatsOutput


class SchemaAnswer(TypedDict):
    """The accepted schema as it was written, and the hash that names it."""

    schema_source: str
    schema_hash: str


class SchemaDiffAnswer(SchemaChangeOutput):
    """The steps from the schema of one state to that of another, and the hashes of both."""


class SchemaPlanAnswer(TypedDict):
    """The steps to a new schema. `warnings` are there if it destroys data or has hints that do nothing."""

    uri: str
    supported: bool
    step_count: int
    steps: list[StepOutput]
    checked: NotRequired[bool]
    warnings: NotRequired[list[str]]
