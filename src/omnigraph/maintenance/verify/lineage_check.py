"""Check the files that the versions of one branch of a table name; runs in a process of its own.

Each file is looked at once, with the newest version that names it. Without ``deep`` files are opened at
their ends only: they are there, have the size that the version says, and end as Lance files do. With it
every page is decoded, every text must be UTF-8, and indexes are compared with their columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from omnigraph.maintenance.verify.index_check import index_faults
from omnigraph.maintenance.verify.named_files import NamedFile, Naming
from omnigraph.maintenance.verify.report import REBUILD, RESTORE, Problem, ProblemKind
from omnigraph.storage.lance_format.file_ends import FOOTER_BYTES, footer_fault
from omnigraph.storage.lance_format.protobuf import read_fields
from omnigraph.storage.tables.blobs.blob_columns import BlobPlaces, blob_columns
from omnigraph.storage.tables.indexing.index_health import IndexDirectory
from omnigraph.storage.tables.table import Table, file_session, manifest_path, open_table
from omnigraph.storage.tables.table_errors import is_panic, reason
from omnigraph.storage.tables.table_ref import TableRef

_PACKED, _DEDICATED = 1, 2
_BATCH_ROWS = 8_192
_TRANSACTION_FILE = 12
_TRANSACTION_SECTION = 23


@dataclass(frozen=True, slots=True)
class PinnedVersion:
    """What states need of a version: their names, and the rows that it must have."""

    states: tuple[str, ...]
    rows: int


@dataclass(frozen=True)
class LineageTask:
    """A branch of a table to check: its versions that are there, and all files of the table by name.

    ``seen`` are files that were checked with another branch, ``deadly`` those that ended a process.
    """

    table_key: str
    ref: TableRef
    location: str
    versions: tuple[int, ...]
    sizes: Mapping[str, int]
    deep: bool
    pins: Mapping[int, PinnedVersion] = field(default_factory=dict)
    seen: frozenset[str] = frozenset()
    deadly: frozenset[str] = frozenset()


@dataclass
class Checked:
    """What was checked of a branch of a table."""

    files: set[str] = field(default_factory=set)
    bytes: int = 0
    rows: int = 0


class LineageCheck:
    """One run over a branch of a table; ``tell`` hears each file before it is read, and each problem."""

    def __init__(
        self, task: LineageTask, at: Callable[[str], None], found: Callable[[Problem], None]
    ) -> None:
        self.task = task
        self.checked = Checked()
        self._at = at
        self._found = found
        self._decoded: set[tuple[str, ...]] = set()
        self._compared: set[frozenset[str]] = set()
        self._broken: set[str] = set()
        self._states: tuple[str, ...] = ()

    def run(self) -> Checked:
        """Check all versions, the newest first."""
        for version in sorted(self.task.versions, reverse=True):
            self._version(version)
        return self.checked

    # -- a version

    def _version(self, version: int) -> None:
        pinned = self.task.pins.get(version)
        self._states = (f"version {version}", *(pinned.states if pinned else ()))
        inner = manifest_path(version)
        branch = self.task.ref.branch
        where = self.task.location if branch is None else f"{self.task.location}/tree/{branch}"
        path = f"{where}/{inner}"
        if not self._new(path):
            return
        mend = f"{RESTORE}, or give the state up: omnigraph cleanup"
        with self._judged(path, mend):
            table = open_table(self.task.ref.at(version))
            naming = Naming(table)
            fragments = table.fragments()
            rows = sum(fragment.num_rows for fragment in fragments)
            if pinned is not None and rows != pinned.rows:
                self._problem(
                    "rows", path, f"it has {rows} rows, and the graph says {pinned.rows}", mend
                )
            self._transaction(naming, path)
            for fragment in fragments:
                self._fragment(table, naming, fragment)
            if rows:
                self._indexes(table, naming)

    def _transaction(self, naming: Naming, manifest: str) -> None:
        fields = dict(read_fields(naming.table.dataset._ds.serialized_manifest()))  # noqa: SLF001
        name = fields.get(_TRANSACTION_FILE)
        for file in naming.transaction(name.decode() if isinstance(name, bytes) else None):
            if not self._new(file.path):
                continue
            mend = f"{RESTORE}; reads work without it"
            if not self._is_there(file, mend):
                continue
            with self._judged(file.path, mend):
                # A version holds its transaction a second time.
                data, whole = self._read(file.path), self._read(manifest)
                at = fields.get(_TRANSACTION_SECTION)
                if isinstance(at, int):
                    length = int.from_bytes(whole[at : at + 4], "little")
                    if data != whole[at + 4 : at + 4 + length]:
                        what = "it differs from the copy in its version"
                        self._problem("damaged", file.path, what, mend)

    # -- rows

    def _fragment(self, table: Table, naming: Naming, fragment: Any) -> None:
        files = list(naming.of_fragment(fragment))
        for file in files:
            if self._new(file.path):
                self._file(file)
        data = tuple(file.path for file in files if file.kind == "data")
        if data not in self._decoded and not self._broken.intersection(data):
            self._decoded.add(data)
            if not set(data) <= self.task.seen:
                self._rows(table, naming, fragment, data)
        for file in files:
            if file.kind == "deletions" and file.path not in self._broken:
                self._deletions(table, fragment, file.path)

    def _file(self, file: NamedFile) -> None:
        mend = RESTORE
        if self._is_there(file, mend) and file.kind == "data":
            with self._judged(file.path, mend):
                self._footer(file.path, mend)

    def _rows(self, table: Table, naming: Naming, fragment: Any, data: tuple[str, ...]) -> None:
        """Decode the rows of a fragment, deleted ones too; at least what says where its blobs are."""
        blobs = blob_columns(table.schema)
        if not self.task.deep and not blobs:
            return
        with self._judged(data[0], RESTORE):
            scanner = table.dataset.scanner(
                columns=None if self.task.deep else list(blobs),
                fragments=[table.dataset.get_fragment(fragment.id)],
                with_row_address=True,
                include_deleted_rows=True,
                with_row_id=True,
                batch_size=_BATCH_ROWS,
            )
            count = 0
            places = BlobPlaces(table)
            for batch in scanner.to_reader():
                count += batch.num_rows
                batch.validate(full=True)
                for name in blobs:
                    self._blobs(naming, places, fragment, name, batch)
            self.checked.rows += count
            if count != fragment.physical_rows:
                expected = fragment.physical_rows
                self._problem(
                    "rows", data[0], f"it has {count} rows instead of {expected}", RESTORE
                )

    def _deletions(self, table: Table, fragment: Any, path: str) -> None:
        key = (path,)
        if key in self._decoded or path in self.task.seen:
            return
        self._decoded.add(key)
        with self._judged(path, RESTORE):
            rows = table.dataset.get_fragment(fragment.id).scanner(columns=[], with_row_id=True)
            count = sum(batch.num_rows for batch in rows.to_reader())
            if count != fragment.num_rows:
                expected = fragment.num_rows
                self._problem(
                    "rows", path, f"it leaves {count} rows instead of {expected}", RESTORE
                )

    def _blobs(
        self, naming: Naming, places: BlobPlaces, fragment: Any, column: str, batch: Any
    ) -> None:
        import pyarrow.compute as pc

        described = batch.column(column)
        kinds = pc.struct_field(described, "kind")
        apart = pc.fill_null(pc.is_in(kinds, pc.cast([_PACKED, _DEDICATED], kinds.type)), False)
        chosen = pc.filter(described, apart)
        if not len(chosen):
            return
        place = places.of(fragment.id << 32, column)
        owner = next(
            file.path for file in naming.of_fragment(fragment) if f"/{place.stem}." in file.path
        )
        ends: dict[str, int] = {}
        for one in chosen.to_pylist():
            digits = f"{one['blob_id']:032b}"[::-1]
            path = f"{owner.rpartition('/')[0]}/{place.stem}/{digits}.blob"
            # One of its own begins at 0, whatever the position says.
            end = one["size"] + (one["position"] if one["kind"] == _PACKED else 0)
            ends[path] = max(ends.get(path, 0), end)
        for path, end in ends.items():
            if self._new(path) and self._is_there(NamedFile("data", path), RESTORE):
                size = self.task.sizes[path]
                if size < end:
                    self._problem("damaged", path, f"it has {size} bytes instead of {end}", RESTORE)

    # -- indexes

    def _indexes(self, table: Table, naming: Naming) -> None:
        by_index: dict[str, list[tuple[str, IndexDirectory]]] = {}
        for place, part in naming.indexes():
            by_index.setdefault(part.index, []).append((place, part))
        for parts in by_index.values():
            places = frozenset(place for place, _ in parts)
            if places in self._compared or places <= self.task.seen:
                continue
            self._compared.add(places)
            self.checked.files |= places
            sound = [self._index_part(place, part) for place, part in parts]
            if all(sound) and self.task.deep:
                self._at(parts[0][0])
                for fault in self._index_faults(table, parts[0][1], places):
                    self._problem("index", parts[0][0], fault, self._rebuild(parts[0][1]))

    def _index_faults(
        self, table: Table, part: IndexDirectory, places: frozenset[str]
    ) -> Iterator[str]:
        if places & self.task.deadly:
            return
        try:
            yield from index_faults(table, part.index)
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            yield f"it cannot be searched: {reason(error)}"

    def _index_part(self, place: str, part: IndexDirectory) -> bool:
        """Check the files of a part; False where one of them is not as it should be."""
        files = {path: size for path, size in self.task.sizes.items() if _is_in(path, place)}
        new = [path for path in sorted(files) if self._new(path)]
        before = len(self._broken)
        mend = self._rebuild(part)
        if not files or (part.size and sum(files.values()) != part.size):
            if place not in self._broken:
                self._broken.add(place)
                kind: ProblemKind = "damaged" if files else "lost"
                what = f"its files have {sum(files.values())} bytes instead of {part.size}"
                self._problem(kind, place, f"the index on {part.column}: {what}", mend)
            return False
        for path in new:
            with self._judged(path, mend):
                self._footer(path, mend)
                if self.task.deep and path not in self._broken:
                    self._decode(path)
        return len(self._broken) == before and not self._broken.intersection(files)

    def _decode(self, path: str) -> None:
        reader = self._session.open_reader(self._inner(path))
        rows = reader.metadata().num_rows
        count = 0
        for batch in reader.read_all(batch_size=_BATCH_ROWS).to_batches():
            batch.validate(full=True)
            count += batch.num_rows
        if count != rows:
            raise ValueError(f"it has {count} rows instead of {rows}")

    def _rebuild(self, part: IndexDirectory) -> str:
        name = self.task.table_key.partition(":")[2] or self.task.table_key
        return f"{REBUILD} {name}.{part.column}"

    # -- files

    def _new(self, path: str) -> bool:
        """Whether a file is met for the first time; its bytes are counted then."""
        if path in self.checked.files:
            return False
        self.checked.files.add(path)
        if path in self.task.seen:
            return False
        self.checked.bytes += self.task.sizes.get(path, 0)
        if path in self.task.deadly:
            self._broken.add(path)
        else:
            self._at(path)
        return path not in self.task.deadly

    def _is_there(self, file: NamedFile, mend: str) -> bool:
        size = self.task.sizes.get(file.path)
        if size is None:
            self._problem("lost", file.path, "it is not there", mend)
        elif file.size is not None and size != file.size:
            detail = f"it has {size} bytes instead of {file.size}"
            self._problem("damaged", file.path, detail, mend)
        return file.path not in self._broken

    def _footer(self, path: str, mend: str) -> None:
        size = self.task.sizes[path]
        tail = b""
        if size >= FOOTER_BYTES:
            tail = self._session.read_range(self._inner(path), size - FOOTER_BYTES, FOOTER_BYTES)
        fault = footer_fault(bytes(tail), size)
        if fault is not None:
            self._problem("damaged", path, fault, mend)

    @cached_property
    def _session(self) -> Any:
        return file_session(self.task.ref.on(None))

    def _inner(self, path: str) -> str:
        return path.removeprefix(f"{self.task.location}/")

    def _read(self, path: str) -> bytes:
        return bytes(self._session.read_range(self._inner(path), 0, self.task.sizes[path]))

    # -- what is found

    @contextmanager
    def _judged(self, path: str, mend: str) -> Iterator[None]:
        """Make a problem of whatever Lance raises inside."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            self._problem("damaged", path, f"it cannot be read: {reason(error)}", mend)

    def _problem(self, kind: ProblemKind, path: str, detail: str, mend: str) -> None:
        self._broken.add(path)
        self._found(Problem(kind, detail, mend, path, self._states))


def _is_in(path: str, directory: str) -> bool:
    return path.startswith(f"{directory}/") and "/" not in path[len(directory) + 1 :]


def paths_below(sizes: Mapping[str, int], location: str) -> dict[str, int]:
    """The files of a table, by name."""
    return {path: size for path, size in sizes.items() if path.startswith(f"{location}/")}
