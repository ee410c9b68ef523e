"""The files of an index: where they are, and whether they can be whole.

An index has parts, each a directory ``_indices/<uuid>`` of Lance files. On a branch it lies with the table
that built it, which may be that of the parent. Only sizes and footers are looked at here; what is
inside is judged by those who read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.errors import StorageError
from omnigraph.storage.lance_format.file_footer import FOOTER_BYTES, footer_fault
from omnigraph.storage.tables.lance_import import lance_module
from omnigraph.storage.tables.table_errors import lance_errors
from omnigraph.storage.tables.table_ref import TableRef


@dataclass(frozen=True, slots=True)
class IndexPart:
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


def index_parts(ref: TableRef, dataset: Any) -> list[IndexPart]:
    """The parts of all indexes that an open dataset has. Reads no file of theirs."""
    with lance_errors(f"listing the indexes of {ref}"):
        bases: dict[int, Any] | None = None
        found = []
        for entry in dataset.describe_indices():
            for segment in entry.segments:
                base = ref.dataset_uri
                if segment.base_id is not None:
                    if bases is None:
                        bases = dataset._ds.base_paths()  # noqa: SLF001 - has no public name
                    base = bases[segment.base_id].path.rstrip("/")
                uuid, size = str(segment.uuid), segment.size_bytes
                found.append(IndexPart(entry.name, entry.field_names[0], uuid, base, size))
        return found


def glance(part: IndexPart) -> str | None:
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


def examine(part: IndexPart, ref: TableRef, dataset: Any) -> str | None:
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
    part: IndexPart, sizes: Mapping[str, int], read: Callable[[str, int], bytes]
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
