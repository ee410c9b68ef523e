"""One task of a write from Spark: it judges rows, writes those of each table, and tells what it did.

Loads on Spark and the data source run the same task. It may run in any process and more than once: then it gives
the same rows, in other files. The driver goes by the files that it was told of; all others are named nowhere, and
cleanup removes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

import pyarrow as pa

from omnigraph.pipeline.formats.typed_batch import Parsed
from omnigraph.pipeline.load_options import FIRST_BAD
from omnigraph.pipeline.rows.bad_records import Bad, RejectedRecords
from omnigraph.pipeline.rows.row_images import IMAGE_SIZES
from omnigraph.pipeline.rows.row_rules import Aliases, JudgedBlock, RowRules
from omnigraph.pipeline.written.task_files import (
    Destination,
    TaskFiles,
    WrittenFiles,
    discard_files,
)
from omnigraph.storage.tables.loose_files import LooseFile, read_data_file
from omnigraph.storage.tables.table_ref import TableRef

_NUMBERS = {"source": pa.int32(), "offset": pa.int64()}
_SCHEMA = pa.schema([(one.name, _NUMBERS.get(one.name, pa.utf8())) for one in fields(Bad)])


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What every task needs to know; it is sent to them.

    ``rejects`` is where a task writes its bad rows; None where they are not wanted.
    """

    rules: RowRules
    destinations: Mapping[str, Destination]
    rejects: TableRef | None = None
    job: str | None = None
    """The job whose mark protects the files (``storage/locks/write_marks.py``)."""
    first_bad: int = FIRST_BAD
    """How many bad rows a task tells."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task tells: by table the files that it wrote, and what is wrong with its rows."""

    task: int
    tables: Mapping[str, WrittenFiles] = field(default_factory=dict)
    bad: tuple[Bad, ...] = ()
    """The first bad records."""
    bad_total: int = 0
    rejected: str | None = None
    """The file with all bad rows, where the caller wants them."""
    cut: Mapping[str, int] = field(default_factory=dict)
    """By `Type.property`: how many values were finer than they are stored."""
    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The spellings of ids that differ from the ids themselves."""
    job: str | None = None
    failure: bytes | None = None
    """The error that ends the load. Raised, it would make Spark run the task again."""
    part: tuple[int, int, int] | None = None
    """The source, the number and the rows of the partition of a DataFrame that was read."""

    @property
    def rows(self) -> int:
        """How many rows were written."""
        return sum(one.rows for one in self.tables.values())

    @property
    def fragments(self) -> list[Any]:
        """The fragments of all tables."""
        return [fragment for one in self.tables.values() for fragment in one.fragments]


@dataclass(slots=True)
class _TableRows:
    """The rows of one table on their way into files; ``task`` is the first that has any."""

    files: TaskFiles
    task: int
    named: int = 0
    unfilled: int = 0


class TaskRows:
    """The rows of one task. Its files are removed if it fails, or finds a bad row that ends the load."""

    def __init__(
        self, plan: TaskPlan, on_records: Callable[[int], object] = lambda _: None
    ) -> None:
        self._plan = plan
        self._on_records = on_records
        self._tables: dict[str, _TableRows] = {}
        self._bad = RejectedRecords(shown=plan.first_bad)
        self._aliases: Aliases = {}
        self._rejected = None if plan.rejects is None else RejectedRows(plan.rejects)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if failure[0] is not None:
            self._discard()
            if self._rejected is not None and self._plan.rejects is not None:
                discard_files(self._plan.rejects, (), [self._rejected.name])

    def take(self, task: int, blocks: Iterable[Parsed]) -> None:
        """Judge and write the rows of a part of the input; after a bad one that matters they are only judged."""
        for parsed in blocks:
            judged = self._plan.rules.judge(parsed)
            self._bad.add(judged.bad)
            self._bad.cut.update(judged.cut)
            if self._rejected is not None:
                self._rejected.add(judged.bad)
            for name, spelled in judged.aliases.items():
                self._aliases.setdefault(name, {}).update(spelled)
            self._on_records(len(judged.bad))
            # One bad record ends the load, but all of them are reported: the rest is judged, and written no
            # more.
            if not self._is_refused:
                self._write(task, judged)

    @property
    def _is_refused(self) -> bool:
        return self._bad.total > 0 and not self._plan.rules.skip

    def _write(self, task: int, judged: JudgedBlock) -> None:
        for key, batch in judged.rows:
            if not batch.num_rows:
                continue
            if key not in self._tables:
                self._tables[key] = _TableRows(TaskFiles(self._plan.destinations[key]), task)
            table = self._tables[key]
            table.named += judged.named[key]
            table.unfilled += judged.unfilled[key]
            table.files.add(batch, named=judged.named[key] > 0)
            self._on_records(batch.num_rows)
        held = {key: table.files.held for key, table in self._tables.items()}
        # Rows of all tables together count: a task with many types would otherwise hold as many times the
        # memory.
        if sum(held.values()) >= IMAGE_SIZES.held_bytes:
            self._tables[max(held, key=held.__getitem__)].files.flush()

    def finish(self, task: int) -> TaskResult:
        """Write what is left, and tell about it."""
        if self._is_refused:
            self._discard()
        if self._rejected is not None:
            self._rejected.close()
        return TaskResult(
            task,
            {
                key: one.files.close(one.task, named=one.named, unfilled=one.unfilled)
                for key, one in self._tables.items()
            },
            bad=tuple(self._bad.first),
            bad_total=self._bad.total,
            rejected=None if self._rejected is None else self._rejected.name,
            cut=dict(self._bad.cut),
            aliases=self._aliases,
            job=self._plan.job,
        )

    def _discard(self) -> None:
        for table in self._tables.values():
            table.files.discard()
        self._tables = {}


class RejectedRows:
    """Takes the bad rows of one task."""

    def __init__(self, ref: TableRef) -> None:
        self._file = LooseFile(ref)

    @property
    def name(self) -> str | None:
        """The file, beside those of the table; None as long as there is no bad row."""
        return self._file.name

    def add(self, found: Sequence[Bad]) -> None:
        """Append bad rows."""
        if found:
            rows = [{name: _text(value) for name, value in asdict(one).items()} for one in found]
            self._file.add(pa.RecordBatch.from_pylist(rows, schema=_SCHEMA))

    def close(self) -> None:
        """Finish writing."""
        self._file.close()


def read_rejected(ref: TableRef, name: str) -> Iterator[list[Bad]]:
    """Read the bad rows of a task, in order."""
    for batch in read_data_file(ref, name):
        yield [Bad(**row) for row in batch.to_pylist()]


def _text(value: object) -> object:
    # Half of a surrogate pair, which a bad row may hold, has no UTF-8 form.
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
