"""One load: the request that an engine gets, and the result that its caller gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.commit.replays import WriteRequest, kept_answer, shown_commit, with_commit
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted
from omnigraph.embeddings.embedder import Embedder
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.manifest.history.stream_records import StreamBatch
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.pipeline.load_input import LoadInput
from omnigraph.pipeline.load_options import LoadOptions
from omnigraph.pipeline.rows.bad_records import Rejects, rejects_file
from omnigraph.storage.blob_policy import NO_POLICY, BlobPolicy


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One load, with everything fixed before any retry.

    ``branch_id`` is the identifier of the only branch that files were written for already; None where
    any branch of that name will do. ``before_fork`` is called before a missing branch is made, and may
    refuse that with an error. ``batch``: the load is this micro-batch of a stream, and its operation id
    is that of the batch. ``to_merge`` is how the caller asks for a merge, in messages. ``made_from`` are states of
    tables that the records were made from: the load is refused where one of them has other rows by now.
    """

    inputs: LoadInput
    options: LoadOptions = field(default_factory=LoadOptions)
    embedder: Embedder | None = None
    blobs: BlobPolicy = NO_POLICY
    branch_id: str | None = None
    before_fork: Callable[[], object] | None = None
    batch: StreamBatch | None = None
    to_merge: str = "load with mode merge"
    made_from: Sequence[TableState] = ()

    @property
    def asked(self) -> WriteRequest:
        """What was asked for; a check has nothing that could be repeated."""
        options = self.options
        return WriteRequest(
            "load", None if options.check else options.operation_id, options.message
        )

    @property
    def stream_facts(self) -> dict[str, Any]:
        """What the commit records of its micro-batch."""
        return {} if self.batch is None else self.batch.facts()

    @property
    def rejects(self) -> Rejects | None:
        """The file that gets every bad record."""
        given = self.options.rejects
        return None if given is None else rejects_file(given, self.inputs.store)

    def types_to_empty(self, catalog: Catalog) -> list[Entity]:
        """The types whose tables this load empties even if there are no rows of them.

        A frame names its table: overwritten with no rows, the table is empty.
        """
        return self.inputs.named_types(catalog) if self.options.mode == "overwrite" else []


@dataclass(repr=False)
class LoadResult(Shown):
    """The outcome of a load."""

    branch: str
    mode: str
    engine: str
    tables: list[dict[str, Any]]
    actor_id: str | None
    commit: GraphCommit | None
    """The commit; None of a load that only checked its records."""
    base_branch: str | None = None
    branch_created: bool = False
    indexes_built: list[tuple[str, str]] = field(default_factory=list)
    embeddings_pending: int = 0
    bad_records: dict[str, Any] = field(default_factory=lambda: {"total": 0, "first": []})
    """The report of the records that were left out: how many, and the first of them."""
    truncated: dict[str, int] = field(default_factory=dict)
    """By `Type.property`: how many DateTime values had more than milliseconds, which were cut off."""
    timings: dict[str, float] = field(default_factory=dict)
    note: str | None = None
    """Why that engine ran, where the caller did not choose it."""
    replayed: bool = False
    """Whether it was made before, under the same operation id, and had no effect this time."""

    @classmethod
    def replay(cls, commit: GraphCommit) -> LoadResult:
        """The answer that a commit keeps."""
        kept = dict(kept_answer(commit))
        for name in ("operation", "operation_id", "total_rows", "skipped"):
            kept.pop(name, None)
        kept["indexes_built"] = [(table_key, name) for table_key, name in kept["indexes_built"]]
        return cls(**kept, commit=commit, replayed=True)

    @property
    def total_rows(self) -> int:
        """How many rows were loaded."""
        return sum(table["rows_loaded"] for table in self.tables)

    @property
    def skipped(self) -> int:
        """How many records were left out because they are bad."""
        return int(self.bad_records["total"])

    def to_json(self) -> dict[str, Any]:
        """The public form; ``replayed`` appears only if it is true."""
        return with_commit(self.answer(), self.commit, replayed=self.replayed)

    def answer(self) -> dict[str, Any]:
        """The public form without the commit; ``truncated`` appears only if something was."""
        return {
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "engine": self.engine,
            "tables": self.tables,
            "total_rows": self.total_rows,
            "bad_records": self.bad_records,
            "skipped": self.skipped,
            "note": self.note,
            "timings": dict(self.timings),
            "indexes_built": [list(item) for item in self.indexes_built],
            "embeddings_pending": self.embeddings_pending,
            "actor_id": self.actor_id,
            **({"truncated": self.truncated} if self.truncated else {}),
        }

    def _panel(self) -> Panel:
        facts: list[tuple[str, Any]] = []
        if self.branch_created:
            facts.append(("branch", f"{self.branch}, made from {self.base_branch}"))
        if self.commit is not None:
            facts.append(("commit", shown_commit(self.commit, replayed=self.replayed)))
        if self.skipped:
            facts.append(("left out", f"{counted(self.skipped, 'bad record')}, see .bad_records"))
        if self.truncated:
            cut = ", ".join(f"{name} ({count:,})" for name, count in self.truncated.items())
            facts.append(("cut to milliseconds", cut))
        if self.embeddings_pending:
            facts.append(("vectors pending", self.embeddings_pending))
        if self.indexes_built:
            facts.append(("indexes built", len(self.indexes_built)))
        if self.timings:
            facts.append(("seconds", float(sum(self.timings.values()))))
        rows = counted(self.total_rows, "row")
        done = f"loaded {rows} into" if self.commit is not None else f"checked {rows} for"
        return Panel.of_rows(
            f"{done} {self.branch} ({self.mode}, {self.engine})",
            ("table", "rows"),
            [(table["table_key"], table["rows_loaded"]) for table in self.tables],
            facts=facts,
            notes=[] if self.note is None else [self.note],
        )


if TYPE_CHECKING:

    class CommittedLoad(LoadResult):
        """A load without ``check``, as type checkers see it: there always is a commit."""

        commit: GraphCommit
