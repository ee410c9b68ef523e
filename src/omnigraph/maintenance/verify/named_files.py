"""The files that a version of a table names: its manifest, its rows, what is deleted of them, its indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import unquote

from omnigraph.storage import layout
from omnigraph.storage.tables.indexing.index_health import IndexDirectory, index_parts
from omnigraph.storage.tables.table import Table

FileKind = Literal["data", "deletions", "transaction"]

_LOCATION: Final = re.compile(
    rf".*?/((?:(?:{'|'.join(layout.TABLE_DIRS)})/[^/]+|{layout.MANIFEST}|"
    rf"{re.escape(layout.RECOVERY_AUDIT)})(?:/tree/.*)?)"
)


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file by its path below the root, what it is, and the size that the manifest gives, if any."""

    kind: FileKind
    path: str
    size: int | None = None


def place_of(base: str) -> str:
    """The place of a table, or of a branch of it, below the root, from the address that Lance uses.

    Not by the root: what a branch shares with its parent may be named by an address of before a move.
    """
    found = _LOCATION.fullmatch(unquote(base.rstrip("/")) if "://" in base else base.rstrip("/"))
    return base if found is None else found[1]


class Naming:
    """Names the files of one version of a table, relative to the root."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.place = place_of(table.ref.dataset_uri)
        self._bases: dict[int, Any] = table.dataset._ds.base_paths()  # noqa: SLF001 - no public name

    def place_at(self, base_id: int | None) -> str:
        """The place of the table that a file lies with."""
        return self.place if base_id is None else place_of(self._bases[base_id].path)

    def of_fragment(self, fragment: Any) -> Iterator[NamedFile]:
        """The data files and the deletion file of a fragment."""
        for file in fragment.files:
            path = f"{self.place_at(file.base_id)}/data/{file.path}"
            yield NamedFile("data", path, file.file_size_bytes or None)
        deleted = fragment.deletion_file
        if deleted is not None:
            place = self.place_at(deleted.base_id)
            yield NamedFile("deletions", f"{place}/{deleted.path(fragment.id)}")

    def transaction(self, name: str | None) -> Iterator[NamedFile]:
        """The transaction file, if the version has one."""
        if name:
            yield NamedFile("transaction", f"{self.place}/_transactions/{name}")

    def indexes(self) -> Iterator[tuple[str, IndexDirectory]]:
        """The directory of each part of an index, and the part."""
        for part in index_parts(self.table.ref, self.table.dataset):
            yield f"{place_of(part.base)}/{part.directory}", part
