"""The Spark engine of a load: executors read, check, keep and write the records.

This process plans the tasks. Every task gives the same result each time it runs, so Spark may run it
again, twice at once, or elsewhere. A load that only adds rows, or replaces all of them, is one pass:
the tasks that read rows write them, too (`first_pass`). All others keep their rows as payloads on the
executors' disks until the rules have decided what is written (`payloads`, `spark_rows`). Input that
exists only in this process is checked here and sent to the executors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.engine import FindTarget, Incoming, LoadTarget, ReadRecords, Tell
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.local.complete_here import complete_spooled
from omnigraph.pipeline.local.spooled_rows import SpooledRows
from omnigraph.pipeline.progress import ProgressReport
from omnigraph.pipeline.request import LoadRequest
from omnigraph.pipeline.rows.bad_records import BadRecords
from omnigraph.pipeline.rows.row_rules import Aliases, RowRules
from omnigraph.pipeline.rows.stored_rows import Spellings, spellings_of
from omnigraph.pipeline.spark.fetched_rows import fetched_rows
from omnigraph.pipeline.spark.found_records import (
    FoundRecords,
    FoundWritten,
    found_in_payloads,
    found_written,
)
from omnigraph.pipeline.spark.maintenance_jobs import build_on_spark
from omnigraph.pipeline.spark.merging.merge_pass import MergePass, can_be_images, found_images
from omnigraph.pipeline.spark.merging.spark_images import SparkImages
from omnigraph.pipeline.spark.one_pass.first_pass import FirstPass
from omnigraph.pipeline.spark.one_pass.one_pass_rows import OnePassRows
from omnigraph.pipeline.spark.one_pass.questions import Piece
from omnigraph.pipeline.spark.one_pass.rule_proof import RuleProof
from omnigraph.pipeline.spark.payloads import ROWS
from omnigraph.pipeline.spark.read_plan import ReadPlan
from omnigraph.pipeline.spark.sizes import SparkSizes
from omnigraph.pipeline.spark.spark_rows import SparkRows
from omnigraph.pipeline.spark.tally import Tally
from omnigraph.pipeline.written.task_files import discard_files
from omnigraph.runner.local_runner import FEW_ROWS, LocalRunner
from omnigraph.runner.masters import local_cores
from omnigraph.runner.protocol import Runner
from omnigraph.runner.spark_errors import spark_errors
from omnigraph.runner.spark_runner import SparkRunner, working_session
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate.committed import Committed
from omnigraph.write.index_builds import Builds, build_here

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class _Reading:
    """The input of a load on its way through executors."""

    request: LoadRequest
    rules: RowRules
    plan: ReadPlan
    tally: Tally
    target: LoadTarget
    directory: Path

    @property
    def unwritable(self) -> frozenset[str]:
        """The tables whose rows may lack vectors when they are read."""
        catalog = self.rules.catalog
        return frozenset(key for key in self.target.places if catalog.entity(key).embeds)

    def judged(self, found: FoundRecords) -> tuple[BadRecords, Aliases]:
        """Return the bad records and the spellings of ids; raise if the load ends here.

        Types that an overwrite empties are among the tables of ``found`` afterwards.
        """
        self.tally.settle(found.records)
        bad = found.bad(self.request, self.directory)
        for entity in self.request.types_to_empty(self.rules.catalog):
            found.rows.setdefault(entity.table_key, 0)
        return bad, found.aliases()


class SparkEngine:
    """The executors of one Spark session."""

    name = "spark"
    sizes: ClassVar[SparkSizes] = SparkSizes()

    def __init__(self, session: SparkSession) -> None:
        with spark_errors():
            self.session = working_session(session)
            self.is_local = local_cores(self.session.sparkContext.master or "") is not None
            self.cores = self.session.sparkContext.defaultParallelism
        self._frames: list[DataFrame] = []
        self._rows: list[SparkRows | OnePassRows] = []
        self._first_pass: tuple[FirstPass, FoundWritten] | None = None
        self._images: list[SparkImages] = []
        self._is_here = False
        self._completed = 0

    def runner(self) -> Runner:
        """Return a runner that is where the incoming rows are: in the session, or here."""
        return LocalRunner() if self._is_here else SparkRunner(self.session)

    def read(
        self,
        request: LoadRequest,
        rules: RowRules,
        directory: Path,
        report: ProgressReport,
        target: FindTarget,
    ) -> ReadRecords:
        """Have executors read everything; raise if any record is bad, unless it is to be skipped.

        Where they can, they write the rows in the same pass.
        """
        report.tell("reading")
        tally = Tally(self.session, report.read if report.wanted else None)
        with spark_errors():
            plan = ReadPlan(
                self.session,
                request,
                rules,
                directory,
                tally.counter,
                is_local=self.is_local,
                sent_bytes=self.sizes.sent_bytes,
            )
            reading = _Reading(request, rules, plan, tally, target(), directory)
            if reading.target.places and not plan.here:
                found = self._at_once(reading)
                if found is not None:
                    return found
            return self._kept(reading)

    # -- rows that are written while they are read

    def _at_once(self, reading: _Reading) -> ReadRecords | None:
        """Have the tasks that read rows write them, too; None where that cannot be done."""
        if reading.request.options.mode == "merge":
            if all(
                can_be_images(reading.rules.catalog.entity(key)) for key in reading.target.places
            ):
                return self._merged(reading)
        elif self._is_writable(reading):
            return self._written(reading)
        return None

    def _is_writable(self, reading: _Reading) -> bool:
        """Say whether rows can be written at once: whole ones, and others only beside them.

        Few rows with vectors to be made are better brought here; and those of a frame that is computed
        again would have to be compared.
        """
        if not reading.unwritable:
            return True
        size = sum(source.size for source in reading.request.inputs.sources)
        return (
            len(reading.unwritable) < len(reading.target.places)
            and not reading.plan.frames
            and size > self.sizes.sent_bytes
        )

    def _merged(self, reading: _Reading) -> ReadRecords | None:
        """Run the one pass of a merge; None where edges must be redirected."""
        merge_pass = MergePass(reading.rules, dict(reading.target.places))
        with reading.tally.watched():
            told = reading.plan.written(merge_pass).persist()
            self._frames.append(told)
            found = found_images(told)
        images = [
            SparkImages(
                self.session,
                merge_pass.destination(key),
                written,
                reading.directory,
                named=found.named[key],
                fetched_rows=self.sizes.fetched_rows,
            )
            for key, written in found.written.items()
        ]
        self._images += images
        bad, aliases = reading.judged(found)
        if any(spellings_of(one.entity, aliases) for one in images):
            self.discard()
            return None
        return ReadRecords({one.entity.table_key: one for one in images}, bad, are_placed=True)

    def _written(self, reading: _Reading) -> ReadRecords | None:
        """Run the one pass; None where edges must be redirected, so that what was written is wrong."""
        from pyspark import StorageLevel

        first_pass = FirstPass(
            reading.rules,
            dict(reading.target.places),
            reading.request.options.mode == "overwrite",
            reading.unwritable,
        )
        with reading.tally.watched():
            told = reading.plan.written(first_pass)
            told = told.persist(StorageLevel.DISK_ONLY) if first_pass.kept else told.persist()
            self._frames.append(told)
            found = found_written(told)
        self._first_pass = (first_pass, found)
        bad, aliases = reading.judged(found)
        tables = [reading.rules.catalog.entity(key) for key in found.rows]
        if any(spellings_of(entity, aliases) for entity in tables):
            self.discard()
            return None
        incoming: dict[str, Incoming] = {}
        for key, rows in found.rows.items():
            ref, entity = reading.target.places[key], reading.rules.catalog.entity(key)
            pieces = [Piece(ref, count, file=name) for name, count in found.files.get(key, [])]
            if key in first_pass.kept:
                incoming[key] = kept = self._rows_of(
                    entity, found.kept(first_pass.number(key)), Spellings()
                )
                kept.pieces = pieces
                continue
            incoming[key] = written = OnePassRows(
                entity,
                rows,
                found.named.get(key, 0),
                found.fragments.get(key, []),
                pieces,
                ref,
                told,
                found.by_task(key),
                first_pass.number(key),
                self.sizes.fetched_rows,
            )
            self._rows.append(written)
        return ReadRecords(incoming, bad, are_placed=True)

    def proves_rules(
        self,
        runner: Runner,  # noqa: ARG002 - tasks look at the columns
        incoming: Mapping[str, Incoming],
        mode: LoadMode,
        committed: Committed,
    ) -> bool:
        """Ask executors where they wrote the rows at once; few rows are looked at here."""
        written = {
            key: rows
            for key, rows in incoming.items()
            if isinstance(rows, OnePassRows | SparkRows) and (rows.pieces or not rows.rows)
        }
        rows = sum(one.rows for one in incoming.values())
        if self._first_pass is None or len(written) < len(incoming):
            return False
        if rows <= self.sizes.fetched_rows:
            return False
        catalog = self._first_pass[0].rules.catalog
        with spark_errors():
            proof = RuleProof(
                self.session,
                catalog,
                written,
                mode,
                committed,
                self.cores,
                self.sizes.shared_bytes,
            )
            return proof.holds()

    def discard(self) -> None:
        """Remove the files that executors wrote; none that a version of a table refers to."""
        if self._first_pass is not None:
            first_pass, found = self._first_pass
            for key, fragments in found.fragments.items():
                discard_files(first_pass.places[key], fragments, found.loose.get(key, []))
            self._first_pass = None
        self._remove_images()

    def _remove_images(self) -> None:
        """Remove the files of a merge that did not become part of a table: always those with columns."""
        for images in self._images:
            images.remove_files()
        self._images = []

    # -- rows that are kept until it is decided what is written

    def _kept(self, reading: _Reading) -> ReadRecords:
        from pyspark import StorageLevel

        with reading.tally.watched():
            payloads = reading.plan.kept().persist(StorageLevel.DISK_ONLY)
            self._frames.append(payloads)
            found = found_in_payloads(payloads, reading.plan.of_frames)
        bad, aliases = reading.judged(found)
        if self._fits_here(found, reading.target):
            self._is_here = True
            return ReadRecords(fetched_rows(reading.rules, found, aliases, reading.directory), bad)
        incoming: dict[str, Incoming] = {}
        for key in found.rows:
            entity = reading.rules.catalog.entity(key)
            incoming[key] = self._rows_of(entity, found, spellings_of(entity, aliases))
        return ReadRecords(incoming, bad)

    def _fits_here(self, found: FoundRecords, target: LoadTarget) -> bool:
        """Say whether this process is quicker than a dozen jobs of Spark."""
        return (
            sum(found.rows.values()) <= self.sizes.here_rows
            and found.nbytes <= self.sizes.sent_bytes
            and target.largest <= self.sizes.here_table_rows
        )

    def complete(
        self, rules: RowRules, records: Incoming, ref: TableRef, directory: Path, tell: Tell
    ) -> Incoming:
        """Have executors make whole rows of the records of a patch, each of a part of the ids."""
        from pyspark import StorageLevel

        if isinstance(records, SpooledRows):
            self._completed += 1
            path = directory / f"whole-{self._completed}.arrow"
            return complete_spooled(rules, records, ref, path, tell, FEW_ROWS)
        assert isinstance(records, SparkRows)
        with spark_errors(), contextlib.closing(SparkRunner(self.session)) as runner:
            payloads = records.completed(runner, rules, ref).persist(StorageLevel.DISK_ONLY)
            self._frames.append(payloads)
            found = found_in_payloads(payloads)
            for bad in found.all_bad():
                tell(bad)
            return self._rows_of(records.entity, found, Spellings())

    def _rows_of(self, entity: Entity, found: FoundRecords, spellings: Spellings) -> SparkRows:
        key = entity.table_key
        payloads = found.told.where(f"kind = '{ROWS}'").where(found.told["key"] == key)
        rows = SparkRows(
            SparkRunner(self.session),
            entity,
            found.rows.get(key, 0),
            found.named.get(key, 0),
            self.cores,
            payloads,
            spellings,
            self.sizes,
            found.unfilled.get(key, 0),
        )
        self._rows.append(rows)
        return rows

    def builds(self, rows: int) -> Builds:
        """Have executors build the indexes of a large table, and this process those of a small one."""
        is_small = rows < self.sizes.indexed_rows
        return build_here if is_small else partial(build_on_spark, self.session)

    def close(self) -> None:
        """Free what the executors keep of the load."""
        with spark_errors():
            for rows in (*self._rows, *self._images):
                rows.free()
            self._remove_images()
            for frame in self._frames:
                frame.unpersist()
        if self._first_pass is not None:
            first_pass, found = self._first_pass
            for key, loose in found.loose.items():
                discard_files(first_pass.places[key], [], loose)
