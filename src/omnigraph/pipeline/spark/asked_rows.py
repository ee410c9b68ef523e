"""The columns of kept rows that rules ask about, and what rules decide: which records take another id, and
which are left out.

Executors unpack the columns from payloads once; of few rows they are fetched. What was decided
stays a query over records, because there may be many of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.formats.typed_batch import batch_schema
from omnigraph.pipeline.rows.row_rules import narrow_columns
from omnigraph.pipeline.rows.stored_rows import Spellings
from omnigraph.pipeline.spark.executor_tasks import TASK, narrow_rows
from omnigraph.runner.protocol import Frame
from omnigraph.runner.spark_columns import portable_schema, spark_schema
from omnigraph.runner.spark_errors import spark_errors
from omnigraph.runner.spark_runner import SparkFrame, SparkRunner
from omnigraph.runner.spark_tasks import kept_frame
from omnigraph.validate import rules
from omnigraph.validate.change_set import MADE, ORDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
class AskedRows:
    """The rows of one table, as far as rules look at them."""

    entity: Entity
    rows: int
    payloads: DataFrame
    spellings: Spellings
    fetched_rows: int
    taken: SparkFrame | None = None
    """The ids that records take, by record."""
    losers: SparkFrame | None = None
    """The records that are left out."""
    _narrow: DataFrame | None = field(default=None, repr=False)
    _here: SparkFrame | None = field(default=None, repr=False)
    _changed: SparkFrame | None = field(default=None, repr=False)
    _left_out: SparkFrame | None = field(default=None, repr=False)

    def as_read(self, runner: SparkRunner) -> SparkFrame:
        """Return the columns of set rules and the task of each row; in this process if they are few."""
        with spark_errors():
            frame = runner.of(self._narrow_rows())
        if self.rows > self.fetched_rows:
            return frame
        if self._here is None:
            self._here = runner.frame(runner.collect(frame))
        return self._here

    def with_taken_ids(self, runner: SparkRunner) -> SparkFrame:
        """Return the same with the ids that records took, cached until other ids are taken."""
        whole = self.as_read(runner)
        if self.taken is None:
            return whole
        if self._changed is None:
            text = rules.with_taken_ids([name for name in whole.columns if name != "id"])
            frames = {"pend": whole, "taken": self.taken}
            if whole.table is not None and self.taken.table is not None:
                self._changed = runner.sql(text, frames)
            else:
                with spark_errors():
                    self._changed = runner.of(kept_frame(runner.query(text, frames)))
        return self._changed

    def take_ids(self, runner: SparkRunner, taken: SparkFrame) -> bool:
        """Remember the ids that records take, and say whether they differ from the ones before."""
        self.losers = None
        before, now = self.taken, taken if runner.count(taken) else None
        if before is None or now is None:
            changed = before is not now
        else:
            differing = runner.ask(OTHER_IDS, {"a": before, "b": now})
            changed = differing.column("n")[0].as_py() > 0
        self._free_taken()
        if now is not None and now.table is None:
            with spark_errors():
                now = runner.of(kept_frame(now.data))
        self.taken = now
        return changed

    def leave_out(
        self, runner: SparkRunner, losers: SparkFrame, *, compare: bool
    ) -> tuple[int, bool]:
        """Remember the records that are not written.

        Returns their number and, if asked to ``compare``, whether they are others than before.
        """
        count = runner.count(losers)
        before, self.losers = self._left_out, losers if count else None
        changed = False
        if compare and before is not None:
            differing = runner.ask(OTHER_RECORDS, {"a": before, "b": losers})
            changed = differing.column("n")[0].as_py() > 0
        self._left_out = losers
        return count, changed

    # -- what happens to records, by the tasks that read them

    def changes(self, runner: SparkRunner) -> SparkFrame | None:
        """Return the records that take an id, or are left out; None if there are none."""
        texts = []
        frames: dict[str, Frame] = {}
        if self.taken is not None:
            texts.append(TAKEN)
            frames |= {"pend": self.as_read(runner), "taken": self.taken}
        if self.losers is not None:
            texts.append(LOST)
            frames |= {"everything": self.as_read(runner), "losers": self.losers}
            if self.taken is not None:
                texts[0] = f"{TAKEN} WHERE NOT {AMONG_LOSERS}"
        return runner.sql(" UNION ALL ".join(texts), frames) if texts else None

    def changes_of_merge(self, runner: SparkRunner, committed: SparkFrame) -> SparkFrame:
        """Return the records that replace a row of ``committed``, take an id, or are not written at all."""
        pend = self.with_taken_ids(runner)
        frames: dict[str, Frame] = {"pend": pend, "com": committed}
        text = MATCHES
        if self.taken is not None:
            frames["taken"] = self.taken
            text = MATCHES_AND_TAKEN
        if self.losers is not None:
            frames["pend"] = runner.sql(rules.winning_rows(), {"pend": pend, "losers": self.losers})
            frames |= {"everything": pend, "losers": self.losers}
            text = f"{text} UNION ALL {LOST}"
        return runner.sql(text, frames)

    def free(self) -> None:
        """Free what was cached."""
        self._free_taken()
        if self._narrow is not None:
            self._narrow.unpersist()
            self._narrow = None

    def _free_taken(self) -> None:
        for kept in (self.taken, self._changed):
            if kept is not None and kept.table is None:
                kept.data.unpersist()
        self.taken = self._changed = None

    def _narrow_rows(self) -> DataFrame:
        """Unpack the columns of set rules once, because every rule asks for them."""
        if self._narrow is None:
            schema = typed_schema(self.entity)
            fields = [schema.field(name) for name in narrow_columns(self.entity)]
            shown = portable_schema(pa.schema([*fields, pa.field(TASK, pa.int64())]))
            run = partial(narrow_rows, spellings=self.spellings)
            data = self.payloads.select("task", "narrow").mapInArrow(run, spark_schema(shown))
            self._narrow = kept_frame(data)
        return self._narrow


def typed_schema(entity: Entity) -> pa.Schema:
    """Return the schema of incoming rows: a typed batch with final ids, their order, and `MADE`."""
    typed = batch_schema(entity)
    names = [*entity.implicit_columns[1:], *entity.properties]
    fields = [pa.field("id", pa.utf8()), *(typed.field(name) for name in names)]
    return pa.schema([*fields, pa.field(ORDER, pa.int64()), pa.field(MADE, pa.bool_())])
