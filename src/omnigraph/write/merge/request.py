"""What is asked of a merge or a revert, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.changes.compare_tables import SparkFor, nothing_on_spark
from omnigraph.changes.stats import Stats
from omnigraph.commit.replays import WriteRequest, kept_answer, shown_commit
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted
from omnigraph.errors import BadRequest
from omnigraph.lang.schema.migrate.schema_change import SchemaChange
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit
from omnigraph.storage.blob_policy import NO_POLICY, BlobPolicy
from omnigraph.write.merge.decided import Granularity
from omnigraph.write.vectors import TextVectors

if TYPE_CHECKING:
    from omnigraph.lang.schema.catalog import Catalog
    from omnigraph.write.merge.decided import MergeConflict

Outcome = Literal["already_up_to_date", "fast_forward", "merged", "reverted", "nothing_to_revert"]
GRANULARITIES = ("entity", "property")


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """How a merge or a revert is run.

    ``catalog`` returns the types of a state of a branch. ``resolve`` is what the caller gave.
    ``dry_run``: say what would be done, and write nothing. ``images``: conflicts show their entities,
    and ``short`` ones have vectors and blobs by their sizes.
    ``spark_for`` gives executors for tables that must be read as a whole. ``if_commit``: the target must
    be at that commit. ``check_schema`` is called before a commit that changes the schema of the target, or instead
    of it in a dry run, with the new source text, and raises if it must not.
    """

    catalog: Callable[[BranchState], Catalog]
    actor_id: str | None = None
    granularity: Granularity = "entity"
    resolve: object = None
    resolve_schema: object = None
    dry_run: bool = False
    images: bool = False
    blobs: BlobPolicy = NO_POLICY
    short: bool = False
    spark_for: SparkFor = nothing_on_spark
    operation_id: str | None = None
    message: str | None = None
    if_commit: str | None = None
    vectors: TextVectors = field(default_factory=lambda: TextVectors(None))
    """Makes the vectors of texts that ``resolve`` sets."""
    check_schema: Callable[[str], object] = lambda _source: None

    def asked(self, operation: Literal["merge", "revert"]) -> WriteRequest:
        """Return what was asked for; a dry run has nothing that could be repeated."""
        return WriteRequest(operation, None if self.dry_run else self.operation_id, self.message)


def check_granularity(granularity: object) -> Granularity:
    """Return the granularity; refuse another word."""
    if not isinstance(granularity, str) or granularity not in GRANULARITIES:
        raise BadRequest(
            f"granularity is {granularity!r}; it is `entity` (a change of different properties on "
            "both sides is a conflict) or `property` (only of the same property)"
        )
    return granularity  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class MergeStats(Stats):
    """What a merge did and what it cost.

    ``resolved`` entities were decided by ``resolve``. ``embeddings_pending`` vectors of the rows that
    were written are null although their text is there; ``graph.embed`` makes them.
    """

    resolved: int = 0
    embeddings_pending: int = 0

    @classmethod
    def of(cls, stats: Stats, resolved: int = 0, embeddings_pending: int = 0) -> MergeStats:
        """Return the counts of an operation with those that only merges have."""
        counts = {one.name: getattr(stats, one.name) for one in fields(Stats)}
        return cls(**counts, resolved=resolved, embeddings_pending=embeddings_pending)

    def to_json(self) -> dict[str, Any]:
        """Return the counts by name."""
        return {
            **Stats.to_json(self),
            "resolved": self.resolved,
            "embeddings_pending": self.embeddings_pending,
        }


@dataclass(frozen=True, slots=True, repr=False)
class MergeResult(Shown):
    """What a merge or a revert did; ``commit`` is None if there was nothing to do, or in a dry run.

    ``source`` is the branch that was merged; of a revert it is None, and ``reverted`` names the commit.
    ``conflicts`` are those that a dry run found. ``branch_deleted`` says what became of the source
    if it was to be deleted, ``branch_delete_error`` why it is still there. ``replayed``: it was made
    before, under the same operation id, and had no effect this time. ``schema`` is what changes in the schema of
    the target; None if nothing does.
    """

    outcome: Outcome
    target: str
    base_commit_id: str
    source_commit_id: str
    target_commit_id: str
    stats: MergeStats
    source: str | None = None
    reverted: str | None = None
    actor_id: str | None = None
    commit: GraphCommit | None = None
    dry_run: bool = False
    conflicts: tuple[MergeConflict, ...] = ()
    branch_deleted: bool | None = None
    branch_delete_error: str | None = None
    replayed: bool = False
    schema: SchemaChange | None = None

    @classmethod
    def replay(cls, commit: GraphCommit) -> MergeResult:
        """Return the answer that a commit keeps."""
        kept = dict(kept_answer(commit))
        for name in ("operation", "operation_id"):
            del kept[name]
        stats = MergeStats(**kept.pop("stats"))
        changed = commit.facts.get("schema")
        schema = None if changed is None else SchemaChange.read(changed)
        return cls(**kept, stats=stats, commit=commit, replayed=True, schema=schema)

    def answer(self) -> dict[str, Any]:
        """Return what the commit keeps, so that a repetition can be answered."""
        names = ("outcome", "target", "base_commit_id", "source_commit_id", "target_commit_id")
        whose = ("source", "reverted", "actor_id")
        return {
            **{name: getattr(self, name) for name in (*names, *whose)},
            "stats": self.stats.to_json(),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the public form; ``replayed`` appears only if it is true."""
        whose = {"source": self.source} if self.reverted is None else {"reverted": self.reverted}
        document: dict[str, Any] = {
            **whose,
            "target": self.target,
            "outcome": self.outcome,
            "base_commit_id": self.base_commit_id,
            "actor_id": self.actor_id,
            "commit": None if self.commit is None else self.commit.to_json(),
            "stats": self.stats.to_json(),
        }
        if self.schema is not None:
            document["schema"] = self.schema.to_json()
        if self.dry_run:
            document |= {
                "dry_run": True,
                "source_commit_id": self.source_commit_id,
                "target_commit_id": self.target_commit_id,
                "conflicts": [conflict.to_json() for conflict in self.conflicts],
                "conflict_count": len(self.conflicts),
            }
        if self.branch_deleted is not None:
            document["branch_deleted"] = self.branch_deleted
        if self.branch_delete_error is not None:
            document["branch_delete_error"] = self.branch_delete_error
        if self.replayed:
            document["replayed"] = True
        return document

    def _panel(self) -> Panel:
        what = f"revert of {self.reverted}" if self.reverted else f"merge of {self.source}"
        planned = " (dry run)" if self.dry_run else ""
        commit = None
        if self.commit is not None:
            commit = shown_commit(self.commit, replayed=self.replayed)
        facts: list[tuple[str, Any]] = [
            ("commit", commit),
            ("base", self.base_commit_id),
            ("inserts", self.stats.inserts),
            ("updates", self.stats.updates),
            ("deletes", self.stats.deletes),
        ]
        if self.stats.resolved:
            facts.append(("resolved", self.stats.resolved))
        if self.stats.embeddings_pending:
            facts.append(("vectors pending", self.stats.embeddings_pending))
        title = f"{what} into {self.target}{planned}: {self.outcome}"
        notes = []
        if self.schema is not None:
            notes += [f"schema: {step.describe()}" for step in self.schema.steps]
        if self.branch_delete_error is not None:
            notes.append(f"branch {self.source} is still there: {self.branch_delete_error}")
        elif self.branch_deleted:
            notes.append(f"branch {self.source} was deleted")
        if not self.conflicts:
            return Panel(title, facts, notes=notes)
        return Panel.of_rows(
            f"{title}, {counted(len(self.conflicts), 'conflict')}",
            ("conflict", "table", "id", "why"),
            [(one.kind, one.table_key, one.row_id, one.message) for one in self.conflicts],
            facts=facts,
            notes=notes,
        )
