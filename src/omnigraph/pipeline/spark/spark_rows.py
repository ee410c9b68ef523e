"""The incoming rows of one table on Spark: executors keep their payloads, unpack and write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from omnigraph import settings
from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.formats.typed_batch import batch_schema
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.progress import OnRows
from omnigraph.pipeline.rows.images import KeptFragments, match_again
from omnigraph.pipeline.rows.row_rules import RowRules, narrow_columns
from omnigraph.pipeline.rows.stored_rows import Spellings
from omnigraph.pipeline.rows.vector_spool import VectorSpool
from omnigraph.pipeline.spark.executor_tasks import (
    DATA,
    MATCH,
    TASK,
    complete_parts,
    divide_payloads,
    drop_matched,
    merge_payloads,
    narrow_rows,
    show_records,
    write_payloads,
)
from omnigraph.pipeline.spark.payloads import COLUMNS
from omnigraph.pipeline.spark.sizes import SparkSizes
from omnigraph.pipeline.spark.tally import Tally
from omnigraph.pipeline.spark.vectors import SparkVectors
from omnigraph.runner.names import encoded
from omnigraph.runner.protocol import Frame, Runner
from omnigraph.runner.spark_columns import portable_schema, signed_places, spark_schema
from omnigraph.runner.spark_errors import spark_errors
from omnigraph.runner.spark_runner import SparkFrame, SparkRunner
from omnigraph.storage.filters.pushdown import Condition, filter_expression
from omnigraph.storage.tables.staging import (
    MAX_ROWS_PER_FILE,
    Staged,
    fragment_of,
    stage_append_fragments,
    stage_overwrite_fragments,
    stage_replace_rows,
    stage_update,
)
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate import rules
from omnigraph.validate.change_set import MADE, ORDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FRAGMENTS = "fragment string"
MATCHES = """
SELECT p.`0task` AS task, p.`0rec` AS rec, c.`_rowid` AS rid, c.`_rowaddr` AS addr,
CAST(NULL AS STRING) AS taken FROM pend p JOIN com c ON c.id = p.id
"""
MATCHES_AND_TAKEN = """
SELECT p.`0task` AS task, p.`0rec` AS rec, c.`_rowid` AS rid, c.`_rowaddr` AS addr, t.id AS taken
FROM pend p LEFT JOIN com c ON c.id = p.id LEFT JOIN taken t ON t.`0rec` = p.`0rec`
WHERE c.id IS NOT NULL OR t.id IS NOT NULL
"""
LOST = """
SELECT p.`0task` AS task, p.`0rec` AS rec, CAST(NULL AS BIGINT) AS rid,
CAST(NULL AS BIGINT) AS addr, CAST(NULL AS STRING) AS taken
FROM everything p WHERE EXISTS (SELECT 1 FROM losers l WHERE l.`0rec` = p.`0rec`)
"""
AMONG_LOSERS = "EXISTS (SELECT 1 FROM losers l WHERE l.`0rec` = p.`0rec`)"
TAKEN = """
SELECT p.`0task` AS task, p.`0rec` AS rec, CAST(NULL AS BIGINT) AS rid,
CAST(NULL AS BIGINT) AS addr, t.id AS taken FROM pend p JOIN taken t ON t.`0rec` = p.`0rec`
"""
OTHER_RECORDS = """
SELECT COUNT(*) AS n FROM a FULL JOIN b ON a.`0rec` = b.`0rec`
WHERE a.`0rec` IS NULL OR b.`0rec` IS NULL
"""
OTHER_IDS = """
SELECT COUNT(*) AS n FROM a FULL JOIN b ON a.`0rec` = b.`0rec` WHERE a.id IS DISTINCT FROM b.id
"""


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
    _narrow: DataFrame | None = field(default=None, repr=False)
    _here: SparkFrame | None = field(default=None, repr=False)
    _losers: SparkFrame | None = field(default=None, repr=False)
    _written_without: SparkFrame | None = field(default=None, repr=False)
    _taken: SparkFrame | None = field(default=None, repr=False)
    _kept: KeptFragments = field(default_factory=KeptFragments, repr=False)
    _changed: SparkFrame | None = field(default=None, repr=False)
    _vectors: SparkVectors | None = field(default=None, repr=False)
    _filled: DataFrame | None = field(default=None, repr=False)

    @property
    def may_repeat(self) -> bool:
        """Whether two rows may have the same id."""
        return self.named > 0 or self._taken is not None

    @property
    def any_made(self) -> bool:
        """Whether an id was made for some row."""
        return self.named < self.rows

    def stopper(self) -> None:
        """Do nothing: tables are staged one after another, because each job takes all executors."""

    def frame(self, runner: Runner, columns: Sequence[str], *, as_read: bool = False) -> Frame:
        """Return some of the columns that set rules look at."""
        assert isinstance(runner, SparkRunner), "rows on executors are asked there"
        whole = self._asked(runner) if as_read else self._with_taken_ids(runner)
        if whole.table is not None:
            return runner.frame(whole.table.select(list(columns)))
        with spark_errors():
            return runner.of(whole.data.select([f"`{encoded(name)}`" for name in columns]))

    def _asked(self, runner: SparkRunner) -> SparkFrame:
        """Return the columns of set rules and the task of each row; in this process if they are few."""
        with spark_errors():
            frame = runner.of(self._narrow_rows())
        if self.rows > self.sizes.fetched_rows:
            return frame
        if self._here is None:
            self._here = runner.frame(runner.collect(frame))
        return self._here

    def _with_taken_ids(self, runner: SparkRunner) -> SparkFrame:
        """Return the same with the ids that records took, cached until other ids are taken."""
        whole = self._asked(runner)
        if self._taken is None:
            return whole
        if self._changed is None:
            text = rules.with_taken_ids([name for name in whole.columns if name != "id"])
            frames = {"pend": whole, "taken": self._taken}
            if whole.table is not None and self._taken.table is not None:
                self._changed = runner.sql(text, frames)
            else:
                with spark_errors():
                    self._changed = runner.of(runner.query(text, frames).persist())
        return self._changed

    def take_ids(self, runner: Runner, taken: Frame) -> bool:
        """Remember the ids that records take, and say whether they differ from the ones before."""
        assert isinstance(runner, SparkRunner)
        assert isinstance(taken, SparkFrame)
        self._losers = None
        before, now = self._taken, taken if runner.count(taken) else None
        if before is None or now is None:
            changed = before is not now
        else:
            differing = runner.ask(OTHER_IDS, {"a": before, "b": now})
            changed = differing.column("n")[0].as_py() > 0
        if changed:
            self._kept.drop()
        self._free_taken()
        if now is not None and now.table is None:
            with spark_errors():
                now = runner.of(now.data.select("*").persist())
        self._taken = now
        return changed

    def _free_taken(self) -> None:
        for kept in (self._taken, self._changed):
            if kept is not None and kept.table is None:
                kept.data.unpersist()
        self._taken = self._changed = None

    def _narrow_rows(self) -> DataFrame:
        """Unpack the columns of set rules once, because every rule asks for them."""
        if self._narrow is None:
            schema = typed_schema(self.entity)
            fields = [schema.field(name) for name in narrow_columns(self.entity)]
            shown = portable_schema(pa.schema([*fields, pa.field(TASK, pa.int64())]))
            run = partial(narrow_rows, spellings=self.spellings)
            data = self.payloads.select("task", "narrow").mapInArrow(run, spark_schema(shown))
            self._narrow = data.persist()
        return self._narrow

    def leave_out(self, runner: Runner, losers: Frame) -> int:
        """Remember the records that are not written, as a query: there may be many. Return their number."""
        count = runner.count(losers)
        assert isinstance(losers, SparkFrame)
        before, self._losers = self._written_without, losers if count else None
        if not self._kept.is_empty and before is not None:
            differing = runner.ask(OTHER_RECORDS, {"a": before, "b": losers})
            if differing.column("n")[0].as_py():
                self._kept.drop()
        self._written_without = losers
        return count

    def values_of(self, _runner: Runner, orders: Sequence[int]) -> dict[int, str]:
        """Return the values of records by column, as JSON, found by their order."""
        run = partial(show_records, entity=self.entity, orders=list(orders))
        with spark_errors():
            data = self.payloads.select("narrow", "wide")
            found = data.mapInArrow(run, "rec bigint, shown string").toArrow().to_pylist()
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
            changes = self._changes_of_patch(runner)
            data = self._with_changes(None if changes is None else runner.data(changes))
            by_part = data.mapInArrow(divided, "part bigint, seq bigint, data binary")
            together = by_part.repartition(parts, "part").sortWithinPartitions("part")
            return together.mapInArrow(run, COLUMNS)

    def _changes_of_patch(self, runner: SparkRunner) -> SparkFrame | None:
        """Return, by task, the records that take an id, or are not applied at all."""
        texts = []
        frames: dict[str, Frame] = {}
        if self._taken is not None:
            texts.append(TAKEN)
            frames |= {"pend": self._asked(runner), "taken": self._taken}
        if self._losers is not None:
            texts.append(LOST)
            frames |= {"everything": self._asked(runner), "losers": self._losers}
            if self._taken is not None:
                texts[0] = f"{TAKEN} WHERE NOT {AMONG_LOSERS}"
        return runner.sql(" UNION ALL ".join(texts), frames) if texts else None

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
        self._vectors.want(runner, self._losers, ref, spool, keep=keep)

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
        self._free_taken()
        if self._vectors is not None:
            self._vectors.free()
        if self._narrow is not None:
            self._narrow.unpersist()
            self._narrow = None

    def stage(self, table: Table, mode: LoadMode, on_rows: OnRows | None = None) -> Staged:
        """Have executors write the rows; only descriptions of the files come here."""
        tally = Tally(self.runner.session, on_rows)
        if mode == "merge" and self.may_repeat:
            return self._merged_again(table) or self._merged(table, tally)
        form: Literal["append", "overwrite"] = "overwrite" if mode == "overwrite" else "append"
        written = self._kept.of(table, form)
        if written is None:
            written = self._kept.keep(table, form, self._written(table, form, tally))
        if form == "overwrite":
            return stage_overwrite_fragments(table, written, table.schema)
        return stage_append_fragments(table, written)

    def _written(
        self, table: Table, mode: Literal["append", "overwrite"], tally: Tally
    ) -> list[Any]:
        if not self.rows:
            return []
        if self._losers is not None:
            return self._written_without_lost(table, mode, tally)
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

    def _written_without_lost(
        self, table: Table, mode: Literal["append", "overwrite"], tally: Tally
    ) -> list[Any]:
        runner = SparkRunner(self.runner.session)
        assert self._losers is not None
        frames = {"everything": self._asked(runner), "losers": self._losers}
        try:
            lost = runner.sql(LOST, frames)
            with spark_errors():
                return self._write_merged(table, runner.data(lost), tally, mode)
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
            changes = self._changes(runner, table)
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

    def _changes(self, runner: SparkRunner, table: Table) -> SparkFrame:
        """Return, by task, the records that replace a row, take an id, or are not written at all."""
        pend = self._with_taken_ids(runner)
        frames: dict[str, Frame] = {"pend": pend, "com": self._committed(runner, table)}
        text = MATCHES
        if self._taken is not None:
            frames["taken"] = self._taken
            text = MATCHES_AND_TAKEN
        if self._losers is not None:
            frames["pend"] = runner.sql(
                rules.winning_rows(), {"pend": pend, "losers": self._losers}
            )
            frames |= {"everything": pend, "losers": self._losers}
            text = f"{text} UNION ALL {LOST}"
        return runner.sql(text, frames)

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
        mode: Literal["append", "overwrite"] = "append",
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


def typed_schema(entity: Entity) -> pa.Schema:
    """Return the schema of incoming rows: a typed batch with final ids, their order, and `MADE`."""
    typed = batch_schema(entity)
    names = [*entity.implicit_columns[1:], *entity.properties]
    fields = [pa.field("id", pa.utf8()), *(typed.field(name) for name in names)]
    return pa.schema([*fields, pa.field(ORDER, pa.int64()), pa.field(MADE, pa.bool_())])


def _fragments(data: DataFrame, tally: Tally) -> list[Any]:
    with tally.watched():
        texts = data.toArrow().column("fragment").to_pylist()
    fragments = [fragment_of(text) for text in texts]
    tally.settle(sum(fragment.physical_rows for fragment in fragments))
    return fragments
