"""Where the bytes of blobs lie: which data file has the column of a row, which files belong to it.

Lance keeps packed and dedicated blobs in files of their own, in a directory named like the data file of
their row. The name of such a file is the number of the blob, as 32 binary digits from the lowest on.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from omnigraph.errors import StorageError
from omnigraph.storage.tables.table import Table

_LOCAL_DRIVER = "file-object-store://"


class DataFilePlace(NamedTuple):
    """A data file: the address of its directory, its name without the suffix, the column's number."""

    directory: str
    stem: str
    field: int

    def blob_file(self, number: int) -> str:
        """The address of the file that holds a blob, as a URI."""
        digits = f"{number:032b}"[::-1]
        return f"{self.directory}/{self.stem}/{digits}.blob"


class BlobPlaces:
    """The data files of the Blob columns of one table version."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._found: dict[tuple[int, str], DataFilePlace] = {}

    def of(self, address: int, column: str) -> DataFilePlace:
        """The data file with a column of the row at that address."""
        fragment = address >> 32
        key = (fragment, column)
        if key not in self._found:
            self._found[key] = self._find(fragment, column)
        return self._found[key]

    @cached_property
    def _fields(self) -> dict[str, int]:
        return {field.name(): field.id() for field in self._table.dataset.lance_schema.fields()}

    @cached_property
    def _bases(self) -> dict[int, Any]:
        bases: dict[int, Any] = self._table.dataset._ds.base_paths()  # noqa: SLF001 - has no public name
        return bases

    def _find(self, fragment: int, column: str) -> DataFilePlace:
        found = self._table.dataset.get_fragment(fragment)
        number = self._fields[column]
        for file in () if found is None else found.metadata.files:
            if number in file.fields:
                return DataFilePlace(self._directory(file.base_id), Path(file.path).stem, number)
        raise StorageError(
            f"{self._table.ref} has no file with {column} of fragment {fragment}; reopen the graph"
        )

    def _directory(self, base: int | None) -> str:
        if base is None:
            return f"{_as_uri(self._table.ref.dataset_uri)}/data"
        place = self._bases[base]
        address = _as_uri(place.path)
        return f"{address}/data" if place.is_dataset_root else address


def _as_uri(address: str) -> str:
    if address.startswith("/"):
        return Path(address).as_uri()
    # Its paths are percent-encoded already.
    return address.replace(_LOCAL_DRIVER, "file://", 1)
