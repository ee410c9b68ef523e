"""The vectors of rows on Spark: executors say which texts they have, this process has vectors made.

Spark may run any task again, twice at once, or on another machine. So no task calls a provider: the
distinct texts come to this process, part by part, and go through the load's `VectorSpool`, which sends
each once. The vectors go back through files that every executor reads: of this machine, or, on a
cluster, among the data files of the table, which executors reach because they write there. They are
joined with the rows by the hash of the text; a task that is repeated, also after its executor died,
reads them again. The embedder and its keys stay in this process, and a limit on calls per second holds
for the whole load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.rows.row_rules import narrow_columns
from omnigraph.pipeline.rows.vector_spool import VectorSpool, text_digest
from omnigraph.pipeline.rows.vectors import fill, is_wanted, keep_stored, slices
from omnigraph.pipeline.spark.executor_tasks import read_payloads
from omnigraph.pipeline.spark.payloads import (
    COLUMNS,
    ROWS,
    Payload,
    arrow_row,
    ipc_bytes,
    joined,
)
from omnigraph.runner.masters import local_cores
from omnigraph.runner.names import encoded
from omnigraph.runner.spark_errors import spark_errors
from omnigraph.runner.spark_runner import SparkFrame, SparkRunner
from omnigraph.runner.spark_tasks import Batches, executor_task, sent_frame, task_frame
from omnigraph.storage.tables.loose_files import LooseFile, read_data_file, remove_loose_files
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.types.vectors import vector_column
from omnigraph.validate import rules
from omnigraph.validate.change_set import ORDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WANTED = f"`{encoded(ORDER)}` bigint, name string, digest binary, text string"
NEEDED = "task bigint, seq bigint, grp bigint, digest binary"
VECTORS = "grp bigint, digest binary, vector binary"
VECTOR, DATA = 0, 1
"""The two kinds of rows that ``fill_payloads`` gets: the vectors of a payload, and the payload."""
SLICES = 16
"""Payloads are cut into slices, which are numbered below the number of the payload, in so many bits."""
TEXTS_AT_ONCE = 1_000


class SparkVectors:
    """The missing vectors of one table's payloads."""

    def __init__(self, entity: Entity, payloads: DataFrame) -> None:
        self.entity = entity
        self._payloads = payloads
        self._prepared: DataFrame | None = None
        self._wanted: DataFrame | None = None
        self._kept: list[DataFrame] = []
        self._ref: TableRef | None = None
        self._files: list[str] = []

    def want(
        self,
        runner: SparkRunner,
        losers: SparkFrame | None,
        ref: TableRef,
        spool: VectorSpool,
        *,
        keep: bool,
    ) -> None:
        """Ask for missing vectors; with ``keep``, those of the table for the same texts are kept."""
        from pyspark import StorageLevel

        self.free()
        self._ref = ref
        with spark_errors():
            prepare = partial(prepare_payloads, entity=self.entity, ref=ref if keep else None)
            prepared = self._payloads.mapInArrow(prepare, COLUMNS)
            if keep:
                prepared = prepared.persist(StorageLevel.DISK_ONLY)
                self._kept.append(prepared)
            self._prepared = prepared
            texts = partial(wanted_rows, entity=self.entity)
            self._wanted = prepared.select("narrow", "wide").mapInArrow(texts, WANTED)
            if losers is not None:
                frames = {"pend": runner.of(self._wanted), "losers": losers}
                self._wanted = runner.query(rules.winning_rows(), frames)
            distinct = self._wanted.select("name", "text").distinct()
            for name, texts_of in _gathered(distinct):
                spool.want(self.entity, name, texts_of)

    def fill(self, spool: VectorSpool, sent_bytes: int, parts: int) -> tuple[DataFrame, int]:
        """Return the payloads with their vectors, and how many vectors are still missing."""
        assert self._prepared is not None
        assert self._wanted is not None
        groups = {name: spool.group(self.entity, name).number for name in self.entity.embeds}
        with spark_errors():
            made = self._sent(spool, set(groups.values()), sent_bytes)
            if made is None:
                return self._prepared, int(self._wanted.count())
            pending = 0
            if spool.failure is not None:
                numbers = sent_frame(
                    self._prepared.sparkSession, list(groups.items()), "name string, grp bigint"
                )
                wanted = self._wanted.select("name", "digest").join(numbers, "name")
                pending = wanted.join(made, ["grp", "digest"], "left_anti").count()
            return self._joined(made, groups, parts), int(pending)

    def _joined(self, made: DataFrame, groups: Mapping[str, int], parts: int) -> DataFrame:
        assert self._prepared is not None
        need = partial(needed_vectors, entity=self.entity, groups=groups)
        needed = self._prepared.select("task", "seq", "narrow", "wide").mapInArrow(need, NEEDED)
        none = "CAST(NULL AS BINARY)"
        vectors = needed.join(made, ["grp", "digest"]).selectExpr(
            "task", "seq", f"{VECTOR} AS kind", "grp", "digest", "vector",
            f"{none} AS narrow", f"{none} AS wide",
        )  # fmt: skip
        data = self._prepared.selectExpr(
            "task", "seq", f"{DATA} AS kind", "0L AS grp", f"{none} AS digest", f"{none} AS vector",
            "narrow", "wide",
        )  # fmt: skip
        together = vectors.unionAll(data).repartition(parts, "task")
        ordered = together.sortWithinPartitions("task", "seq", "kind")
        run = partial(fill_payloads, entity=self.entity, groups=groups)
        return ordered.mapInArrow(run, COLUMNS)

    def _sent(self, spool: VectorSpool, groups: set[int], sent_bytes: int) -> DataFrame | None:
        """Return the vectors as a frame, which reads files; None if there are none."""
        assert self._prepared is not None
        assert self._ref is not None
        session = self._prepared.sparkSession
        tables = (
            _vector_table(group.number, digests, matrix)
            for group in spool.groups()
            if group.number in groups
            for digests, matrix in group.parts(max(1, sent_bytes // (4 * group.dimension)))
        )
        if local_cores(session.sparkContext.master or "") is not None:
            files = [spool.write(f"{self.entity.name}-{at}", one) for at, one in enumerate(tables)]
            return task_frame(session, read_payloads, files, VECTORS) if files else None
        for table in tables:
            file = LooseFile(self._ref)
            for batch in table.to_batches():
                file.add(batch)
            file.close()
            if file.name is not None:
                self._files.append(file.name)
        read = partial(read_vectors, ref=self._ref)
        return task_frame(session, read, self._files, VECTORS) if self._files else None

    def free(self) -> None:
        """Free what executors keep, and remove the files that were written for them."""
        for data in self._kept:
            data.unpersist()
        if self._ref is not None:
            remove_loose_files(self._ref, self._files)
        self._kept, self._files = [], []


def _gathered(distinct: DataFrame) -> Iterator[tuple[str, pa.Array]]:
    """Yield the texts of a frame by property; Spark hands over one partition at a time."""
    waiting: dict[str, list[str]] = {}
    for row in distinct.toLocalIterator():
        texts = waiting.setdefault(row["name"], [])
        texts.append(row["text"])
        if len(texts) >= TEXTS_AT_ONCE:
            yield row["name"], pa.array(waiting.pop(row["name"]), pa.utf8())
    for name, texts in waiting.items():
        yield name, pa.array(texts, pa.utf8())


def _vector_table(group: int, digests: list[bytes], matrix: Any) -> pa.Table:
    width = matrix.shape[1] * matrix.itemsize
    bounds = np.arange(0, width * (len(digests) + 1), width, dtype=np.int32)
    data = pa.py_buffer(np.ascontiguousarray(matrix))
    vectors = pa.Array.from_buffers(pa.binary(), len(digests), [None, pa.py_buffer(bounds), data])
    return pa.table(
        {
            "grp": pa.array(np.full(len(digests), group, np.int64)),
            "digest": pa.array(digests, pa.binary()),
            "vector": vectors,
        }
    )


# ------------------------------------------------------------------ on executors


@executor_task
def read_vectors(name: str, *, ref: TableRef) -> Batches:
    """Yield the vectors in a file among the data of a table."""
    yield from read_data_file(ref, name)


@executor_task
def prepare_payloads(batches: Batches, *, entity: Entity, ref: TableRef | None) -> Batches:
    """Yield the payloads in slices, whose vectors take bounded memory, with what the table has."""
    table = None if ref is None else open_table(ref)
    for task, seq, batch in _unpacked(batches):
        parts = (
            (part for _, part in slices(entity, batch))
            if table is None
            else keep_stored(entity, batch, table)
        )
        for number, part in enumerate(parts):
            yield _packed(entity, task, (seq << SLICES) + number, part)


@executor_task
def wanted_rows(batches: Batches, *, entity: Entity) -> Batches:
    """Yield the texts whose vectors are missing, with the places of their records."""
    for batch in batches:
        for narrow, wide in _pairs(batch):
            rows = joined(narrow, wide)
            for name, embed in entity.embeds.items():
                wanted = is_wanted(entity, name, rows)
                texts = rows.column(embed.source).filter(wanted)
                yield pa.RecordBatch.from_arrays(
                    [
                        rows.column(ORDER).filter(wanted),
                        pa.array([name] * len(texts), pa.utf8()),
                        pa.array(map(text_digest, texts.to_pylist()), pa.binary()),
                        texts,
                    ],
                    names=[encoded(ORDER), "name", "digest", "text"],
                )


@executor_task
def needed_vectors(batches: Batches, *, entity: Entity, groups: Mapping[str, int]) -> Batches:
    """Yield the hashes of the texts of each payload, each once."""
    for task, seq, rows in _unpacked(batches):
        for name, embed in entity.embeds.items():
            texts = rows.column(embed.source).filter(is_wanted(entity, name, rows)).unique()
            digests = list(map(text_digest, texts.to_pylist()))
            numbers = [np.full(len(digests), one, np.int64) for one in (task, seq, groups[name])]
            yield pa.RecordBatch.from_arrays(
                [*map(pa.array, numbers), pa.array(digests, pa.binary())],
                names=["task", "seq", "grp", "digest"],
            )


@executor_task
def fill_payloads(batches: Batches, *, entity: Entity, groups: Mapping[str, int]) -> Batches:
    """Yield payloads with their vectors. The vectors of each come before it."""
    here = _Here(groups)
    for batch in batches:
        kinds = batch.column("kind").to_pylist()
        at = 0
        while at < len(kinds):
            end = at + 1
            if kinds[at] == VECTOR:
                while end < len(kinds) and kinds[end] == VECTOR:
                    end += 1
                here.add(batch.slice(at, end - at))
            else:
                row = batch.slice(at, 1)
                for task, seq, rows in _unpacked([row]):
                    for part in fill(entity, rows, here):
                        yield _packed(entity, task, seq, part)
                here = _Here(groups)
            at = end


class _Here:
    """The vectors that came for one payload."""

    def __init__(self, groups: Mapping[str, int]) -> None:
        self._groups = groups
        self._places: dict[tuple[int, bytes], int] = {}
        self._vectors: list[bytes] = []

    def add(self, rows: pa.RecordBatch) -> None:
        keys = zip(rows.column("grp").to_pylist(), rows.column("digest").to_pylist(), strict=True)
        for key in keys:
            self._places.setdefault(key, len(self._places))
        self._vectors += rows.column("vector").to_pylist()

    def vectors(self, entity: Entity, name: str, texts: pa.Array) -> pa.Array:
        """Return the vectors of texts, null where there is none."""
        kind, group = entity.properties[name].type.arrow_type(), self._groups[name]
        encoded_texts = texts.dictionary_encode()
        keys = [(group, text_digest(text)) for text in encoded_texts.dictionary.to_pylist()]
        found = [self._vectors[self._places[key]] for key in keys if key in self._places]
        known = np.array([key in self._places for key in keys], np.bool_)
        if not found:
            return pa.nulls(len(texts), kind)
        made = vector_column(np.frombuffer(b"".join(found), np.float32), kind)
        order = np.cumsum(known) - 1
        return made.take(pa.array(order, mask=~known)).take(encoded_texts.indices)


def _pairs(batch: pa.RecordBatch) -> Iterator[tuple[Any, Any]]:
    for narrow, wide in zip(batch.column("narrow"), batch.column("wide"), strict=True):
        yield narrow.as_buffer(), wide.as_buffer()


def _unpacked(batches: Any) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Yield task, number and rows of payloads."""
    for batch in batches:
        tasks, seqs = batch.column("task").to_pylist(), batch.column("seq").to_pylist()
        for task, seq, pair in zip(tasks, seqs, _pairs(batch), strict=True):
            yield task, seq, joined(*pair)


def _packed(entity: Entity, task: int, seq: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    needed = narrow_columns(entity)
    among = set(needed)
    rest = [name for name in rows.schema.names if name not in among]
    narrow, wide = ipc_bytes(rows.select(needed)), ipc_bytes(rows.select(rest))
    key = entity.table_key
    return arrow_row(Payload(task, seq, ROWS, key, rows.num_rows, narrow=narrow, wide=wide))
