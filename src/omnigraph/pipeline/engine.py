"""What a load asks of an engine: reading the records, holding the rows, writing them.

`LoadEngine` runs the stages of one load. `Incoming` are the rows of one table on their way to it, wherever
the engine keeps them: they have an `id`, the ends of an edge, the properties, and the order column.
They are read more than once: for the rules, for writing, and again when the load lost a race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.load_plan import LoadPlan
from omnigraph.pipeline.progress import OnRows, ProgressReport
from omnigraph.pipeline.rows.bad_records import Bad, RejectedRecords
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.rows.vector_spool import VectorSpool
from omnigraph.runner.runner import Frame, Runner
from omnigraph.storage.tables.staging import Staged
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate.committed import Committed
from omnigraph.write.index_builds import Builds


class Incoming(Protocol):
    """The incoming rows of one table."""

    @property
    def entity(self) -> Entity:
        """The type of the rows."""
        ...

    @property
    def rows(self) -> int:
        """The number of rows, including those that a later record of the same id replaces."""
        ...

    @property
    def may_repeat(self) -> bool:
        """Whether two rows may have one id. Made ids are always new; those of records may repeat."""
        ...

    @property
    def any_made(self) -> bool:
        """Whether an id had to be made for some row, because its record has none."""
        ...

    @property
    def unfilled(self) -> int:
        """How many vectors are left to be made from their texts."""
        ...

    def want_vectors(
        self, runner: Runner, ref: TableRef, spool: VectorSpool, *, keep: bool
    ) -> None:
        """Ask for the vectors that are missing.

        With ``keep``, a vector that the table ``ref`` has for the same id and text is not missing.
        """
        ...

    def fill_vectors(self, runner: Runner, spool: VectorSpool) -> int:
        """Put the vectors into the rows, and return how many are still missing."""
        ...

    def stopper(self) -> Callable[[], object] | None:
        """A function that makes the next ``stage`` give up, to be called from another thread.

        None where tables are staged one after another.
        """
        ...

    def frame(self, runner: Runner, columns: Sequence[str], *, as_read: bool = False) -> Frame:
        """Some columns of all rows; ``as_read`` gives the ids from before ``take_ids``."""
        ...

    def take_ids(self, runner: Runner, taken: Frame) -> bool:
        """Replace the ids of the records in this frame, found by their order; all others get their own back.

        Returns whether any row has another id than before, so that its files must be written again.
        """
        ...

    def leave_out(self, runner: Runner, losers: Frame) -> int:
        """Leave out the records whose order is in this frame, and return how many they are.

        If they are others than before, rows that were written already must be written again.
        """
        ...

    def values_of(self, runner: Runner, orders: Sequence[int]) -> dict[int, str]:
        """The values of records by column, as JSON, found by their order."""
        ...

    def stage(self, table: Table, mode: LoadMode, on_rows: OnRows | None = None) -> Staged:
        """Write the rows for a table, in one transaction that is not committed.

        ``on_rows`` is called while rows are written.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """All records of a load, read and judged. The ``bad`` ones are not among ``incoming``.

    ``are_placed``: rows were written to the tables of the target, and are of no use for others.
    """

    incoming: dict[str, Incoming]
    bad: RejectedRecords
    are_placed: bool = False


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """What the rows of a load will meet, as far as it is known before they are read.

    ``tables`` has every table that the input can have rows of, as it is now. ``is_final``: rows may be written
    to them at once. ``largest`` is the number of rows of the largest table of the graph.
    """

    tables: Mapping[str, TableRef]
    is_final: bool
    largest: int


FindTarget = Callable[[], LoadTarget]
"""Asks the graph for the target of a load; only engines that need it pay for that."""

Tell = Callable[[list[Bad]], None]
"""Called with bad records, in any order."""


class LoadEngine(Protocol):
    """Runs the stages of one load. The rules of loading are the same for every engine."""

    @property
    def name(self) -> str:
        """`local` or `spark`."""
        ...

    @property
    def writes_beside_tables(self) -> bool:
        """Whether even rows that are only checked lie among the files of the tables, where a cleanup looks."""
        ...

    def runner(self) -> Runner:
        """A runner for the set rules of one attempt."""
        ...

    def read(
        self,
        request: LoadPlan,
        rules: RowRules,
        directory: Path,
        report: ProgressReport,
        target: FindTarget,
    ) -> ReadRecords:
        """Read and judge all records. ``directory`` is for files of the load.

        Any bad record ends the load, unless the rules say to skip it.
        """
        ...

    def proves_rules(
        self,
        runner: Runner,
        incoming: Mapping[str, Incoming],
        mode: LoadMode,
        committed: Committed,
    ) -> bool:
        """Whether a cheap check proves that no set rule is broken. False: the rules must be evaluated."""
        ...

    def discard(self) -> None:
        """Remove what was written before the commit; called when the load fails, before ``close``."""
        ...

    def complete(
        self, rules: RowRules, records: Incoming, ref: TableRef, directory: Path, tell: Tell
    ) -> Incoming:
        """Make whole rows, one for each id, of the records of a patch and of the rows the table has.

        The rows are judged by the row rules; ``tell`` gets the records that made bad ones, whose rows are
        part of the result nevertheless.
        """
        ...

    def builds(self, rows: int) -> Builds:
        """How to build the indexes of a table with that many rows."""
        ...

    def close(self) -> None:
        """Free what the incoming rows hold."""
        ...


def fill_vectors(
    incoming: Iterable[Incoming],
    runner: Runner,
    stored: Callable[[Incoming], tuple[TableRef, bool]],
    spool: VectorSpool,
) -> int:
    """Fill the vectors of all tables, and return how many stay null although their text is there.

    ``stored`` gives the table of the rows, and whether they may replace some that it has.
    """
    tables = [rows for rows in incoming if rows.unfilled]
    for rows in tables:
        ref, keep = stored(rows)
        rows.want_vectors(runner, ref, spool, keep=keep)
    spool.flush()
    return sum(rows.fill_vectors(runner, spool) for rows in tables)
