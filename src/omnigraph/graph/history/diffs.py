"""`graph.diff`: from two targets and filters to the changes between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.cancel import Cancel, current, watched
from omnigraph.graph.state import GraphState
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.history import resolve
from omnigraph.manifest.snapshot import Snapshot, Target, TargetLike

# Loaded by the first diff: it needs numpy and pyarrow.
if TYPE_CHECKING:
    from omnigraph.changes.change_filter import ChangeFilter
    from omnigraph.changes.diff import Change, Position
    from omnigraph.changes.diff_result import DiffResult
    from omnigraph.changes.stats import Meter
    from omnigraph.runner.executors import EngineName


def diff(
    state: GraphState,
    from_: TargetLike,
    to: TargetLike,
    filter: ChangeFilter,
    *,
    images: bool,
    engine: EngineName = "auto",
    token: Callable[[], Cancel | None] = current,
) -> DiffResult:
    """Pin both sides and compare them when the result is read; refuse what cannot be compared.

    ``token`` gives the token for a reading of the result.
    """
    from omnigraph.changes.declared_types import type_names
    from omnigraph.changes.diff import diff_chunks
    from omnigraph.changes.diff_result import DiffResult
    from omnigraph.changes.paging.tokens import filter_digest
    from omnigraph.runner.executors import Executors

    executors = Executors(engine)
    before, _ = _pinned(state, from_)
    after, current = _pinned(state, to)

    chunks = partial(diff_chunks, state.workspace, before, after, current, filter, images=images)

    def compared(meter: Meter, start_after: Position | None) -> Iterator[Sequence[Change]]:
        with executors.comparing() as spark_for:
            yield from chunks(start_after=start_after, meter=meter, spark_for=spark_for)

    def run(meter: Meter, start_after: Position | None) -> Iterator[Sequence[Change]]:
        return watched(token(), compared(meter, start_after))

    # Errors are raised here, not when the result is read.
    chunks()
    shown = filter_digest({**filter.to_json(), "images": images, "names": type_names(current)})
    return DiffResult(state.workspace, before, after, shown, run)


def _pinned(state: GraphState, side: TargetLike) -> tuple[Snapshot, Catalog]:
    """Return the snapshot of a side, and the schema that is accepted now on its branch."""
    branch, snapshot = resolve.resolve_on(state.workspace.manifest, Target.of_value(side))
    return snapshot, state.schemas.at(branch).catalog
