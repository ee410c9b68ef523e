"""One load as it is asked for and as it is answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from omnigraph.embeddings.provider import Embedder
from omnigraph.manifest.rows import GraphCommit
from omnigraph.pipeline.inputs import LoadInput
from omnigraph.pipeline.progress import ProgressCallback

LoadMode = Literal["merge", "append", "overwrite"]
MODES: tuple[LoadMode, ...] = ("merge", "append", "overwrite")


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """One load, with everything fixed before any retry.

    ``ir_hash`` names the schema that the records are read by. With ``from_branch`` a missing branch
    is made from that one.
    """

    inputs: LoadInput
    mode: LoadMode = "merge"
    branch: str = "main"
    from_branch: str | None = None
    actor_id: str | None = None
    if_commit: str | None = None
    retries: int = 0
    rejects: Path | None = None
    embedder: Embedder | None = None
    progress: ProgressCallback | None = None
    ir_hash: str | None = None


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
        }
