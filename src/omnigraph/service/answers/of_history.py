"""Answers about commits, branches, tags, schemas, and what changed from one state to another."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from omnigraph.service.answers.shared import (
    BlockOutput,
    ChangeOutput,
    CommitOutput,
    ConflictOutput,
    DiffStatsOutput,
    ExportStatsOutput,
    MergeStatsOutput,
    SchemaChangeOutput,
    SideOutput,
    StepOutput,
)


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
