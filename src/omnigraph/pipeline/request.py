"""One load as it is asked for and as it is answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.embeddings.provider import Embedder
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.manifest.rows import GraphCommit
from omnigraph.pipeline.load_input import LoadInput
from omnigraph.pipeline.progress import ProgressCallback

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LoadMode = Literal["merge", "append", "overwrite"]
MODES: tuple[LoadMode, ...] = ("merge", "append", "overwrite")
EngineName = Literal["auto", "local", "spark"]
ENGINES: tuple[EngineName, ...] = ("auto", "local", "spark")


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Which engine is asked for, and the Spark it would run on: a session, or where to make one."""

    engine: EngineName = "auto"
    spark: SparkSession | None = None
    master: str | None = None
    conf: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """One load, with everything fixed before any retry.

    ``ir_hash`` names the schema that the records are read by. With ``from_branch`` a missing branch
    is made from that one. ``branch_id`` is the identifier of the only branch that files were written
    for already.
    """

    inputs: LoadInput
    mode: LoadMode = "merge"
    branch: str = "main"
    from_branch: str | None = None
    actor_id: str | None = None
    if_commit: str | None = None
    retries: int | None = None
    rejects: Path | None = None
    embedder: Embedder | None = None
    progress: ProgressCallback | None = None
    ir_hash: str | None = None
    engine: EngineChoice = EngineChoice()
    branch_id: str | None = None

    def types_to_empty(self, catalog: Catalog) -> list[Entity]:
        """The types whose tables this load empties even if there are no rows of them.

        A frame names its table: overwritten with no rows, the table is empty.
        """
        return self.inputs.named_types(catalog) if self.mode == "overwrite" else []


@dataclass
class LoadResult:
    """What a load did."""

    branch: str
    mode: str
    engine: str
    tables: list[dict[str, Any]]
    actor_id: str | None
    commit: GraphCommit
    base_branch: str | None = None
    branch_created: bool = False
    indexes_built: list[tuple[str, str]] = field(default_factory=list)
    embeddings_pending: int = 0
    timings: dict[str, float] = field(default_factory=dict)
    note: str | None = None
    """Why that engine ran, where nobody asked for it."""

    @property
    def total_rows(self) -> int:
        """How many rows were loaded."""
        return sum(table["rows_loaded"] for table in self.tables)

    def to_json(self) -> dict[str, Any]:
        """The public form."""
        return {
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "engine": self.engine,
            "tables": self.tables,
            "total_rows": self.total_rows,
            "actor_id": self.actor_id,
            "bad_records": 0,
            "indexes_built": [list(item) for item in self.indexes_built],
            "embeddings_pending": self.embeddings_pending,
            "timings": self.timings,
            "commit": self.commit.to_json(),
            "note": self.note,
        }
