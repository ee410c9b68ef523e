"""What the tasks of a load found in its input: small in this process, however many records there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.pipeline.formats.cut_times import Cuts
from omnigraph.pipeline.request import LoadRequest
from omnigraph.pipeline.rows.bad_records import Bad, BadRecords
from omnigraph.pipeline.rows.row_rules import Aliases
from omnigraph.pipeline.spark.one_pass.first_pass import (
    BAD_RECORDS,
    KEPT,
    SUMMARY,
    files_of,
    kept_payloads,
    summary_of,
)
from omnigraph.pipeline.spark.payloads import (
    ALIASES,
    BAD,
    COLUMNS,
    COUNT,
    CUT,
    FAILURE,
    ROWS,
    Payload,
    aliases_of,
    bad_of,
)
from omnigraph.pipeline.spark.same_rows import DIGEST, only_known
from omnigraph.runner.spark_errors import error_of
from omnigraph.validate.change_set import SHOWN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(slots=True)
class FoundRecords:
    """The numbers of what was read.

    ``told`` is the frame that the tasks gave: payload rows, or what the first pass tells.
    """

    told: DataFrame
    rows: dict[str, int] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)
    unfilled: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    cut: Cuts = field(default_factory=Cuts)
    nbytes: int = 0
    digests: list[int] = field(default_factory=list)
    """What the payload rows of the caller's frames are known by."""

    @property
    def records(self) -> int:
        """The number of records that were read, bad ones included."""
        return self.kinds.get(ROWS, 0) + self.kinds.get(BAD, 0)

    def bad(self, request: LoadRequest, directory: Path) -> BadRecords:
        """Return the bad records; raise whatever ends the load: the first failure, or they."""
        if FAILURE in self.kinds:
            raise error_of(next(self._of_kind(FAILURE)).wide)
        if COUNT in self.kinds:
            self._number_parts(request)
        rejects, sources = request.rejects, request.inputs.sources
        bad = BadRecords(None if rejects is None else directory / "bad.jsonl")
        bad.cut = self.cut
        if BAD not in self.kinds:
            return bad
        for data in self._bad_bytes(SHOWN if rejects is None else None):
            bad.add(bad_of(data))
        bad.total = self.kinds[BAD]
        if not request.skips:
            bad.end(sources, rejects)
        return bad

    def all_bad(self) -> Iterator[list[Bad]]:
        """Yield the bad records, those of one block at a time."""
        if BAD in self.kinds:
            for data in self._bad_bytes(None):
                yield bad_of(data)

    def aliases(self) -> Aliases:
        """Return all spellings of ids that differ from the ids themselves."""
        aliases: Aliases = {}
        if ALIASES in self.kinds:
            for row in self._of_kind(ALIASES):
                for name, spelled in aliases_of(row.wide).items():
                    aliases.setdefault(name, {}).update(spelled)
        return aliases

    def _number_parts(self, request: LoadRequest) -> None:
        """Note the sizes of the partitions of DataFrames, from which row numbers are computed."""
        parts: dict[int, dict[int, int]] = {}
        for row in self._of_kind(COUNT):
            parts.setdefault(int(row.key or 0), {})[row.pending] = row.records
        sources = request.inputs.sources
        for index, rows in parts.items():
            sizes = tuple(rows.get(part, 0) for part in range(max(rows) + 1))
            sources[index] = replace(sources[index], parts=sizes)

    def _of_kind(self, kind: str) -> Iterator[Any]:
        """Yield the payload rows of a kind, in the order of the input."""
        return self._sorted(kind).toLocalIterator()

    def _bad_bytes(self, limit: int | None) -> Iterator[bytes]:
        found = self._sorted(BAD).select("wide")
        for row in (found if limit is None else found.limit(limit)).toLocalIterator():
            yield row["wide"]

    def _sorted(self, kind: str) -> DataFrame:
        return self.told.where(f"kind = '{kind}'").orderBy("task", "seq")


def found_in_payloads(payloads: DataFrame, of_frames: str | None = None) -> FoundRecords:
    """Run the tasks that read, and count what they found.

    ``of_frames``: whether a row is one of a frame of the caller's, as a condition.
    """
    from pyspark.sql import functions as f

    digest = f"CASE WHEN {of_frames or 'false'} THEN {DIGEST} END"

    counted = payloads.groupBy("kind", "key").agg(
        f.sum("records").alias("records"),
        f.sum("named").alias("named"),
        f.sum("pending").alias("pending"),
        f.expr("sum(coalesce(length(narrow), 0) + coalesce(length(wide), 0))").alias("size"),
        f.expr(f"collect_list({digest})").alias("digests"),
    )
    found = FoundRecords(payloads)
    for total in counted.toArrow().to_pylist():
        found.nbytes += total.pop("size")
        found.digests += total.pop("digests")
        _count(found, Payload(0, 0, **total))
    if of_frames is not None:
        found.told = only_known(payloads, of_frames, found.digests)
    return found


@dataclass(slots=True)
class FoundWritten(FoundRecords):
    """What the first pass of a load found, and the files that it wrote, by table."""

    summaries: list[Payload] = field(default_factory=list)
    fragments: dict[str, list[Any]] = field(default_factory=dict)
    files: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """The files with the columns that set rules look at, and their numbers of rows."""
    loose: dict[str, list[str]] = field(default_factory=dict)

    def kept(self, number: int) -> FoundRecords:
        """Return the rows of a table that were not written, as payload rows."""
        notes = self.told.where(f"what = {KEPT} AND one = {number}").select("data")
        payloads = notes.mapInArrow(kept_payloads, COLUMNS)
        return FoundRecords(payloads, self.rows, self.named, self.unfilled)

    def by_task(self, key: str) -> dict[int, bytes]:
        """Return what each task told of its files of a table (see ``files_of``)."""
        return {one.task: one.wide for one in self._of_kind(ROWS) if one.key == key}

    def _of_kind(self, kind: str) -> Iterator[Any]:
        return (one for one in self.summaries if one.kind == kind)

    def _bad_bytes(self, limit: int | None) -> Iterator[bytes]:
        found = self.told.where(f"what = {BAD_RECORDS}").orderBy("one", "two").select("data")
        for row in (found if limit is None else found.limit(limit)).toLocalIterator():
            yield row["data"]


def gather_summaries(found: FoundWritten) -> list[Payload]:
    """Run the tasks of a pass, and count what they found."""
    told = found.told.where(f"what = {SUMMARY}").select("data")
    data = told.toArrow().column("data").to_pylist()
    found.summaries = sorted(map(summary_of, data), key=lambda one: (one.task, one.seq))
    for one in found.summaries:
        _count(found, one)
    return found.summaries


def found_written(told: DataFrame) -> FoundWritten:
    """Run the tasks of the first pass, and gather their summaries."""
    found = FoundWritten(told)
    for one in gather_summaries(found):
        if one.kind == ROWS:
            key, files = one.key or "", files_of(one.wide)
            found.fragments.setdefault(key, []).extend(files.fragments)
            readable = [(f.files[0].path, f.physical_rows) for f in files.fragments]
            if files.loose is not None:
                found.loose.setdefault(key, []).append(files.loose)
                readable = [(files.loose, one.records)]
            found.files.setdefault(key, []).extend(readable)
    return found


def _count(found: FoundRecords, one: Payload) -> None:
    found.kinds[one.kind] = found.kinds.get(one.kind, 0) + one.records
    if one.kind == CUT and one.key is not None:
        found.cut[one.key] += one.records
    if one.kind == ROWS and one.key is not None:
        for counts, more in (
            (found.rows, one.records),
            (found.named, one.named),
            (found.unfilled, one.pending),
        ):
            counts[one.key] = counts.get(one.key, 0) + more
