"""The incoming rows of one table on Spark: executors keep their payloads, and write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from omnigraph import settings
from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.progress import OnRows
from omnigraph.pipeline.rows.images import KeptFragments, WriteForm, match_again
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.rows.stored_rows import Spellings
from omnigraph.pipeline.rows.vector_spool import VectorSpool
from omnigraph.pipeline.spark.asked_rows import AskedRows
from omnigraph.pipeline.spark.executor_tasks import (
    DATA,
    MATCH,
    VALUES,
    complete_parts,
    divide_payloads,
    drop_matched,
    merge_payloads,
    show_records,
    write_payloads,
)
from omnigraph.pipeline.spark.one_pass.questions import Piece
from omnigraph.pipeline.spark.payloads import COLUMNS
from omnigraph.pipeline.spark.sizes import SparkSizes
from omnigraph.pipeline.spark.tally import Tally
from omnigraph.pipeline.spark.vectors import SparkVectors
from omnigraph.runner.names import encoded
from omnigraph.runner.protocol import Frame, Runner
from omnigraph.runner.spark_columns import signed_places
from omnigraph.runner.spark_errors import spark_errors
from omnigraph.runner.spark_runner import SparkFrame, SparkRunner
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.staging import (
    MAX_ROWS_PER_FILE,
    Staged,
    fragment_of,
    stage_append_fragments,
    stage_replace_rows,
    stage_update,
)
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_ref import TableRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FRAGMENTS = "fragment string"


@dataclass(slots=True)
class SparkRows:
    """The incoming rows of one table, on the executors of a session."""

    runner: SparkRunner
    entity: Entity
    rows: int
    named: int
    cores: int
    payloads: DataFrame
    spellings: Spellings
    sizes: SparkSizes
    unfilled: int = 0
    pieces: Sequence[Piece] = ()
    """Files with the columns that set rules look at, where tasks wrote some."""
    _asked: AskedRows = field(init=False, repr=False)
    _kept: KeptFragments = field(default_factory=KeptFragments, repr=False)
    _vectors: SparkVectors | None = field(default=None, repr=False)
    _filled: DataFrame | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._asked = AskedRows(
            self.entity, self.rows, self.payloads, self.spellings, self.sizes.fetched_rows
        )

    @property
    def may_repeat(self) -> bool:
        """Whether two rows may have the same id."""
        return self.named > 0 or self._asked.taken is not None

    @property
    def can_take_ids(self) -> bool:
        """Whether ids can still be replaced."""
        return True

    @property
    def any_made(self) -> bool:
        """Whether an id was made for some row."""
        return self.named < self.rows

    def stopper(self) -> None:
        """Do nothing: tables are staged one after another, because each job takes all executors."""

    def frame(self, runner: Runner, columns: Sequence[str], *, as_read: bool = False) -> Frame:
        """Return some of the columns that set rules look at."""
        assert isinstance(runner, SparkRunner), "rows on executors are asked there"
        whole = self._asked.as_read(runner) if as_read else self._asked.with_taken_ids(runner)
        if whole.table is not None:
            return runner.frame(whole.table.select(list(columns)))
        with spark_errors():
            return runner.of(whole.data.select([f"`{encoded(name)}`" for name in columns]))

    def take_ids(self, runner: Runner, taken: Frame) -> bool:
        """Remember the ids that records take, and say whether they differ from the ones before."""
        assert isinstance(runner, SparkRunner)
        assert isinstance(taken, SparkFrame)
        changed = self._asked.take_ids(runner, taken)
        if changed:
            self._kept.drop()
        return changed

    def leave_out(self, runner: Runner, losers: Frame) -> int:
        """Remember the records that are not written, and return their number."""
        assert isinstance(runner, SparkRunner)
        assert isinstance(losers, SparkFrame)
        count, changed = self._asked.leave_out(runner, losers, compare=not self._kept.is_empty)
        if changed:
            self._kept.drop()
        return count

    def values_of(self, _runner: Runner, orders: Sequence[int]) -> dict[int, str]:
        """Return the values of records by column, as JSON, found by their order."""
        run = partial(show_records, entity=self.entity, orders=list(orders))
        with spark_errors():
            data = self.payloads.select("narrow", "wide")
            found = data.mapInArrow(run, VALUES).toArrow().to_pylist()
        return {row["rec"]: row["shown"] for row in found}

    def completed(self, runner: SparkRunner, rules_of_rows: RowRules, ref: TableRef) -> DataFrame:
        """Return the whole rows that the records of a patch make, as payload rows.

        The runner must be there until they are computed.
        """
        parts = max(1, -(-self.rows // self.sizes.rows_per_task))
        divided = partial(divide_payloads, parts=parts, spellings=self.spellings)
        run = partial(
            complete_parts,
            ref=ref,
            key=self.entity.table_key,
            rules=rules_of_rows,
            named=self.may_repeat,
        )
        with spark_errors():
            changes = self._asked.changes(runner)
            data = self._with_changes(None if changes is None else runner.data(changes))
            by_part = data.mapInArrow(divided, "part bigint, seq bigint, data binary")
            together = by_part.repartition(parts, "part").sortWithinPartitions("part")
            return together.mapInArrow(run, COLUMNS)

    def want_vectors(
        self, runner: Runner, ref: TableRef, spool: VectorSpool, *, keep: bool
    ) -> None:
        """Ask for the vectors that are missing; with ``keep`` those of the table are kept."""
        assert isinstance(runner, SparkRunner)
        if self._vectors is None:
            self._vectors = SparkVectors(self.entity, self.payloads)
        elif keep:
            # Which vectors are kept may have changed with the table.
            self._kept.drop()
        self._vectors.want(runner, self._asked.losers, ref, spool, keep=keep)

    def fill_vectors(self, runner: Runner, spool: VectorSpool) -> int:
        """Have executors put vectors into the rows they write, and say how many are still missing."""
        assert isinstance(runner, SparkRunner)
        assert self._vectors is not None
        parts = max(self._writers(), self.cores)
        self._filled, pending = self._vectors.fill(spool, self.sizes.sent_bytes, parts)
        return pending

    @property
    def _complete(self) -> DataFrame:
        """The payloads that are written: those with vectors, where some were missing."""
        return self.payloads if self._filled is None else self._filled

    def free(self) -> None:
        """Free the frames that were cached for set rules and vectors."""
        self._asked.free()
        if self._vectors is not None:
            self._vectors.free()

    def stage(self, table: Table, mode: LoadMode, on_rows: OnRows | None = None) -> Staged:
        """Have executors write the rows; only descriptions of the files come here."""
        tally = Tally(self.runner.session, on_rows)
        if mode == "merge" and self.may_repeat:
            return self._merged_again(table) or self._merged(table, tally)
        return self._kept.stage(table, mode, lambda form: self._written(table, form, tally))

    def _written(self, table: Table, mode: WriteForm, tally: Tally) -> list[Any]:
        if not self.rows:
            return []
        if self._asked.losers is not None or self._asked.taken is not None:
            return self._written_with_changes(table, mode, tally)
        run = partial(
            write_payloads,
            ref=table.ref,
            entity=self.entity,
            mode=mode,
            spellings=self.spellings,
            counter=tally.counter,
        )
        with spark_errors():
            data = self._complete.select("narrow", "wide").coalesce(self._writers())
            return _fragments(data.mapInArrow(run, FRAGMENTS), tally)

    def _written_with_changes(self, table: Table, mode: WriteForm, tally: Tally) -> list[Any]:
        runner = SparkRunner(self.runner.session)
        try:
            changes = self._asked.changes(runner)
            assert changes is not None
            with spark_errors():
                return self._write_merged(table, runner.data(changes), tally, mode)
        finally:
            runner.close()

    def _writers(self) -> int:
        """Return the number of tasks that write: enough for cores and files, at most the setting."""
        files = -(-self.rows // MAX_ROWS_PER_FILE)
        worthwhile = min(self.cores, -(-self.rows // self.sizes.rows_per_task))
        return max(1, min(settings.LOAD_CONCURRENCY.get(), max(files, worthwhile)))

    # -- merge

    def _merged_again(self, table: Table) -> Staged | None:
        """Reuse the files of an earlier attempt if they still fit; look up only what they replace."""
        written = self._kept.of(table, "images")
        places = None if written is None else match_again(table, written)
        if written is None or places is None:
            return None
        if not len(places):
            return stage_append_fragments(table, written)
        return stage_replace_rows(table, places, written)

    def _merged(self, table: Table, tally: Tally) -> Staged:
        """Write new images and delete the old ones in one transaction; row ids are kept."""
        runner = SparkRunner(self.runner.session)
        try:
            changes = self._asked.changes_of_merge(runner, self._committed(runner, table))
            counted = runner.ask("SELECT COUNT(*) AS n, COUNT(rid) AS m FROM c", {"c": changes})
            any_change, matched = (counted.column(name)[0].as_py() for name in ("n", "m"))
            if not any_change:
                written = self._written(table, "append", tally)
                return stage_append_fragments(table, self._kept.keep(table, "images", written))
            with spark_errors():
                written = self._write_merged(table, runner.data(changes), tally)
            self._kept.keep(table, "images", written)
            if not matched:
                return stage_append_fragments(table, written)
            if changes.table is not None:
                places = changes.table.column("addr").drop_null().to_numpy().astype("uint64")
                return stage_replace_rows(table, places, written)
            with spark_errors():
                updated, removed = self._drop(table, runner.data(changes))
            return stage_update(table, updated, removed, written, matched)
        finally:
            runner.close()

    def _committed(self, runner: SparkRunner, table: Table) -> SparkFrame:
        """Return the ids and places of the table's rows; only those of the incoming ids if they are few."""
        places: dict[str, Any] = {"with_row_id": True, "with_row_address": True}
        if self.rows > self.sizes.looked_up_ids:
            return runner.scan_fragments(table, ["id"], **places)
        ids = runner.collect(self.frame(runner, ["id"])).column("id")
        where = filter_expression(table.schema, [Condition("id", "in", ids.to_pylist())])
        return runner.frame(signed_places(table.read(["id"], where, **places)))

    def _write_merged(
        self,
        table: Table,
        changes: DataFrame,
        tally: Tally,
        mode: WriteForm = "append",
    ) -> list[Any]:
        run = partial(
            merge_payloads,
            ref=table.ref,
            entity=self.entity,
            spellings=self.spellings,
            mode=mode,
            counter=tally.counter,
        )
        return _fragments(self._with_changes(changes).mapInArrow(run, FRAGMENTS), tally)

    def _with_changes(self, changes: DataFrame | None) -> DataFrame:
        """Return the payloads by task, and before those of each task what happens to its records."""
        data = self._complete.selectExpr(
            "task", f"{DATA} AS kind", "seq", "CAST(NULL AS BIGINT) AS rec",
            "CAST(NULL AS BIGINT) AS rid", "CAST(NULL AS STRING) AS taken", "narrow", "wide",
        )  # fmt: skip
        if changes is None:
            return data
        none = "CAST(NULL AS BINARY)"
        matches = changes.selectExpr(
            "task", f"{MATCH} AS kind", "0L AS seq", "rec", "rid", "taken",
            f"{none} AS narrow", f"{none} AS wide",
        )  # fmt: skip
        together = matches.unionAll(data).repartition(self._writers(), "task")
        return together.sortWithinPartitions("task", "kind", "seq")

    def _drop(self, table: Table, changes: DataFrame) -> tuple[list[Any], list[int]]:
        run = partial(drop_matched, ref=table.ref)
        by_fragment = (
            changes.where("addr IS NOT NULL")
            .selectExpr("addr", "shiftright(addr, 32) AS fragment")
            .repartition(self._writers(), "fragment")
            .sortWithinPartitions("addr")
        )
        left = by_fragment.mapInArrow(run, "fragment bigint, left string")
        rows = left.toArrow().to_pylist()
        updated = [fragment_of(row["left"]) for row in rows if row["left"] is not None]
        return updated, [row["fragment"] for row in rows if row["left"] is None]


def _fragments(data: DataFrame, tally: Tally) -> list[Any]:
    with tally.watched():
        texts = data.toArrow().column("fragment").to_pylist()
    fragments = [fragment_of(text) for text in texts]
    tally.settle(sum(fragment.physical_rows for fragment in fragments))
    return fragments
