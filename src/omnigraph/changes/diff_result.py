"""`graph.diff`: the difference of two pinned snapshots as a value that can be read again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from omnigraph.changes.diff import Change
from omnigraph.changes.stats import Meter, Stats
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace


@dataclass(frozen=True, slots=True)
class DiffStats(Stats):
    """What a diff found and cost. ``types_affected`` are the names of types with changes, sorted."""

    types_affected: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the counts by name."""
        return {
            **{name: getattr(self, name) for name in Stats.__slots__},
            "types_affected": list(self.types_affected),
        }


Run = Callable[[Meter], Iterator[Sequence[Change]]]


class DiffResult:
    """The changes from one snapshot to another.

    Iterating compares the two snapshots as it goes, in bounded memory, and may be done again;
    ``changes`` keeps all of them. Both states are pinned: later commits do not show.
    """

    def __init__(self, workspace: Workspace, from_: Snapshot, to: Snapshot, run: Run) -> None:
        self.from_ = from_
        self.to = to
        self._workspace = workspace
        self._run = run
        self._stats: DiffStats | None = None

    def __iter__(self) -> Iterator[Change]:
        """Yield the changes: nodes before edges, then names of types, then ids."""
        if "changes" in self.__dict__:
            return iter(self.changes)
        return self._compare()

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """All changes. Iterate over the result instead where there may be more than memory holds."""
        return tuple(self._compare())

    @property
    def stats(self) -> DiffStats:
        """What was found and what it cost; compares the snapshots if that was not done to the end."""
        if self._stats is None:
            for _ in self._compare():
                pass
        assert self._stats is not None
        return self._stats

    def to_json(self) -> dict[str, Any]:
        """Return the document that `diff --json` prints."""
        changes = [change.to_json() for change in self.changes]
        return {
            "from": side_json(self.from_),
            "to": side_json(self.to),
            "changes": changes,
            "stats": self.stats.to_json(),
        }

    def _compare(self) -> Iterator[Change]:
        meter = Meter(self._workspace)
        affected: set[str] = set()
        with meter.running():
            chunks = self._run(meter)
        while True:
            # Only what happens in here counts, not what the caller does with the changes.
            with meter.running():
                chunk = next(chunks, None)
            if chunk is None:
                break
            affected.update(change.type for change in chunk)
            yield from chunk
        counts = meter.stats()
        self._stats = DiffStats(
            **{name: getattr(counts, name) for name in Stats.__slots__},
            types_affected=tuple(sorted(affected)),
        )

    def __repr__(self) -> str:
        ends = f"{self.from_.graph_commit_id} to {self.to.graph_commit_id}"
        return f"<omnigraph.DiffResult {ends}>"


def side_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return one side of a diff in its public form."""
    return {
        "graph_commit_id": snapshot.graph_commit_id,
        "branch": snapshot.branch,
        "version": snapshot.manifest_version,
    }
