"""What a load asks of an engine: reading the records, holding the rows, writing them.

`Engine` runs the stages of one load. `Incoming` are the rows of one table on their way to it, wherever
the engine keeps them: they have an `id`, the ends of an edge, the properties, and the order column.
They are read more than once: for the rules, for writing, and again when the load lost a race.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.progress import OnRows, ProgressReport
from omnigraph.pipeline.request import LoadRequest
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.runner.protocol import Frame, Runner
from omnigraph.storage.tables.staging import Staged
from omnigraph.storage.tables.table import Table
from omnigraph.write.ensure_indices import Builds


class Incoming(Protocol):
    """The incoming rows of one table."""

    @property
    def entity(self) -> Entity:
        """The type they are of."""
        ...

    @property
    def rows(self) -> int:
        """How many there are, those that lose to a later record included."""
        ...

    @property
    def may_repeat(self) -> bool:
        """Whether an id may be that of another row, there or incoming; made ids never are."""
        ...

    @property
    def any_made(self) -> bool:
        """Whether an id was made for some row, because its record has none."""
        ...

    def stopper(self) -> Callable[[], object] | None:
        """What makes the ``stage`` that comes next give up in another thread.

        None where tables are staged one by one.
        """
        ...

    def frame(self, runner: Runner, columns: Sequence[str], *, as_read: bool = False) -> Frame:
        """Some columns of all rows; ``as_read``, with the ids that they had before any was taken."""
        ...

    def take_ids(self, runner: Runner, taken: Frame) -> bool:
        """Give the records of this frame, by their order, its ids, and all others those as read.

        All of them are to be written again, and it says whether any has another id than before.
        """
        ...

    def leave_out(self, runner: Runner, losers: Frame) -> int:
        """Write no record whose order is in this frame; says how many those are."""
        ...

    def stage(self, table: Table, mode: LoadMode, on_rows: OnRows | None = None) -> Staged:
        """Write the rows for a table, in one transaction that is not committed.

        ``on_rows`` is called while rows are written.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """All records of a load, read and judged: none of them is bad."""

    incoming: dict[str, Incoming]
    embeddings_pending: int = 0


class Engine(Protocol):
    """What runs the stages of one load. The rules of loading are not its business."""

    @property
    def name(self) -> str:
        """`local` or `spark`."""
        ...

    def runner(self) -> Runner:
        """A runner for the set rules of one attempt."""
        ...

    def read(
        self, request: LoadRequest, rules: RowRules, directory: Path, report: ProgressReport
    ) -> ReadRecords:
        """Stages 1 and 2; any bad record ends the load. ``directory`` is for files of the load."""
        ...

    def builds(self, rows: int) -> Builds:
        """How the indexes of a table of so many rows are built."""
        ...

    def close(self) -> None:
        """Free what the incoming rows hold."""
        ...
