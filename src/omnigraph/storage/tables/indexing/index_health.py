"""Indexes are never needed: work that an index stops is done again without it.

An index has parts, each a directory ``_indices/<uuid>`` of Lance files. On a branch it lies with the table
that built it, which may be that of the parent. A part that cannot be read is remembered by its place, for
as long as the process lives; an index that is built anew has another one. On a disk the sizes and footers
of the files are glanced at before their first use, because a damaged footer can end the process. All other
damage shows as an error of Lance's. Whether an index is the reason is not read from the error: the work
succeeds without indexes, or it does not.

What decodes and says something wrong cannot be noticed here: that takes a comparison with the column.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from omnigraph.errors import StorageError
from omnigraph.storage.lance_format.file_ends import FOOTER_BYTES, footer_fault
from omnigraph.storage.tables.lance_import import lance_module
from omnigraph.storage.tables.table_errors import lance_errors
from omnigraph.storage.tables.table_ref import TableRef


@dataclass(frozen=True, slots=True)
class IndexDirectory:
    """One part of an index of a table: its directory is ``_indices/<uuid>`` below ``base``."""

    index: str
    column: str
    uuid: str
    base: str
    size: int | None
    """The bytes of all its files, where the table says so."""

    @property
    def place(self) -> str:
        """Its directory: what tells it from every other part, those of copies of the graph too."""
        return f"{self.base}/{self.directory}"

    @property
    def directory(self) -> str:
        """Its directory below ``base``."""
        return f"_indices/{self.uuid}"


def index_parts(ref: TableRef, dataset: Any) -> list[IndexDirectory]:
    """The parts of all indexes that an open dataset has. Reads no file of theirs."""
    with lance_errors(f"listing the indexes of {ref}"):
        bases: dict[int, Any] | None = None
        found = []
        for entry in dataset.describe_indices():
            for segment in entry.segments:
                base = ref.dataset_uri
                if segment.base_id is not None:
                    if bases is None:
                        bases = dataset.base_paths()
                    base = bases[segment.base_id].path.rstrip("/")
                uuid, size = str(segment.uuid), segment.size_bytes
                found.append(IndexDirectory(entry.name, entry.field_names[0], uuid, base, size))
        return found


def glance(part: IndexDirectory) -> str | None:
    """What is wrong with the files of a part on a disk, by their sizes and footers; None elsewhere.

    For hot paths: some microseconds for each file.
    """
    if not part.base.startswith("/"):
        return None
    try:
        sizes = {
            one.name: one.stat().st_size for one in Path(part.place).iterdir() if one.is_file()
        }
    except FileNotFoundError:
        return "its files are not there"
    except OSError:
        return None  # who reads it will say more
    return _fault(part, sizes, lambda name, at: _tail(Path(part.place, name), at))


def examine(part: IndexDirectory, ref: TableRef, dataset: Any) -> str | None:
    """Like ``glance``, wherever the files are; elsewhere than on a disk Lance opens each of them."""
    if part.base.startswith("/"):
        return glance(part)
    options = None if ref.storage_options is None else dict(ref.storage_options)
    try:
        with lance_errors(f"opening the index {part.index} of {ref}"):
            session = lance_module("file").LanceFileSession(part.base, storage_options=options)
            names = session.list_with_delimiter(part.directory).objects
            if not names:
                return "its files are not there"
            for name in names:
                session.open_reader(str(name)).metadata()
            dataset.stats.index_stats(part.index)
    except StorageError as error:
        return str(error).removeprefix("runtime error: ")
    return None


def _tail(path: Path, at: int) -> bytes:
    with path.open("rb") as file:
        file.seek(at)
        return file.read(FOOTER_BYTES)


def _fault(
    part: IndexDirectory, sizes: Mapping[str, int], read: Callable[[str, int], bytes]
) -> str | None:
    if not sizes:
        return "its files are not there"
    for name, size in sorted(sizes.items()):
        try:
            fault = footer_fault(read(name, max(0, size - FOOTER_BYTES)), size)
        except (OSError, ValueError) as error:
            fault = f"it cannot be read ({error})"
        if fault is not None:
            return f"{name} is damaged: {fault}"
    found = sum(sizes.values())
    if part.size and found != part.size:
        return f"its files have {found} bytes instead of {part.size}"
    return None


logger = logging.getLogger(__name__)

T = TypeVar("T")

_FAILURES: Final = 2
"""After this number of failures that nothing explains, an index counts as damaged: the first may be the store's."""

_lock = threading.Lock()
_damaged: dict[str, str] = {}
_seen: set[str] = set()
_failed: Counter[str] = Counter()


class IndexUnusable(StorageError):
    """An index of the table could not be searched; the same can be had without it."""


def damage_at(places: Iterable[str]) -> str | None:
    """Why an index with parts at these places is not used; None if it is."""
    if not _damaged:
        return None
    return next((why for place in places if (why := _damaged.get(place)) is not None), None)


def forget_damage() -> None:
    """Trust all indexes again: files may have been put back."""
    with _lock:
        _damaged.clear()
        _seen.clear()
        _failed.clear()


def find_damage(ref: TableRef, dataset: Any) -> None:
    """Look at the files of all indexes of an open dataset, so that ``damage_at`` knows of them."""
    for part in index_parts(ref, dataset):
        if part.place not in _damaged:
            _note(ref, part, examine(part, ref, dataset))


def is_usable(ref: TableRef, dataset: Any, columns: Collection[str] | None) -> bool:
    """Whether no index on these columns (None: on any) is known to be damaged."""
    for part in _parts_on(ref, dataset, columns):
        if part.place not in _seen:
            _note(ref, part, glance(part))
            _seen.add(part.place)
        if part.place in _damaged:
            return False
    return True


def with_or_without(
    ref: TableRef, dataset: Any, columns: Collection[str] | None, act: Callable[[bool], T]
) -> T:
    """The result of ``act(True)``, which may use indexes; of ``act(False)`` where one cannot be read.

    ``columns`` are those whose indexes could be used, None for all. An error that comes without
    indexes too is raised as it came first.
    """
    if not is_usable(ref, dataset, columns):
        return act(False)
    try:
        return act(True)
    except StorageError as error:
        if not _parts_on(ref, dataset, columns):
            raise
        try:
            result = act(False)
        except StorageError:
            raise error from None
        blame(ref, dataset, columns, error)
        return result


def blame(ref: TableRef, dataset: Any, columns: Collection[str] | None, error: Exception) -> None:
    """Note that work with the indexes on these columns failed, and would not have without them."""
    parts = _parts_on(ref, dataset, columns)
    named = [part for part in parts if part.uuid in str(error)] or parts
    explained = [(part, why) for part in named if (why := examine(part, ref, dataset)) is not None]
    for part, why in explained:
        _note(ref, part, why)
    if explained:
        return
    for part in named:
        with _lock:
            _failed[part.place] += 1
            often = _failed[part.place] >= _FAILURES
        if often:
            _note(ref, part, str(error).removeprefix("runtime error: "))


def _parts_on(
    ref: TableRef, dataset: Any, columns: Collection[str] | None
) -> Sequence[IndexDirectory]:
    parts = index_parts(ref, dataset)
    return parts if columns is None else [part for part in parts if part.column in columns]


def _note(ref: TableRef, part: IndexDirectory, why: str | None) -> None:
    if why is None:
        return
    with _lock:
        if part.place in _damaged:
            return
        _damaged[part.place] = why
    logger.warning(
        "the index %s on %s of %s is not used, which is slower: %s; run `omnigraph ensure-indices` "
        "to build it anew",
        part.index,
        part.column,
        ref,
        why,
    )
